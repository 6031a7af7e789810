"""Names of nodes in addresses: ``read#0#6``, ``read:flights#0#6``, ``write#0#1``, ``4#0.17#6``."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lineage_core.contract.address import parse_space, split_range
from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError

LABEL_MAX = 512
"""Characters of an alias that names a node in addresses; every item has one. Ids of nodes have no more."""
NAMES_LISTED = 20
_ADDRESS = re.compile(r"[^/\s]+(?:#(?:\*|\d+(?:\.\d+)?)|@\d+)#\d+(?:-\d+)?")


_TASK = re.compile(r"(?P<node>[^/\s#]+)#(?P<partition>\d{1,10})\.(?P<attempt>\d{1,18})")


@dataclass(frozen=True, slots=True)
class TaskName:
    """A task as people name it: the name of its node, its partition and its attempt."""

    node: str
    partition: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.node}#{self.partition}.{self.attempt}"


def parse_task(text: str) -> TaskName | None:
    """Read ``NODE#PARTITION.ATTEMPT``; None where the text has another form."""
    match = _TASK.fullmatch(text)
    if match is None:
        return None
    return TaskName(match["node"], int(match["partition"]), int(match["attempt"]))


def looks_like_address(text: str) -> bool:
    """Whether a text has the form of the address of an item, or of a range of items (``path:line`` never has)."""
    return _ADDRESS.fullmatch(text) is not None


class Names:
    """The names that an application's nodes go by.

    A node's label is its alias; where several nodes share the way in or out (``read``, ``write``),
    the name of the file is inserted. Nodes without an alias, or with one of more than `LABEL_MAX` characters, are named by
    their id.
    """

    def __init__(self, nodes: Sequence[NodeRecord]) -> None:
        self._ids = {node.node for node in nodes}
        self._labels = _labels(nodes)
        self._by_name = {label: node for node, label in self._labels.items()}
        for node in nodes:
            if node.alias:
                self._by_name.setdefault(node.alias, node.node)

    def label(self, node: str) -> str:
        """The name of the node in addresses."""
        return self._labels.get(node, node)

    def node(self, name: str) -> str:
        """The id of the node that an id, an alias or a label names.

        Raises:
            AddressError: no node has that name; the message lists the names.
        """
        if name in self._ids or name == "*":
            return name
        if name in self._by_name:
            return self._by_name[name]
        node_names = sorted(self._labels.values()) or sorted(self._ids)
        more = ", ..." if node_names[NAMES_LISTED:] else ""
        raise AddressError(
            f"no node is called {name!r}; known: {', '.join(node_names[:NAMES_LISTED])}{more}"
        )

    def space(self, text: str) -> str:
        """A space with the node's label for its id, for people: ``read#0``."""
        name = parse_space(text).name
        return self.label(name) + text[len(name) :]

    def find(self, address: str, graph: FlowGraph) -> dict[str, Region]:
        """The items that an address names: one, or a range (``read#0#6-9``).

        A partition's address without an incarnation refers to all its incarnations.

        Raises:
            AddressError: the address can't be read or names no node.
        """
        text, first, last = split_range(address)
        space = parse_space(text)
        node = self.node(space.name)
        text = node + text[len(space.name) :]
        region = Region(np.array([first], np.uint64), np.array([last], np.uint64))
        numbered = [parse_space(other) for other in graph.spaces_of(node)]
        same = [str(o) for o in numbered if o.partition == space.partition and o.incarnation]
        if text.startswith(f"{node}#") and "*" not in text and space.incarnation is None and same:
            return dict.fromkeys(same, region)
        return {text: region}


def _labels(nodes: Sequence[NodeRecord]) -> dict[str, str]:
    nodes_with_alias = [node for node in nodes if 0 < len(node.alias or "") <= LABEL_MAX]
    alias_counts = Counter(str(node.alias).partition(":")[0] for node in nodes_with_alias)
    labels: dict[str, str] = {}
    assigned_labels = set[str]()
    used_labels = {str(node.alias) for node in nodes_with_alias}
    for node in nodes_with_alias:
        alias = str(node.alias)
        if alias_counts[alias] > 1:
            stem = _stem(node.path)
            qualified = f"{alias}:{stem}" if stem else alias
            alias = alias if qualified in used_labels else qualified
        if alias not in assigned_labels:
            labels[node.node] = alias
            assigned_labels.add(alias)
            used_labels.add(alias)
    return labels


def _stem(path: str | None) -> str:
    """``flights`` of ``data/flights.csv``; empty if it would not fit in an address."""
    name = posixpath.basename((path or "").rstrip("/")).partition(".")[0]
    return name if re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", name) else ""
