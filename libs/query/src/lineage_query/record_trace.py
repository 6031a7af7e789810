"""A trace of records, before anything is read from files: what answers and exports are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lineage_core.contract.address import named_space, parse_space, row_file_space
from lineage_core.contract.block import I64
from lineage_core.contract.graph import FlowGraph, LinkRecord, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.recipe.document import ROW_NAME
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceResult
from lineage_query.answers import Answer, Composer, NotAsked, respelled
from lineage_query.names import Names
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.locations import Locations
from lineage_query.verdicts import with_reasons
from lineage_store.paths import plain_path

FOUND, START, WAY = "found", "start", "way"
"""What an item is to a trace: what was found, what was asked for, or one in between."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordTrace:
    """What a trace of records came to, over the graph of one application.

    ``asked``: the places as typed. ``begun``: the items they name, by space. ``changed``: a file that
    a place names is not as the application left it. ``complete``: the application's lineage is all
    there, and nothing is left out. ``superset``: nodes that name more than they used, with reasons. ``warnings``: what is to be known already; reading files may add to them.
    ``beside``: places at which DataFrames read rows, too: what these made of them is left out.
    """

    app: str
    direction: Direction
    asked: tuple[str, ...]
    graph: FlowGraph
    names: Names
    locations: Locations
    begun: Mapping[str, Region]
    result: TraceResult
    complete: bool
    superset: Mapping[str, tuple[str, ...]]
    changed: bool
    warnings: tuple[str, ...]
    along_exact: Callable[[], TraceResult]
    """Traces the same once more, just along what is exact."""
    known: Sequence[NodeRecord] | None = None
    """The graph's nodes, where they are known already."""
    beside: tuple[RecipePlace, ...] = ()

    def answer(self, limit: int | None, *, texts: bool, at_once: bool = False) -> Answer:
        """The first ``limit`` items (None: all) of each node, with lines and texts.

        ``at_once``: it was traced just now, so its files were looked at.
        """
        composer = self.composer(at_once=at_once)
        starts = tuple(composer.group(items, limit, texts=texts) for items in self.starts())
        groups = composer.groups(self.result, limit, texts=texts)
        return Answer(
            app=self.app,
            direction=self.direction,
            asked=self.asked,
            start=starts,
            exact=self.result.exact,
            reasons=self.result.reasons,
            groups=groups,
            warnings=(*composer.warnings, *self.stops()),
            changed=self.changed or any(group.changed for group in (*starts, *groups)),
            complete=self.complete,
            not_asked=tuple(self._left_out()),
        )

    def _left_out(self) -> Iterator[NotAsked]:
        for noted in self.beside:
            for node in noted.nodes:
                label = self.names.label(node)
                yield NotAsked(
                    self.app,
                    f"{noted.place}: left out is what DataFrames made of it ({label})",
                    node,
                )

    def named_rows(self) -> list[NamedRows]:
        """Of what was found, the records that are rows of DataFrames whose recipes were noted."""
        frames = {one.node for one in self.node_records() if one.kind == "frame"}
        above = {one.dest: one.src for one in self.graph.links() if one.src in frames}
        return [
            NamedRows(
                node, above[node], items.spaces[named_space(node)], self._records_passed(node)
            )
            for node, items in self.result.found.items()
            if node in above and named_space(node) in items.spaces
        ]

    def _records_passed(self, node: str) -> int | None:
        """How many records of a source were passed; None where one may have been counted twice."""
        spaces = {
            parse_space(space): region.count
            for space, region in self.result.passed[node].spaces.items()
            if space != named_space(node)
        }
        once = len({space.partition for space in spaces}) == len(spaces)
        return sum(spaces.values()) if once else None

    def kept_rows(self) -> list[KeptRows]:
        """Of what was found, the records that became rows of DataFrames and are kept."""
        sources = {one.node for one in self.node_records() if one.kind == "frame-source"}
        return [
            KeptRows(link.src, link.dest, rows)
            for link in self.graph.links()
            if link.dest in sources and link.src in self.result.found
            for rows in [self._kept(link.dest, self.result.found[link.src])]
            if rows
        ]

    def _kept(self, source: str, items: NodeItems) -> dict[str, Region]:
        """Items of a sink by the file that keeps them: each run of a partition has items, one run of each is kept."""
        paths = {row_file_space(split.path): split.path for split in self.graph.splits(source)}
        return {paths[one]: region for one, region in items.spaces.items() if one in paths}

    @property
    def crosses(self) -> bool:
        """Whether the trace may go on among rows of DataFrames."""
        if self.direction is Direction.FORWARD:
            return bool(self.beside) or bool(self.kept_rows())
        return bool(self.named_rows())

    def stops(self) -> Iterator[str]:
        """What the reader is told where the trace ends at a DataFrame's rows."""
        if self.direction is Direction.FORWARD:
            yield from (one.said() for one in self._left_out())
            yield from (one.stop(self.app, self.names) for one in self.kept_rows())
        else:
            yield from (one.stop(self.app, self.names) for one in self.named_rows())

    def outgrown_by(self, answer: Answer) -> set[str]:
        """Nodes of which an answer that went on through DataFrames found more than these records."""
        counts = Counter[str]()
        for group in answer.groups:
            counts[group.node] += group.count
        return {
            node
            for node, items in self.result.found.items()
            if node in counts and counts[node] > items.count
        }

    def asked_as(self, places: Sequence[str]) -> RecordTrace:
        """The same, of places as they were typed."""
        spelled = dict(zip(self.asked, places, strict=True))
        warnings = tuple(respelled(warning, spelled) for warning in self.warnings)
        return replace(self, asked=tuple(places), warnings=warnings)

    def composer(self, *, at_once: bool = False) -> Composer:
        """What turns regions into items; it has the warnings. ``at_once``: see :meth:`answer`."""
        locations = self.locations if at_once else self.locations.as_now()
        composer = Composer(self.graph, self.names, locations, self.node_records())
        composer.warnings.update(dict.fromkeys(self.warnings))
        return composer

    def starts(self) -> list[NodeItems]:
        """The items asked for, by node."""
        found: dict[str, dict[str, Region]] = {}
        for space, region in self.begun.items():
            found.setdefault(parse_space(space).name, {})[space] = region
        return [NodeItems(node, of_node) for node, of_node in found.items()]

    @property
    def items_listed(self) -> int:
        """How many items a listing without a limit has: those found, and those asked for."""
        return self.result.count + sum(items.count for items in self.starts())

    def taking_part(self) -> dict[str, Region]:
        """All items that take part, by space."""
        return self._with_begun(self.result)

    def surely_taking_part(self) -> dict[str, Region]:
        """Those of :meth:`taking_part` that a way leads to on which every step is exact."""
        return self._with_begun(self.result if self.result.exact else self.along_exact())

    def _with_begun(self, result: TraceResult) -> dict[str, Region]:
        parts: dict[str, list[Region]] = {}
        for items in (*result.passed.values(), *result.found.values()):
            for space, region in items.spaces.items():
                parts.setdefault(space, []).append(region)
        for space, region in self.begun.items():
            parts.setdefault(space, []).append(region)
        return {space: Region.union(regions) for space, regions in parts.items()}

    def roles(self, *roles: str) -> Iterator[tuple[str, NodeItems]]:
        """Items with what they are to the trace, by node in order of creation.

        Each item of a node comes once: one that was asked for and is the answer, too, is found.
        """
        order = {node.node: at for at, node in enumerate(self.node_records())}
        of_nodes = {*self.result.passed, *self.result.found}
        left = dict(self.begun)
        for node in sorted(of_nodes, key=lambda one: (order.get(one, -1), one)):
            for role, items in self._roles_of(node, left):
                if role in roles and items.count:
                    yield role, items
        # Opaque items that nothing is known of belong to no node.
        rest = {space: region for space, region in left.items() if region}
        if rest and START in roles:
            yield START, NodeItems("*", rest)

    def _roles_of(self, node: str, left: dict[str, Region]) -> Iterator[tuple[str, NodeItems]]:
        """Three parts of a node's items; what of it was asked for is taken out of ``left``."""
        found = _spaces(self.result.found.get(node))
        passed = _spaces(self.result.passed.get(node))
        parts: dict[str, dict[str, Region]] = {START: {}, WAY: {}, FOUND: found}
        for space in dict.fromkeys((*passed, *found)):
            here, others = _with_rest(passed.get(space), found.get(space))
            begun = self.begun.get(space, Region())
            parts[START][space] = others & begun
            parts[WAY][space] = others - begun
            if space in left:
                left[space] = left[space] - here
        for role, spaces in parts.items():
            yield role, NodeItems(node, {space: one for space, one in spaces.items() if one})

    def counts(self) -> dict[str, int]:
        """How many records of each node take part."""
        parts: dict[str, dict[str, list[Region]]] = {}
        for _, items in self.roles(FOUND, START, WAY):
            of_node = parts.setdefault(items.node, {})
            for space, region in items.spaces.items():
                of_node.setdefault(space, []).append(region)
        found = {
            node: NodeItems(node, {space: Region.union(some) for space, some in spaces.items()})
            for node, spaces in parts.items()
        }
        return {node: items.once().count for node, items in found.items()}

    def nodes(self) -> tuple[list[NodeRecord], list[LinkRecord]]:
        """Nodes that lie on the way, also those that keep no items, and the links between them.

        As exact as the verdict has them.
        """
        nodes, links = with_reasons(self.node_records(), self.superset), self.graph.links()
        there = way_between(nodes, links, set(self.counts()))
        return (
            [node for node in nodes if node.node in there],
            [link for link in links if link.src in there and link.dest in there],
        )

    def node_records(self) -> Sequence[NodeRecord]:
        """The nodes of the graph, in order of creation."""
        return self.graph.nodes() if self.known is None else self.known


@dataclass(frozen=True, slots=True)
class NamedRows:
    """Records of ``source`` that are rows of the DataFrame ``frame``, by their names.

    ``records``: how many of them there are, for rows that are equal share a name; None: not known.
    """

    source: str
    frame: str
    names: Region
    records: int | None

    @property
    def signed(self) -> I64:
        """The names as the DataFrame's column has them."""
        return self.names.positions().view(np.int64)

    def stop(self, app: str, names: Names) -> str:
        """The warning that a trace ends here which could go on."""
        first = self.names.slice(0, 1).positions().view(np.int64)[0]
        return (
            f"the records of {names.label(self.source)} are rows of a DataFrame (node {self.frame}): where they "
            f"come from is told by `lineage back` where the store and Spark are, or row by row by "
            f"lineage back '{self.frame}#{ROW_NAME}={first}' --app {app}"
        )


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Records of ``sink`` that became rows of DataFrames: rows of the node ``source``, by the file that keeps them."""

    sink: str
    source: str
    rows: Mapping[str, Region]

    def stop(self, app: str, names: Names) -> str:
        """The warning that a trace ends here which could go on."""
        path, region = next(iter(self.rows.items()))
        return (
            f"the records of {names.label(self.sink)} are rows of a DataFrame: where they went is told by "
            f"`lineage forward` where the store and Spark are, or row by row by "
            f"lineage forward '{plain_path(path)}#{next(iter(region))[0]}' --app {app}"
        )


def way_between(
    nodes: Sequence[NodeRecord], links: Sequence[LinkRecord], passed: set[str]
) -> set[str]:
    """The passed nodes, and those between two of them that keep no items and so can't be passed."""
    silent = {node.node for node in nodes if node.kind == "operator" and not node.blocks} - passed
    below: dict[str, list[str]] = {}
    above: dict[str, list[str]] = {}
    for link in links:
        below.setdefault(link.src, []).append(link.dest)
        above.setdefault(link.dest, []).append(link.src)
    return passed | (_reached(passed, below, silent) & _reached(passed, above, silent))


def _reached(start: set[str], step: Mapping[str, list[str]], through: set[str]) -> set[str]:
    """Nodes of ``through`` that are reached from some node by way of each other."""
    found: set[str] = set()
    todo = list(start)
    while todo:
        for near in step.get(todo.pop(), ()):
            if near in through and near not in found:
                found.add(near)
                todo.append(near)
    return found


def _with_rest(passed: Region | None, found: Region | None) -> tuple[Region, Region]:
    """The union of both, and what of it was not found."""
    if passed is None or found is None or passed == found:
        # Mostly so where there are millions: nothing has to be merged.
        return found or passed or Region(), Region() if found is not None else passed or Region()
    return passed | found, passed - found


def _spaces(items: NodeItems | None) -> dict[str, Region]:
    return {} if items is None else dict(items.spaces)
