"""Sources that change after a job, or are only touched: what rows are bound to, from the task that read them to the answer."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import ChangedSourceError
from lineage_dataframes.trace.recomputation import SparkRecomputation
from lineage_emitter import LineageContext
from lineage_emitter.errors import TracingError
from lineage_query.answers import AS_IT_IS_NOW, Answer, Group
from lineage_query.engine import QueryEngine
from lineage_query.recipe_rows import RecipeRowError
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.job_runs import STORE, ask, part_files

pytestmark = pytest.mark.e2e
Capture = Callable[..., LineageContext]
ROWS = 4_000
ODD = b"broken \xff\xc3 and \xe2\x82 bytes, \xf0\x9f\x98\x80 and \xed\xa0\x80"


def rewrite(path: Path, content: bytes) -> None:
    """Another content, with the time of then."""
    then = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def bindings(group: Group) -> set[str | None]:
    return {item.binding for item in group.items}


def test_rows_are_bound_to_what_tasks_read(capture: Capture, tmp_path: Path) -> None:
    lines = [f"row {n} é ".encode() + b"x" * (n % 60) for n in range(ROWS)]
    lines[ROWS // 2] = ODD
    ends = [b"\r\n" if n % 3 else b"\n" for n in range(ROWS)]
    content = b"\xef\xbb\xbf" + b"".join(map(b"".join, zip(lines, ends, strict=True)))
    plain, packed = tmp_path / "plain.txt", tmp_path / "packed.txt.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    with capture() as lc:
        for path in (plain, packed):
            lc.textFile(str(path), 3).map(len).saveAsTextFile(str(tmp_path / f"{path.name}.out"))
    outputs = [part_files(tmp_path / f"{path.name}.out") for path in (plain, packed)]
    assert [len(files) for files in outputs] == [3, 1]

    def groups() -> list[Group]:
        answers = [
            ask(tmp_path, Direction.BACKWARD, f"{out}:1") for files in outputs for out in files
        ]
        odd = ask(tmp_path, Direction.BACKWARD, f"{outputs[1][0]}:{ROWS // 2 + 1}")
        return [answer.groups[0] for answer in (*answers, odd)]

    assert {binding for group in groups() for binding in bindings(group)} == {"checksum"}
    assert {group.file_status for group in groups()} == {"same"}
    os.utime(plain, (1.0, 1.0))
    assert [group.file_status for group in groups()] == ["touched"] * 3 + ["same"] * 2
    # The rows move by one, and nothing else tells.
    other = b"\xef\xbb\xbfnew\n" + content[3:-4]
    rewrite(plain, other)
    assert [group.file_status for group in groups()] == ["changed"] * 3 + ["same"] * 2
    assert {binding for group in groups()[:3] for binding in bindings(group)} == {"now"}
    rewrite(packed, gzip.compress(other))
    assert {binding for group in groups() for binding in bindings(group)} == {"now"}


def test_a_program_sees_that_its_source_has_changed(
    capture: Capture, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"row {n}\n" for n in range(3_000)))
    with capture() as lc:
        lines: Any = lc.textFile(str(path), 2)
        rows = lines.map(str.upper).getLineage().filter(lambda text: text == "ROW 7").goBackAll()
        rows.show()
        assert "in.txt:8  row 7" in " ".join(capsys.readouterr().out.split(" ")).replace(": ", "  ")
        os.utime(path, (1.0, 1.0))
        assert [item.value for item in rows.collect()] == ["row 7"]
        rewrite(path, b"new\n" + path.read_bytes()[:-4])
        rows.show()
        out = capsys.readouterr().out
        assert f"{AS_IT_IS_NOW} row 6" in out
        assert "changed since" in out
        with pytest.raises(TracingError, match="has changed"):
            rows.collect()


def test_rows_of_dataframes_go_by_the_checksum_of_a_file(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source, out = tmp_path / "in.csv", tmp_path / "out"
    source.write_text("a,1\nb,2\na,3\n")
    with capture():
        frame = spark.read.schema("k string, n int").csv(str(source))
        frame.groupBy("k").count().coalesce(1).write.csv(str(out))
    (file,) = part_files(out)
    line = file.read_text().splitlines().index("a,2") + 1

    def traced() -> Answer:
        with open_store(f"sqlite:///{tmp_path / STORE}") as store:
            question = TraceQuery(Direction.BACKWARD, (f"{file}:{line}",))
            with pytest.raises(RecipeRowError):
                QueryEngine(store, RowReader()).ask(question)
            backend = SparkRecomputation(store, RowReader(), lambda: spark)
            return QueryEngine(store, RowReader(), backend=backend).ask(question)

    assert traced().groups[0].count == 2
    os.utime(source, (1.0, 1.0))
    os.utime(file, (1.0, 1.0))
    answer = traced()
    assert (answer.groups[0].count, answer.changed) == (2, False)
    rewrite(source, b"b,1\na,2\na,3\n")
    with pytest.raises(ChangedSourceError, match="another checksum"):
        traced()
