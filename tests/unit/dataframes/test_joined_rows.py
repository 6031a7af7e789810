"""Combinations of rows that queries name side by side, held against brute force over their tables."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.recipe.plan import Scan
from lineage_core.tracing.joined_items import JOINED_MAX, OF_GROUPS, TOO_MANY
from lineage_dataframes.rewrite.named_query import Leaf
from lineage_dataframes.sources.file_codes import FileCodes
from lineage_dataframes.sources.witnesses import SourceRow
from lineage_dataframes.trace.joined_rows import JoinedCollector

pytestmark = pytest.mark.unit

Named: TypeAlias = tuple[int, int] | None
"""A file's code and a row, as a leaf names them."""
LEFT, RIGHT = Leaf(0, ("p0_file", "p0_row")), Leaf(1, ("p1_file", "p1_row"))
GROUP = Leaf(2, ("g2", "g2_k"))
PATHS = {0: {0: "/a", 7: "/b"}, 1: {0: "/c"}}


def collector() -> JoinedCollector:
    scans = [Scan(columns=(), source=number, fields=()) for number in (0, 1)]
    recipe: Any = SimpleNamespace(plan=[*scans, SimpleNamespace()])
    return JoinedCollector(recipe, FileCodes({}, PATHS))


def table(rows: list[tuple[Named, Named, bool]]) -> pa.Table:
    def column(values: list[int | None]) -> pa.Array[Any]:
        return pa.array(values, pa.int64())

    return pa.table(
        {
            "p0_file": column([left and left[0] for left, _, _ in rows]),
            "p0_row": column([left and left[1] for left, _, _ in rows]),
            "p1_file": column([right and right[0] for _, right, _ in rows]),
            "p1_row": column([right and right[1] for _, right, _ in rows]),
            "g2": pa.array([True if grouped else None for _, _, grouped in rows], pa.bool_()),
            "g2_k": column([1 if grouped else None for _, _, grouped in rows]),
        }
    )


def row(source: int, named: Named) -> SourceRow:
    assert named is not None
    return source, PATHS[source][named[0]], named[1]


lefts = st.none() | st.tuples(st.sampled_from([0, 7]), st.integers(0, 3))
rights = st.none() | st.tuples(st.just(0), st.integers(0, 3))


@given(st.lists(st.tuples(lefts, rights, st.booleans()), max_size=30))
def test_combinations_are_those_of_the_tables_rows(
    rows: list[tuple[Named, Named, bool]],
) -> None:
    found = collector()
    found.add([LEFT, RIGHT, GROUP], table(rows[::2]))
    found.add([LEFT, RIGHT, GROUP], table(rows[1::2]))
    joined = found.joined()
    wanted = {
        (row(0, left), row(1, right))
        for left, right, _ in rows
        if left is not None and right is not None
    }
    assert len(joined.rows) == len(wanted)
    assert set(joined.rows) == wanted
    sided = any(grouped and (left or right) for left, right, grouped in rows)
    assert joined.unknown == ((OF_GROUPS,) if sided else ())


def test_two_sides_of_groups_are_not_known() -> None:
    other = Leaf(3, ("g3", "g3_k"))
    both = pa.table({"g2": [True], "g2_k": [1], "g3": [True], "g3_k": [2]})
    found = collector()
    found.add([GROUP, other], both)
    assert found.joined().unknown == (OF_GROUPS,)
    alone = collector()
    alone.add([GROUP], both)
    assert alone.joined().unknown == ()


def test_too_many_are_not_listed_at_all() -> None:
    found = collector()
    found.add([LEFT, RIGHT], table([((0, n), (0, n), False) for n in range(JOINED_MAX)]))
    assert len(found.joined().rows) == JOINED_MAX
    found.add([LEFT, RIGHT], table([((7, 0), (0, 0), False)]))
    assert (found.joined().rows, found.joined().unknown) == ((), (TOO_MANY,))
    found.add([LEFT, RIGHT], table([((7, 1), (0, 1), False)]))
    assert found.joined().rows == ()
