"""``lineage back --engine spark --all-jobs``: each row of the table as the embedded engine traces it by itself, through all jobs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.integration

LINES = ["a b", "b c", "", "c a a", "d", "b d"]
Pairs = set[tuple[str, str]]
Job = Callable[[LineageContext], None]


class Chain:
    """Jobs that ran one after the other, each an application of a lake."""

    def __init__(self, folder: Path, context: SparkContext) -> None:
        self.folder = folder
        self._context = context
        self._own = f"sqlite:///{folder}/own.db"

    def run(self, job: Job) -> None:
        with LineageContext(self._context, store=self._own, link=True) as lc:
            job(lc)

    def lines(self, lc: LineageContext, name: str) -> Any:
        return lc.textFile(f"{self.folder}/{name}", 2)

    def archive(self, *, but: int = 0) -> None:
        """Move all into a lake, but the first so many."""
        with self.own() as own, LakeStore(LakeAddress(f"{self.folder}/lake")) as lake:
            for one in list(reversed(own.application_ids()))[but:]:
                move_application(own, lake, one, deletes=bool(but))

    @contextmanager
    def own(self) -> Iterator[SqliteStore]:
        with SqliteStore(self.folder / "own.db") as own:
            yield own

    def rows(self, name: str) -> list[str]:
        """Places of all rows of a folder or file."""
        files = sorted((self.folder / name).glob("part-*")) or [self.folder / name]
        return [
            f"{file}:{at}" for file in files for at in range(1, 1 + file.read_text().count("\n"))
        ]

    def singly(self, direction: Direction, name: str) -> tuple[Pairs, Pairs, list[Answer]]:
        """What the other engine answers of each row by itself: all pairs, those that are surely so, and the answers."""
        every, sure, answers = set(), set(), []
        with LakeStore(LakeAddress(f"{self.folder}/lake")) as store:
            engine = QueryEngine(store, RowReader())
            for place in self.rows(name):
                answer = engine.ask(TraceQuery(direction, (place,), all_jobs=True, texts=False))
                found = {
                    (item.location or "", place) if direction is Direction.BACKWARD else (place, item.location or "")
                    for group in answer.groups
                    for item in group.items
                }  # fmt: skip
                every |= found
                sure |= found if answer.exact else set()
                answers.append(answer)
        return every, sure, answers


@pytest.fixture
def chain(tmp_path: Path, spark_context: SparkContext, monkeypatch: pytest.MonkeyPatch) -> Chain:
    # One that commands take, and do not stop.
    SparkSession.builder.getOrCreate()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", f"lake:{tmp_path}/lake")
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in LINES))
    return Chain(tmp_path, spark_context)


def traced(*words: str) -> tuple[dict[str, Any], Pairs, Pairs]:
    """The verdict, all pairs of the table, and those that are surely so."""
    shutil.rmtree("answer", ignore_errors=True)
    command = [*words, "--engine", "spark", "--to", "answer", "--all-jobs", "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    rows = pq.read_table("answer").to_pylist()
    pairs = [(_place(row, "input"), _place(row, "output")) for row in rows]
    # A file that several nodes read is several inputs.
    sides = [f"{side}_{name}" for side in ("input", "output") for name in ("space", "position")]
    named = {(row["application"], *(row[name] for name in sides)) for row in rows}
    assert len(named) == len(rows) == json.loads(result.stdout)["rows"]
    sure = {pair for pair, row in zip(pairs, rows, strict=True) if row["exact"]}
    assert all(row["exact"] == (row["reason"] is None) for row in rows)
    return json.loads(result.stdout), set(pairs), sure


def _place(row: dict[str, Any], side: str) -> str:
    return f"{row[f'{side}_file']}:{row[f'{side}_row'] + 1}"


def check(chain: Chain, way: str, name: str) -> dict[str, Any]:
    """The table has what the single rows' answers have; returns its verdict."""
    direction = Direction.BACKWARD if way == "back" else Direction.FORWARD
    every, sure, answers = chain.singly(direction, name)
    said, pairs, exact = traced(way, str(chain.folder / name))
    assert pairs == every
    assert exact >= sure
    assert said["exact"] == all(answer.exact for answer in answers)
    assert said["complete"] == all(answer.complete for answer in answers)
    assert set(said["applications"]) == {one for answer in answers for one in answer.apps}
    not_queried = {gap.warning() for answer in answers for gap in answer.not_queried}
    assert set(said["not_queried"]) == not_queried
    assert set(said["reasons"]) == {text for answer in answers for text in answer.reasons}
    return said


def words_of(lines: Any) -> Any:
    return lines.flatMap(str.split).map(lambda word: (word, 1))


def run_diamond(chain: Chain) -> None:
    """Lines are cleaned; words of them are counted, and sorted; a last job joins both, and what the first wrote."""
    folder = chain.folder
    chain.run(lambda lc: chain.lines(lc, "lines").filter(bool).saveAsTextFile(f"{folder}/clean"))

    def counted(lc: LineageContext) -> None:
        counts = words_of(chain.lines(lc, "clean")).reduceByKey(lambda one, other: one + other, 2)
        counts.map(lambda row: f"{row[0]} {row[1]}").saveAsTextFile(f"{folder}/counts")

    def sorted_words(lc: LineageContext) -> None:
        words = words_of(chain.lines(lc, "clean")).sortByKey(numPartitions=2)
        words.map(lambda row: f"{row[0]} x").saveAsTextFile(f"{folder}/words")

    def joined(lc: LineageContext) -> None:
        one = chain.lines(lc, "counts").map(lambda line: tuple(line.split()))
        other = chain.lines(lc, "words").map(lambda line: tuple(line.split()))
        clean = chain.lines(lc, "clean").map(lambda line: (line.split()[0], line))
        rows = one.join(other, 2).union(clean)
        rows.map(str).saveAsTextFile(f"{folder}/out")

    for job in (counted, sorted_words, joined):
        chain.run(job)
    chain.archive()


def run_two(chain: Chain) -> None:
    """Lines are cleaned, and their words counted."""
    folder = chain.folder
    chain.run(lambda lc: chain.lines(lc, "lines").filter(bool).saveAsTextFile(f"{folder}/clean"))

    def counted(lc: LineageContext) -> None:
        counts = words_of(chain.lines(lc, "clean")).reduceByKey(lambda one, other: one + other, 2)
        counts.map(lambda row: f"{row[0]} {row[1]}").saveAsTextFile(f"{folder}/counts")

    chain.run(counted)


def test_all_rows_are_traced_through_two_jobs(chain: Chain) -> None:
    run_two(chain)
    chain.archive()
    said = check(chain, "back", "counts")
    assert (len(said["applications"]), said["exact"], said["complete"]) == (2, True, True)


@pytest.mark.long
def test_all_rows_are_traced_through_jobs_that_meet_again(chain: Chain) -> None:
    run_diamond(chain)
    said = check(chain, "back", "out")
    assert (len(said["applications"]), said["exact"], said["complete"]) == (4, True, True)
    check(chain, "forward", "lines")


def run_disturbed(chain: Chain) -> None:
    """Files are copied, moved, edited and overwritten between jobs; some records are several lines."""
    folder = chain.folder

    def landed(lc: LineageContext) -> None:
        for name in ("kept", "copied", "moved", "edited", "overwritten", "split"):
            lines = chain.lines(lc, "lines").filter(bool)
            if name == "split":
                lines = lines.map(lambda line: line.replace(" ", "\n"))
            lines.coalesce(1).saveAsTextFile(f"{folder}/{name}")

    chain.run(landed)
    shutil.copy(folder / "copied/part-00000", folder / "copy")
    (folder / "moved/part-00000").rename(folder / "elsewhere")
    # Hadoop would refuse it.
    (folder / "edited/.part-00000.crc").unlink()
    with (folder / "edited/part-00000").open("a") as edited:
        edited.write("e\n")
    shutil.rmtree(folder / "overwritten")

    def again(lc: LineageContext) -> None:
        chain.lines(lc, "lines").coalesce(1).saveAsTextFile(f"{folder}/overwritten")

    def joined(lc: LineageContext) -> None:
        rows = chain.lines(lc, "kept/part-00000")
        for name in ("copy", "elsewhere", "edited/part-00000", "overwritten", "split/part-00000"):
            rows = rows.union(chain.lines(lc, name))
        words_of(rows).groupByKey(2).map(lambda row: f"{row[0]} {len(row[1])}").saveAsTextFile(
            f"{folder}/out"
        )

    chain.run(again)
    chain.run(joined)


@pytest.mark.long
def test_links_that_are_not_sure_or_refused_are_said_so(chain: Chain) -> None:
    run_disturbed(chain)
    chain.archive()
    said, pairs, _ = traced("back", f"{chain.folder}/out")
    every, _, answers = chain.singly(Direction.BACKWARD, "out")
    of_split = f"{chain.folder}/split/"
    # Records of several lines are followed row by row alone: here they are ends, and the verdict says so.
    followed = {pair for pair in pairs if not pair[0].startswith(of_split)}
    assert pairs - followed
    assert followed <= every
    assert any("each record of" in text for text in said["not_queried"])
    assert not said["complete"]
    assert {pair for pair in every if f"{chain.folder}/lines:" not in pair[0]} <= pairs
    gaps = {gap.warning() for answer in answers for gap in answer.not_queried}
    assert gaps <= set(said["not_queried"])
    assert set(said["reasons"]) == {text for answer in answers for text in answer.reasons}


@pytest.mark.long
def test_applications_that_are_in_no_lake_end_a_trace(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_two(chain)
    chain.archive(but=1)
    monkeypatch.setenv("LINEAGE_STORE", f"sqlite:///{chain.folder}/own.db,lake:{chain.folder}/lake")
    said, pairs, _ = traced("back", f"{chain.folder}/counts")
    assert not said["complete"]
    assert any("lineage archive" in text for text in said["not_queried"])
    assert all("/clean/part-" in source for source, _ in pairs)
    assert len(said["applications"]) == 1
