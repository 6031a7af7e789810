"""Files of sources and sinks, found in a few calls of the JVM, are those that the JVM names one by one."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, SparkContext

from lineage_core.contract.message import SinkFile
from lineage_emitter.session import hadoop

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
    sc = rdd.context
    reading = hadoop._reading_rdd(sc, rdd._jrdd.rdd())
    return hadoop._plain_ranges(sc, reading), list(hadoop._ranges_one_by_one(sc, reading))


def test_ranges_are_those_that_each_split_names(spark_context: SparkContext, folder: Path) -> None:
    of_text, of_new_text = (
        ranges_of(spark_context.textFile(str(folder), 30)),
        ranges_of(spark_context.newAPIHadoopFile(str(folder), *NEW_TEXT)),
    )
    for plain, expected in (of_text, of_new_text):
        assert plain == expected
    # Files are cut into several ranges, too.
    assert any(one.start for one in of_text[1])


def test_what_is_no_plain_split_is_read_one_by_one(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    (tmp_path / "b\nc").write_text("x\n")
    (tmp_path / "d").write_text("y\n")
    for rdd in (spark_context.textFile(str(tmp_path)), spark_context.wholeTextFiles(str(tmp_path))):
        plain, expected = ranges_of(rdd)
        assert plain is None
        assert {one.path for one in expected} == {f"file:{tmp_path}/b\nc", f"file:{tmp_path}/d"}


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
