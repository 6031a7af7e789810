"""Replays through drawn chains of jobs, by ``lineage replay --all-jobs``, against the jobs run plainly over other sources.

- A row of the last output, replayed on what it was made from, comes out with the very bytes that the job wrote, and so do the rows on the way.
- Without some rows of the sources, all rows of the last output are those that the chain gives over sources without these rows, byte for byte: without the witnesses of a
  row, or without any rows.
- What an RDD wrote is taken as it is, and the answer says so.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import note as tell
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_emitter import LineageContext
from tests.oracle.budget import examples
from tests.oracle.replayed_chains import (
    SOURCES,
    Dataset,
    Job,
    Row,
    jobs,
    land,
    lines_of,
    places_of,
    rows_of,
    run_job,
    source_rows,
)
from tests.support.job_runs import STORE, answered

pytestmark = pytest.mark.property

REFUSED_MAX = 0.3
"""Part of the replays that may be refused; else the test would pass by refusing."""

drawn = settings(
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
chains = given(
    chain=st.lists(jobs(), min_size=2, max_size=4),
    rows=st.lists(source_rows(), min_size=SOURCES, max_size=SOURCES),
    picked=st.integers(0, 50),
    dropped=st.lists(st.integers(0, 50), max_size=2),
)


class Tally(Counter[str]):
    """What became of replays."""

    def add(self, outcome: str) -> None:
        self[outcome.partition(":")[0]] += 1
        event(outcome[:160])

    def check(self) -> None:
        assert self["refused"] <= REFUSED_MAX * self.total(), self
        assert self["replayed"] > 0, self


def test_chains_of_jobs_are_replayed(spark_context: SparkContext) -> None:
    tally = Tally()

    @settings(drawn, max_examples=examples(2))
    @chains
    def check(chain: list[Job], rows: list[list[Row]], picked: int, dropped: list[int]) -> None:
        tell("\n".join(map(str, chain)))
        lines = [lines_of(of_source) for of_source in rows]
        spark = SparkSession(spark_context).newSession()
        spark.conf.set("spark.sql.shuffle.partitions", "2")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            check_chain(spark, folder, chain, lines, (picked, dropped), tally)

    check()
    tally.check()


def run_plainly(
    spark: SparkSession, folder: Path, chain: list[Job], lines: list[list[str]]
) -> Dataset:
    """The last output of a chain over some sources."""
    datasets = land(folder, lines)
    for job in chain:
        run_job(spark, spark.sparkContext.textFile, folder, job, datasets)
    return datasets[-1]


def check_chain(
    spark: SparkSession,
    folder: Path,
    chain: list[Job],
    lines: list[list[str]],
    drawn: tuple[int, list[int]],
    tally: Tally,
) -> None:
    picked, dropped = drawn
    datasets = land(folder, lines)
    for job in chain:
        url = f"sqlite:///{folder / STORE}"
        with LineageContext(spark.sparkContext, store=url, link=True) as lc:
            run_job(spark, lc.textFile, folder, job, datasets)
    output = datasets[-1]
    places = list(places_of(output))
    if not places:
        return event("no rows")
    if output.of_lines:
        return event("by lines")
    place, text = places[picked % len(places)]
    tally.add(check_selective(folder, output, place, text))
    all_lines = [(n, at) for n in range(SOURCES) for at in range(len(lines[n]))]
    some = {all_lines[n % len(all_lines)] for n in dropped}
    for excluded in (witnesses(folder, place), some):
        if excluded:
            tally.add(check_exclusive(spark, folder, output, chain, lines, excluded))


def replayed(folder: Path, *arguments: str) -> dict[str, Any] | str:
    """What a replay gave, or why it was refused."""
    result = answered(folder, "replay", *arguments, "--all-jobs", "--json")
    if result.exit_code not in {0, 1} or not result.stdout:
        assert result.exit_code == 2, (result.output, result.exception)
        return " ".join(result.output.split())
    outcome: dict[str, Any] = json.loads(result.stdout)
    outcome["code"] = result.exit_code
    return outcome


def written_rows(folder: Path, like: Dataset) -> Counter[str]:
    return rows_of(Dataset(folder, like.format, False, frozenset(), frozenset()))


def witnesses(folder: Path, place: str) -> set[tuple[int, int]]:
    """The source and the line of each row that a row was made from."""
    result = answered(folder, "back", place, "--all-jobs", "--json")
    assert result.stdout, result.output
    found = set()
    for source in json.loads(result.stdout)["sources"]:
        for item in source["items"]:
            path, _, line = str(item["location"]).rpartition(":")
            landed = Path(path).parent.name
            if landed.startswith("landed"):
                found.add((int(landed.removeprefix("landed")), int(line) - 1))
    return found


def check_selective(folder: Path, output: Dataset, place: str, text: str) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "again"
        outcome = replayed(folder, place, "--to", str(again))
        if isinstance(outcome, str):
            return f"refused: {outcome}"
        assert outcome["reproduced"], (place, outcome)
        assert outcome["code"] == 0, (place, outcome)
        assert all(job["reproduced"] for job in outcome["jobs"]), (place, outcome)
        assert written_rows(again, output)[text], (text, written_rows(again, output), outcome)
    return "replayed: on witnesses"


def check_exclusive(
    spark: SparkSession,
    folder: Path,
    output: Dataset,
    chain: list[Job],
    lines: list[list[str]],
    excluded: set[tuple[int, int]],
) -> str:
    named = [f"{folder}/landed{source}/in.csv:{line + 1}" for source, line in sorted(excluded)]
    options = [word for place in named for word in ("--exclude", place)]
    with tempfile.TemporaryDirectory() as scratch:
        again = Path(scratch) / "again"
        where = (str(output.path), "--where", "true", "--to", str(again))
        outcome = replayed(folder, *where, *options)
        if isinstance(outcome, str):
            return f"refused: {outcome}"
        by_lines = {source for source, _ in excluded} & output.by_lines
        if by_lines:
            assert any("are taken as they are" in why for why in outcome["uncertain"]), outcome
            return "as they are"
        rest = [
            [line for at, line in enumerate(of_source) if (source, at) not in excluded]
            for source, of_source in enumerate(lines)
        ]
        plain = rows_of(run_plainly(spark, Path(scratch) / "plain", chain, rest))
        given = written_rows(again, output)
        assert given == plain, (named, given - plain, plain - given, outcome)
        after = [row["after"] for row in outcome["rows"] if row["after"] is not None]
        assert len(after) + len(outcome["new"]) == plain.total(), (named, plain, outcome)
    return f"replayed: {outcome['read']}"
