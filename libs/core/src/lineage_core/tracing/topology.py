"""The coarse-grained graph: order, neighbourhood and ends of its nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from lineage_core.contract.graph import LinkRecord, NodeRecord


class Topology:
    """Nodes and links of one application."""

    def __init__(self, nodes: Sequence[NodeRecord], links: Sequence[LinkRecord]) -> None:
        self.by_id = {node.node: node for node in nodes}
        self._above: dict[str, list[str]] = {node: [] for node in self.by_id}
        self._below: dict[str, list[str]] = {node: [] for node in self.by_id}
        # Also from nodes whose registration is lost: their outputs do not originate in the node that they lead to.
        self._sources_of: dict[str, set[str]] = {}
        for link in links:
            if link.src != link.dest:
                self._sources_of.setdefault(link.dest, set()).add(link.src)
        self._with_successors = {link.src for link in links if link.src != link.dest}
        for link in links:
            if link.src in self.by_id and link.dest in self.by_id and link.src != link.dest:
                self._above[link.dest].append(link.src)
                self._below[link.src].append(link.dest)
        self._ranks = self._order()

    def _order(self) -> dict[str, int]:
        """Kahn's order; the nodes of a cycle (an SDK may have one) keep the order of creation."""
        waiting = {node: len(above) for node, above in self._above.items()}
        ready = deque(node for node, count in waiting.items() if count == 0)
        ranks: dict[str, int] = {}
        while ready:
            node = ready.popleft()
            ranks[node] = len(ranks)
            for below in self._below[node]:
                waiting[below] -= 1
                if waiting[below] == 0:
                    ready.append(below)
        for node in self.by_id:
            ranks.setdefault(node, len(ranks))
        return ranks

    def rank(self, node: str) -> int:
        """Place in topological order; nodes that were never registered come last."""
        return self._ranks.get(node, len(self._ranks))

    def reachable_from(self, node: str, *, upstream: bool) -> set[str]:
        """The node and all nodes upstream (or downstream) of it."""
        return set(self.steps_from([node], upstream=upstream))

    def steps_from(self, nodes: Iterable[str], *, upstream: bool) -> dict[str, int]:
        """Of the nodes upstream (or downstream) of some, and of these, how many links they are away by the shortest way."""
        links = self._above if upstream else self._below
        steps = dict.fromkeys(nodes, 0)
        pending = deque(steps)
        while pending:
            node = pending.popleft()
            for neighbour in links.get(node, ()):
                if neighbour not in steps:
                    steps[neighbour] = steps[node] + 1
                    pending.append(neighbour)
        return steps

    def is_end(self, node: str, *, upstream: bool) -> bool:
        """Whether items of the node have nothing before (after) them by rights.

        Programs instrumented by hand need not register sources and sinks: there the outermost
        operators are the ends.
        """
        record = self.by_id.get(node)
        if record is None:
            return False
        if record.kind == "operator":
            return not self.has_link(node, upstream=upstream)
        return record.kind == ("source" if upstream else "sink")

    def has_link(self, node: str, *, upstream: bool) -> bool:
        """Whether a link leads to the node (from it), from (to) a registered node or not, or one that is lost may."""
        if not upstream:
            return node in self._with_successors
        return node in self._sources_of or self.lacks_links(node)

    def lacks_links(self, node: str) -> bool:
        """Whether a link to the node is lost, or may be."""
        record = self.by_id.get(node)
        if record is None:
            return False
        return record.inputs is None or record.inputs > len(self._sources_of.get(node, ()))

    def is_source(self, node: str) -> bool:
        """Whether the node is registered as a source."""
        record = self.by_id.get(node)
        return record is not None and record.kind == "source"

    def opaque_end_of(self, node: str, *, upstream: bool) -> tuple[str, bool]:
        """Who owns opaque items that a node took in (put out) and no flow puts out (takes in).

        The node, and whether the items end there by rights. Programs instrumented by hand often
        record flows of the nodes in the middle only: then the items are their neighbours'. Where a
        node has no neighbour, whatever its kind, there is nothing else to come from (go to).
        """
        if upstream and self.lacks_links(node):
            return node, False
        neighbours = list(dict.fromkeys((self._above if upstream else self._below).get(node, ())))
        ends = [neighbour for neighbour in neighbours if self.is_end(neighbour, upstream=upstream)]
        if len(ends) == 1:
            return ends[0], True
        if upstream and len(neighbours) == 1:
            return neighbours[0], False
        is_alone = not self.has_link(node, upstream=upstream)
        return node, bool(ends) or is_alone or self.is_end(node, upstream=upstream)

    def owners_above(self, node: str, owns: Callable[[NodeRecord], bool]) -> list[str]:
        """The nearest nodes upstream of ``node`` that own items."""
        owners: list[str] = []
        visited, pending = {node}, [node]
        while pending:
            for above in self._above.get(pending.pop(), ()):
                if above in visited:
                    continue
                visited.add(above)
                if owns(self.by_id[above]):
                    owners.append(above)
                else:
                    pending.append(above)
        return owners
