"""Moves over a program's graph: from some items to those before or after them.

A step goes to the nearest nodes that have items of their own; nodes inside a segment are stepped
over, and so are the nodes of ``getLineage``, whose items stand for the records of their RDD.

Items that a task numbered belong to one computation of their partition. Where a partition was
computed more than once, what was made of it by another computation is found by going back to what
the items were made from (rows of sources and what lies in shuffles lasts) and forward from there,
on the ways through their node. Whether that meets the very items again is checked; where it meets
more, the answer is marked a superset.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction, TraceResult
from lineage_emitter.errors import TracingError
from lineage_emitter.program.lookups import Items, LineageView, by_node, merge_items

BACK, FORTH = Direction.BACKWARD, Direction.FORWARD


@dataclass
class NavigationStep:
    """Where a move led to; ``reasons``: why the items are a superset."""

    items: dict[str, Items] = field(default_factory=dict)
    """By node, then by space."""
    reasons: dict[str, None] = field(default_factory=dict)

    def add(self, node: str, items: Items) -> None:
        """Take what was reached at a node."""
        self.items[node] = merge_items([self.items.get(node, {}), items])


class Navigator:
    """Moves within one view."""

    def __init__(self, view: LineageView) -> None:
        self.view = view
        self.tracer = view.tracer
        self.topology = view.topology

    # -- back --------------------------------------------------------------------------------

    def back(self, items: Items) -> NavigationStep:
        """One step back.

        Raises:
            TracingError: the items are rows of sources.
        """
        starts = by_node(items)
        moved = NavigationStep()
        sources = {node for node in starts if self.topology.is_end(node, upstream=True)}
        if starts and sources == set(starts):
            raise TracingError(f"nothing lies before {self._texts(sources)}: a source")
        for node, spaces in starts.items():
            if node not in sources:
                same = {node, self.view.rdd_node(node)}
                self._step_over(BACK, spaces, same, moved)
        return moved

    def back_all(self, items: Items, until: str | None = None) -> NavigationStep:
        """All the way to the sources, or to the items of a node on the way.

        Raises:
            TraceError: the node does not lie that way.
        """
        return self._walk_to_end(BACK, items, until)

    # -- forth -------------------------------------------------------------------------------

    def forth(self, items: Items) -> NavigationStep:
        """One step forward.

        Raises:
            TracingError: the items are those of sinks.
        """
        moved = NavigationStep()
        self._refuse_sinks(items)
        for node, spaces in by_node(items).items():
            if self._is_repeatable(node, spaces):
                self._step_over(FORTH, spaces, {node}, moved)
            else:
                self._around(node, spaces, moved, step=True)
        return moved

    def forth_all(self, items: Items, until: str | None = None) -> NavigationStep:
        """All the way to the sinks, or to the items of a node on the way.

        Raises:
            TraceError: the node does not lie that way.
            TracingError: the items are those of sinks.
        """
        moved = NavigationStep()
        self._refuse_sinks(items)
        for node, spaces in by_node(items).items():
            if self._is_repeatable(node, spaces):
                part = self._walk_to_end(FORTH, spaces, until)
            else:
                part = NavigationStep()
                self._around(node, spaces, part, step=False, until=until)
            for reached_node, node_items in part.items.items():
                moved.add(reached_node, node_items)
            moved.reasons |= part.reasons
        return moved

    # -- parts of moves ----------------------------------------------------------------------

    def _trace(
        self, direction: Direction, items: Items, moved: NavigationStep, **how: str | int
    ) -> TraceResult:
        result = self.tracer.trace(direction, dict(items), **how)  # type: ignore[arg-type]
        moved.reasons |= dict.fromkeys(result.reasons)
        return result

    def _walk_to_end(self, direction: Direction, items: Items, until: str | None) -> NavigationStep:
        moved = NavigationStep()
        result = self._trace(direction, items, moved, until=until or "ends")
        for node, node_items in result.found.items():
            moved.add(node, node_items.spaces)
        return moved

    def _step_over(
        self, direction: Direction, items: Items, same: Collection[str], moved: NavigationStep
    ) -> None:
        """Step until the nodes are others than ``same`` and than those of ``getLineage``."""
        while items:
            result = self._trace(direction, items, moved, steps=1)
            further = []
            for node, node_items in result.found.items():
                is_end = self.topology.is_end(node, upstream=direction is BACK)
                if is_end and node not in same:
                    moved.add(node, node_items.spaces)
                elif node in same or self.view.is_numbering(node):
                    further += [] if is_end else [node_items.spaces]
                else:
                    moved.add(node, node_items.spaces)
            items = merge_items(further)

    def _refuse_sinks(self, items: Items) -> None:
        nodes = set(by_node(items))
        ends = {n for n in nodes if self.topology.is_end(n, upstream=False)}
        ends = {n for n in ends if not self.view.is_numbering(n)}
        if nodes and ends == nodes:
            raise TracingError(f"nothing lies after {self._texts(ends)}: a sink")

    def _texts(self, nodes: Collection[str]) -> str:
        return ", ".join(self.view.text(node) for node in sorted(nodes))

    # -- items of one computation --------------------------------------------------------------

    def _is_repeatable(self, node: str, spaces: Items) -> bool:
        """Whether all that reads the items' node reads these very items."""
        if self.view.is_numbering(node):
            return False
        # A source whose rows come in another order each time has items of one run, and no others.
        if self.topology.is_source(node) or all(_outlasts(space) for space in spaces):
            return True
        partitions = {parse_space(space).partition for space in spaces}
        computed = [parse_space(space).partition for space in self.view.graph.spaces_of(node)]
        return all(computed.count(partition) == 1 for partition in partitions)

    def _around(
        self,
        node: str,
        spaces: Items,
        moved: NavigationStep,
        *,
        step: bool,
        until: str | None = None,
    ) -> None:
        """Forward on the ways through ``node``, from what the items were made of."""
        through = self.view.rdd_node(node)
        before = self._lasting_before(spaces, moved)
        for space in before:
            if not _outlasts(space):
                raise TracingError(
                    f"{self.view.text(node)} comes from {self.view.text(parse_space(space).name)}, "
                    "which numbers its rows anew each time: where they went can't be traced"
                )
        above = self.topology.reachable_from(through, upstream=True)
        below = self.topology.reachable_from(through, upstream=False) - {through}
        if step:
            reached = self._step_through(before, above, below, moved)
        else:
            traced = self._trace(FORTH, before, moved, until=until or "ends").found
            reached = {n: items.spaces for n, items in traced.items() if n in below}
        own = {node, *self._numbering_above(node)}
        reached = {n: items for n, items in reached.items() if n not in own}
        for other, items in reached.items():
            moved.add(other, items)
        if not self._meets_just(node, spaces, before) or self._bypassed(before, through, reached):
            moved.reasons[
                f"node {through} ({self._name(through)}): its records have no addresses that last; "
                "from there forward starts at what they were made from"
            ] = None

    def _lasting_before(self, spaces: Items, moved: NavigationStep) -> Items:
        """The nearest items before that outlast a computation."""
        repeatable: list[Items] = []
        todo: Items = dict(spaces)
        while todo:
            result = self._trace(BACK, todo, moved, steps=1)
            further: list[Items] = []
            for node_items in result.found.values():
                for space, region in node_items.spaces.items():
                    continues_in = not _outlasts(space) and space not in todo
                    (further if continues_in else repeatable).append({space: region})
            todo = merge_items(further)
        return merge_items(repeatable)

    def _step_through(
        self, before: Items, above: Collection[str], below: Collection[str], moved: NavigationStep
    ) -> dict[str, Items]:
        """One step beyond a node whose upstream is ``above`` and whose downstream ``below``."""
        reached: dict[str, Items] = {}
        todo = before
        while todo:
            further: list[Items] = []
            for node, node_items in self._trace(FORTH, todo, moved, steps=1).found.items():
                helps = self.view.is_numbering(node) and self.view.nodes[node].kind != "sink"
                if helps or node in above:
                    further.append(node_items.spaces)
                elif node in below:
                    reached[node] = merge_items([reached.get(node, {}), node_items.spaces])
            todo = merge_items(further)
        return reached

    def _meets_just(self, node: str, items: Items, before: Items) -> bool:
        """Whether the way around meets no other records of the node than the very items.

        Raises:
            TracingError: it does not meet them all.
        """
        reached = self.tracer.trace(FORTH, dict(before), until=node).found.get(node)
        spaces = {} if reached is None else reached.spaces
        if any(region - spaces.get(space, Region()) for space, region in items.items()):
            raise TracingError(
                f"{self.view.text(node)}: some of these records were made of nothing that lasts; "
                "where they went can't be traced"
            )
        most: dict[int, int] = {}
        for space, region in items.items():
            partition = parse_space(space).partition
            most[partition] = min(most.get(partition, region.count), region.count)
        return all(
            region.count <= most.get(parse_space(space).partition, 0)
            for space, region in spaces.items()
        )

    def _bypassed(self, starts: Items, through: str, ends: Collection[str]) -> bool:
        """Whether a way from the items' nodes to ``ends`` leaves out the node ``through``."""
        reached = set(by_node(starts)) - {through}
        todo = list(reached)
        while todo:
            for node in self.view.children(todo.pop()):
                if node not in reached and node != through:
                    reached.add(node)
                    todo.append(node)
        return bool(reached & set(ends))

    def _numbering_above(self, node: str) -> list[str]:
        """The nodes of ``getLineage`` between its sink and the RDD."""
        nodes = []
        while self.view.is_numbering(node):
            nodes.append(node)
            node = self.view.parents(node)[0]
        return nodes

    def _name(self, node: str) -> str:
        record = self.view.nodes[node]
        return record.name or record.op


def _outlasts(space: str) -> bool:
    """Whether items of a space are the same whoever computes its node again."""
    parsed = parse_space(space)
    return parsed.kind is not SpaceKind.PARTITION or parsed.incarnation is None
