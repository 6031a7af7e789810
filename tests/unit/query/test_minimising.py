"""Minimal failing sets: against brute force, bounded, interrupted, with tests that do not hold still."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_query.minimising import (
    Part,
    PassingTestError,
    UnsteadyTestError,
    bitmap,
    first_suspects,
    minimise,
    sizes,
)

pytestmark = pytest.mark.unit


def is_one_minimal(rows: Sequence[int], fails: object) -> bool:
    assert callable(fails)
    return bool(fails(list(rows))) and not any(
        fails([row for row in rows if row != left_out]) for left_out in rows
    )


@given(
    st.integers(1, 12),
    st.lists(st.frozensets(st.integers(0, 11), min_size=1, max_size=4), min_size=1, max_size=3),
    st.frozensets(st.integers(0, 11), max_size=2),
    st.permutations(range(12)),
    st.lists(st.tuples(st.frozensets(st.integers(0, 11)), st.booleans()), max_size=3),
)
def test_every_set_is_one_minimal(
    count: int,
    causes: list[frozenset[int]],
    spoilers: frozenset[int],
    suspects: Sequence[int],
    guesses: list[tuple[frozenset[int], bool]],
) -> None:
    """Tests that fail on some sets, and pass again where other rows come along: no order among sets is taken for granted, and no guess."""
    everything = frozenset(range(count))

    def fails(rows: Sequence[int]) -> bool:
        present = frozenset(rows)
        caused = any(cause & everything <= present for cause in causes)
        return (caused and not (spoilers & everything == present & spoilers != frozenset())) or (
            present == everything
        )

    parts = [Part(sorted(rows & everything), is_small) for rows, is_small in guesses]
    parts += first_suspects([row for row in suspects if row < count])
    found = minimise(count, fails, parts=parts)
    assert found.one_minimal
    assert is_one_minimal(found.rows, fails)


@given(st.integers(1, 300), st.data())
def test_one_row_to_blame_is_found_in_few_runs(count: int, data: st.DataObject) -> None:
    culprit = data.draw(st.integers(0, count - 1))
    found = minimise(count, lambda rows: culprit in rows)
    assert found.rows == (culprit,)
    assert found.runs <= 6 * count.bit_length() + 6


def test_suspects_to_blame_are_found_in_few_rows() -> None:
    suspects = first_suspects([900, 70, 5, 8])
    found = minimise(1_000, lambda rows: {70, 900} <= set(rows), parts=suspects)
    # All; the first, the first two; each without the other, of which one is known; what is found.
    assert (found.rows, found.runs, found.rows_run) == ((70, 900), 5, 1_000 + 1 + 2 + 1 + 2)


def test_a_part_that_is_small_is_only_seen_to_be() -> None:
    needed = frozenset(range(0, 60, 3))
    found = minimise(
        1_000, lambda rows: needed <= set(rows), parts=[Part(sorted(needed), is_small=True)]
    )
    # All; the part; each of its rows left out; what is found.
    assert (found.rows, found.runs) == (tuple(sorted(needed)), 1 + 1 + len(needed) + 1)


def test_parts_are_taken_one_by_one() -> None:
    def parts() -> Iterator[Part]:
        yield Part([4])
        yield Part([2, 7])
        raise AssertionError("the part before has failed")

    found = minimise(10, lambda rows: 7 in rows, parts=parts())
    assert found.rows == (7,)

    def interrupted() -> Iterator[Part]:
        yield Part([4])
        raise KeyboardInterrupt

    found = minimise(10, lambda rows: 7 in rows, parts=interrupted())
    assert (found.rows, found.stopped) == (tuple(range(10)), "interrupted")


def test_a_test_that_fails_without_any_row_needs_none() -> None:
    found = minimise(10, lambda _: True)
    assert (found.rows, found.one_minimal) == ((), True)


def test_a_test_runs_once_on_the_same_rows() -> None:
    seen: list[int] = []

    def fails(rows: Sequence[int]) -> bool:
        seen.append(bitmap(rows))
        return {3, 9} <= set(rows)

    found = minimise(10, fails)
    assert found.rows == (3, 9)
    assert found.runs == len(seen)
    # But for the last, by which the result is seen to be no chance.
    assert len(set(seen[:-1])) == len(seen) - 1


def test_the_best_so_far_is_kept_where_the_search_is_stopped() -> None:
    found = minimise(100, lambda rows: 7 in rows, lambda runs: "" if runs < 4 else "4 runs")
    assert (found.one_minimal, found.stopped, found.runs) == (False, "4 runs", 4)
    assert 7 in found.rows
    assert len(found.rows) < 100

    def interrupted(rows: Sequence[int]) -> bool:
        if len(rows) < 30:
            raise KeyboardInterrupt
        return 7 in rows

    found = minimise(100, interrupted)
    assert (found.one_minimal, found.stopped) == (False, "interrupted")
    assert 7 in found.rows


def test_a_test_that_passes_or_is_unsteady_is_said_to_be() -> None:
    with pytest.raises(PassingTestError):
        minimise(5, lambda _: False)
    verdicts = iter([True, False, False, False, False, False, False, False])
    with pytest.raises(UnsteadyTestError):
        minimise(2, lambda _: next(verdicts))


def test_parts_become_smaller() -> None:
    for count in (1, 2, 3, 10, 1_000, 1_000_000):
        found = list(sizes(count))
        assert found == sorted(found, reverse=True)
        assert all(1 < size <= max(1, count) for size in found)
    assert next(iter(sizes(1_000))) == 500
