"""In which order a trace of many items at once goes through the spaces of an application, and what is known of each beforehand."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.reasons import ReasonList
from lineage_core.tracing.space_parts import PartKind
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import TraceError
from lineage_core.tracing.walk import missing_reason, node_reason, unknown_readers

SpaceGroup: TypeAlias = str
"""All spaces of one node and kind: ``4#`` its partitions, ``4@`` its keys, ``4#*`` its exchange."""
WITHOUT_SPARK = "trace them without --engine spark"


def group_of(space: str) -> SpaceGroup:
    """The group of a space.

    Raises:
        AddressError: the text is no space.
    """
    parsed = parse_space(space)
    match parsed.kind:
        case SpaceKind.PARTITION:
            return f"{parsed.name}#"
        case SpaceKind.EXCHANGE:
            return f"{parsed.name}#*"
        case _:
            return f"{parsed.name}@"


def name_of(group: SpaceGroup) -> str:
    """The node of a group."""
    return group.rstrip("*")[:-1]


@dataclass(frozen=True, slots=True)
class GroupLink:
    """Some blocks of ``node`` make items of the group ``dest`` from items of ``src``."""

    src: SpaceGroup
    dest: SpaceGroup
    node: str


class TaggedPlan:
    """What a trace through an application has to know, and finds out, beside the items.

    Args:
        graph: of the application; nothing but its nodes and links is read.
        topology: of it.
        links: between groups, of all of its blocks.
        backward: which way.
        supersets: nodes and reasons of the blocks that are supersets.
        carried: reasons that the items come with, from number 1 on.
    """

    def __init__(
        self,
        graph: FlowGraph,
        topology: Topology,
        links: Iterable[GroupLink],
        *,
        backward: bool,
        supersets: Iterable[tuple[str, str]],
        carried: Sequence[str] = (),
    ) -> None:
        self._graph = graph
        self._topology = topology
        self._backward = backward
        self.links = list(links)
        texts = {key: self._text(*key) for key in supersets}
        texts |= {(node, ""): text for node, text in self._node_texts().items()}
        own = sorted(set(texts.values()))
        self.reasons = ("", *carried, *own)
        numbers = {text: number for number, text in enumerate(own, 1 + len(carried))}
        self._of_nodes = {node: numbers[text] for node, text in self._node_texts().items()}
        self.of_blocks: Mapping[tuple[str, str], int] = {
            key: numbers[self._text(*key)] for key in supersets
        }
        """Numbers of reasons, by node and reason of a block."""
        self._met: dict[str, None] = {}

    def _text(self, node: str, reason: str) -> str:
        return node_reason(self._topology, node, reason or "a superset")

    def _node_texts(self) -> dict[str, str]:
        return {
            node: self._text(node, record.reason)
            for node, record in self._topology.by_id.items()
            if not record.exact and record.kind != "unknown"
        }

    def order(self, start: Collection[SpaceGroup]) -> list[SpaceGroup]:
        """The groups that can be reached, each after all that lead to it.

        Raises:
            TraceError: the items are not numbered by capture, or are made of each other in a circle.
        """
        ahead: dict[SpaceGroup, set[SpaceGroup]] = {}
        for link in self.links:
            near, far = (link.dest, link.src) if self._backward else (link.src, link.dest)
            ahead.setdefault(near, set()).add(far)
        before: dict[SpaceGroup, set[SpaceGroup]] = {group: set() for group in start}
        pending = list(before)
        while pending:
            group = pending.pop()
            for far in ahead.get(group, ()):
                if far not in before:
                    before[far] = set()
                    pending.append(far)
                before[far].add(group)
        if "*@" in before:
            raise TraceError(f"a program names these items itself: {WITHOUT_SPARK}")
        try:
            return list(TopologicalSorter(before).static_order())
        except CycleError as error:
            circle = " - ".join(map(name_of, error.args[1]))
            raise TraceError(
                f"items of the nodes {circle} are made of each other: {WITHOUT_SPARK}"
            ) from error

    def nodes_at(self, group: SpaceGroup) -> list[str]:
        """The nodes whose blocks are crossed from a group."""
        sides = ((link.dest if self._backward else link.src, link.node) for link in self.links)
        return sorted({node for side, node in sides if side == group})

    def kind(self, group: SpaceGroup) -> PartKind:
        """What all parts of a group's spaces have in common; its node is on the way."""
        node = name_of(group)
        reason = self._of_nodes.get(node, 0)
        self.meet([reason])
        return PartKind(self._backward, self._topology.is_source(node), reason)

    def is_found(self, group: SpaceGroup) -> bool:
        """Whether items that no block continues are what the trace looks for; else more would be there, or they are not used."""
        return not self.missing(group) and self._is_end(group)

    def missing(self, group: SpaceGroup) -> str:
        """Why there is more past items that no block continues; empty: there is not."""
        is_end = self._is_end(group)
        return missing_reason(
            self._topology, name_of(group), is_end=is_end, backward=self._backward
        )

    def _is_end(self, group: SpaceGroup) -> bool:
        return self._topology.is_end(name_of(group), upstream=self._backward)

    def meet(self, numbers: Iterable[int]) -> None:
        """Reasons that hold of what is on the way; 0 is none."""
        self._met |= {self.reasons[number]: None for number in sorted(numbers) if number}

    def meet_missing(self, group: SpaceGroup) -> None:
        """Items of a group have no end."""
        self._met[node_reason(self._topology, name_of(group), self.missing(group))] = None

    def verdict(self, passed: Collection[SpaceGroup]) -> tuple[str, ...]:
        """All reasons why the answer is not exact; ``passed``: the groups with items on the way."""
        if not self._backward:
            nodes = {name_of(group) for group in passed}
            for owner, reason in unknown_readers(self._graph, self._topology, nodes):
                self._met[node_reason(self._topology, owner, reason)] = None
        return ReasonList(self._met).items()
