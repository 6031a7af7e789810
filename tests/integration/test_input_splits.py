"""Files of sources and sinks, found in a few calls of the JVM, are those that the JVM names one by one."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from py4j.java_gateway import GatewayClient
from py4j.protocol import MEMORY_COMMAND_NAME
from pyspark import RDD, SparkContext

from lineage_core.contract.message import SinkFile
from lineage_emitter.session import hadoop
from lineage_emitter.session.jvm_texts import JvmTexts

pytestmark = pytest.mark.integration

NAMES = ("a b", "x:0+4", "%41", "\u00fc\u20ac", "h#i", "q?z", "c,d", "[e]")
NEW_TEXT = (
    "org.apache.hadoop.mapreduce.lib.input.TextInputFormat",
    "org.apache.hadoop.io.LongWritable",
    "org.apache.hadoop.io.Text",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in")
    for number, name in enumerate(NAMES):
        (folder / name).write_text("line\n" * (20 + number))
    (folder / "empty").write_text("")
    with gzip.open(folder / "packed.gz", "wt") as packed:
        packed.write("x\n")
    return folder


def ranges_of(rdd: RDD[Any]) -> tuple[list[hadoop._FileRange] | None, list[hadoop._FileRange]]:
    texts = JvmTexts(rdd.context)
    reading = texts, *hadoop._reading_rdd(texts, rdd._jrdd.rdd())
    return hadoop._ranges_together(*reading), list(hadoop._ranges_one_by_one(*reading))


def test_ranges_are_those_that_each_split_names(spark_context: SparkContext, folder: Path) -> None:
    of_text, *others = (
        ranges_of(spark_context.textFile(str(folder), 30)),
        ranges_of(spark_context.newAPIHadoopFile(str(folder), *NEW_TEXT)),
        ranges_of(spark_context.wholeTextFiles(str(folder), 3)),
        ranges_of(spark_context.binaryFiles(str(folder), 3)),
    )
    for together, expected in (of_text, *others):
        assert together == expected
    # Files are cut into several ranges, and several are together in one split.
    assert any(one.start for one in of_text[1])
    assert any(one.row for one in others[1][1])


def test_calls_do_not_grow_with_files(
    spark_context: SparkContext, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calls(path: Path) -> int:
        count, send = [0], GatewayClient.send_command

        def counted(client: GatewayClient, *arguments: Any, **options: Any) -> Any:
            # What the collector of garbage lets go of is none of these.
            count[0] += not arguments[0].startswith(MEMORY_COMMAND_NAME)
            return send(client, *arguments, **options)

        rdd = spark_context.wholeTextFiles(str(path))
        rdd.getNumPartitions()
        texts = JvmTexts(spark_context)
        with monkeypatch.context() as patch:
            patch.setattr(GatewayClient, "send_command", counted)
            reading, kind = hadoop._reading_rdd(texts, rdd._jrdd.rdd())
            assert hadoop._ranges_together(texts, reading, kind) is not None
        return count[0]

    assert calls(folder) == calls(folder / NAMES[0]) < 120


def test_what_is_no_plain_split_is_read_one_by_one(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    for name in ("b\nc", "b, c"):
        folder = tmp_path / str(len(name.split("\n")))
        folder.mkdir()
        (folder / name).write_text("x\n")
        (folder / "d").write_text("y\n")
        (plain, of_lines), (together, of_files) = (
            ranges_of(spark_context.textFile(str(folder))),
            ranges_of(spark_context.wholeTextFiles(str(folder))),
        )
        for expected in (of_lines, of_files):
            assert {one.path for one in expected} == {f"file:{folder}/{name}", f"file:{folder}/d"}
        # A comma divides paths only where a split has several.
        assert (plain, together) == (of_lines if "," in name else None, None)


def test_states_are_those_that_hadoop_reads(spark_context: SparkContext, folder: Path) -> None:
    states = hadoop._FileStates(spark_context)
    for path in folder.iterdir():
        here = hadoop._local_state(f"file:{path}")
        assert here is not None
        assert here == states._state(f"file:{path}")
    assert hadoop._local_state(f"file:{folder}/missing") is None
    assert hadoop._local_state("hdfs://there/in") is None


def test_files_of_a_sink_are_those_that_hadoop_lists(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    spark_context.parallelize(range(9), 3).saveAsTextFile(str(out))
    (out / "part-00009").mkdir()

    def files() -> list[SinkFile]:
        return hadoop.sink_files(spark_context, str(out))

    here = files()
    monkeypatch.setattr(hadoop, "_local_files", lambda _: None)
    assert here == files()
    assert [file.partition for file in here] == [0, 1, 2]
