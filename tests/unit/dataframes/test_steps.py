"""A part of the way of rows of DataFrames: never a row left out in silence."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from lineage_core.contract.graph import FlowGraph, LinkRecord, NodeRecord
from lineage_core.errors import AddressError
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.trace.steps import narrow
from lineage_query.answers import Answer, Group
from lineage_query.trace_query import TraceQuery

pytestmark = pytest.mark.unit
# An output "0" of two sources; one of these holds rows that were records of "4" before.
LINKS = [("1", "0"), ("2", "0"), ("3", "2"), ("4", "3"), ("0", "5")]


def node(name: str) -> NodeRecord:
    return NodeRecord(name, "frame", "read", f"n{name}", "", "", f"n{name}", True, "", None, None)


GRAPH = cast(
    FlowGraph,
    SimpleNamespace(
        nodes=lambda: [node(name) for name in "012345"],
        links=lambda: [LinkRecord(*link) for link in LINKS],
    ),
)


def answer(*nodes: str) -> Answer:
    groups = tuple(Group(name, "read", "", None, 1, ()) for name in nodes)
    return Answer("app", Direction.BACKWARD, ("out#0",), (), True, (), groups, (), False, True)


def narrowed(found: Answer, direction: Direction = Direction.BACKWARD, **asked: Any) -> list[str]:
    query = TraceQuery(direction, ("out#0",), **asked)
    return [group.node for group in narrow(found, query, GRAPH, ["0"]).groups]


def test_without_either_it_is_the_whole_way() -> None:
    assert narrowed(answer("1", "4")) == ["1", "4"]


def test_until_a_source() -> None:
    assert narrowed(answer("1", "4"), until="1") == ["1"]
    assert narrowed(answer("1", "4"), until="n4") == ["4"]
    # No row of it made the output's.
    assert narrowed(answer("4"), until="1") == []
    for until, why in (
        # Its rows were records before: of those between nothing is kept.
        ("2", "not kept"),
        ("3", "not kept"),
        ("5", "does not lie before"),
        ("0", "does not lie before"),
    ):
        with pytest.raises(TraceError, match=why):
            narrowed(answer("1", "4"), until=until)
    with pytest.raises(AddressError):
        narrowed(answer("1"), until="nowhere")


def test_steps() -> None:
    assert narrowed(answer("1"), steps=1) == ["1"]
    assert narrowed(answer("1", "4"), steps=3) == ["1", "4"]
    with pytest.raises(TraceError, match="n4 is 3 steps away"):
        narrowed(answer("1", "4"), steps=2)


def test_forward() -> None:
    assert narrowed(answer("5"), Direction.FORWARD, until="5", steps=1) == ["5"]
    with pytest.raises(TraceError, match="does not lie behind"):
        narrowed(answer("5"), Direction.FORWARD, until="1")
