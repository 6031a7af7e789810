"""Nodes that a loop made over and over, taken together: a graph stays as short as its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lineage_core.contract.graph import LinkRecord, NodeRecord


@dataclass(frozen=True, slots=True)
class Fold:
    """Nodes made by the same call, in order of creation; mostly one alone."""

    nodes: tuple[NodeRecord, ...]

    @property
    def first(self) -> NodeRecord:
        """The node that represents all of them; its id is the id of the fold."""
        return self.nodes[0]

    @property
    def total(self) -> NodeRecord:
        """The first node with the counts of all; exact when all are, ``reason`` names every reason."""
        first = self.first
        inexact = [node for node in self.nodes if not node.exact]
        reasons = dict.fromkeys(node.reason for node in inexact if node.reason)
        parts = {node.partitions for node in self.nodes}
        return replace(
            first,
            exact=not inexact,
            reason="; ".join(reasons),
            partitions=first.partitions if len(parts) == 1 else None,
            blocks=sum(node.blocks for node in self.nodes),
            flows=sum(node.flows for node in self.nodes),
            associations=sum(node.associations for node in self.nodes),
        )


def fold_by_call(nodes: Sequence[NodeRecord]) -> list[Fold]:
    """Nodes of the same call as one fold each, in order of their first nodes.

    Nodes that read or write different files stay apart, as do those whose call is not known.
    """
    nodes_by_key: dict[object, list[NodeRecord]] = {}
    for node in nodes:
        call_key = (node.call_path, node.kind, node.op, node.name, node.description, node.path)
        nodes_by_key.setdefault(call_key if node.call_path else node.node, []).append(node)
    return [Fold(tuple(fold)) for fold in nodes_by_key.values()]


def fold_each(nodes: Sequence[NodeRecord]) -> list[Fold]:
    """Each node as a fold of its own."""
    return [Fold((node,)) for node in nodes]


def links_between(folds: Sequence[Fold], links: Sequence[LinkRecord]) -> list[LinkRecord]:
    """Links between the first nodes of folds, each once; links of nodes that are not there are left out.

    A fold may send to itself, and two to each other: so do the turns of a loop.
    """
    first = {node.node: fold.first.node for fold in folds for node in fold.nodes}
    inner_links = (link for link in links if link.src in first and link.dest in first)
    return list(
        dict.fromkeys(LinkRecord(first[link.src], first[link.dest]) for link in inner_links)
    )
