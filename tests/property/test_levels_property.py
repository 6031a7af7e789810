"""An answer at a level has the containers of the rows of the answer by rows, and their numbers of rows."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import LEVELS, TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.budget import examples
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
def engine_over(shape: Shape, *, stages: bool = True) -> Iterator[tuple[LevelsJob, QueryEngine]]:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder).resolve()
        job = write_job(home / "spool", home, shape, stages=stages)
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


@settings(max_examples=examples(20))
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


@settings(max_examples=examples(20))
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


@settings(max_examples=examples(5))
@given(shapes(), choices())
def test_stages_that_were_not_recorded_are_refused(shape: Shape, numbers: list[int]) -> None:
    with engine_over(shape, stages=False) as (job, engine):
        outputs = chosen(job.outputs, numbers)
        query = TraceQuery(Direction.BACKWARD, places(outputs), by="stage")
        if containers_back(job, "task", outputs):
            with pytest.raises(TraceError, match="recorded no stage of its task"):
                engine.ask(query)
        else:
            assert engine.ask(query).containers == ()


def found_in(answer: Answer) -> set[str | None]:
    return {item.location for group in answer.groups for item in group.items}


def assert_found(engine: QueryEngine, query: TraceQuery, rows: set[Row]) -> None:
    """The rows, and as many by files as in each of them."""
    answer = engine.ask(query)
    assert found_in(answer) == set(places(list(rows))), query
    assert (answer.complete, answer.exact, answer.requested_places) == (True, True, query.places)
    by_file = engine.ask(replace(query, by="file"))
    counts = {container.name: container.rows for container in by_file.containers}
    assert counts == Counter(path for path, _ in rows), query
    assert by_file.requested_places == query.places


@settings(max_examples=examples(10))
@given(shapes(), st.booleans())
def test_questions_of_files_and_folders_are_those_of_all_their_rows(
    shape: Shape, all_jobs: bool
) -> None:
    with engine_over(shape) as (job, engine):
        backward = TraceQuery(Direction.BACKWARD, (), all_jobs=all_jobs)
        forward = TraceQuery(Direction.FORWARD, (), all_jobs=all_jobs)
        for names_of in (lambda path: path, lambda path: str(Path(path).parent) + "/"):
            for place in dict.fromkeys(names_of(path) for path, _ in job.outputs):
                rows = (made for row, made in job.made_of.items() if names_of(row[0]) == place)
                query = replace(backward, places=(place,))
                assert_found(engine, query, set().union(*rows))
            for place in dict.fromkeys(names_of(path) for path, _ in job.inputs):
                inputs = [row for row in job.inputs if names_of(row[0]) == place]
                query = replace(forward, places=(place,))
                assert_found(engine, query, set(job.made_from(inputs)))


@settings(max_examples=examples(10))
@given(shapes())
def test_questions_of_splits_and_tasks_are_those_of_their_rows(shape: Shape) -> None:
    with engine_over(shape) as (job, engine):
        for split in dict.fromkeys(job.splits.values()):
            # Another source may have read the same bytes.
            of_split = {
                (source, row) for (source, row), name in job.splits.items() if name == split
            }
            outputs = {
                output
                for output, sources in job.sources.items()
                if any((source, row) in of_split for row in sources for source in sources[row])
            }
            assert_found(engine, TraceQuery(Direction.FORWARD, (split,)), outputs)
        for task, rows in job.task_rows.items():
            outputs = {
                output
                for output, readers in job.readers.items()
                if any(task in tasks for tasks in readers.values())
            }
            assert_found(engine, TraceQuery(Direction.BACKWARD, (task,), app=job.app), rows)
            assert_found(engine, TraceQuery(Direction.FORWARD, (task,), app=job.app), outputs)
        for sink_task in dict.fromkeys(task for _, task in job.sinks.values()):
            made = {row for row, (_, task) in job.sinks.items() if task == sink_task}
            query = TraceQuery(Direction.BACKWARD, (sink_task,))
            assert_found(engine, query, set().union(*(job.made_of[row] for row in made)))
            (start,) = engine.ask(query).start
            assert {item.location for item in start.items} == set(places(list(made)))
