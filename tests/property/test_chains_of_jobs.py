"""Traces through generated chains of jobs, of RDDs and DataFrames in turn, against what the jobs' rows say of themselves."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import Phase, event, given, settings
from hypothesis import note as tell
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.answers import Answer
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.plan import Plan
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.oracle.budget import examples
from tests.oracle.chains import Chain, Job, jobs, land_sources, places_of, rows_of, run_job
from tests.support.job_runs import STORE, app_of

pytestmark = pytest.mark.property

T = TypeVar("T")

BACKWARD_MAX = 6
"""Rows of outputs that are traced in one chain."""
KEPT = "/.lineage/rows/"
"""Records that an RDD handed to a DataFrame are listed, too, beside what they are made of; so are rows that a DataFrame handed to an
RDD, without a location."""
PLANNED_MAX = 2
"""Rows of sources that are planned to be erased in one chain."""
FORWARD_MAX = 3
"""Rows of sources that are traced in one chain."""


# To shrink a chain takes minutes, and the failing one says enough.
drawn = settings(max_examples=examples(3), phases=[Phase.explicit, Phase.reuse, Phase.generate])
chains = given(chain_jobs=st.lists(jobs(), min_size=2, max_size=5))


@drawn
@chains
def test_traces_through_chains_of_jobs(chain_jobs: list[Job], spark_context: SparkContext) -> None:
    with ran(chain_jobs, spark_context) as (chain, access):
        for place, ids in some(outputs(chain), BACKWARD_MAX):
            check_backward(chain, place, ids, access)
        for place, number in some(chain.read_sources(), FORWARD_MAX):
            check_forward(chain, place, number, access)


# `test_erasure_property.py` draws plans without Spark.
@pytest.mark.long
@drawn
@chains
def test_plans_through_chains_of_jobs(chain_jobs: list[Job], spark_context: SparkContext) -> None:
    with ran(chain_jobs, spark_context) as (chain, access):
        for place, number in some(chain.read_sources(), PLANNED_MAX):
            check_plan(chain, place, number, access)


@contextmanager
def ran(chain_jobs: list[Job], spark_context: SparkContext) -> Iterator[tuple[Chain, StoredAccess]]:
    """A chain that has run, and what answers about it."""
    tell("\n".join(map(str, chain_jobs)))
    spark = SparkSession(spark_context).newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.sql("select 1").collect()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        url = f"sqlite:///{folder / STORE}"
        chain = land_sources(folder)
        for job in chain_jobs:
            with LineageContext(spark_context, store=url, link=True) as lc:
                run_job(chain, job, lc, spark, app_of(lc))
        with open_store(url) as store:
            yield chain, StoredAccess(store, url)


def some(items: list[T], count: int) -> list[T]:
    return random.Random(len(items)).sample(items, min(count, len(items)))


def outputs(chain: Chain) -> list[tuple[str, frozenset[int]]]:
    """Place and numbers of each row that jobs left."""
    return [
        row
        for dataset in chain.datasets
        if dataset.path.is_dir()
        for path in dataset.files()
        for row in places_of(str(path), rows_of(path, dataset.format))
    ]


def items(answer: Answer) -> set[tuple[str, str]]:
    """The application and place of each item, in files of users."""
    return {
        (group.app or answer.app, item.location)
        for group in answer.groups
        for item in group.items
        if item.location and KEPT not in item.location
    }


def ask(chain: Chain, direction: Direction, place: str, access: StoredAccess) -> Answer | None:
    """The answer, or None where the trace is refused for what was overwritten or moved."""
    try:
        return access.ask(TraceQuery(direction, (place,), all_jobs=True))
    except LineageError as error:
        event(f"{direction.value}: {type(error).__name__}")
        if not chain.disturbed:
            raise
        return None


def check_backward(chain: Chain, place: str, ids: frozenset[int], access: StoredAccess) -> None:
    answer = ask(chain, Direction.BACKWARD, place, access)
    if answer is None:
        return
    found = {location for _, location in items(answer)}
    sources = {chain.sources[place] for place in found if place in chain.sources}
    ends_early = bool(found - chain.sources.keys())
    shown = (place, sorted(ids), answer)
    if answer.exact:
        assert sources <= ids, shown
    if answer.complete and not ends_early:
        assert sources >= ids, shown
    if not chain.disturbed:
        assert answer.complete, shown
        assert not ends_early, shown
    note("back", answer)


def check_forward(chain: Chain, place: str, number: int, access: StoredAccess) -> None:
    answer = ask(chain, Direction.FORWARD, place, access)
    if answer is None:
        return
    # Rows of files that are gone since have no place.
    found = {(app, place) for app, place in items(answer) if chain.is_there(app, place)}
    expected = {
        (version.app, place)
        for version in chain.written
        if (version.path, version.mtime_ns) not in chain.read
        for place, ids in places_of(version.path, version.rows)
        if chain.is_there(version.app, place)
        if number in ids
    }
    shown = (place, found ^ expected, answer)
    if answer.exact:
        assert found <= expected, shown
    if answer.complete:
        assert found >= expected, shown
    if not chain.disturbed:
        assert answer.complete, shown
    note("forward", answer)


def check_plan(chain: Chain, place: str, number: int, access: StoredAccess) -> None:
    """A plan to erase a row has each row of each output that is made of it, also of outputs that other jobs read."""
    path, _, line = place.rpartition(":")
    plan = access.plan("erase", SubjectQuery(path, rows=(int(line),)))
    found = {
        (row.app, row.place): row
        for row in plan.rows
        if row.is_there and row.place and chain.is_there(row.app, row.place)
    }
    expected = {
        (version.app, at): ids
        for version in chain.written
        for at, ids in places_of(version.path, version.rows)
        if chain.is_there(version.app, at)
        if number in ids
    }
    shown = (place, found.keys() ^ expected.keys(), plan)
    if plan.exact:
        assert found.keys() <= expected.keys(), shown
    if plan.complete:
        assert found.keys() >= expected.keys(), shown
    if not chain.disturbed:
        assert plan.complete, shown
    for row in found.keys() & expected.keys():
        # Every row of these chains shows what it is made of.
        assert found[row].kind != "mixed", (row, found[row])
    note("plan", plan)


def note(way: str, answer: Answer | Plan) -> None:
    event(f"{way}: exact {answer.exact}, complete {answer.complete}")
