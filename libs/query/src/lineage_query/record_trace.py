"""A trace of records, before anything is read from files: the base of answers and exports."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lineage_core.contract.address import named_space, parse_space, row_file_space
from lineage_core.contract.block import I64
from lineage_core.contract.graph import FlowGraph, LinkRecord, NodeRecord
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.recipe.names import ROW_NAME
from lineage_core.tracing.joined_items import JoinedItems
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceResult
from lineage_query.answers import Answer, Composer, Group, NotQueried, respelled
from lineage_query.file_parts import bytes_text
from lineage_query.names import Names
from lineage_query.pairs import BEYOND_RECORDS, INCOMPLETE, NOT_SHOWN, Pairs
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.locations import Locations
from lineage_query.verdicts import with_reasons
from lineage_store.paths import plain_path

FOUND, START, IN_BETWEEN = "found", "start", "way"
"""The role of an item in a trace: a result, a start of the query, or an item in between."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordTrace:
    """The result of a trace of records over the graph of one application.

    ``requested_places``: the places as typed. ``start_regions``: the items they name, by space. ``changed``: a file that
    a place names has changed since the application used it. ``complete``: the application's lineage is
    complete, and nothing is left out. ``superset``: nodes that report more inputs than they used, with reasons.
    ``warnings``: those known so far; reading files may add more.
    ``recipe_places``: places at which DataFrames read rows too: what these computed from them is left out.
    """

    app: str
    direction: Direction
    requested_places: tuple[str, ...]
    graph: FlowGraph
    names: Names
    locations: Locations
    start_regions: Mapping[str, Region]
    result: TraceResult
    complete: bool
    superset: Mapping[str, tuple[str, ...]]
    changed: bool
    warnings: tuple[str, ...]
    along_exact: Callable[[], TraceResult]
    """Repeats the trace along exact flows only."""
    joined_items: Callable[[Mapping[str, Region], TraceResult], JoinedItems] | None = None
    """Which of the items that were found were joined with each other; None: not known, or not shown."""
    cached_nodes: Sequence[NodeRecord] | None = None
    """The graph's nodes, if they are loaded already."""
    recipe_places: tuple[RecipePlace, ...] = ()

    def answer(self, limit: int | None, *, texts: bool, at_once: bool = False) -> Answer:
        """The first ``limit`` items (None: all) of each node, with lines and texts.

        ``at_once``: it was traced just now, so its files need no new check.
        """
        composer = self.composer(at_once=at_once)
        starts = tuple(composer.group(items, limit, texts=texts) for items in self.starts())
        groups = composer.groups(self.result, limit, texts=texts)
        pairs = self._pairs(composer)
        return Answer(
            app=self.app,
            direction=self.direction,
            requested_places=self.requested_places,
            start=starts,
            exact=self.result.exact,
            reasons=self.result.reasons,
            groups=groups,
            warnings=(*composer.warnings, *self.end_warnings()),
            changed=self.changed or any(group.changed for group in (*starts, *groups)),
            complete=self.complete,
            not_queried=tuple(self._frames_not_followed()),
            pairs=pairs,
            parts_passed=tuple(self._parts_passed(composer)),
            parts_unknown=tuple(self._parts_unknown()),
        )

    def _parts_passed(self, composer: Composer) -> Iterator[Group]:
        """Parts of files that the application wrote and read again: other applications may have read them, too."""
        if self.direction is Direction.BACKWARD:
            return
        for node, items in self.result.passed.items():
            if node in self.result.found or not is_file_node(node):
                continue
            if self.graph.sink_files(node):
                yield composer.group(items, None, texts=False)

    def _parts_unknown(self) -> Iterator[NotQueried]:
        """Parts of files that the application read and wrote, of which it wrote other ones."""
        for dead_end in self.result.dead_ends:
            if is_file_node(dead_end.node):
                record = next((r for r in self.node_records() if r.node == dead_end.node), None)
                name = dead_end.node if record is None else record.name
                reason = f"it read {bytes_text(dead_end.region)} of {name}, of which it wrote other parts: who wrote these before is not known"
                yield NotQueried(self.app, reason, dead_end.node)

    def _pairs(self, composer: Composer) -> Pairs | None:
        """Which rows of sources were joined with each other; None for a trace forward."""
        if self.direction is Direction.FORWARD:
            return None
        if self.joined_items is None:
            return Pairs((), (NOT_SHOWN,))
        if not self.complete:
            return Pairs((), (INCOMPLETE,))
        if self.crosses:
            return Pairs((), (BEYOND_RECORDS,))
        joined = self.joined_items(self.start_regions, self.result)
        return Pairs(composer.paired_rows(joined.rows), joined.unknown)

    def _frames_not_followed(self) -> Iterator[NotQueried]:
        for recipe_place in self.recipe_places:
            for node in recipe_place.nodes:
                label = self.names.label(node)
                yield NotQueried(
                    self.app,
                    f"{recipe_place.place}: rows that DataFrames computed from it are left out ({label})",
                    node,
                )

    def named_rows(self) -> list[NamedRows]:
        """Those results that are rows of DataFrames with recorded recipes."""
        frames = {node.node for node in self.node_records() if node.kind == "frame"}
        above = {link.dest: link.src for link in self.graph.links() if link.src in frames}
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

    def stored_rows(self) -> list[RowsInFiles]:
        """The records among the results that became rows of DataFrames, and are stored in files."""
        sources = {node.node for node in self.node_records() if node.kind == "frame-source"}
        return [
            RowsInFiles(link.src, link.dest, rows)
            for link in self.graph.links()
            if link.dest in sources and link.src in self.result.found
            for rows in [self._rows_by_file(link.dest, self.result.found[link.src])]
            if rows
        ]

    def _rows_by_file(self, source: str, items: NodeItems) -> dict[str, Region]:
        """Items of a sink by the file that stores them: of the runs of a partition, one is stored."""
        paths = {row_file_space(split.path): split.path for split in self.graph.splits(source)}
        return {paths[space]: region for space, region in items.spaces.items() if space in paths}

    @property
    def crosses(self) -> bool:
        """Whether the trace may go on among rows of DataFrames."""
        if self.direction is Direction.FORWARD:
            return bool(self.recipe_places) or bool(self.stored_rows())
        return bool(self.named_rows())

    def end_warnings(self) -> Iterator[str]:
        """The warning for a trace that ends at a DataFrame's rows."""
        if self.direction is Direction.FORWARD:
            yield from (not_queried.warning() for not_queried in self._frames_not_followed())
            yield from (
                stored_rows.end_warning(self.app, self.names) for stored_rows in self.stored_rows()
            )
        else:
            yield from (
                named_rows.end_warning(self.app, self.names) for named_rows in self.named_rows()
            )

    def outgrown_by(self, answer: Answer) -> set[str]:
        """Nodes of which an answer that continued through DataFrames has more than these records."""
        counts = Counter[str]()
        for group in answer.groups:
            counts[group.node] += group.count
        return {
            node
            for node, items in self.result.found.items()
            if node in counts and counts[node] > items.count
        }

    def with_typed_places(self, places: Sequence[str]) -> RecordTrace:
        """The same, of places as they were typed."""
        spelled = dict(zip(self.requested_places, places, strict=True))
        warnings = tuple(respelled(warning, spelled) for warning in self.warnings)
        return replace(self, requested_places=tuple(places), warnings=warnings)

    def composer(self, *, at_once: bool = False) -> Composer:
        """What turns regions into items; it has the warnings. ``at_once``: see :meth:`answer`."""
        locations = self.locations if at_once else self.locations.as_now()
        composer = Composer(self.graph, self.names, locations, self.node_records())
        composer.warnings.update(dict.fromkeys(self.warnings))
        return composer

    def starts(self) -> list[NodeItems]:
        """The items that the query names, by node."""
        regions_by_node: dict[str, dict[str, Region]] = {}
        for space, region in self.start_regions.items():
            regions_by_node.setdefault(parse_space(space).name, {})[space] = region
        return [NodeItems(node, of_node) for node, of_node in regions_by_node.items()]

    @property
    def items_listed(self) -> int:
        """How many items a listing without a limit has: the results, and the items that the query names."""
        return self.result.count + sum(items.count for items in self.starts())

    def taking_part(self) -> dict[str, Region]:
        """All items that take part, by space."""
        return self._with_start_regions(self.result)

    def surely_taking_part(self) -> dict[str, Region]:
        """Those of :meth:`taking_part` that a way leads to on which every step is exact."""
        return self._with_start_regions(self.result if self.result.exact else self.along_exact())

    def _with_start_regions(self, result: TraceResult) -> dict[str, Region]:
        parts: dict[str, list[Region]] = {}
        for items in (*result.passed.values(), *result.found.values()):
            for space, region in items.spaces.items():
                parts.setdefault(space, []).append(region)
        for space, region in self.start_regions.items():
            parts.setdefault(space, []).append(region)
        return {space: Region.union(regions) for space, regions in parts.items()}

    def roles(self, *roles: str) -> Iterator[tuple[str, NodeItems]]:
        """Items with their roles in the trace, by node in order of creation.

        Each item of a node is listed once: one that the query names and that is also a result counts as a result.
        """
        order = {node.node: at for at, node in enumerate(self.node_records())}
        node_ids = {*self.result.passed, *self.result.found}
        unlisted = dict(self.start_regions)
        for node in sorted(node_ids, key=lambda node_id: (order.get(node_id, -1), node_id)):
            for role, items in self._roles_of(node, unlisted):
                if role in roles and items.count:
                    yield role, items
        # Unknown opaque items belong to no node.
        rest = {space: region for space, region in unlisted.items() if region}
        if rest and START in roles:
            yield START, NodeItems("*", rest)

    def _roles_of(self, node: str, unlisted: dict[str, Region]) -> Iterator[tuple[str, NodeItems]]:
        """Three parts of a node's items; those that the query names are removed from ``left``."""
        result_regions = _spaces(self.result.found.get(node))
        passed = _spaces(self.result.passed.get(node))
        parts: dict[str, dict[str, Region]] = {START: {}, IN_BETWEEN: {}, FOUND: result_regions}
        for space in dict.fromkeys((*passed, *result_regions)):
            all_items, other_items = _with_rest(passed.get(space), result_regions.get(space))
            start_region = self.start_regions.get(space, Region())
            parts[START][space] = other_items & start_region
            parts[IN_BETWEEN][space] = other_items - start_region
            if space in unlisted:
                unlisted[space] = unlisted[space] - all_items
        for role, spaces in parts.items():
            yield (
                role,
                NodeItems(node, {space: region for space, region in spaces.items() if region}),
            )

    def counts(self) -> dict[str, int]:
        """How many records of each node take part."""
        parts: dict[str, dict[str, list[Region]]] = {}
        for _, items in self.roles(FOUND, START, IN_BETWEEN):
            of_node = parts.setdefault(items.node, {})
            for space, region in items.spaces.items():
                of_node.setdefault(space, []).append(region)
        items_by_node = {
            node: NodeItems(
                node,
                {space: Region.union(space_regions) for space, space_regions in spaces.items()},
            )
            for node, spaces in parts.items()
        }
        return {node: items.once().count for node, items in items_by_node.items()}

    def nodes(self) -> tuple[list[NodeRecord], list[LinkRecord]]:
        """Nodes that lie on the way, also those that keep no items, and the links between them.

        As exact as the verdict has them.
        """
        nodes, links = with_reasons(self.node_records(), self.superset), self.graph.links()
        node_ids = nodes_between(nodes, links, set(self.counts()))
        return (
            [node for node in nodes if node.node in node_ids],
            [link for link in links if link.src in node_ids and link.dest in node_ids],
        )

    def node_records(self) -> Sequence[NodeRecord]:
        """The nodes of the graph, in order of creation."""
        return self.graph.nodes() if self.cached_nodes is None else self.cached_nodes


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

    def end_warning(self, app: str, names: Names) -> str:
        """The warning that the trace ends here although it can continue."""
        first = self.names.slice(0, 1).positions().view(np.int64)[0]
        return (
            f"the records of {names.label(self.source)} are rows of a DataFrame (node {self.frame}): to trace them "
            f"further, run `lineage back` on a machine with the store and Spark, or for each row "
            + shlex.join(["lineage", "back", f"{self.frame}#{ROW_NAME}={first}", "--app", app])
        )


@dataclass(frozen=True, slots=True)
class RowsInFiles:
    """Records of ``sink`` that became rows of DataFrames: rows of the node ``source``, by the file that stores them."""

    sink: str
    source: str
    rows: Mapping[str, Region]

    def end_warning(self, app: str, names: Names) -> str:
        """The warning that the trace ends here although it can continue."""
        path, region = next(iter(self.rows.items()))
        place = f"{plain_path(path)}#{next(iter(region))[0]}"
        return (
            f"the records of {names.label(self.sink)} are rows of a DataFrame: to trace them further, run "
            f"`lineage forward` on a machine with the store and Spark, or for each row "
            + shlex.join(["lineage", "forward", place, "--app", app])
        )


def nodes_between(
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
    reached: set[str] = set()
    pending = list(start)
    while pending:
        for neighbour in step.get(pending.pop(), ()):
            if neighbour in through and neighbour not in reached:
                reached.add(neighbour)
                pending.append(neighbour)
    return reached


def _with_rest(passed: Region | None, result_region: Region | None) -> tuple[Region, Region]:
    """The union of both, and what of it was not found."""
    if passed is None or result_region is None or passed == result_region:
        # The usual case with millions of items: nothing has to be merged.
        return (
            result_region or passed or Region(),
            Region() if result_region is not None else passed or Region(),
        )
    return passed | result_region, passed - result_region


def _spaces(items: NodeItems | None) -> dict[str, Region]:
    return {} if items is None else dict(items.spaces)
