"""Traces the rows of a subject forward, through all jobs, and keeps the rows of every output on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field, replace

from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TimeUpError, current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.engine import QueryEngine
from lineage_query.erasure.binary_values import with_readable_record
from lineage_query.erasure.finding import SubjectRow
from lineage_query.erasure.moved_sources import files_like
from lineage_query.erasure.reached import CELLS, Place, ReachedRow, place_of, topic_record
from lineage_query.finding import UNREAD_REASON
from lineage_query.rows.cut_texts import is_cut
from lineage_query.rows.file_status import (
    FileStatus,
    by_state,
    current_state,
    has_changed,
    worst,
)
from lineage_query.rows.places import parse_location, parse_place
from lineage_query.rows.reader import RowReader
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_query.values import item_values
from lineage_query.verdicts import verdict_of
from lineage_store.errors import StoreUnavailableError
from lineage_store.materialised import whose_rows
from lineage_store.paths import FileState, RowsError, Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, RecordedFile

OTHERS_MAX = 2_000
"""Applications that did not record that they read the source, and whose verdicts are looked at."""
REASONS_NAMED = 3
REACHED_MAX = 200_000
"""Maximum number of rows of outputs in a plan."""


@dataclass(slots=True)
class Reached:
    """All that the subject's rows went into.

    ``apps``: applications on the way. ``gaps``: why rows may be missing. ``reasons``: why rows may be there that the subject
    did not go into. ``notes``: what to know besides.
    """

    rows: list[ReachedRow] = field(default_factory=list)
    apps: dict[str, None] = field(default_factory=dict)
    gaps: dict[NotQueried, None] = field(default_factory=dict)
    reasons: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    is_complete: bool = True
    passed: dict[str, dict[str, Region]] = field(default_factory=dict)
    """By application and space, all items of records on the way; of DataFrames' rows there are none."""

    @property
    def complete(self) -> bool:
        """Whether no row is missing, as far as is known."""
        return self.is_complete and not self.gaps


class Reaching:
    """Traces rows forward. Of use for one plan."""

    def __init__(
        self, store: GraphStore, reader: RowReader, engine: QueryEngine, kept_folders: Sequence[str]
    ) -> None:
        """``kept_folders``: where lineage keeps rows of its own, by canonical path."""
        self._store = store
        self._reader = reader
        self._engine = engine
        self._kept = tuple(f"{folder.rstrip('/')}/" for folder in kept_folders)
        self._ids = store.application_ids()
        self._spellings = Spellings()
        self._statuses: dict[tuple[str, str, str], FileStatus] = {}
        self._statuses_of_node: dict[tuple[str, str], frozenset[FileStatus] | None] = {}
        self._set_aside_of: dict[str, Collection[str]] = {}
        self._rows: dict[tuple[str, str, Place | tuple[str, str | None, int]], ReachedRow] = {}
        self._of_start: dict[Place, bool] = {}
        self._alike: dict[tuple[str, str], tuple[str, RecordedFile]] = {}
        """By path and application, files that were read and had the content of a source."""
        self._result = Reached()

    def reach(self, subject: Iterable[SubjectRow]) -> Reached:
        """All rows of outputs that some rows went into.

        Raises:
            BudgetError: the query exceeds its time.
            StoreUnavailableError: the store does not answer.
        """
        places_by_path: dict[str, list[str]] = {}
        for row in subject:
            place = place_of(row.place)
            assert place is not None
            self._of_start[place] = True
            places_by_path.setdefault(place[0], []).append(row.place)
        places_by_app: dict[str, list[str]] = {}
        for path, places in places_by_path.items():
            for app in self._readers_of(path):
                places_by_app.setdefault(app, []).extend(places)
        for app in self._ids:
            if app in places_by_app:
                self._trace(app, places_by_app[app])
        self._name_alike()
        self._look_at_others(list(places_by_path))
        order = {app: number for number, app in enumerate(reversed(self._ids))}
        self._result.rows = sorted(
            self._rows.values(), key=lambda row: (order.get(row.app, -1), row.node)
        )
        return self._result

    def _readers_of(self, path: str) -> Sequence[str]:
        """The applications that read a file as it is now; those that may have read the rows in other versions are gaps."""
        shown = plain_path(path)
        query = FileQuery(path, self._spellings)
        recorded = self._store.recorded_files(query)
        if not recorded.items:
            recorded = self._store.recorded_files(replace(query, by_links=True))
        elsewhere, unread = self._read_elsewhere(path)
        for app in dict.fromkeys((*recorded.unread, *unread)):
            self._gap(app, f"whether it read {shown} is not known: {UNREAD_REASON}")
        readers: dict[str, None] = {}
        for file in dict.fromkeys((*recorded.items, *elsewhere)):
            current_budget().check()
            if whose_rows(file.app, self._ids) is not None:
                continue
            if file.wrote:
                self._result.notes[
                    f"{shown} was written by {file.app}: what its rows were made of is not in this plan; `lineage back` finds it"
                ] = None
            elif self._is_current(path, file):
                readers[file.app] = None
            else:
                self._gap(
                    file.app,
                    f"it read another version of {shown} ({file.version}): whether that held the rows, and where they went, is "
                    "not known",
                )
        return list(readers)

    def _read_elsewhere(self, path: str) -> tuple[list[RecordedFile], list[str]]:
        """Note who read a file of the content of another, elsewhere.

        Returns:
            What was read by links that lead to the file now, and the applications of which that is not known.
        """
        by_links, unread = list[RecordedFile](), list[str]()
        for alike_by, recorded in files_like(self._store, self._reader, path, self._spellings):
            unread += recorded.unread
            for file in recorded.items:
                current_budget().check()
                if file.wrote or whose_rows(file.app, self._ids) is not None:
                    continue
                other = self._spellings.of(file.path)
                if other == path:
                    by_links.append(file)
                else:
                    had = f"which had the {alike_by} of {plain_path(path)}"
                    self._alike[other, file.app] = had, file
        return by_links, unread

    def _name_alike(self) -> None:
        """Name those who read the rows elsewhere, but for files that the rows went into: these are outputs like others."""
        reached = {place[0] for place in self._of_start}
        for (path, app), (had, file) in self._alike.items():
            read = f"it read {plain_path(path)}, {had}"
            if path in reached:
                continue
            if self._is_still(path, file):
                # No program that is known to have the rows made this copy.
                self._result.notes[f"{app}: {read}: make a plan for the rows of that file, too"] = (
                    None
                )
            else:
                way_out = "if it was moved, put a link to it in that place, and make the plan again"
                self._gap(app, f"{read}: {way_out}")

    def _is_still(self, path: str, file: RecordedFile) -> bool:
        state = current_state(self._reader, path)
        return isinstance(state, FileState) and state.is_still(
            file.version.size, file.version.mtime
        )

    def _is_current(self, path: str, file: RecordedFile) -> bool:
        try:
            state = self._reader.state(path)
        except RowsError:
            return False
        status = by_state(state, file.version.size, file.version.mtime)
        if status is None:
            # Only its time differs: the application's checksums may decide.
            status = self._status(file.app, file.node, path, "unknown")
        return status in {"same", "touched"}

    def _look_at_others(self, paths: Sequence[str]) -> None:
        """Name applications that may have read the files in a part without lineage."""
        others = [
            app
            for app in self._ids
            if app not in self._result.apps and whose_rows(app, self._ids) is None
        ]
        files = f"{plain_path(paths[0])}" + f" and {len(paths) - 1:,} other files" * (
            len(paths) > 1
        )
        for app in others[:OTHERS_MAX]:
            current_budget().check()
            verdict = verdict_of(self._store, app)
            if not verdict.complete:
                reasons = "; ".join(verdict.reasons[:REASONS_NAMED])
                self._gap(
                    app,
                    f"its lineage is not complete ({reasons:.500}): whether it read {files} is not known",
                )
        for app in others[OTHERS_MAX : OTHERS_MAX + 1]:
            self._gap(
                app,
                f"it and {len(others) - OTHERS_MAX - 1:,} older applications were not looked at",
            )

    def _gap(self, app: str, reason: str, node: str = "") -> None:
        self._result.gaps[NotQueried(app, reason, node)] = None

    def _trace(self, app: str, places: Sequence[str]) -> None:
        query = TraceQuery(Direction.FORWARD, tuple(places), app=app, all_jobs=True)
        steps: list[Answer] = []
        try:
            whole = self._engine.trace_way(query, steps.append, self._pass)
        except (TimeUpError, StoreUnavailableError):
            raise
        except LineageError as problem:
            current_budget().check()
            self._result.apps[app] = None
            self._gap(app, str(problem))
            for step in steps:
                self._add(step, default=False)
            return
        result = self._result
        result.apps |= dict.fromkeys(whole.apps or (whole.app,))
        result.gaps |= dict.fromkeys(whole.not_queried)
        result.reasons |= dict.fromkeys(whole.reasons)
        result.notes |= dict.fromkeys(whole.warnings)
        result.is_complete = result.is_complete and whole.complete
        for step in steps:
            self._add(step, default=whole.exact)

    def _pass(self, trace: Trace) -> None:
        if trace.records is None:
            return
        spaces = self._result.passed.setdefault(trace.records.app, {})
        for items in trace.records.result.passed.values():
            for space, region in items.spaces.items():
                spaces[space] = spaces[space] | region if space in spaces else region

    def _add(self, answer: Answer, *, default: bool) -> None:
        """Keep the rows of an answer. ``default``: whether rows are exact that start at rows which are not known here."""
        starts = [self._is_exact(item, default) for group in answer.start for item in group.items]
        is_exact = answer.exact and (all(starts) if starts else default)
        for group in answer.groups:
            path = group.path or None
            if path is None and group.what == CELLS:
                path = self._array_file(group.app or answer.app, group.node)
            without_place: Counter[tuple[str, str | None]] = Counter()
            for item in group.items:
                current_budget().check()
                row = self._row_of(answer, group, item, path, is_exact=is_exact)
                place = None if row.place is None else place_of(row.place)
                # Rows of DataFrames without a place have one address, and equal ones the same text.
                named = item.address, item.text
                key = row.app, row.node, place or (*named, without_place[named])
                without_place[named] += place is None
                known = self._rows.get(key)
                self._rows[key] = row if known is None or row.exact else known
                if place is not None:
                    self._of_start[place] = self._of_start.get(place, False) or row.exact
            if group.count > len(group.items):
                self._gap(
                    group.app or answer.app,
                    f"{group.count - len(group.items):,} more rows of {group.path or group.label} are not listed",
                    group.node,
                )
        if len(self._rows) > REACHED_MAX:
            raise TooManyRowsError(f"the rows went into more than {REACHED_MAX:,} rows: name fewer")

    def _is_exact(self, item: Item, default: bool) -> bool:
        place = None if item.location is None else place_of(item.location)
        return default if place is None else self._of_start.get(place, default)

    def _row_of(
        self, answer: Answer, group: Group, item: Item, path: str | None, *, is_exact: bool
    ) -> ReachedRow:
        app = group.app or answer.app
        status = group.file_status
        location = item.location
        if location is not None and is_file_node(group.node):
            # Who erases rows does not erase bytes of what may be no text.
            path = parse_place(location).path
            location = None
        kept = False
        if location is not None:
            place = place_of(location)
            kept = place is not None and place[0].startswith(self._kept)
            if status != "same":
                status = self._status(app, group.node, parse_location(location).path, status)
            if status == "changed":
                status = self._by_text(app, group.node, item)
        elif path is None:
            # A record that was set aside is in no output: its text stands in the store, or is computed by a recipe there.
            kept = group.node in self._set_aside(app)
        elif status != "same" and group.what != CELLS and not is_file_node(group.node):
            status = self._status_in_any_file(app, group.node, status)
        # Text that may be another row's says nothing about this one.
        text = None if item.binding == "now" and status != "touched" else item.text
        if text is not None and location is not None and topic_record(location) is not None:
            text = with_readable_record(text)
        return ReachedRow(
            app,
            group.node,
            group.label,
            group.what,
            location,
            path,
            status,
            is_exact,
            kept=kept,
            text=text,
        )

    def _set_aside(self, app: str) -> Collection[str]:
        """The nodes of what functions of an application failed on."""
        if app not in self._set_aside_of:
            nodes = [node for node in self._store.graph(app).nodes() if node.op == QUARANTINE]
            # Programs of other engines may call an operator of theirs so, but no sink of another node.
            self._set_aside_of[app] = {
                node.node
                for node in nodes
                if node.kind == "frame" or node.node.endswith(f":{QUARANTINE}")
            }
        return self._set_aside_of[app]

    def _status_in_any_file(self, app: str, node: str, otherwise: FileStatus) -> FileStatus:
        """The status of a row that was written to some file of a node: changed or gone where all are, not known where some are."""
        statuses = self._file_statuses(app, node)
        if statuses is None:
            return "unknown"
        statuses = statuses or {otherwise}
        if all(map(has_changed, statuses)):
            # A file that is not gone may have been changed elsewhere.
            return "gone" if statuses == {"gone"} else "changed"
        return "unknown" if any(map(has_changed, {*statuses, otherwise})) else worst(statuses)

    def _file_statuses(self, app: str, node: str) -> Set[FileStatus] | None:
        """The statuses of the files of a node, which are looked at once for all of its rows; None: they can't be."""
        key = app, node
        if key not in self._statuses_of_node:
            try:
                found = self._engine.locations(app).file_statuses(node)
                self._statuses_of_node[key] = frozenset(found.values())
            except (LineageError, KeyError):
                current_budget().check()
                self._statuses_of_node[key] = None
        return self._statuses_of_node[key]

    def _array_file(self, app: str, node: str) -> str | None:
        """The file of an array; None: it has none."""
        nodes = self._store.graph(app).nodes()
        return next((one.path for one in nodes if one.node == node), "") or None

    def _by_text(self, app: str, node: str, item: Item) -> FileStatus:
        """The status of a row of a file that counts as changed: where only its time differs, the row's stored text decides."""
        location = parse_location(item.location or "")
        path = self._spellings.of(location.path)
        locations = self._engine.locations(app)
        try:
            state = self._reader.state(path)
            versions = locations.versions(node, path)
            if all(by_state(state, *version) for version in versions):
                return "changed"
            if not locations.is_undecided(node, path):
                return "changed"
            ((space, region),) = locations.items_at(node, replace(location, path=path)).items()
        except (LineageError, ValueError):
            current_budget().check()
            return "unknown"
        texts = [*item_values(self._store.graph(app), space, region.positions()).values()]
        is_same = location.unit == "line" and texts == [item.text] and not is_cut(texts[0])
        return "touched" if is_same else "unknown"

    def _status(self, app: str, node: str, path: str, otherwise: FileStatus) -> FileStatus:
        key = app, node, path
        if key not in self._statuses:
            try:
                self._statuses[key] = self._engine.locations(app).file_status(node, path)
            except (LineageError, KeyError):
                current_budget().check()
                self._statuses[key] = otherwise
        return self._statuses[key]


class TooManyRowsError(LineageError):
    """A plan has more rows than it may."""
