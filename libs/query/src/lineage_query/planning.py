"""Which applications to query: all that used the files that the query names, unless it names an application."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.contract.message import RecordSplits, Splits
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import NotQueried
from lineage_query.finding import (
    UNREAD_REASON,
    NotFoundError,
    find_application,
    find_readers,
)
from lineage_query.folders import files_of_folder
from lineage_query.names import Names, looks_like_address, parse_task
from lineage_query.outputs import OutputState, Write, is_called, output_state, writes_to
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.file_status import has_changed
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import (
    TOPICS,
    LocationError,
    ValuedPlace,
    names_record,
    parse_place,
    parse_valued,
)
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import UNREAD
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings, canonical
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery
from lineage_store.records import SPLITS

APPLICATIONS_QUERIED_MAX = 50
"""Maximum number of applications that one query runs on, the latest first; the answer names the others."""

FILES_CHECKED = 50
"""Number of files of a folder that are looked at to see whether a DataFrame wrote there; the names of the nodes of all
applications cost more."""


@dataclass(frozen=True, slots=True)
class ApplicationQuery:
    """The query of one application.

    ``recipe_place``: rows of its DataFrames, or of those whose materialised lineage it holds; None: what the query's places
    name there. ``files``: those whose rows the query names by values.
    """

    query: TraceQuery
    recipe_place: RecipePlace | None = None
    files: frozenset[str] = frozenset()

    @property
    def by_values(self) -> bool:
        """Whether the query names rows of DataFrames by their values."""
        return self.recipe_place is not None and (
            self.recipe_place.valued is not None or bool(self.query.where)
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """Which applications to query, and for what.

    ``parts``: the latest application first, each once. ``not_queried``: what takes part but is not queried. ``gaps``:
    warnings about other content that may hold rows, so that an answer is incomplete. ``changed``: files have changed since
    they were used.
    """

    parts: tuple[ApplicationQuery, ...]
    not_queried: tuple[NotQueried, ...] = ()
    gaps: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    changed: bool = False

    @property
    def only(self) -> ApplicationQuery | None:
        """The only part, if its answer is the answer to the query; None: there are several parts, gaps or warnings."""
        rest = self.not_queried or self.gaps or self.warnings or self.changed
        return self.parts[0] if len(self.parts) == 1 and not rest else None


def plan_of(store: GraphStore, reader: RowReader, query: TraceQuery) -> Plan:
    """Plan which applications to query.

    Raises:
        NotFoundError: the application that it names does not exist, or no application wrote the output whose rows are to
            fulfil a condition.
        TraceError: the query has a condition but does not name exactly one output.
    """
    planner = _Planner(store, reader, _with_app(store, query))
    if query.where:
        return planner.of_output()
    return (
        planner.by_values()
        or planner.of_whole_output()
        or planner.by_places()
        or Plan((ApplicationQuery(planner.query),))
    )


def recipe_place_by_values(
    store: GraphStore, reader: RowReader, query: TraceQuery
) -> RecipePlace | None:
    """The rows of DataFrames that a query names by their values; None if it names rows otherwise.

    Raises:
        NotFoundError: the application that it names does not exist.
    """
    plan = _Planner(store, reader, _with_app(store, query)).by_values()
    return (
        next((part.recipe_place for part in plan.parts if part.recipe_place), None)
        if plan
        else None
    )


def _with_app(store: GraphStore, query: TraceQuery) -> TraceQuery:
    """The query with the full id of the application that it names, if any."""
    if query.app is None:
        return query
    return replace(query, app=find_application(store, query.app))


@dataclass
class _Planner:
    store: GraphStore
    reader: RowReader
    query: TraceQuery
    _not_queried: list[NotQueried] = field(default_factory=list)
    _unread: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ids = self.store.application_ids()

    def of_output(self) -> Plan:
        """Rows of a whole output: the query's place is its path, its table or its name."""
        query = self.query
        if len(query.places) != 1 or query.regions:
            raise TraceError("--where takes one output: its path, its table or its node")
        if query.direction is not Direction.BACKWARD:
            raise TraceError("a condition chooses rows of an output, which are traced back")
        plan = self.by_name(query.places[0], None)
        if plan is not None:
            return plan
        self._refuse_unread(query.places[0])
        raise NotFoundError(
            f"no DataFrame's output is called {query.places[0]!r}: give its path, its table or its node "
            "(lineage graph lists them)"
        )

    def _refuse_unread(self, name: str) -> None:
        for app in self._unread:
            raise NotFoundError(
                f"no DataFrame's output or source is called {name!r} in the other applications, and whether {app} has it is "
                f"not known: {UNREAD_REASON}; name an application"
            )

    def by_values(self) -> Plan | None:
        """``OUTPUT#column=value`` (forward: ``SOURCE#``), the first place; None where it has another form."""
        places = self.query.places
        valued = parse_valued(places[0]) if places else None
        if valued is None:
            return None
        is_topic = self.query.direction is Direction.FORWARD or names_record(valued)
        if is_topic and "/" not in valued.of:
            valued = replace(valued, of=self._topic_called(valued.of))
        return self.by_name(valued.of, valued)

    def _topic_called(self, name: str) -> str:
        """The topic of Kafka that goes by a name without its servers; the name itself: there is none.

        Raises:
            LocationError: there are several.
        """
        topics: set[str] = set()
        for app in self._ids:
            if self.query.app in {None, app}:
                with self._telling_unread(app):
                    topics |= {
                        path
                        for path in (node.path or "" for node in self.store.graph(app).nodes())
                        if path.startswith(TOPICS) and path.rpartition("/")[2] == name
                    }
            current_budget().check()
        if len(topics) > 1:
            raise LocationError(f"several topics are called {name}: {', '.join(sorted(topics))}")
        return next(iter(topics), name)

    def of_whole_output(self) -> Plan | None:
        """All rows of an output of DataFrames, named by its folder; None where the query has another form."""
        query = self.query
        if query.direction is not Direction.BACKWARD or len(query.places) != 1 or query.regions:
            return None
        folder = query.places[0]
        if looks_like_address(folder) or not self.reader.is_folder(folder):
            return None
        return self.by_name(folder, None, by_path=True) if self._is_of_frames(folder) else None

    def _is_of_frames(self, folder: str) -> bool:
        """Whether a DataFrame wrote one of the first files of a folder."""
        spellings = Spellings()
        kinds: dict[str, dict[str, str]] = {}
        for file in self.reader.files_below(spellings.of(folder))[:FILES_CHECKED]:
            recorded = self.store.recorded_files(FileQuery(file, spellings, app=self.query.app))
            for use in recorded.items:
                current_budget().check()
                if use.wrote and use.app not in kinds:
                    kinds[use.app] = {}
                    with self._telling_unread(use.app):
                        kinds[use.app] = {
                            node.node: node.kind for node in self.store.graph(use.app).nodes()
                        }
                if use.wrote and kinds[use.app].get(use.node) == "frame":
                    return True
        return False

    def by_name(
        self, name: str, valued: ValuedPlace | None, *, by_path: bool = False
    ) -> Plan | None:
        """Rows of the output (forward: the source) of that path, table or name. ``by_path``: no name of a node is meant."""
        app = self.query.app
        if app is None:
            apps = [app_id for app_id in self._ids if whose_rows(app_id, self._ids) is None]
        else:
            # A query that names the holder of materialised flows is for rows of the application they belong to.
            apps = [whose_rows(app, self._ids) or app]
        is_backward = self.query.direction is Direction.BACKWARD
        kind, path = "frame" if is_backward else "frame-source", canonical(name)
        for app_id in apps:
            nodes: Sequence[NodeRecord] = ()
            with self._telling_unread(app_id):
                nodes = self.store.graph(app_id).nodes()
            candidates = [node for node in nodes if node.kind == kind]
            if any(is_called(node, name, path) for node in candidates):
                plan = (
                    self._plan_writes(name, apps, valued)
                    if is_backward
                    else self._plan_reads(name, apps, valued)
                )
                if not plan.parts:
                    self._refuse_unread(name)
                return plan
            if by_path:
                continue
            names = Names(nodes)
            for node in candidates:
                if name in {node.node, names.label(node.node)}:
                    parts = (self._part_of(app_id, [node.node], valued),)
                    return Plan(parts, self._all_not_queried())
        return None

    @contextmanager
    def _telling_unread(self, app: str) -> Iterator[None]:
        """Where an application recorded more than a query may hold, or is damaged, the answer tells so, and is about the others."""
        try:
            yield
        except UNREAD:
            # Any application may send that much, so this must not end queries about the others.
            if self.query.app is not None:
                raise
            self._unread[app] = None

    def _all_not_queried(self) -> tuple[NotQueried, ...]:
        reason = f"whether it has such rows is not known: {UNREAD_REASON}"
        return (*self._not_queried, *(NotQueried(app, reason) for app in self._unread))

    def by_places(self) -> Plan | None:
        """All applications that read what the places of a forward query name; None for other queries."""
        query = self.query
        forward = query.direction is Direction.FORWARD and query.places and not query.regions
        # A node at which the trace ends belongs to one application.
        if not forward or query.app is not None or query.until is not None:
            return None
        places: dict[str, list[str]] = {}
        file_places, from_folders = self._file_places()
        for place in file_places:
            path = None if looks_like_address(place) else self._path_of(place)
            readers = path and find_readers(self.store, self.reader, path)
            if not readers or not (readers.apps or place in from_folders):
                return None
            for app in readers.apps:
                places.setdefault(app, []).append(place)
            for app in readers.unsure:
                reason = (
                    f"it also read {path} at another time, and no checksum shows whether the content was the same "
                    "then: --app queries it"
                )
                self._not_queried.append(NotQueried(app, reason))
            for app in readers.unread:
                reason = f"whether it read {path} is not known: {UNREAD_REASON}"
                self._not_queried.append(NotQueried(app, reason))
        if not places:
            return None
        apps = self._latest_of([app for app in self._ids if app in places])
        parts = [
            ApplicationQuery(replace(query, app=app, places=tuple(places[app]))) for app in apps
        ]
        return Plan(tuple(parts), tuple(self._not_queried))

    def _file_places(self) -> tuple[list[str], set[str]]:
        """The places of a forward query, with the files of folders in their place; and these."""
        places: dict[str, None] = {}
        from_folders: set[str] = set()
        spellings = Spellings()
        for place in self.query.places:
            folder = files_of_folder(
                self.store, self.reader, place, wrote=False, app=None, spellings=spellings
            )
            if folder is None:
                places[place] = None
            else:
                places |= dict.fromkeys(folder.files)
                from_folders.update(folder.files)
        return list(places), from_folders

    def _path_of(self, place: str) -> str | None:
        if parse_task(place) is not None:
            return None
        try:
            return parse_place(place).path
        except LocationError:
            return None

    def _latest_of(self, apps: Sequence[str]) -> Sequence[str]:
        self._not_queried += [
            NotQueried(
                app,
                f"only the latest {APPLICATIONS_QUERIED_MAX} applications are queried; --app queries this one",
            )
            for app in apps[APPLICATIONS_QUERIED_MAX:]
        ]
        return apps[:APPLICATIONS_QUERIED_MAX]

    # -- rows of an output ---------------------------------------------------------------------

    def _plan_writes(self, name: str, apps: Sequence[str], valued: ValuedPlace | None) -> Plan:
        writes: list[Write] = []
        for app in apps:
            with self._telling_unread(app):
                writes += writes_to(self.store, self.reader, name, [app])
        if valued is not None and name.startswith(TOPICS) and names_record(valued):
            # Whether the topic holds the record, and which write may have made it, the trace sees.
            state = OutputState(tuple(writes))
        else:
            state = output_state(self.reader, name, writes)
        nodes: dict[str, list[str]] = {}
        for write in state.writes:
            nodes.setdefault(write.app, []).append(write.node)
        parts = [
            self._part_of(
                app,
                nodes[app],
                valued,
                {node: reason for (of, node), reason in state.uncertainties.items() if of == app},
            )
            for app in self._latest_of(list(nodes))
        ]
        # A query of one application does not include the writes of others.
        gaps = state.gaps if self.query.app is None else ()
        return Plan(tuple(parts), self._all_not_queried(), gaps, state.warnings, state.changed)

    def _part_of(
        self,
        app: str,
        nodes: Sequence[str],
        valued: ValuedPlace | None,
        uncertainties: Mapping[str, str] | None = None,
        files: Iterable[str] = (),
    ) -> ApplicationQuery:
        place = self.query.places[0]
        recipe_place = RecipePlace(app, tuple(nodes), place, valued, uncertainties or {})
        query = replace(self.query, app=self.query.app or app)
        return ApplicationQuery(query, recipe_place, files=frozenset(files))

    # -- rows of a source ----------------------------------------------------------------------

    def _plan_reads(self, name: str, apps: Sequence[str], valued: ValuedPlace | None) -> Plan:
        path = canonical(name)
        reads: list[_Read] = []
        for app in apps:
            with self._telling_unread(app):
                reads += self._reads_of(app, name, path)
        current_reads = [
            source_read
            for source_read in reads
            if source_read.current_files or not source_read.files
        ]
        if not current_reads:
            # If the file no longer exists, its last reader reports that.
            current_reads = [
                source_read for source_read in reads if source_read.app == reads[0].app
            ]
        nodes: dict[str, list[str]] = {}
        files: dict[str, set[str]] = {}
        for source_read in current_reads:
            nodes.setdefault(source_read.app, []).append(source_read.node)
            files.setdefault(source_read.app, set()).update(source_read.current_files)
        self._add_other_readers(apps, nodes, frozenset().union(*files.values()))
        parts = [
            self._part_of(app, nodes[app], valued, files=files[app])
            for app in self._latest_of(list(nodes))
        ]
        return Plan(tuple(parts), self._all_not_queried())

    def _reads_of(self, app: str, name: str, path: str) -> list[_Read]:
        graph = self.store.graph(app)
        nodes = [node for node in graph.nodes() if node.kind == "frame-source"]
        return [
            _read(graph, self.reader, app, node.node)
            for node in nodes
            if is_called(node, name, path)
        ]

    def _add_other_readers(
        self, apps: Iterable[str], queried_nodes: Mapping[str, Sequence[str]], files: frozenset[str]
    ) -> None:
        """Add nodes that read the same files as records, or as a part of another source."""
        spellings = Spellings()
        for app in apps:
            with self._telling_unread(app):
                self._add_readers_of(app, queried_nodes.get(app, ()), files, spellings)

    def _add_readers_of(
        self, app: str, queried_nodes: Sequence[str], files: frozenset[str], spellings: Spellings
    ) -> None:
        paths_by_node: dict[str, str] = {}
        for message in self.store.messages(app, *SPLITS):
            if isinstance(message, Splits | RecordSplits):
                for split in message.splits:
                    path = spellings.of(split.path)
                    if path in files and message.node not in queried_nodes:
                        paths_by_node.setdefault(message.node, path)
        if not paths_by_node:
            return
        locations = Locations(self.store.graph(app), self.reader.of_application(app))
        for node, path in paths_by_node.items():
            same = not has_changed(locations.file_status(node, path))
            if same or locations.is_undecided(node, path):
                reason = f"it did not read {path} by these columns: name a row by its location"
                self._not_queried.append(NotQueried(app, reason, node))


@dataclass(frozen=True, slots=True)
class _Read:
    """A source as an application read it. ``current_files``: those of its files that are unchanged since."""

    app: str
    node: str
    files: frozenset[str]
    current_files: frozenset[str]


def _read(graph: FlowGraph, reader: RowReader, app: str, node: str) -> _Read:
    file_statuses = Locations(graph, reader.of_application(app)).file_statuses(node)
    unchanged_files = frozenset(
        path for path, status in file_statuses.items() if not has_changed(status)
    )
    return _Read(app, node, frozenset(file_statuses), unchanged_files)
