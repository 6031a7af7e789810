"""Commits of an action that may cut what it read are held back, and none is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.worker.commits import HeldMarkers, Hold, Marker, Release, row_limits

pytestmark = pytest.mark.unit


def marker(node: str, partition: int, rows: int = 0) -> Marker:
    return {"node": node, "partition": partition, "rows": rows}


def test_markers_of_other_nodes_do_not_wait() -> None:
    held = HeldMarkers()
    assert held.handle(Hold("9")) == []
    assert held.handle(marker("4", 0)) == [marker("4", 0)]
    assert held.handle(marker("9", 0)) == []
    assert held.handle(Release("9", 1, (0,))) == [marker("9", 0) | {"keep": None}]
    assert held.handle(marker("9", 1)) == [marker("9", 1)]
    assert held.release_all() == []


def test_what_was_read_ahead_is_cut() -> None:
    held = HeldMarkers()
    held.handle(Hold("9"))
    for partition in (2, 0, 1):
        held.handle(marker("9", partition, 3))
    released = held.handle(Release("9", 4, (0, 1, 2)))
    assert {one["partition"]: one["keep"] for one in released} == {0: None, 1: 1, 2: 0}


def test_a_failed_action_and_the_end_let_all_pass_as_it_is() -> None:
    held = HeldMarkers()
    for sink in ("7", "8", "9"):
        held.handle(Hold(sink))
        held.handle(marker(sink, 0, 5))
    assert held.handle(Release("8")) == [marker("8", 0, 5)]
    assert held.release_all() == [marker("7", 0, 5), marker("9", 0, 5)]
    assert held.handle(marker("7", 1)) == [marker("7", 1)]
    assert held.handle(Release("7", 1, (0, 1))) == []


@given(rows=st.lists(st.integers(0, 5), max_size=6), limit=st.integers(0, 20))
def test_the_first_rows_are_kept(rows: list[int], limit: int) -> None:
    kept = row_limits(dict(enumerate(rows)), range(len(rows)), limit)
    items = [partition for partition, count in enumerate(rows) for _ in range(count)][:limit]
    for partition, count in enumerate(rows):
        assert kept.get(partition, count) == items.count(partition)
        assert (partition in kept) == (items.count(partition) < count)


def test_behind_a_missing_marker_nothing_is_cut() -> None:
    assert row_limits({0: 3, 2: 3}, (0, 1, 2), 2) == {0: 2}
