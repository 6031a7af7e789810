"""What an earlier run of a streaming query tells of a batch."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lineage_core.recipe.document import File, Output, Recipe, Source, StreamBatch
from lineage_core.recipe.plan import Attribute, Call, Column, Filter, Literal, Scan
from lineage_emitter.dataframes.earlier_runs import EarlierRun, RunNotes, continued, plan_mark
from lineage_emitter.dataframes.stream_reports import Known

PART = Source("csv", ("file:/in/a.csv",), "{}", files=(File("file:/in/a.csv", 1, 1),))
TABLE = Source("parquet", ("file:/t",), "{}", files=(File("file:/t/p", 1, 1),))


def recipe(
    *, at: int = 0, limit: str = "1", stream: Source = PART, table: Source = TABLE
) -> Recipe:
    """``at``: where numbers of columns begin."""
    column, other = Attribute(at, "n", "int"), Attribute(at + 1, "m", "int")
    condition = Call(">", (Column(at), Literal(limit, "int")))
    plan = (Scan((column,), 0, ("n",)), Scan((other,), 1, ("m",)), Filter((column,), 0, condition))
    output = Output("files", "file:/out", format="json", files=(File(f"file:/out/{at}", 1, 1),))
    return Recipe("4.1", {}, (stream, table), plan, output).of_batch(StreamBatch("q", "r", at))


def test_plans_are_equal_but_for_what_was_read_of_streams_and_numbers_of_columns() -> None:
    mark = plan_mark(recipe(), [PART])
    later = replace(PART, paths=("file:/in/b.csv",), files=(File("file:/in/b.csv", 2, 2),))
    assert plan_mark(recipe(at=40, stream=later), [later]) == mark
    # A recipe may say more of how it is read.
    assert plan_mark(recipe(), [replace(PART, schema="")]) == mark
    assert plan_mark(recipe(limit="2"), [PART]) != mark
    # What a stream is joined with may have changed between both runs.
    changed = replace(TABLE, files=(File("file:/t/p", 1, 2),))
    assert plan_mark(recipe(table=changed), [PART]) != mark
    # Is it the stream, or what the stream is joined with?
    assert plan_mark(recipe(table=replace(PART, schema="")), [PART]) == ""
    assert (
        plan_mark(replace(recipe(), settings={"spark.sql.ansi.enabled": "false"}), [PART]) != mark
    )


@pytest.mark.parametrize(
    ("first", "began", "known", "sure"),
    [
        (3, False, True, True),  # run again, and recorded before
        (5, True, True, True),  # behind the last one recorded
        (5, False, True, False),  # run before, by whom is not recorded
        (6, True, True, False),  # one between them is recorded by nobody
        (6, False, False, False),
        (7, True, False, False),
    ],
)
def test_a_run_goes_on_where_the_one_before_ended(
    first: int, began: bool, known: bool, sure: bool
) -> None:
    earlier = EarlierRun("r1", "mark", 0, 4, "")
    found = continued(earlier, Known(first=first, began=began, run_problem="not this run's"))
    assert (found is not None) == known
    if found is not None:
        assert (found.is_sure, found.known.run_problem) == (sure, "")
        assert bool(found.known.late_rows) == (first == 6)


def test_state_is_known_where_runs_have_made_it_from_the_beginning() -> None:
    problem = "not this run's"
    found = continued(
        EarlierRun("r1", "mark", 2, 4, ""), Known(first=5, began=True, run_problem=problem)
    )
    assert found is not None
    assert found.known.run_problem == problem
    assert continued(None, Known(first=5)) is None
    late = continued(
        EarlierRun("r1", "mark", 0, 4, "late"), Known(first=5, began=True, counts_late=True)
    )
    assert late is not None
    assert (late.known.late_rows, late.known.late_problem) == ("late", "late")


def test_notes_are_of_the_run_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notes = RunNotes(tmp_path / "queries")
    assert notes.read("q", "r2") is None
    noted = EarlierRun("r1", "mark", 0, 4, "")
    notes.write("q", noted)
    assert notes.read("q", "r2") == noted
    assert notes.read("q", "r1") is None
    (tmp_path / "queries/q.json").write_text('{"run": "r1"}')
    assert notes.read("q", "r2") is None
    assert "can't be read" in caplog.text
    RunNotes(None).write("q", noted)
    assert RunNotes(None).read("q", "r2") is None
