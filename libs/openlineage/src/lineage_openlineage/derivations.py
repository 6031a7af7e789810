"""Which datasets each written dataset was made of, as the graph of an application's operators says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from lineage_core.contract.graph import FlowGraph
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.topology import Topology
from lineage_openlineage.uses import DatasetName, Uses

Derivations: TypeAlias = Mapping[DatasetName, Sequence[DatasetName]]
"""By written dataset those that data came from."""


def derivations_of(graph: FlowGraph, read: Uses, written: Uses) -> Derivations:
    """The inputs of each written dataset, in the order of ``read``.

    A dataset that a node wrote is made of what the nodes upstream of it read. Where capture could not follow
    an operator upstream, or a link to one is lost, it may be made of all that was read, and all of it is named.

    Args:
        graph: the application, of which everything is received.
        read: the datasets that nodes read.
        written: the datasets that nodes wrote.

    Raises:
        BudgetError: the query takes more time than it may.
    """
    upstream = _Upstream(graph)
    derivations: dict[DatasetName, Sequence[DatasetName]] = {}
    for output, writers in written.items():
        current_budget().check()
        above = [upstream.of(node) for node in writers]
        derivations[output] = [
            name
            for name, readers in read.items()
            if any(nodes is None or not nodes.isdisjoint(readers) for nodes in above)
        ]
    return derivations


class _Upstream:
    """The nodes upstream of a node, where all of them are known."""

    def __init__(self, graph: FlowGraph) -> None:
        links = graph.links()
        self._topology = Topology(graph.nodes(), links)
        self._below_lost = {link.dest for link in links if link.src not in self._topology.by_id}

    def of(self, node: str) -> set[str] | None:
        """The node and those upstream; None: it may be any."""
        above = self._topology.reachable_from(node, upstream=True)
        return above if all(self._is_followed(one) for one in above) else None

    def _is_followed(self, node: str) -> bool:
        record = self._topology.by_id.get(node)
        return (
            record is not None
            and record.kind != "unknown"
            and node not in self._below_lost
            and not self._topology.lacks_links(node)
        )
