"""Whole files and outputs of DataFrames as places, against brute force over rows that carry their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TooMuchError
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.trace import rows as rows_of_files
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.support.api_server import serving
from tests.support.job_runs import STORE, Begin, app_of, lineage

pytestmark = pytest.mark.e2e
ROWS = 24


@pytest.fixture(scope="module")
def apps(folder: Path, begin: Begin, spark: SparkSession) -> list[str]:
    """Two runs that append to one output, which groups rows; the second reads one of the two files of the first, too."""
    (folder / "in").mkdir()
    for name, first in (("a", 0), ("b", ROWS // 2), ("c", ROWS)):
        lines = [f"k{number % 7},{number}" for number in range(first, first + ROWS // 2)]
        (folder / "in" / f"{name}.csv").write_text("".join(f"{line}\n" for line in lines))
    found = []
    for names in (("a", "b"), ("b", "c")):
        with begin() as lc:
            found.append(app_of(lc))
            paths = [f"{folder}/in/{name}.csv" for name in names]
            frame = spark.read.schema("key string, number long").csv(paths)
            grouped = frame.groupBy("key").agg(F.sort_array(F.collect_list("number")).alias("of"))
            grouped.repartition(3, "key").write.mode("append").parquet(f"{folder}/out")
            lc.textFile(f"{folder}/in/{names[0]}.csv", 1).filter(
                lambda line: line.endswith("1")
            ).saveAsTextFile(f"{folder}/lines{len(found)}")
    return found


def back(place: str, **more: object) -> TraceQuery:
    return TraceQuery(Direction.BACKWARD, (place,), **more)  # type: ignore[arg-type]


def numbers_of(answer: Answer) -> set[int]:
    return {
        json.loads(item.text or "")["number"] for group in answer.groups for item in group.items
    }


def rows_in(files: Iterable[Path]) -> list[tuple[int, ...]]:
    return [tuple(row or ()) for file in files for row in pq.read_table(file)["of"].to_pylist()]


def written(files: Iterable[Path]) -> set[int]:
    return {number for row in rows_in(files) for number in row}


@pytest.mark.long
def test_all_rows_of_a_file(folder: Path, apps: list[str], access: StoredAccess) -> None:
    files = sorted((folder / "out").glob("*.parquet"))
    assert len({frozenset(written([file])) for file in files}) > 3
    seen = 0
    for file in files[:3]:
        if not pq.read_table(file).num_rows:
            with pytest.raises(LineageError, match="has no rows"):
                access.ask(back(str(file)))
            continue
        answer = access.ask(back(str(file)))
        assert numbers_of(answer) == written([file])
        assert (answer.exact, answer.complete) == (True, True), answer
        by_file = access.ask(back(str(file), by="file"))
        assert sum(container.rows for container in by_file.containers) == len(written([file]))
        seen += 1
    assert seen


def test_all_rows_of_an_output(folder: Path, apps: list[str], access: StoredAccess) -> None:
    answer = access.ask(back(f"{folder}/out"))
    assert numbers_of(answer) == set(range(3 * ROWS // 2))
    assert (answer.exact, answer.complete, set(answer.apps)) == (True, True, set(apps))
    by_file = access.ask(back(f"{folder}/out", by="file"))
    assert {Path(one.name).name: one.rows for one in by_file.containers} == dict.fromkeys(
        ("a.csv", "b.csv", "c.csv"), ROWS // 2
    )
    by_application = access.ask(back(f"{folder}/out", by="application", app=apps[0]))
    assert [(one.name, one.rows) for one in by_application.containers] == [(apps[0], ROWS)]
    with serving(f"sqlite:///{folder / STORE}", api_roots=str(folder)) as address:
        done = lineage(folder, "--store", address, "back", f"{folder}/out")
        # It has no Spark.
        assert "LINEAGE_SPARK_MASTER" in done.stderr


def test_forward_from_a_whole_file(folder: Path, apps: list[str], access: StoredAccess) -> None:
    for name, app in (("a", apps[0]), ("c", apps[1])):
        place = f"{folder}/in/{name}.csv"
        answer = access.ask(TraceQuery(Direction.FORWARD, (place,), app=app))
        first = {"a": 0, "c": ROWS}[name]
        of_frames = {
            tuple(json.loads(item.text or "")["of"])
            for group in answer.groups
            for item in group.items
            if (group.path or "").endswith("/out")
        }
        expected = {
            row
            for row in rows_in(sorted((folder / "out").glob("*.parquet")))
            if set(row) & set(range(first, first + ROWS // 2))
        }
        # Of the other run, rows of the same numbers.
        reach = range(ROWS) if name == "a" else range(ROWS // 2, 3 * ROWS // 2)
        assert of_frames == {row for row in expected if set(row) <= set(reach)}
        lines = [
            item.text
            for group in answer.groups
            for item in group.items
            if "/lines" in (group.path or "")
        ]
        assert len(lines) == (2 if name == "a" else 0)
        assert answer.exact


@pytest.mark.long
@pytest.mark.parametrize("all_jobs", [False, True])
def test_forward_from_a_folder(
    folder: Path, apps: list[str], begin: Begin, spark: SparkSession, access: StoredAccess, all_jobs: bool
) -> None:  # fmt: skip
    """Of files that records were read from, too, and of files that DataFrames alone read, by several sources."""
    own = folder / f"of frames {all_jobs}"
    (own / "in").mkdir(parents=True)
    for name, first in (("a", 100), ("b", 110), ("c", 120)):
        lines = (f"k{number % 4},{number}\n" for number in range(first, first + 10))
        (own / "in" / f"{name}.csv").write_text("".join(lines))
    with begin() as lc:
        app = app_of(lc)
        read = spark.read.schema("key string, number long")
        for number, names in enumerate(("ab", "bc")):
            frame = read.csv([f"{own}/in/{name}.csv" for name in names]).where("number % 10 < 7")
            grouped = frame.groupBy("key").agg(F.sort_array(F.collect_list("number")).alias("of"))
            grouped.coalesce(1).write.parquet(f"{own}/out{number}")
    query = TraceQuery(Direction.FORWARD, (f"{own}/in",), all_jobs=all_jobs)
    answer = access.ask(query)
    found = [
        (Path(group.path or "").name, tuple(json.loads(item.text or "")["of"]))
        for group in answer.groups
        for item in group.items
    ]
    expected = [
        (f"out{number}", row)
        for number in range(2)
        for row in rows_in((own / f"out{number}").glob("*.parquet"))
    ]
    assert sorted(found) == sorted(expected)
    assert (answer.exact, answer.complete, answer.apps or (answer.app,)) == (True, True, (app,))
    assert sum(group.count for group in answer.start) == 40
    # The same as all rows one by one.
    one_by_one = {
        (Path(group.path or "").name, tuple(json.loads(item.text or "")["of"]))
        for name in ("a", "c")
        for number in (1, 7, 10)
        for group in access.ask(
            TraceQuery(Direction.FORWARD, (f"{own}/in/{name}.csv:{number}",))
        ).groups
        for item in group.items
    }
    assert one_by_one <= set(found)
    for level in ("file", "application"):
        counted = access.ask(
            TraceQuery(Direction.FORWARD, (f"{own}/in",), all_jobs=all_jobs, by=level)
        )
        assert sum(one.rows for one in counted.containers) == len(expected)
    # Of the other runs: one file was read as records, too, in each.
    for place_app, numbers in ((apps[0], range(ROWS)), (apps[1], range(ROWS // 2, 3 * ROWS // 2))):
        answer = access.ask(TraceQuery(Direction.FORWARD, (f"{folder}/in",), app=place_app))
        rows = {
            tuple(json.loads(item.text or "")["of"])
            for group in answer.groups
            for item in group.items
            if (group.path or "").endswith("/out")
        }
        records = [
            item
            for group in answer.groups
            for item in group.items
            if "/lines" in (group.path or "")
        ]
        assert {number for row in rows for number in row} == set(numbers)
        of_records = numbers[: ROWS // 2]
        assert len(records) == sum(str(number).endswith("1") for number in of_records)
        assert answer.exact


def test_a_folder_is_no_name_of_a_node(
    folder: Path,
    apps: list[str],
    begin: Begin,
    spark: SparkSession,
    access: StoredAccess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later run wrote elsewhere, by a node that goes by the folder's name."""
    monkeypatch.chdir(folder)
    with begin() as lc:
        frame = spark.read.schema("key string, number long").csv(f"{folder}/in/a.csv")
        frame.where("number < 3").coalesce(1).write.parquet(f"{folder}/elsewhere")
        app = app_of(lc)
    name = next(node.alias for node in access.graph(app)[1] if node.kind == "frame" and node.alias)
    Path(name).symlink_to("out", target_is_directory=True)
    answer = access.ask(back(name))
    assert app not in answer.apps
    assert numbers_of(answer) == set(range(3 * ROWS // 2))


def test_what_is_too_much_or_changed_is_refused(
    folder: Path, apps: list[str], access: StoredAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = max((folder / "out").glob("*.parquet"), key=lambda path: pq.read_table(path).num_rows)
    monkeypatch.setattr(rows_of_files, "LOOKUP_MAX", 1)
    with pytest.raises(TooMuchError, match="more than 1 rows"):
        access.ask(back(str(file)))
    monkeypatch.setattr(rows_of_files, "FORWARD_ROWS_MAX", 1)
    with pytest.raises(TooMuchError, match="more than 1 rows"):
        access.ask(TraceQuery(Direction.FORWARD, (f"{folder}/in/c.csv",), app=apps[1]))
    with pytest.raises(LineageError, match="split"):
        access.ask(TraceQuery(Direction.FORWARD, (f"{folder}/in/c.csv@0+10",), app=apps[1]))
    # What was read as records is traced all the same.
    answer = access.ask(TraceQuery(Direction.FORWARD, (f"{folder}/in",), app=apps[1]))
    assert (answer.exact, answer.complete) == (False, False)
    assert {"more than 1 rows" in gap.reason for gap in answer.not_queried} == {True}
    size = file.stat().st_size
    content = file.read_bytes()
    file.write_bytes(content + b"x")
    try:
        with pytest.raises(LineageError, match=r"was written since"):
            access.ask(back(str(file)))
        whole = access.ask(back(f"{folder}/out"))
        # Some rows of it may be gone.
        assert not whole.exact
    finally:
        file.unlink()
        assert size
