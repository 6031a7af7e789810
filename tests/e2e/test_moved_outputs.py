"""Traces through outputs of DataFrames whose files were moved or copied: rows carry the numbers of the lines that made them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.oracle.chain_programs import SCHEMA, Dataset, read_frame, read_rdd, rows_of, run_frame
from tests.oracle.chains import places_of
from tests.oracle.next_jobs import places
from tests.support.job_runs import Begin, app_of, part_files

pytestmark = [pytest.mark.e2e, pytest.mark.long]
LINES = 12


def ids_at(output: Path, format: str) -> dict[str, frozenset[int]]:
    """The numbers of the lines that made each row of an output, by its place."""
    return {
        place: ids
        for part in part_files(output)
        for place, ids in places_of(str(part), rows_of(part, format))
    }


def ask(access: StoredAccess, direction: Direction, place: str) -> Answer:
    return access.ask(TraceQuery(direction, (place,), all_jobs=True))


def found(answer: Answer) -> set[str]:
    return {place for group in answer.groups for place in places(group)}


def move_folder(written: Path, arrived: Path) -> None:
    written.rename(arrived)


def copy_folder(written: Path, arrived: Path) -> None:
    arrived.mkdir()
    for part in part_files(written):
        shutil.copyfile(part, arrived / part.name)


def copy_and_overwrite(written: Path, arrived: Path) -> None:
    """The files that were written hold something else afterwards."""
    copy_folder(written, arrived)
    for part in part_files(written):
        part.write_bytes(b"something else\n")


def move_one_file(written: Path, arrived: Path) -> None:
    """The others stay, with links to them in the folder that is read."""
    arrived.mkdir()
    first, *others = part_files(written)
    first.rename(arrived / first.name)
    for part in others:
        os.link(part, arrived / part.name)


@pytest.mark.parametrize(
    ("format", "carry", "reader", "is_exact"),
    [
        ("parquet", move_folder, "DataFrame", True),
        ("json", copy_and_overwrite, "DataFrame", False),
        ("parquet", move_one_file, "RDD", True),
        ("orc", copy_folder, "DataFrame", False),
        ("csv", move_folder, "RDD", True),
    ],
)
def test_rows_go_on_through_files_that_were_moved_or_copied(
    folder: Path,
    begin: Begin,
    spark: SparkSession,
    access: StoredAccess,
    format: str,
    carry: Callable[[Path, Path], None],
    reader: str,
    is_exact: bool,
) -> None:
    own = folder / f"{format} {carry.__name__} {reader}"
    own.mkdir()
    source = own / "in.csv"
    # No two tests write the same content.
    keys = [f"{'abcde'[line % 5]} {own.name}" for line in range(LINES)]
    source.write_text("".join(f"{key},{line}\n" for line, key in enumerate(keys)))
    with begin():
        frame = run_frame([read_frame(spark, Dataset(source, "csv"))], "union", ["reduce"])
        frame.repartition(3).write.format(format).save(str(own / "one"))
    assert len(part_files(own / "one")) > 1
    carry(own / "one", own / "arrived")
    arrived = Dataset(own / "arrived", format)
    with begin() as lc:
        if reader == "RDD":
            pairs = read_rdd(lc, spark, arrived).filter(lambda pair: not pair[0].startswith("b"))
            pairs.map(",".join).saveAsTextFile(str(own / "two"))
        else:
            kept = read_frame(spark, arrived).where("key not like 'b%'")
            kept.write.format(format).save(str(own / "two"))
    made = ids_at(own / "two", "csv" if reader == "RDD" else format)
    assert len(made) == 4
    for place, ids in made.items():
        answer = ask(access, Direction.BACKWARD, place)
        assert found(answer) == {f"{source}:{number + 1}" for number in ids}
        assert (answer.exact, answer.complete) == (is_exact, True), answer
    for number in range(3):
        answer = ask(access, Direction.FORWARD, f"{source}:{number + 1}")
        expected = {place for place, ids in made.items() if number in ids}
        assert found(answer) == expected, answer
        assert (answer.exact, answer.complete) == (is_exact, True), answer


def test_places_are_those_where_rows_were_written(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess
) -> None:
    """An answer about one application names them, too, with who read them since."""
    own = folder / "one application"
    own.mkdir()
    (own / "in.csv").write_text("k,0\nl,1\n")
    with begin() as lc:
        writer = app_of(lc)
        read_frame(spark, Dataset(own / "in.csv", "csv")).write.parquet(str(own / "one"))
    (part,) = part_files(own / "one")
    query = TraceQuery(Direction.FORWARD, (f"{own}/in.csv:2",), app=writer)
    before = access.ask(query)
    (own / "one").rename(own / "arrived")
    # Nobody recorded where it is.
    (group,) = access.ask(query).groups
    assert [item.location for item in group.items] == [None]
    with begin() as lc:
        reader = app_of(lc)
        spark.read.schema(SCHEMA).parquet(str(own / "arrived")).write.csv(str(own / "two"))
    answer = access.ask(query)
    assert (answer.exact, answer.complete) == (True, True)
    (group,) = answer.groups
    assert group.gone
    assert group.items == before.groups[0].items
    assert [item.location for item in group.items] == [f"{part}#1"]
    (job,) = group.next_jobs
    assert (job.app, job.place) == (reader, f"{own}/arrived/{part.name}#1")


def test_why_rows_of_files_that_are_gone_have_no_place(
    folder: Path, begin: Begin, spark: SparkSession, access: StoredAccess
) -> None:
    own = folder / "no place"
    own.mkdir()
    (own / "in.csv").write_text("m,0\nn,1\n")
    # No other file has the content of what is written.
    source = read_frame(spark, Dataset(own / "in.csv", "csv")).withColumn("of", F.lit("in"))
    reasons = {}
    for case in ("changed", "parted"):
        with begin() as lc:
            writer = app_of(lc)
            if case == "parted":
                source.write.partitionBy("key").csv(str(own / case))
            else:
                source.write.csv(str(own / case))
        (own / case).rename(own / f"{case} arrived")
        with begin() as lc:
            reader = app_of(lc)
            copies = spark.read.schema(f"{SCHEMA}, of string").csv(str(own / f"{case} arrived"))
            copies.select("ids").write.csv(str(own / f"{case} two"))
        if case == "changed":
            for part in part_files(own / f"{case} arrived"):
                part.with_name(f".{part.name}.crc").unlink()
                part.write_text(part.read_text().replace("m", "o"))
        place = f"{own}/in.csv:1"
        answer = access.ask(TraceQuery(Direction.FORWARD, (place,), app=writer))
        assert [item.location for group in answer.groups for item in group.items] == [None]
        (reasons[case],) = answer.warnings
        followed = ask(access, Direction.FORWARD, place)
        assert not followed.complete
        assert reader in {gap.app for gap in followed.not_queried}
    assert "has this content now" in reasons["changed"]
    assert "may hold values" in reasons["parted"]
