"""Where the registration of a node or a link to it is lost, the node behind it does not pass for where records come from."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.message import End, Message, Register, Totals
from lineage_core.contract.region import Region
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import trace
from lineage_store.records import node_records
from tests.support.linker_job import keyed
from tests.support.memory_graph import MemoryGraph, node

pytestmark = pytest.mark.unit

CACHE, SINK = node("4", op="cache"), node("3", "sink", "saveAsTextFile")
LINKS = [LinkRecord("1", "4"), LinkRecord("4", "3")]
READ = keyed("app", BlockId("3", 0, 50, 0), "4#0.7", [("3#0", [0])], [[5]])


def test_an_operator_behind_a_node_that_nobody_registered_is_no_source() -> None:
    # The cache's own block is missing as well, so nothing else leads on from it.
    graph = MemoryGraph([CACHE, SINK], LINKS, [READ])
    result = trace(graph, Direction.BACKWARD, {"3#0": Region.from_positions([0])})
    assert not result.exact
    assert not result.found
    assert [end.node for end in result.dead_ends] == ["4"]


def test_an_operator_that_no_link_leads_to_is_where_records_come_from() -> None:
    graph = MemoryGraph([CACHE, SINK], LINKS[1:], [READ])
    result = trace(graph, Direction.BACKWARD, {"3#0": Region.from_positions([0])})
    assert result.exact
    assert list(result.found) == ["4"]


def test_an_operator_that_was_registered_with_inputs_is_no_source_without_its_links() -> None:
    graph = MemoryGraph([replace(CACHE, inputs=1), SINK], LINKS[1:], [READ])
    result = trace(graph, Direction.BACKWARD, {"3#0": Region.from_positions([0])})
    assert not result.exact
    assert not result.found


@pytest.mark.parametrize(
    ("inputs", "registered", "known"),
    [(0, 1, 0), (None, 1, 0), (2, 1, 2), (None, 2, None), (0, 2, None)],
)
def test_who_registers_inputs_or_has_lost_registrations_may_have_lost_links(
    inputs: int | None, registered: int, known: int | None
) -> None:
    messages: list[Message] = [
        Register(app="app", node="4", kind="operator", op="cache", inputs=inputs),
        End(app="app", ended_at=1.0, status="ok", totals=Totals(nodes=registered)),
    ]
    assert [one.inputs for one in node_records(messages, {}, dict, float)] == [known]


@pytest.mark.parametrize(
    ("inputs", "ends"), [(1, ("1", True)), (2, ("4", False)), (None, ("4", False))]
)
def test_items_of_a_node_that_lacks_a_link_are_not_those_of_the_one_that_is_left(
    inputs: int | None, ends: tuple[str, bool]
) -> None:
    source, joined = node("1", "source"), replace(node("4", op="join"), inputs=inputs)
    topology = Topology([source, joined], [LinkRecord("1", "4")])
    assert topology.opaque_end_of("4", upstream=True) == ends
