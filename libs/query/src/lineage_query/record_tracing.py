"""Traces of records in the graph of one application: resolves places to items, and follows them back or forward."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from lineage_core.contract.address import OPAQUE_SPACE, SpaceKind, parse_space
from lineage_core.contract.block import BlockId, Relation
from lineage_core.contract.graph import NodeRecord, Unit
from lineage_core.contract.positions import is_file_node, text_position
from lineage_core.contract.region import Region
from lineage_core.contract.runs import EMPTY
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.block_lookup import cached_space
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.crossing import inputs_of_rows, outputs_of_rows
from lineage_core.tracing.joined_items import JoinedItems, joined_items
from lineage_core.tracing.trace_result import Direction, TraceError, TraceResult
from lineage_core.tracing.walk import NOT_RECORDED
from lineage_query.blocks import input_region, iter_blocks, output_region
from lineage_query.file_parts import bytes_text
from lineage_query.finding import (
    UNREAD_REASON,
    FileUse,
    NotFoundError,
    Readers,
    find_application,
    find_uses,
    other_readers,
)
from lineage_query.folders import files_of_folder
from lineage_query.names import Names, TaskName, looks_like_address, parse_task
from lineage_query.opaque import find_opaque
from lineage_query.recipe_rows import RecipePlace, RecipeRowError, node_of_space, recipe_nodes_among
from lineage_query.record_starts import ListedRows, RecordStart
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import (
    FolderError,
    Location,
    LocationError,
    PastTheEndError,
    parse_place,
)
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_query.trace_query import TASK_LEVELS, TraceQuery
from lineage_store.materialised import SUFFIX
from lineage_store.paths import RowsError, Spellings
from lineage_store.port import GraphStore

NAMED_APPLICATIONS_MAX = 3
OUTPUT_NODE_KINDS = ("operator", "shuffle")
"""Kinds of nodes whose items are all outputs of blocks."""


@dataclass(frozen=True, slots=True)
class _Start:
    """Where a trace starts in one application.

    ``uses``: how it used the files that places name. ``start_regions``: the items that they name, by space. ``recipe_row``: a
    place that names rows of DataFrames instead, which no block holds; with ``recipe_nodes``, those that read or wrote it.
    ``recipe_files``: all places, where they are whole files of sources of DataFrames.
    """

    opened: ApplicationSnapshot
    uses: Mapping[str, list[FileUse]]
    start_regions: Mapping[str, Region] = field(default_factory=dict)
    recipe_row: str | None = None
    recipe_nodes: tuple[NodeRecord, ...] = ()
    recipe_files: tuple[str, ...] = ()

    @property
    def recipe_place(self) -> RecipePlace | None:
        """The rows of DataFrames that the query names, if any.

        Raises:
            RecipeRowError: they have no lineage.
        """
        if self.recipe_row is None:
            return None
        if all(node.kind == "unknown" for node in self.recipe_nodes):
            raise self.refusal()
        nodes = tuple(node.node for node in self.recipe_nodes)
        return RecipePlace(self.opened.app, nodes, self.recipe_row, files=self.recipe_files)

    def refusal(self) -> RecipeRowError:
        """The error for rows of DataFrames, which are not looked up."""
        return RecipeRowError(self.recipe_row or "", self.opened.app, self.recipe_nodes)


class RecordTracer:
    """Traces records over a store; ``application_cache`` caches opened applications."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        application_cache: ApplicationCache | None = None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._application_cache = application_cache or ApplicationCache(store, reader)

    def look_up(self, query: TraceQuery) -> RecordTrace | RecipePlace:
        """Trace the records that a query names; rows of DataFrames, which no block holds, are named instead.

        Raises:
            NotFoundError: no such application, or none used the file.
            LocationError: a place does not name a row.
            AddressError: an address can't be read, or names no node.
            RowsError: rows must be counted in a file that can't be read.
            RecipeRowError: a place is a row of a DataFrame that has no lineage.
            TraceError: ``until`` is not in that direction, or the query has a condition, which records don't support.
            BudgetError: the query exceeds its budget.
        """
        expanded, gaps = self._expand_folders(query)
        start = self._start(expanded)
        place = start.recipe_place
        if place is not None and expanded.places != query.places and not place.files:
            raise LocationError(
                f"{place.place} has rows of a DataFrame, which are traced one file at a time: name a file, or backward the "
                "whole output by its path"
            )
        if place is not None:
            return place
        return _with_gaps(self._trace_from(expanded, start), query.places, gaps)

    def trace(self, query: TraceQuery) -> RecordTrace:
        """Trace the records that a query names.

        Raises:
            RecipeRowError: a place is a row of a DataFrame, which is traced by its recipe.
            LineageError: as :meth:`look_up`.
        """
        expanded, gaps = self._expand_folders(query)
        start = self._start(expanded)
        if start.recipe_row is not None:
            raise start.refusal()
        return _with_gaps(self._trace_from(expanded, start), query.places, gaps)

    def start(self, query: TraceQuery, rows: Sequence[str] = ()) -> RecordStart:
        """Where the trace of a query starts, without the trace.

        Args:
            query: names records of one application.
            rows: more places, any number of rows of few files.

        Raises:
            RecipeRowError: a place is a row of a DataFrame, which is traced by its recipe.
            LineageError: as :meth:`look_up`.
        """
        listed = ListedRows.of(rows)
        query = replace(query, places=tuple(dict.fromkeys((*query.places, *listed.places))))
        expanded, gaps = self._expand_folders(query)
        start = self._start(expanded)
        if start.recipe_row is not None:
            raise start.refusal()
        opened, uses = start.opened, start.uses
        beside = any(_recipe_places(opened, uses, query.direction))
        warnings = (*self._warnings(opened, expanded, uses), *gaps)
        return RecordStart(
            opened,
            listed.add_to(start.start_regions, opened, uses),
            complete=opened.verdict.complete and not beside and not gaps,
            changed=_any_changed(uses),
            warnings=tuple(dict.fromkeys(warnings)),
        )

    def application_of(self, query: TraceQuery) -> str:
        """The application that a query is about, without its trace; raises as :meth:`look_up`."""
        expanded, _ = self._expand_folders(query)
        return self._application(expanded, self._all_uses(expanded, Spellings()))

    def _expand_folders(self, query: TraceQuery) -> tuple[TraceQuery, tuple[str, ...]]:
        """The query with the files of folders in their place, and why rows of these may be left out."""
        app = query.app and find_application(self._store, query.app)
        places: dict[str, None] = {}
        gaps: list[str] = []
        spellings = Spellings()
        for place in query.places:
            folder = files_of_folder(
                self._store,
                self._reader,
                place,
                wrote=query.direction is Direction.BACKWARD,
                app=app,
                spellings=spellings,
            )
            places |= dict.fromkeys((place,) if folder is None else folder.files)
            gaps += () if folder is None else folder.gaps
        return replace(query, places=tuple(places)), tuple(gaps)

    def _start(self, query: TraceQuery) -> _Start:
        """Find the application that a query is about, and what its places name there."""
        if query.where:
            raise TraceError("a condition chooses rows of DataFrames' outputs alone")
        spellings = Spellings()
        uses = self._all_uses(query, spellings)
        opened = self._application_cache.open(self._application(query, uses))
        opened = replace(opened, locations=opened.locations.as_now(spellings))
        regions: dict[str, list[Region]] = {s: [region] for s, region in query.regions.items()}
        for space, region in query.regions.items():
            _check_region(opened, space, region)
        for place in query.places:
            nodes = _recipe_nodes(opened, place, uses.get(place))
            if nodes and place in uses and parse_place(place).split is not None:
                raise LocationError(
                    f"{place}: which rows of a split are those of a DataFrame is not known: name the file"
                )
            if nodes:
                start = _recipe_start(opened, uses, query, place, nodes)
                if start is not None:
                    return start
                continue
            found = _items_at(opened, place, uses.get(place), query.direction)
            for space, region in found.items():
                regions.setdefault(space, []).append(region)
        return _Start(
            opened,
            uses,
            {space: Region.union(space_regions) for space, space_regions in regions.items()},
        )

    def _trace_from(self, query: TraceQuery, start: _Start) -> RecordTrace:
        """Trace the records at which a query starts."""
        opened, start_regions, uses = start.opened, dict(start.start_regions), start.uses
        recipe_places = tuple(_recipe_places(opened, uses, query.direction))
        until = "ends" if query.until is None else opened.names.node(query.until)
        trace = partial(
            opened.tracer.trace,
            query.direction,
            start_regions,
            until=until,
            steps=query.steps,
            by_task=query.by in TASK_LEVELS,
        )
        result = trace()
        if opened.verdict.complete:
            _refuse_missing_items(start_regions, result, opened.names)
        if query.until is not None and not result.found:
            _refuse_itemless(opened, until, result)
        return RecordTrace(
            app=opened.app,
            direction=query.direction,
            requested_places=query.places,
            graph=opened.graph,
            names=opened.names,
            locations=opened.locations,
            start_regions=start_regions,
            result=result,
            complete=opened.verdict.complete and not recipe_places,
            superset=opened.verdict.superset,
            changed=_any_changed(uses),
            warnings=tuple(dict.fromkeys(self._warnings(opened, query, uses))),
            along_exact=partial(trace, exact_only=True),
            joined_items=_joined_items(opened),
            cached_nodes=opened.nodes,
            recipe_places=recipe_places,
        )

    def again(self, query: TraceQuery, traced: RecordTrace) -> RecordTrace:
        """A trace computed before, with the current status of its files.

        Raises:
            LineageError: as :meth:`trace`.
        """
        expanded, _ = self._expand_folders(query)
        if expanded.places != query.places:
            # A folder may have other files by now.
            return self.trace(query)
        uses = self._all_uses(query, Spellings())
        opened = self._application_cache.open(traced.app)
        warnings = tuple(dict.fromkeys(self._warnings(opened, query, uses)))
        return replace(traced, changed=_any_changed(uses), warnings=warnings)

    def opened(self, app: str) -> ApplicationSnapshot:
        """An application by its full id, opened for queries.

        Raises:
            KeyError: there is no such application.
        """
        return self._application_cache.open(app)

    def locations(self, app: str) -> Locations:
        """Rows of the files of an application, as they are now.

        Raises:
            KeyError: there is no such application.
        """
        return self.opened(app).locations.as_now()

    def _warnings(
        self, opened: ApplicationSnapshot, query: TraceQuery, uses: Mapping[str, list[FileUse]]
    ) -> Iterator[str]:
        for place, file_uses in uses.items():
            yield from _warnings_of_use(place, file_uses[0], query.direction)
        if query.direction is Direction.FORWARD and query.app is None:
            for place in uses:
                path = parse_place(place).path
                others = other_readers(self._store, self._reader, path, opened.app)
                yield from also_read_warnings(place, opened.app, others)
        verdict = opened.verdict
        if not verdict.complete:
            yield incomplete_warning(opened.app, verdict)

    def _all_uses(self, query: TraceQuery, spellings: Spellings) -> dict[str, list[FileUse]]:
        """Uses of the files that places name; those that name a string of an SDK have none."""
        uses: dict[str, list[FileUse]] = {}
        for place in query.places:
            if not looks_like_address(place) and parse_task(place) is None:
                try:
                    uses[place] = self._uses(place, query, spellings)
                except (LocationError, NotFoundError, RowsError):
                    if not self._is_opaque(place, query):
                        raise
        return uses

    def _is_opaque(self, place: str, query: TraceQuery) -> bool:
        opened = self._application_cache.open(find_application(self._store, query.app))
        return find_opaque(opened.graph, place) is not None

    def _uses(self, place: str, query: TraceQuery, spellings: Spellings) -> list[FileUse]:
        app = query.app and find_application(self._store, query.app)
        path = self._file_of(place)
        back = query.direction is Direction.BACKWARD
        return find_uses(self._store, self._reader, path, wrote=back, app=app, spellings=spellings)

    def _application(self, query: TraceQuery, uses: dict[str, list[FileUse]]) -> str:
        apps = {file_uses[0].app: place for place, file_uses in uses.items()}
        if len(apps) > 1:
            named = ", ".join(f"{place} belongs to {app}" for app, place in apps.items())
            raise NotFoundError(f"one application at a time: {named}; --app chooses one")
        return next(iter(apps), "") or find_application(self._store, query.app)

    def _file_of(self, place: str) -> str:
        """The file that a place names.

        Raises:
            LocationError: the text has another form, or names a folder.
        """
        for text in (place, place.rpartition(":")[0], place.rpartition("#")[0]):
            if text and self._reader.is_folder(text):
                kind = "a folder with no known file" if text == place else "a folder"
                raise FolderError(
                    f"{text} is {kind}; name a row of one of its files as PATH:LINE (PATH#RECORD "
                    f"where records are no lines), such as {text.rstrip('/')}/part-00000:1"
                )
        return parse_place(place).path


def _joined_items(
    opened: ApplicationSnapshot,
) -> Callable[[Mapping[str, Region], TraceResult], JoinedItems] | None:
    """What says which items were joined: the flows that were captured, not those that a query materialised."""
    if opened.app.endswith(SUFFIX) or not opened.tracer.shows_joins:
        return None
    return partial(joined_items, opened.tracer.topology, opened.tracer.reload)


def _with_gaps(
    traced: RecordTrace, requested_places: tuple[str, ...], gaps: Sequence[str]
) -> RecordTrace:
    """A trace of places as they were requested; incomplete where rows of them are left out."""
    return replace(
        traced,
        requested_places=requested_places,
        complete=traced.complete and not gaps,
        warnings=tuple(dict.fromkeys((*traced.warnings, *gaps))),
    )


def _recipe_start(
    opened: ApplicationSnapshot,
    uses: Mapping[str, list[FileUse]],
    query: TraceQuery,
    place: str,
    nodes: tuple[NodeRecord, ...],
) -> _Start | None:
    """Where a trace starts at rows of DataFrames, of which a place is the first.

    ``nodes``: those that read or wrote it. None: of several whole files of sources some were read as records, too: the trace of
    these goes on with what DataFrames read of all files.
    """
    single = _Start(opened, uses, recipe_row=place, recipe_nodes=nodes)
    if query.direction is not Direction.FORWARD or len(query.places) == 1 or query.regions:
        return single
    readers: dict[str, NodeRecord] = {}
    are_of_frames = True
    for file in query.places:
        current_budget().check()
        is_whole = file in uses and str(parse_place(file)) == parse_place(file).path
        file_readers = _recipe_nodes(opened, file, uses.get(file))
        if not is_whole or any(node.kind != "frame-source" for node in file_readers):
            return single
        are_of_frames = are_of_frames and bool(file_readers)
        readers |= {node.node: node for node in file_readers}
    if not are_of_frames:
        return None
    return replace(single, recipe_nodes=tuple(readers.values()), recipe_files=query.places)


def _recipe_nodes(
    opened: ApplicationSnapshot, place: str, uses: Sequence[FileUse] | None
) -> tuple[NodeRecord, ...]:
    """The nodes of DataFrames whose rows a place names; none where it names records."""
    if uses is not None:
        nodes = recipe_nodes_among(opened.nodes, (use.node for use in uses))
        return tuple(nodes) if len(nodes) == len({use.node for use in uses}) else ()
    if looks_like_address(place):
        named = opened.names.find(place, opened.graph)
        return tuple(recipe_nodes_among(opened.nodes, map(node_of_space, named)))
    return ()


def _task_items(
    opened: ApplicationSnapshot, task: TaskName, direction: Direction
) -> dict[str, Region]:
    """The items that a task put out, by space; backward, what it read where other tasks put out the same items.

    Other tasks may put out the same keys of a shuffle: what lies behind a key is not what lies behind this task.

    Raises:
        LocationError: there is no such task.
        AddressError: there is no such node.
    """
    node = opened.names.node(task.node)
    block_ids: list[BlockId] = []
    for ref in opened.graph.blocks():
        current_budget().check()
        block_id = ref.block_id
        is_of_task = (block_id.partition, block_id.attempt) == (task.partition, task.attempt)
        if is_of_task and (ref.task or block_id.node) == node:
            block_ids.append(block_id)
    if not block_ids:
        raise LocationError(
            f"there is no task {task} in {opened.app}; --by task lists those of rows"
        )
    regions: dict[str, list[Region]] = {}
    for block in iter_blocks(opened.graph, block_ids):
        all_rows = np.arange(block.rows, dtype=np.int64)
        for section in block.out:
            rows = np.arange(section.row_first, section.row_stop, dtype=np.int64)
            if (
                direction is Direction.FORWARD
                or cached_space(section.space).kind is SpaceKind.PARTITION
            ):
                runs = outputs_of_rows(block, rows).get(section.space, EMPTY)
                regions.setdefault(section.space, []).append(Region.of_runs(*runs))
            else:
                made_of = all_rows if block.relation is Relation.ALL else rows
                regions.setdefault(block.in_space, []).append(
                    Region.of_runs(*inputs_of_rows(block, made_of))
                )
    return {space: Region.union(of_space) for space, of_space in regions.items()}


def _items_at(
    opened: ApplicationSnapshot,
    place: str,
    uses: Sequence[FileUse] | None,
    direction: Direction,
) -> dict[str, Region]:
    """The records that a place names, by space."""
    task = None if uses is not None else parse_task(place)
    if task is not None:
        return _task_items(opened, task, direction)
    if uses is None and looks_like_address(place):
        named = opened.names.find(place, opened.graph)
        for space, region in named.items():
            opened.locations.check(space, region, opened.names.space(space))
        return named
    if uses is None:
        return {OPAQUE_SPACE: Region.from_positions([text_position(place)])}
    typed_location = parse_place(place)
    location = replace(typed_location, path=opened.locations.spelled(typed_location.path))
    units = {use.node: opened.locations.unit(use.node, location.path) for use in uses}
    if location.number is None and set(units.values()) != {None}:
        return _items_in(opened, place, location, units)
    if not any(opened.locations.names(node, location) for node in units):
        raise LocationError(f"{place} names no row: give {_forms(units.values())}")
    items: dict[str, Region] = {}
    for node in units:
        if opened.locations.names(node, location):
            items |= _used_items(opened, node, location, direction)
    return items


def _used_items(
    opened: ApplicationSnapshot, node: str, location: Location, direction: Direction
) -> dict[str, Region]:
    """The items of a node at a place; of the bytes of a file those that the application used."""
    items = opened.locations.items_at(node, location)
    if not is_file_node(node):
        return items
    region = Region.union(items.values())
    written, read = (opened.locations.bytes_used(node, wrote=wrote) for wrote in (True, False))
    if direction is Direction.FORWARD:
        # What was not read of it went nowhere.
        return dict.fromkeys(items, region & (read or written))
    if written and region - written:
        raise PastTheEndError(
            f"{location}: {opened.app} recorded no lineage of {bytes_text(region - written)} of this file"
        )
    return dict.fromkeys(items, region & (written or read))


def _items_in(
    opened: ApplicationSnapshot, place: str, location: Location, nodes: Iterable[str]
) -> dict[str, Region]:
    """The records of some nodes in a whole file or in one of its splits, by space."""
    items: dict[str, Region] = {}
    for node in nodes:
        items |= opened.locations.items_in(node, location)
    if not items:
        raise LocationError(f"there is no split {place}; --by split lists those of rows")
    return items


def _check_region(opened: ApplicationSnapshot, space: str, region: Region) -> None:
    """Refuse items that a node is known not to have.

    Raises:
        LocationError: there are no such items.
        BudgetError: the check exceeds the query's budget.
    """
    shown = opened.names.space(space)
    opened.locations.check(space, region, shown)
    node = opened.record(parse_space(space).name)
    if (
        node is None
        or node.kind not in OUTPUT_NODE_KINDS
        or not opened.verdict.complete
        or not region
    ):
        return
    first, last = int(region.first[0]), int(region.last[-1])
    beyond = region - output_region(
        opened.graph, space, opened.graph.blocks_into(space, first, last)
    )
    if is_file_node(node.node) and beyond:
        # Of a file that was read nobody put the bytes out.
        beyond -= input_region(opened.graph, space, opened.graph.blocks_from(space, first, last))
    if beyond:
        raise LocationError(f"there is no item {shown}#{int(beyond.first[0])} in this application")


def continues_in(query: TraceQuery, traced: RecordTrace) -> bool:
    """Whether the trace reaches rows of DataFrames, and the query does not stop there (``until``, ``steps``)."""
    return query.until is None and query.steps is None and traced.crosses


def _recipe_places(
    opened: ApplicationSnapshot, uses: Mapping[str, Sequence[FileUse]], direction: Direction
) -> Iterator[RecipePlace]:
    """Rows of DataFrames among those that places name, in the direction of the query."""
    for place, file_uses in uses.items():
        node_ids = [use.node for use in file_uses if use.wrote == (direction is Direction.BACKWARD)]
        nodes = tuple(record.node for record in recipe_nodes_among(opened.nodes, node_ids))
        if nodes:
            yield RecipePlace(opened.app, nodes, place)


def _any_changed(uses: Mapping[str, Sequence[FileUse]]) -> bool:
    return any(use.changed for file_uses in uses.values() for use in file_uses)


def _forms(units: Iterable[Unit | None]) -> str:
    """How items of a file are named."""
    forms: dict[Unit, str] = {
        "line": "PATH:LINE as grep -n prints it",
        "record": "PATH#RECORD, records counted from 0",
        "file": "PATH, for the file was read as a whole",
        "byte": "PATH@START+LENGTH, for parts of it are known by their bytes",
    }
    return ", or ".join(form for unit, form in forms.items() if unit in set(units))


def _refuse_itemless(opened: ApplicationSnapshot, node: str, result: TraceResult) -> None:
    """Refuse an empty answer for a node in the middle of a segment, which keeps no items.

    Raises:
        TraceError: the node keeps none.
    """
    record = next(node_record for node_record in opened.graph.nodes() if node_record.node == node)
    if record.kind == "operator" and not opened.graph.spaces_of(node):
        others = ", ".join(opened.names.label(other) for other in result.passed)
        raise TraceError(
            f"node {node} ({record.name or record.op}) keeps no items of its own; "
            f"nodes on the way that do: {others}"
        )


def _refuse_missing_items(
    start_regions: dict[str, Region], result: TraceResult, names: Names
) -> None:
    """Refuse items that no block puts out, if the lineage is complete.

    Raises:
        LocationError: an item that the query names does not exist.
    """
    for dead_end in result.dead_ends:
        if dead_end.space in start_regions and dead_end.reason == NOT_RECORDED:
            position = int(dead_end.region.first[0])
            shown = f"{names.space(dead_end.space)}#{position}"
            raise LocationError(f"there is no item {shown} in this application")


def also_read_warnings(place: str, app: str, others: Readers) -> Iterator[str]:
    """The warnings that a forward trace covers one application only."""
    if others.apps:
        yield f"{place}: the trace covers {app} only; {_named(others.apps)} also read it (--app chooses)"
    if others.unread:
        yield f"{place}: whether {_named(others.unread)} also read it is not known: {UNREAD_REASON}"


def _named(apps: Sequence[str]) -> str:
    return ", ".join(apps[:NAMED_APPLICATIONS_MAX]) + (
        ", ..." if len(apps) > NAMED_APPLICATIONS_MAX else ""
    )


def incomplete_warning(app: str, verdict: Verdict) -> str:
    """The warning that items may be missing."""
    first = verdict.reasons[0] if verdict.reasons else "see lineage verify"
    return f"the lineage of {app} is incomplete: {first}"


def end_warning(place: str, app: str, direction: Direction) -> str:
    """The warning that a trace starts where it would end."""
    if direction is Direction.BACKWARD:
        return f"{place} is an input of {app}: nothing lies before it"
    return f"{place} is an output of {app}: nothing lies after it"


def _warnings_of_use(place: str, use: FileUse, direction: Direction) -> Iterator[str]:
    if use.changed:
        verb = "wrote" if use.wrote else "read"
        change = "no longer exists" if use.gone else f"has changed since {use.app} {verb} it"
        yield f"{place}: the file {change}; the answer is about the row that it had then"
    if direction is Direction.BACKWARD and not use.wrote:
        yield end_warning(place, use.app, direction)
    if direction is Direction.FORWARD and use.wrote:
        yield end_warning(place, use.app, direction)
