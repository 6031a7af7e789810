"""Bytes of files that a program wrote are lines that Spark reads, by RDDs and by DataFrames, and back: over one store, and from a server."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage import LineageApi
from lineage.access import Access, open_access
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.trace_query import TraceQuery
from tests.support.api_server import serving
from tests.support.job_runs import STORE

pytestmark = pytest.mark.integration

RECORDS = (b"one\nmore of one\n", b"two\n", b"three")


def places(access: Access, direction: Direction, place: str, app: str | None = None) -> set[str]:
    answer = access.ask(TraceQuery(direction, (place,), app=app, all_jobs=True))
    assert (answer.exact, answer.complete, answer.not_queried) == (True, True, ())
    return {item.location or item.address for group in answer.groups for item in group.items}


def pack(folder: Path, url: str) -> str:
    """A program that packs records of its memory."""
    file, offset = folder / "packed", 0
    with LineageApi("pack", store=url, spool=str(folder / "spool")) as api:
        api.register("read", kind="source")
        api.link("read", api.register("pack", kind="sink"))
        with api.task("pack"):
            for number, record in enumerate(RECORDS):
                api.add_input(f"read#0#{number}", tag=number)
                api.add_output(api.location(str(file), offset, len(record)), tag=number)
                offset += len(record)
            file.write_bytes(b"".join(RECORDS))
    return api.app


def test_bytes_are_lines_for_spark_and_lines_bytes(
    tmp_path: Path, spark_context: SparkContext
) -> None:
    folder = tmp_path.resolve()
    url = f"sqlite:///{folder / STORE}"
    app = pack(folder, url)
    with LineageContext(spark_context, store=url, link=True) as lc:
        lc.textFile(str(folder / "packed"), 1).map(str.upper).saveAsTextFile(str(folder / "upper"))
    spark = SparkSession(spark_context).newSession()
    with LineageContext(spark_context, store=url, link=True):
        frame = spark.read.text(str(folder / "packed")).coalesce(1)
        frame.where("value <> 'two'").write.text(str(folder / "frame"))
    upper = folder / "upper" / "part-00000"
    (frame_file,) = (folder / "frame").glob("part-*")
    # Bytes 4 to 9 of what Spark wrote: of its first line the end, and of the second some.
    with LineageApi("look", store=url, spool=str(folder / "spool")) as api:
        api.register("look", kind="sink")
        with api.task("look"):
            api.add_input(api.location(str(upper), 3, 7))
            api.add_output("look#0#0")
    with open_access(url) as access, serving(url, api_roots=str(folder)) as address:
        with open_access(address) as served:
            for asked in (access, served):
                found = {
                    line: places(asked, Direction.BACKWARD, f"{upper}:{line}")
                    for line in range(1, 5)
                }
                assert found == {1: {"read#0#0"}, 2: {"read#0#0"}, 3: {"read#0#1"}, 4: {"read#0#2"}}
                assert places(asked, Direction.BACKWARD, "look#0#0", api.app) == {"read#0#0"}
        found = {
            line: places(access, Direction.BACKWARD, f"{frame_file}:{line}") for line in range(1, 4)
        }
        assert found == {1: {"read#0#0"}, 2: {"read#0#0"}, 3: {"read#0#2"}}
        assert places(access, Direction.FORWARD, "read#0#1", app) == {f"{upper}:3"}
        assert places(access, Direction.FORWARD, "read#0#2", app) == {
            f"{upper}:4",
            f"{frame_file}:3",
        }
        assert places(access, Direction.FORWARD, "read#0#0", app) == {"look#0#0", f"{frame_file}:1", f"{frame_file}:2"}  # fmt: skip
    (folder / "packed").write_bytes(b"".join(RECORDS) + b" and more\n")
    with open_access(url) as access:
        answer = access.ask(TraceQuery(Direction.BACKWARD, (f"{upper}:1",), all_jobs=True))
        assert not answer.complete
        assert "which bytes its lines are is not known" in answer.not_queried[0].reason
