"""What a trace answers to a person or a tool: items by node, with their lines and texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from lineage_core.contract.address import OPAQUE_SPACE, parse_space
from lineage_core.contract.block import U64
from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.reasons import LISTED_MAX, cut_text, listed_reasons
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.joined_items import Combination, ItemName
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceResult
from lineage_query.file_parts import listed_slice, part_address
from lineage_query.names import Names
from lineage_query.next_jobs import NextJob
from lineage_query.opaque import opaque_texts
from lineage_query.pairs import PairedRow, Pairs
from lineage_query.rows.bound_rows import LocatedRows
from lineage_query.rows.file_status import Binding, FileStatus, has_changed, worst
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import part_of_file
from lineage_query.showing import ItemGroup, NotebookDisplay, Showing, rows_text
from lineage_query.values import item_values
from lineage_store.paths import shown_path

AS_IT_IS_NOW = "[as it is now]"
LINES_AS_USED = "its line numbers are those of the version that the job used"
INCOMPLETE = "items may be missing"
"""The warnings give the reason."""
NOT_QUERIED_MAX = 1_000
"""Applications and nodes that an answer lists as not queried."""
PART_VALUED_MAX = 10_000
"""Bytes of a part of a file up to which it is shown with what the program said of it."""
ITEMS_AT_ONCE = 10_000
"""Items in memory together where all are listed."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item, or a part of a file of whose bytes programs named some; ``location`` and ``text`` are None if no readable file has them.

    ``binding``: the evidence that the text is that of the row the job processed; None if the text is stored with the
    lineage, or there is no text. With ``now`` the text is the current one at that position. ``lines``: how many lines of
    the file it takes, from ``location`` on; it is not in JSON.
    """

    address: str
    location: str | None
    text: str | None
    binding: Binding | None = None
    lines: int = field(default=1, compare=False)

    @property
    def shown(self) -> str | None:
        """The text to display, marked if it may be another row's."""
        return f"{AS_IT_IS_NOW} {self.text}" if self.binding == "now" else self.text

    def to_json(self) -> dict[str, str | None]:
        """The JSON shape that tools rely on."""
        return {
            "address": self.address,
            "location": self.location,
            "text": self.text,
            "binding": self.binding,
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Item:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["address"], document["location"], document["text"], document.get("binding")
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Items of one node; ``items`` may be the first of many, ``count`` is always of all.

    ``changed``: one of their files has changed; ``gone``: one no longer exists. ``file_status``: the worst status of
    their files. ``app``: the application of the node; empty: the answer's. ``next_jobs``: other applications that wrote
    the files of its items (forward: read them), as far as they are looked up.
    """

    node: str
    label: str
    what: str
    path: str | None
    count: int
    items: tuple[Item, ...]
    file_status: FileStatus = "same"
    app: str = ""
    next_jobs: tuple[NextJob, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether one of their files has changed."""
        return has_changed(self.file_status)

    @property
    def gone(self) -> bool:
        """Whether one of their files no longer exists."""
        return self.file_status == "gone"

    def heading(self, app: str = "") -> str:
        """A heading for the items. ``app``: their application, if the answer has several."""
        of = f" of {self.path}" if self.path else f" of {self.what or 'node'}"
        parts = "1 part" if self.count == 1 else f"{self.count:,} parts"
        rows = parts if is_file_node(self.node) else rows_text(self.count)
        changed = ", gone since" if self.gone else ", changed since" if self.changed else ""
        whose = f", {app}" if app else ""
        return f"{rows}{of} ({self.label}{whose}{changed})"

    def shown(self, heading: str, limit: int, notes: Sequence[str] = ()) -> ItemGroup:
        """The first items below a heading, with notes behind them."""
        listed = self.items[:limit]
        rows = [(item.location or item.address, item.shown) for item in listed]
        return ItemGroup(heading, rows, self.count - len(listed), notes)

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "node": self.node,
            "name": self.label,
            "what": self.what,
            "path": self.path,
            "count": self.count,
            "changed": self.changed,
            "gone": self.gone,
            "standing": self.file_status,
            "items": [item.to_json() for item in self.items],
            "app": self.app,
            "next_jobs": [job.to_json() for job in self.next_jobs],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Group:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        items = tuple(map(Item.from_json, document["items"]))
        file_status = "gone" if document["gone"] else "changed" if document["changed"] else "same"
        return cls(
            document["node"],
            document["name"],
            document["what"],
            document["path"],
            document["count"],
            items,
            document.get("standing", file_status),
            document.get("app", ""),
            tuple(map(NextJob.from_json, document.get("next_jobs", ()))),
        )

    def without_texts(self) -> Group:
        """The same without the texts of items, for users who may not read them."""
        items = tuple(replace(item, text=None, binding=None) for item in self.items)
        return replace(self, items=items)


@dataclass(frozen=True, slots=True)
class Container:
    """What some rows of an answer lie in, at the level that the query names.

    ``name``: as people name it. ``rows``: how many rows of the answer it has, each once. ``app``: the application that a
    task or node is of; empty for others.
    """

    name: str
    rows: int
    app: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {"name": self.name, "rows": self.rows, "app": self.app}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Container:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(document["name"], document["rows"], document["app"])


@dataclass(frozen=True, slots=True)
class RowsOutside:
    """Rows of a node (its name) that lie in no container of the level that the query names."""

    node: str
    rows: int
    app: str

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {"node": self.node, "rows": self.rows, "app": self.app}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> RowsOutside:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(document["node"], document["rows"], document["app"])


@dataclass(frozen=True, slots=True)
class NotQueried:
    """An application, or one node of it (else empty), that takes part in a query but could not be queried."""

    app: str
    reason: str
    node: str = ""

    def warning(self) -> str:
        """The warning."""
        node = f"node {self.node} of " if self.node else ""
        return f"{node}{self.app} is not queried: {self.reason}"

    def to_json(self) -> dict[str, str]:
        """The JSON shape that tools rely on."""
        return {"app": self.app, "node": self.node, "reason": self.reason}

    @classmethod
    def from_json(cls, document: dict[str, str]) -> NotQueried:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(document["app"], document["reason"], document["node"])


@dataclass(frozen=True, slots=True, repr=False)
class Answer(NotebookDisplay):
    """The answer to a query.

    ``changed``: a file has changed since the application used it. ``complete``: the lineage of all
    applications that take part is complete, and all were queried; otherwise items may be missing. ``app``: the
    queried application, the latest of several; ``apps``: all of them (empty: only ``app``).
    ``not_queried``: what takes part but could not be queried.
    ``by``: the level of the answer. At other levels than ``row`` the groups only count their rows; ``containers`` are the
    first of ``containers_total``, those of most rows first, and ``outside`` are the rows that lie in none.
    ``reasons``, ``warnings`` and ``not_queried`` are the first of many, the last entry says how many are left out.
    ``pairs``: which rows of its groups were joined with each other; None: not known for such an answer.
    ``parts_passed``, ``parts_unknown``: for traces through all jobs, not in JSON: parts of files on the way that other applications may have
    read, too, and those that the application read in a file of its own without having written them.
    """

    app: str
    direction: Direction
    requested_places: tuple[str, ...]
    start: tuple[Group, ...]
    exact: bool
    reasons: tuple[str, ...]
    groups: tuple[Group, ...]
    warnings: tuple[str, ...]
    changed: bool
    complete: bool
    apps: tuple[str, ...] = ()
    not_queried: tuple[NotQueried, ...] = ()
    by: str = "row"
    containers: tuple[Container, ...] = ()
    containers_total: int = 0
    outside: tuple[RowsOutside, ...] = ()
    pairs: Pairs | None = None
    parts_passed: tuple[Group, ...] = field(default=(), compare=False)
    parts_unknown: tuple[NotQueried, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reasons", listed_reasons(self.reasons))
        object.__setattr__(self, "warnings", listed_warnings(self.warnings, self.complete))
        object.__setattr__(self, "not_queried", _listed_not_queried(self.not_queried))

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        key = "sources" if self.direction is Direction.BACKWARD else "sinks"
        of_app = [replace(group, app=group.app or self.app) for group in self.groups]
        return {
            "app": self.app,
            "apps": list(self.apps or (self.app,)),
            "not_asked": [entry.to_json() for entry in self.not_queried],
            "direction": self.direction.value,
            "from": list(self.requested_places),
            "start": [replace(group, app=group.app or self.app).to_json() for group in self.start],
            "exact": self.exact,
            "reasons": list(self.reasons),
            "complete": self.complete,
            "changed": self.changed,
            "warnings": list(self.warnings),
            key: [group.to_json() for group in of_app],
            "by": self.by,
            "containers": [container.to_json() for container in self.containers],
            "containers_total": self.containers_total,
            "outside": [rows.to_json() for rows in self.outside],
            "pairs": self.pairs and self.pairs.to_json(),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Answer:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        direction = Direction(document["direction"])
        key = "sources" if direction is Direction.BACKWARD else "sinks"
        apps = tuple(document.get("apps", ()))
        several = apps not in {(), (document["app"],)}

        def groups(of: str) -> tuple[Group, ...]:
            listed = map(Group.from_json, document[of])
            return tuple(group if several else replace(group, app="") for group in listed)

        return cls(
            app=document["app"],
            direction=direction,
            requested_places=tuple(document["from"]),
            start=groups("start"),
            exact=document["exact"],
            reasons=tuple(document["reasons"]),
            groups=groups(key),
            warnings=tuple(document["warnings"]),
            changed=document["changed"],
            complete=document["complete"],
            apps=apps if several else (),
            not_queried=tuple(map(NotQueried.from_json, document.get("not_asked", ()))),
            by=document.get("by", "row"),
            containers=tuple(map(Container.from_json, document.get("containers", ()))),
            containers_total=document.get("containers_total", 0),
            outside=tuple(map(RowsOutside.from_json, document.get("outside", ()))),
            pairs=Pairs.from_json(document["pairs"]) if document.get("pairs") else None,
        )

    def containers_heading(self) -> str:
        """The heading of the containers: how many there are of the level."""
        return f"{self.containers_total:,} {self.by}" + ("" if self.containers_total == 1 else "s")

    def container_lines(self, limit: int | None = None) -> list[str]:
        """The first containers as people read them, and the rows that lie in none."""
        lines = [
            f"{container.name}{self._of(container.app)}: {rows_text(container.rows)}"
            for container in self.containers[:limit]
        ]
        lines += [
            f"in no {self.by}: {rows_text(rows.rows)} of {rows.node}{self._of(rows.app)}"
            for rows in self.outside
        ]
        return lines

    def _of(self, app: str) -> str:
        return f" ({app})" if app and self.apps[1:] else ""

    def __repr__(self) -> str:
        towards = "from" if self.direction is Direction.BACKWARD else "into"
        groups = ", ".join(group.heading() for group in self.groups) or "nothing"
        if self.by != "row":
            groups = f"{self.containers_heading()}: {groups}"
        complete = "" if self.complete else ", incomplete"
        exact = "exact" if self.exact else "not exact"
        return f"<Answer: {', '.join(self.requested_places)} {towards} {groups}; {exact}{complete}>"

    def _showing(self, limit: int) -> Showing:
        towards = "from" if self.direction is Direction.BACKWARD else "into"
        start = [group.shown(group.heading(self._whose(group)), limit) for group in self.start]
        groups = [
            group.shown(
                f"{towards} {group.heading(self._whose(group))}",
                limit,
                [job.line(self.direction) for job in group.next_jobs],
            )
            for group in self.groups
        ]
        if self.by != "row":
            lines = [(line, None) for line in self.container_lines(limit)]
            hidden = self.containers_total - len(self.containers[:limit])
            groups = [ItemGroup(f"{towards} {self.containers_heading()}", lines, hidden)]
        nothing = [] if self.groups else [ItemGroup(f"{towards} nothing: no item was found", (), 0)]
        return Showing(
            [*start, *groups, *nothing],
            () if self.exact else self.reasons or ("there may be more than was used",),
            () if self.complete else (INCOMPLETE,),
            self.warnings,
        )

    def _whose(self, group: Group) -> str:
        return group.app if self.apps[1:] else ""

    def with_typed_places(self, places: Sequence[str]) -> Answer:
        """The same, of places as they were typed."""
        spelled = dict(zip(self.requested_places, places, strict=True))
        warnings = tuple(respelled(warning, spelled) for warning in self.warnings)
        not_queried = tuple(
            replace(entry, reason=respelled(entry.reason, spelled)) for entry in self.not_queried
        )
        return replace(
            self, requested_places=tuple(places), warnings=warnings, not_queried=not_queried
        )

    def without_texts(self) -> Answer:
        """The same without the texts of rows, for users who may not read them."""
        return replace(
            self,
            start=tuple(group.without_texts() for group in self.start),
            groups=tuple(group.without_texts() for group in self.groups),
        )


def listed_warnings(warnings: Sequence[str], complete: bool) -> tuple[str, ...]:
    """Warnings as an answer lists them; where some are left out, the first one says that items may be missing."""
    distinct = dict.fromkeys(warnings)
    if len(distinct) > LISTED_MAX and not complete:
        distinct = {INCOMPLETE: None, **distinct}
    return listed_reasons(distinct)


def _listed_not_queried(not_queried: Sequence[NotQueried]) -> tuple[NotQueried, ...]:
    listed = [
        replace(entry, reason=cut_text(entry.reason)) for entry in not_queried[:NOT_QUERIED_MAX]
    ]
    left_out = len(not_queried) - len(listed)
    if left_out:
        reason = f"its reason, and {left_out:,} others that are not queried, are left out here"
        listed[-1] = replace(listed[-1], reason=reason)
    return tuple(listed)


def respelled(text: str, spelled: Mapping[str, str]) -> str:
    """A text with each place replaced by the spelling in which the user typed it."""
    for place in sorted(spelled, key=len, reverse=True):
        text = text.replace(place, spelled[place])
    return text


class Composer:
    """Turns regions into items of one application, and collects warnings."""

    def __init__(
        self,
        graph: FlowGraph,
        names: Names,
        locations: Locations,
        nodes: Sequence[NodeRecord] | None = None,
    ) -> None:
        """``nodes``: those of the graph, if already loaded. ``locations``: with the file states just read."""
        nodes = graph.nodes() if nodes is None else nodes
        self._graph = graph
        self._nodes = {node.node: node for node in nodes}
        self._order = {node.node: at for at, node in enumerate(nodes)}
        self._names = names
        self._locations = locations
        self.warnings: dict[str, None] = {}

    def groups(self, result: TraceResult, limit: int | None, *, texts: bool) -> tuple[Group, ...]:
        """What a trace found, by node in order of creation."""
        node_items = sorted(
            result.found.values(), key=lambda items: self._order.get(items.node, -1)
        )
        return tuple(self.group(items, limit, texts=texts) for items in node_items if items.count)

    def group(self, node_items: NodeItems, limit: int | None, *, texts: bool) -> Group:
        """The items of one node, the first ``limit`` of them or all."""
        record = self._nodes.get(node_items.node)
        items: list[Item] = []
        file_statuses: set[FileStatus] = set()
        for space in sorted(node_items.spaces, key=order_of):
            region = node_items.spaces[space]
            if limit is not None:
                region = listed_slice(node_items.node, region, 0, limit - len(items))
            if not region:
                continue
            list_items = self._parts if is_file_node(node_items.node) else self._items
            more, file_status = list_items(space, region, record, texts=texts)
            items += more
            file_statuses.add(file_status)
        return Group(
            node_items.node,
            self._names.label(node_items.node),
            "" if record is None else record.name or record.op,
            None if record is None else record.path,
            node_items.count,
            tuple(items),
            worst(file_statuses),
        )

    def paired_rows(self, combinations: Sequence[Combination]) -> tuple[tuple[PairedRow, ...], ...]:
        """Items that were joined, each combination in the order of the nodes."""
        rows = self._rows_of({item for together in combinations for item in together})
        paired: dict[tuple[PairedRow, ...], None] = {}
        for together in combinations:
            ordered = sorted(
                together, key=lambda item: (self._order.get(rows[item].node, -1), item[1])
            )
            for row in (rows[item] for item in ordered):
                current_budget().count_name(row.address, 2)
            paired[tuple(rows[item] for item in ordered)] = None
        return tuple(paired)

    def _rows_of(self, items: Collection[ItemName]) -> dict[ItemName, PairedRow]:
        """What an answer calls some items."""
        positions: dict[str, list[int]] = {}
        for space, position in items:
            positions.setdefault(space, []).append(position)
        rows: dict[ItemName, PairedRow] = {}
        for space, of_space in positions.items():
            node = parse_space(space).name
            label = self._names.label(node)
            region = NodeItems(node, {space: Region.from_positions(of_space)})
            for _, numbers, named in self.batches(region, texts=False):
                for number, item in zip(numbers.tolist(), named, strict=True):
                    rows[space, number] = PairedRow(node, label, item.address, item.location)
        return rows

    def batches(
        self, node_items: NodeItems, *, texts: bool, at_once: int = ITEMS_AT_ONCE
    ) -> Iterator[tuple[str, U64, list[Item]]]:
        """All items of one node, some at a time: their space, their positions and they themselves.

        However many there are, no more than ``at_once`` are in memory.
        """
        record = self._nodes.get(node_items.node)
        for space in sorted(node_items.spaces, key=order_of):
            for part in _parts(node_items.spaces[space], at_once):
                items, _ = self._items(space, part, record, texts=texts)
                yield space, part.positions(), items

    def _parts(
        self, space: str, region: Region, record: NodeRecord | None, *, texts: bool
    ) -> tuple[list[Item], FileStatus]:
        """The runs of a region of the bytes of a file."""
        current_budget().check()
        node = parse_space(space).name
        paths = [
            shown_path(part.path, None if record is None else record.path)
            for part in self._locations.parts_of(space, region)
        ]
        items = [
            Item(
                part_address(self._names.space(space), first, last),
                str(part_of_file(paths[0], first, last)) if paths else None,
                self._value_of_part(space, first, last) if texts else None,
            )
            for first, last in region
        ]
        for item in items:
            current_budget().count_name(item.location or item.address)
        file_status = worst(self._locations.file_statuses(node).values())
        if paths and has_changed(file_status):
            change = "no longer exists" if file_status == "gone" else "has changed since"
            self.warnings[f"{paths[0]} {change}"] = None
        return items, file_status

    def _value_of_part(self, space: str, first: int, last: int) -> str | None:
        """What a program said that a part of a file is, if it said one thing of all of it."""
        if last - first >= PART_VALUED_MAX:
            return None
        values = item_values(self._graph, space, np.arange(first, last + 1, dtype=np.uint64))
        _count_texts(values)
        # It stands at the first byte of what one call put out; adjacent ones are one part here.
        return values[first] if list(values) == [first] else None

    def _items(
        self, space: str, region: Region, record: NodeRecord | None, *, texts: bool
    ) -> tuple[list[Item], FileStatus]:
        current_budget().check()
        shown = self._names.space(space)
        positions = region.positions().tolist()
        if space == OPAQUE_SPACE:
            strings = opaque_texts(self._graph, region.positions())
            _count_texts(strings)
            return [Item(f"{shown}#{p}", None, strings.get(p)) for p in positions], "same"
        file_rows = self._locations.rows_of(space, region, texts=texts)
        recorded_texts: dict[int, str] = {}
        if texts and (not file_rows or file_rows[0].unit != "line"):
            recorded_texts = item_values(self._graph, space, region.positions())
            _count_texts(recorded_texts)
        if not file_rows:
            return [Item(f"{shown}#{p}", None, recorded_texts.get(p)) for p in positions], "same"
        items: list[Item] = []
        for rows in file_rows:
            path = shown_path(rows.path, None if record is None else record.path)
            self._warn(path, rows)
            current_budget().count_name(path, len(rows.positions))
            placed_positions = zip(rows.positions.tolist(), rows.places(path), strict=True)
            items += [
                Item(f"{shown}#{position}", place, recorded_texts[position])
                if position in recorded_texts
                else Item(f"{shown}#{position}", place, text, binding, lines)
                for (position, place), text, binding, lines in zip(
                    placed_positions, rows.texts, rows.bindings, rows.lines, strict=True
                )
            ]
        return items, worst({rows.file_status for rows in file_rows})

    def _warn(self, path: str, rows: LocatedRows) -> None:
        if rows.file_status == "gone":
            explanation = f": {LINES_AS_USED}" if rows.unit == "line" else ""
            self.warnings[f"{path} no longer exists{explanation}"] = None
        elif rows.changed:
            self.warnings[f"{path} has changed since{_changed_text_note(rows)}"] = None
        if rows.note:
            self.warnings[rows.note] = None


def _count_texts(texts: Mapping[int, str]) -> None:
    """Count texts that are stored with the lineage: those of files are counted where they are read."""
    current_budget().count_text(sum(map(len, texts.values())))


def _changed_text_note(rows: LocatedRows) -> str:
    """The explanation of the texts that are shown of a changed file."""
    if rows.unbound:
        return f": a text marked {AS_IT_IS_NOW} is the current one there, and may belong to another row"
    if "checksum" in rows.bindings:
        return ": by the checksums of their blocks, the rows shown are those that the job read"
    return f": {LINES_AS_USED}" if rows.unit == "line" else ""


def order_of(space: str) -> tuple[int, int, str]:
    """Sorts spaces of a node: by partition, then incarnation."""
    parsed = parse_space(space)
    return parsed.partition, parsed.incarnation or 0, space


def _parts(region: Region, at_once: int) -> Iterator[Region]:
    """A region in parts of at most so many positions."""
    for low in range(0, region.runs, at_once):
        # A slice of few runs costs little, one of all runs as much as all of them.
        run_region = Region(region.first[low : low + at_once], region.last[low : low + at_once])
        for at in range(0, run_region.count, at_once):
            yield run_region.slice(at, at_once)
