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
from tests.oracle.chain_programs import rows_of
from tests.oracle.chains import (
    Chain,
    Job,
    Version,
    jobs,
    land_sources,
    path_of,
    places_of,
    run_job,
    state_of,
)
from tests.oracle.next_jobs import check_next_jobs, check_origin, places
from tests.support.job_runs import STORE

pytestmark = pytest.mark.property

T = TypeVar("T")

BACKWARD_MAX = 4
"""Rows of outputs that are traced in one chain."""
PLANNED_MAX = 2
"""Rows of sources that are planned to be erased in one chain."""
FORWARD_MAX = 3
"""Rows of sources that are traced in one chain."""
STEPS_MAX = 2
"""Rows of outputs, and of sources, whose next jobs are looked at in one chain."""


# Some of them run twice. To shrink a chain takes minutes, and the failing one says enough.
drawn = settings(max_examples=examples(2), phases=[Phase.explicit, Phase.reuse, Phase.generate])
chains = given(chain_jobs=st.lists(jobs(), min_size=2, max_size=5))


@drawn
@chains
def test_traces_through_chains_of_jobs(chain_jobs: list[Job], spark_context: SparkContext) -> None:
    check_chain(chain_jobs, spark_context)


@pytest.mark.long
@settings(drawn, max_examples=examples(8))
@chains
def test_traces_through_more_chains_of_jobs(
    chain_jobs: list[Job], spark_context: SparkContext
) -> None:
    check_chain(chain_jobs, spark_context)


def check_chain(chain_jobs: list[Job], spark_context: SparkContext) -> None:
    with ran(chain_jobs, spark_context) as (chain, access):
        for version, place, ids in some(outputs(chain), BACKWARD_MAX):
            check_backward(chain, version, place, ids, access)
        for place, number in some(chain.read_sources(), FORWARD_MAX):
            check_forward(chain, place, number, access)
        for version, place, ids in some(written(chain), STEPS_MAX):
            check_step_back(chain, version, place, ids, access)
        for app, place in some(readings(chain), STEPS_MAX):
            check_step_forward(chain, app, place, access)


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
            run_job(chain, job, lambda: LineageContext(spark_context, store=url, link=True), spark)
        with open_store(url) as store:
            yield chain, StoredAccess(store, url)


def some(items: list[T], count: int) -> list[T]:
    return random.Random(len(items)).sample(items, min(count, len(items)))


def outputs(chain: Chain) -> list[tuple[Version, str, frozenset[int]]]:
    """Version, place and numbers of each row that jobs left, wherever it is now."""
    return [
        (version, place, ids)
        for dataset in chain.datasets
        if dataset.path.is_dir()
        for path in dataset.files()
        if (version := chain.written_as(state_of(path))) is not None
        for place, ids in places_of(str(path), rows_of(path, dataset.format))
    ]


def written(chain: Chain) -> list[tuple[Version, str, frozenset[int]]]:
    """The same of those that are where they were written."""
    return [row for row in outputs(chain) if row[0].path == path_of(row[1])]


def readings(chain: Chain) -> list[tuple[str, str]]:
    """Each application, with the place of each row that it read and that is as it was read."""
    return [
        (app, place)
        for app, states in chain.reads.items()
        for path, mtime_ns in states
        if Path(path).exists() and state_of(Path(path)) == (path, mtime_ns)
        for place, _ in chain.rows_of((path, mtime_ns))
    ]


def items(answer: Answer) -> set[tuple[str, str]]:
    """The application and place of each item, in files of users."""
    return {(group.app or answer.app, place) for group in answer.groups for place in places(group)}


def ask(query: TraceQuery, access: StoredAccess, *, is_calm: bool) -> Answer | None:
    """The answer, or None where the trace is refused for what was overwritten or moved."""
    try:
        return access.ask(query)
    except LineageError as error:
        event(f"{query.direction.value}: {type(error).__name__}")
        if is_calm:
            raise
        return None


def check_backward(
    chain: Chain, version: Version, place: str, ids: frozenset[int], access: StoredAccess
) -> None:
    is_calm = chain.is_calm_before(version)
    query = TraceQuery(Direction.BACKWARD, (place,), all_jobs=True)
    answer = ask(query, access, is_calm=is_calm)
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
    if is_calm:
        assert answer.complete, shown
        assert not ends_early, shown
    for app, path in {(app, path_of(found_place)) for app, found_place in items(answer)}:
        was_edited = any(state[0] == path for state in chain.edited.keys() & {*chain.reads[app]})
        if was_edited and any(other.path == path for other in chain.written):
            # A file that was edited meanwhile is not what was written: the answer names both.
            reasons = [gap.reason for gap in answer.not_queried if path in gap.reason]
            assert any(reason.count(" bytes of ") == 2 for reason in reasons), shown
    note("back", answer)


def check_forward(chain: Chain, place: str, number: int, access: StoredAccess) -> None:
    is_calm = chain.is_calm_after(path_of(place))
    query = TraceQuery(Direction.FORWARD, (place,), all_jobs=True)
    answer = ask(query, access, is_calm=is_calm)
    if answer is None:
        return
    read = {state for states in chain.reads.values() for state in states}
    # Rows of files that are gone since have no place.
    found = {(app, place) for app, place in items(answer) if chain.is_there(app, place)}
    expected = {
        (version.app, place)
        for version in chain.written
        if version.state not in read
        for place, ids in places_of(version.path, version.rows)
        if chain.is_there(version.app, place)
        if number in ids
    }
    shown = (place, found ^ expected, answer)
    if answer.exact:
        assert found <= expected, shown
    if answer.complete:
        assert found >= expected, shown
    if is_calm:
        assert answer.complete, shown
    note("forward", answer)


def check_step_back(
    chain: Chain, version: Version, place: str, ids: frozenset[int], access: StoredAccess
) -> None:
    """One application after the other, each named by the one before, as far as a place leads on."""
    steps = [(version, place, ids)]
    while steps:
        version, place, ids = steps.pop()
        query = TraceQuery(Direction.BACKWARD, (place,), app=version.app)
        answer = ask(query, access, is_calm=chain.is_calm_before(version))
        if answer is None:
            return
        check_origin(chain, version.app, ids, answer)
        check_next_jobs(chain, answer)
        for group in answer.groups:
            for job in group.next_jobs:
                if job.place and job.same_version:
                    before = chain.read_by(version.app, path_of(job.place))
                    assert before is not None, job
                    assert before.app == job.app, (job, before)
                    steps.append((before, job.place, before.ids_at(job.place)))


def check_step_forward(chain: Chain, app: str, place: str, access: StoredAccess) -> None:
    """The same, forward."""
    steps = [(app, place)]
    while steps:
        app, place = steps.pop()
        query = TraceQuery(Direction.FORWARD, (place,), app=app)
        (ids,) = (
            ids for state in chain.reads[app] for at, ids in chain.rows_of(state) if at == place
        )
        answer = ask(query, access, is_calm=all(v.is_in_place for v in chain.written))
        if answer is None:
            return
        check_next_jobs(chain, answer)
        if answer.exact:
            rows = {
                at: made
                for v in chain.written
                if v.app == app
                for at, made in places_of(v.path, v.rows)
            }
            assert all(ids <= rows[at] for of, at in items(answer)), (place, ids, answer)
        steps += [
            (job.app, job.place)
            for group in answer.groups
            for job in group.next_jobs
            if job.place and job.same_version
        ]


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
    if chain.is_calm_after(path):
        assert plan.complete, shown
    for row in found.keys() & expected.keys():
        # Every row of these chains shows what it is made of.
        assert found[row].kind != "mixed", (row, found[row])
    note("plan", plan)


def note(way: str, answer: Answer | Plan) -> None:
    event(f"{way}: exact {answer.exact}, complete {answer.complete}")
