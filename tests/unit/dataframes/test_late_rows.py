"""What a trace forward says of rows that came too late for a window: only what the recorded batches tell."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lineage_core.contract import message as m
from lineage_core.recipe.document import File, Recipe, Source, StreamBatch
from lineage_core.recipe.plan import Attribute, OpaqueNode
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.late_rows import UNKNOWN_ENDS, late_texts
from lineage_query.followed import FollowedFile

pytestmark = pytest.mark.unit

FILE = "/data/in/f.csv"
QUERY = "8c29d3f1"
WATERMARKS = (0, 0, 20, 30, 40)
"""In ms, behind each batch."""
END_US = 25_000
"""Of the window of the row."""


class _Ends:
    def __init__(self, problem: str = "") -> None:
        self.problem = problem

    def rows(self, recipe: Recipe) -> None: ...

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        if self.problem:
            raise RefusedError(self.problem)
        return (END_US,)


def _recipe(number: int, *, names_file: bool) -> str:
    paths = [f"file:/data/in/{number}.csv", *([f"file:{FILE}"] if names_file else [])]
    source = Source("csv", ("file:/data/in",), "", files=tuple(File(path, 1, 1) for path in paths))
    plan = (OpaqueNode((Attribute(0, "a", "int"),), "Batch", "", ()),)
    return Recipe("4", {}, (source,), plan).of_batch(StreamBatch(QUERY, "run", number)).to_json()


def messages(
    read: int,
    *,
    watermarks: Sequence[int] = WATERMARKS,
    lost: Sequence[int] = (),
    windows: bool = True,
    first: int = 0,
    keeps_late: bool = True,
) -> list[m.Message]:
    """A query that reads the file in a batch; recipes of batches that gave windows since name it. ``lost``: batches without recipe."""
    of_run = {"app": "app", "query": QUERY, "run": "run"}
    begun = m.Stream(
        **of_run, state="begun", reads=("file:/data/in",), keeps="windows", late_by_before=keeps_late
    )  # fmt: skip
    sent: list[m.Message] = [m.Stream(**of_run, state="started"), begun]
    for number, watermark in enumerate(watermarks):
        before = watermarks[number - 1] if number else 0
        recipe = _recipe(number, names_file=number >= read and before < watermark)
        if number < first:
            continue
        if number not in lost:
            sent.append(m.Recipe(app="app", node=str(number), recipe=recipe))
        ends = recipe if windows and number == first else None
        sent.append(
            m.Stream(**of_run, state="batch", number=number, watermark=watermark, windows=ends)
        )
    return sent


def texts(sent: Sequence[m.Message], problem: str = "") -> list[str]:
    return list(late_texts(sent, FollowedFile(FILE), _Ends(problem)))


def test_a_row_is_late_by_the_watermark_of_the_batch_before_its_own() -> None:
    (text,) = texts(messages(4))
    assert text == f"late in batch 4 of query {QUERY}: 1 window was given before"
    for in_time in (1, 2, 3):
        assert texts(messages(in_time)) == []


def test_a_row_that_a_batch_behind_the_lost_one_names_is_not_said_to_be_late() -> None:
    # Read in time in batch 3, by the watermark 20; batch 4, by 30, is the first that names it.
    (text,) = texts(messages(3, lost=[3]))
    assert text.startswith(f"{UNKNOWN_ENDS}: query {QUERY}: ")
    assert "batch 3 is not recorded" in text


def test_batches_before_capture_may_have_read_the_row() -> None:
    for first in (3, 4):
        (text,) = texts(messages(2, first=first))
        assert text.startswith(UNKNOWN_ENDS), first


def test_batches_that_gave_no_window_may_have_read_the_row() -> None:
    watermarks = (0, 30, 30, 30, 40)
    (text,) = texts(messages(2, watermarks=watermarks))
    assert text == f"late in a batch of 2 to 4 of query {QUERY}: 1 window was given before"


def test_windows_that_are_not_known_are_named() -> None:
    (text,) = texts(messages(2, windows=False))
    assert text.startswith(f"{UNKNOWN_ENDS}: query {QUERY}: ")
    (text,) = texts(messages(2), problem="the code of a function is gone")
    assert text.startswith(UNKNOWN_ENDS)
    assert "the code of a function is gone" in text
    (text,) = texts(messages(4, keeps_late=False))
    assert text.startswith(UNKNOWN_ENDS)
    # The watermark has not passed it.
    assert texts(messages(2, keeps_late=False)) == []


def test_a_batch_whose_commit_is_not_recorded_is_named() -> None:
    over = m.Stream(app="app", query=QUERY, run="run", state="over", number=4)
    (text,) = texts([*messages(4)[:-1], over])
    assert text.startswith(UNKNOWN_ENDS)
    assert "no watermark is known" in text
