"""Where the registration of a node is lost, the node behind it does not pass for where records come from."""

from __future__ import annotations

import pytest

from lineage_core.block import BlockId
from lineage_core.graph import LinkRecord
from lineage_core.region import Region
from lineage_core.trace_result import Direction
from lineage_core.tracing import trace
from tests.linker_job import keyed
from tests.memory_graph import MemoryGraph, node

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
