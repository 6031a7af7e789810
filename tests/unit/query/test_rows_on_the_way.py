"""Rows on the way of a trace through all jobs, against the rows that the jobs themselves were given."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage import trace
from lineage.main import app as command_line
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.chained_runs import spool_job
from tests.support.spool_builder import Spool

pytestmark = pytest.mark.unit

Row = tuple[int, int]
"""The number of a file, and a row of it, from 0."""
FILES = 6


class Jobs:
    """Files, of which all but the first are made by jobs; each reads one that is there. ``made_of``: of each row those that it was made of."""

    def __init__(self, folder: Path, seed: int) -> None:
        draw = random.Random(seed)
        self.url = f"sqlite:///{folder}/lineage.db"
        self.files = [folder / f"data-{number}" for number in range(FILES)]
        self.rows: list[Row] = [(0, row) for row in range(4)]
        self.made_of: dict[Row, set[Row]] = {}
        self.files[0].write_text("a\nb\nc\nd\n")
        for number in range(1, FILES):
            source = draw.randrange(number)
            count = len(self.files[source].read_text().splitlines())
            inputs = [
                sorted(draw.sample(range(count), draw.randint(1, count)))
                for _ in range(draw.randint(1, 4))
            ]
            self.files[number].write_text("".join(f"{number} {rows}\n" for rows in inputs))
            spool = Spool(folder / "spool", f"app-{number}")
            spool_job(
                spool, self.files[source], self.files[number], inputs, started_at=1e3 + number
            )
            for row, rows in enumerate(inputs):
                self.rows.append((number, row))
                self.made_of[number, row] = {(source, one) for one in rows}
        with SqliteStore(folder / "lineage.db") as store:
            ingest_all(store, folder / "spool")

    def place(self, row: Row) -> str:
        return f"{self.files[row[0]]}:{row[1] + 1}"

    def way(self, start: Row, direction: Direction) -> set[Row]:
        """All rows that lead to a row, or to which it leads, itself aside."""
        found, unseen = set[Row](), [start]
        while unseen:
            row = unseen.pop()
            made = (other for other, rows in self.made_of.items() if row in rows)
            next_rows = self.made_of.get(row, ()) if direction is Direction.BACKWARD else made
            new = set(next_rows) - found
            found |= new
            unseen += new
        return found


@pytest.fixture(params=range(2))
def jobs(tmp_path: Path, request: pytest.FixtureRequest) -> Jobs:
    return Jobs(tmp_path, request.param)


def places(answer: Answer) -> Counter[str | None]:
    return Counter(item.location for group in answer.groups for item in group.items)


def test_all_rows_on_the_way_are_listed_once(jobs: Jobs) -> None:
    longest = 0
    with SqliteStore(Path(jobs.url.removeprefix("sqlite:///"))) as store:
        engine = QueryEngine(store, RowReader())
        for direction in Direction:
            for row in jobs.rows:
                if direction is Direction.BACKWARD and row[0] == 0:
                    continue
                query = TraceQuery(direction, (jobs.place(row),), all_jobs=True, way=True)
                answer = engine.ask(query)
                # What nobody has read went into itself.
                way = jobs.way(row, direction) or {row}
                assert places(answer) == Counter(map(jobs.place, way)), row
                assert (answer.exact, answer.complete) == (True, True)
                by_dataset = engine.ask(
                    TraceQuery(direction, query.places, all_jobs=True, way=True, by="dataset")
                )
                counts = Counter(f"file:{jobs.files[number]}" for number, _ in way)
                assert {one.name: one.rows for one in by_dataset.containers} == counts
                longest = max(longest, len(counts))
    assert longest > 2


def test_the_same_by_command_over_http_and_in_programs(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, 1)
    place = jobs.place((0, 0))
    expected = Counter(map(jobs.place, jobs.way((0, 0), Direction.FORWARD)))
    with serving(jobs.url, api_roots=str(tmp_path)) as address:
        for store in (jobs.url, address):
            answer = trace(place, direction="forward", all_jobs=True, way=True, store=store)
            assert places(answer) == expected
            words = ["forward", place, "--all-jobs", "--way", "--json", "--store", store]
            done = CliRunner().invoke(command_line, words)
            found = json.loads(done.stdout)["sinks"]
            assert (
                Counter(item["location"] for group in found for item in group["items"]) == expected
            )


def test_it_needs_all_jobs(tmp_path: Path) -> None:
    jobs = Jobs(tmp_path, 1)
    with pytest.raises(TraceError, match="--all-jobs"):
        trace(jobs.place((0, 0)), direction="forward", way=True, store=jobs.url)
