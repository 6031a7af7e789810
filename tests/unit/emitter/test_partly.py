"""Which plans may leave rows of a leaf unread."""

from __future__ import annotations

import pytest

from lineage_core.recipe.document import Output
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Filter,
    Join,
    Limit,
    Literal,
    Node,
    Project,
    PythonRows,
    Scan,
    Sort,
    Subquery,
)
from lineage_emitter.dataframes.partial_reads import read_partially

pytestmark = pytest.mark.unit

COLUMNS = (Attribute(1, "a", "int"),)
LEAF = Scan(COLUMNS, 0, ("a",))
TRUE = Literal("true", "boolean")
WRITTEN = Output(kind="files", action="DataFrameWriter.parquet")

PLANS: dict[str, tuple[list[Node], bool]] = {
    "all": ([LEAF], False),
    "filter": ([LEAF, Filter(COLUMNS, 0, TRUE)], False),
    "limit": ([LEAF, Limit(COLUMNS, 0, 5)], True),
    "limit of a filter": ([LEAF, Filter(COLUMNS, 0, TRUE), Limit(COLUMNS, 1, 5)], True),
    "offset": ([LEAF, Limit(COLUMNS, 0, None, 5)], True),
    "limit of an order": ([LEAF, Sort(COLUMNS, 0, ()), Limit(COLUMNS, 1, 5)], False),
    "limit of groups": ([LEAF, Aggregate(COLUMNS, 0, (), ()), Limit(COLUMNS, 1, 5)], False),
    "order of a limit": ([LEAF, Limit(COLUMNS, 0, 5), Sort(COLUMNS, 1, ())], True),
    "limit of a join": (
        [LEAF, LEAF, Join(COLUMNS, 0, 1, "inner", None), Limit(COLUMNS, 2, 5)],
        True,
    ),
    "beside a limit": (
        [LEAF, LEAF, Limit(COLUMNS, 1, 5), Join(COLUMNS, 0, 2, "inner", None)],
        False,
    ),
    "a function over partitions": ([LEAF, PythonRows(COLUMNS, (0,), "f", "")], True),
    "a function over groups": ([LEAF, PythonRows(COLUMNS, (0,), "f", "", (1,))], False),
    "one value": ([LEAF, LEAF, Project(COLUMNS, 1, (Subquery(0),)), Limit(COLUMNS, 2, 1)], False),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_sorts_and_groups_reads_all(name: str) -> None:
    plan, expected = PLANS[name]
    assert read_partially(plan, 0, WRITTEN) == expected


@pytest.mark.parametrize(
    "output",
    [
        Output(),
        Output(action="DataFrame.take", limit=3),
        Output(action="DataFrame.rdd"),
        Output(action="DataFrame.toLocalIterator"),
        Output(action="DataFrame.foreachPartition"),
    ],
)
def test_actions_that_read_later_or_some_rows_are_not_trusted(output: Output) -> None:
    """They are planned anew: the groups may be gone."""
    assert read_partially([LEAF, Aggregate(COLUMNS, 0, (), ())], 0, output)
