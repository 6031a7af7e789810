"""An answer at a level has the containers of the rows of the answer by rows, and their numbers of rows."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import LEVELS, TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.levels_job import (
    LevelsJob,
    Row,
    Shape,
    containers_back,
    containers_forward,
    shapes,
    write_job,
)

pytestmark = pytest.mark.property


@contextmanager
def engine_over(shape: Shape) -> Iterator[tuple[LevelsJob, QueryEngine]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        job = write_job(home / "spool", home, shape)
        with SqliteStore(home / "lineage.db") as store:
            ingest_all(store, home / "spool")
            yield job, QueryEngine(store, RowReader())


def places(rows: list[Row]) -> tuple[str, ...]:
    return tuple(f"{path}:{line}" for path, line in rows)


def assert_claims_of(answer: Answer, by_rows: Answer) -> None:
    """Everything but the rows is as the answer by rows has it."""
    assert (answer.exact, answer.reasons, answer.complete) == (
        by_rows.exact,
        by_rows.reasons,
        by_rows.complete,
    )
    assert (answer.changed, answer.apps, answer.not_queried) == (
        by_rows.changed,
        by_rows.apps,
        by_rows.not_queried,
    )
    assert [(g.node, g.count) for g in answer.groups] == [(g.node, g.count) for g in by_rows.groups]
    assert not any(group.items for group in answer.groups)


@st.composite
def choices(draw: st.DrawFn) -> list[int]:
    """Which rows of a list, by number; beyond its end it begins anew."""
    return draw(st.lists(st.integers(0, 20), min_size=1, max_size=2, unique=True))


def chosen(rows: list[Row], numbers: list[int]) -> list[Row]:
    return list(dict.fromkeys(rows[number % len(rows)] for number in numbers))


@given(shapes(), choices(), st.booleans())
def test_back_levels_are_the_rows_containers(
    shape: Shape, numbers: list[int], all_jobs: bool
) -> None:
    with engine_over(shape) as (job, engine):
        outputs = chosen(job.outputs, numbers)
        query = TraceQuery(Direction.BACKWARD, places(outputs), all_jobs=all_jobs)
        by_rows = engine.ask(query)
        found = {item.location for group in by_rows.groups for item in group.items}
        assert found == set(places([row for output in outputs for row in job.made_of[output]]))
        for level in LEVELS[1:]:
            expected = containers_back(job, level, outputs)
            assert_level(engine.ask(replace(query, by=level)), level, expected, by_rows)


@given(shapes(), choices(), st.booleans())
def test_forward_levels_are_the_rows_containers(
    shape: Shape, numbers: list[int], all_jobs: bool
) -> None:
    with engine_over(shape) as (job, engine):
        inputs = chosen(job.inputs, numbers)
        query = TraceQuery(Direction.FORWARD, places(inputs), all_jobs=all_jobs)
        by_rows = engine.ask(query)
        found = {item.location for group in by_rows.groups for item in group.items}
        assert found == set(places(job.made_from(inputs)))
        for level in LEVELS[1:]:
            expected = containers_forward(job, level, inputs)
            assert_level(engine.ask(replace(query, by=level)), level, expected, by_rows)


def assert_level(
    answer: Answer, level: str, expected: dict[str, set[Row]], by_rows: Answer
) -> None:
    counts = {container.name: container.rows for container in answer.containers}
    assert counts == {name: len(rows) for name, rows in expected.items()}, level
    assert (answer.by, answer.outside) == (level, ())
    assert answer.containers_total == len(answer.containers)
    assert_claims_of(answer, by_rows)
