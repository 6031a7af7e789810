"""Traces through all applications: a trace that ends at a file continues in the application that wrote (or read) it.

A file links two applications if one wrote exactly the version that the other read: size and modification time are equal,
and so are the checksums if both applications recorded one. So does a file that was moved, copied or touched between the two,
if both recorded the same checksum, or, where one of them recorded none, the same name, size and time. Otherwise the trace ends there, and the answer gives the reason
with both versions. After Logothetis et al., Scalable Lineage Capture for Debugging DISC Analytics, SoCC 2013.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain

from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.recipe.names import DATABASE_URL
from lineage_core.tracing.budget import (
    TooMuchError,
    current_budget,
)
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.collected_rows import CollectedLinks
from lineage_query.finding import UNREAD_REASON
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, parse_location
from lineage_query.rows.reader import RowReader
from lineage_query.table_links import TableLinks
from lineage_query.tracked_rows import LinkedRow, RowLinks
from lineage_query.unfiled_links import UnfiledLinks
from lineage_store.dataset_paths import is_no_file
from lineage_store.errors import StoreUnavailableError
from lineage_store.materialised import whose_rows
from lineage_store.paths import MTIME_TOLERANCE_S, Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import (
    FILE_MESSAGES,
    FileQuery,
    FileVersion,
    RecordedFile,
    RecordedFiles,
    file_versions,
)

ROWS_MAX = 10_000
"""Maximum number of rows that one query passes from one application to others."""
QUERIES_MAX = 500
"""Maximum number of queries of single applications that one query makes."""
ITEMS_MAX = 200_000
"""Maximum number of items in all answers of single applications together."""
QUEUED_MAX = 10 * ROWS_MAX
"""Maximum number of pairs, for one answer, of an item and a node at which the trace continues."""
REFUSALS_MAX = 10_000
"""Maximum number of pairs of a file and an application that can't be queried about it."""
FILES_MAX = 1_000
"""Maximum number of files of one node that are looked up for rows of which it is not known in which file they are."""
NAMED_MAX = 20
"""Maximum number of applications that are named for one file."""


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of an application that read or wrote a file."""

    app: str
    node: str


@dataclass(frozen=True, slots=True)
class FileCopy:
    """A file of another path or time with the checksum of the file that the trace is at, or else its name, size and time.

    ``exact``: checksum, size and time are equal, so that it is the same file, moved. Otherwise its content is equal, and whether
    one was copied from the other, or both from a third one, is not known; without checksums, not even that. ``text``: says so.
    """

    node: FileNode
    path: str
    exact: bool
    text: str


@dataclass(frozen=True, slots=True)
class JobLinks:
    """Where a trace continues from a file of one node. ``refused``: applications with another version, with both versions."""

    nodes: tuple[FileNode, ...] = ()
    refused: tuple[NotQueried, ...] = ()
    copies: tuple[FileCopy, ...] = ()


class FileLinks:
    """Which nodes wrote the files that others read. Caches what it found for one query.

    ``copies``: the copies of files by which applications were linked.
    """

    def __init__(self, store: GraphStore, direction: Direction, reader: RowReader) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = Spellings()
        self._tables = TableLinks(store, reader, self._spellings)
        self._ids = store.application_ids()
        self._unfiled = UnfiledLinks(store, direction, self._spellings)
        self.collected = CollectedLinks(store, direction)
        self.copies: dict[FileCopy, None] = {}
        self._links: dict[tuple[FileNode, str, bool], JobLinks] = {}
        self._links_of_tables: dict[tuple[FileNode, str, bool], RowLinks] = {}
        """Of files as a whole, or whose rows a table does not tell apart."""
        self._of_rows_in_no_place: dict[FileNode, tuple[NotQueried, ...]] = {}

    def of(self, origin: FileNode, path: str, *, is_end: bool) -> JobLinks:
        """The nodes that wrote (backward) or read (forward) the version of a file that a node recorded.

        Args:
            origin: read the file (backward), or wrote it.
            path: of the file.
            is_end: whether ``origin`` is known to have read or written the file. If False and it has not, there are no links.
        """
        return self.of_rows(origin, path, None, is_end=is_end)[0]

    def of_rows(
        self, origin: FileNode, path: str, ordinals: Sequence[int] | None, *, is_end: bool
    ) -> tuple[JobLinks, Mapping[int, tuple[LinkedRow, ...]]]:
        """The same for rows of a file, from 0 (None: for any of them); and where those go on by themselves that a table put into other files."""
        of_collected = self.collected.of(path)
        if of_collected is not None:
            nodes, reasons = of_collected
            refused = [NotQueried(app, reason) for app, reason in reasons.items()]
            return JobLinks(tuple(FileNode(*node) for node in nodes), tuple(refused)), {}
        key = origin, path, is_end
        if key not in self._links:
            self._links[key] = self._find(origin, path, is_end=is_end)
            self.copies |= dict.fromkeys(self._links[key].copies)
        links = self._links[key]
        if self._is_backward and links != JobLinks():
            return links, {}
        table_key = origin, path, ordinals is None
        of_table = self._links_of_tables.get(table_key)
        if of_table is None:
            find = self._tables.before if self._is_backward else self._tables.after
            of_table = find(origin.app, origin.node, path, ordinals)
            if of_table.of_any:
                self._links_of_tables[table_key] = of_table
        refused_tables = (*links.refused, *self._named(of_table.refused))
        return replace(links, refused=refused_tables), of_table.rows

    @staticmethod
    def _named(gaps: Iterable[NotQueried]) -> list[NotQueried]:
        """What is not queried, one an application, as many as are named."""
        by_app = {gap.app: gap for gap in gaps}
        more = _others_text(len(by_app))
        return [replace(gap, reason=gap.reason + more) for gap in by_app.values()][:NAMED_MAX]

    def of_rows_in_no_place(self, origin: FileNode, path: str) -> tuple[NotQueried, ...]:
        """The applications that used a file of a node, where nothing tells in which of its files the rows of a trace are.

        Args:
            origin: read or wrote the files.
            path: what is said of them.
        """
        if origin not in self._of_rows_in_no_place:
            self._of_rows_in_no_place[origin] = tuple(self._may_lead_on(origin, path))
        return self._of_rows_in_no_place[origin]

    def _may_lead_on(self, origin: FileNode, path: str) -> Iterator[NotQueried]:
        verb, other_verb = ("read", "wrote") if self._is_backward else ("wrote", "read")
        files = {
            file_path
            for message in self._store.messages(origin.app, *FILE_MESSAGES)
            for node, file_path, _, wrote in file_versions(message)
            if node == origin.node and wrote != self._is_backward and not is_no_file(file_path)
        }
        rows = f"rows of {path} that {origin.app} {verb} have no place in its files now"
        if len(files) > FILES_MAX:
            yield NotQueried(
                origin.app, f"{rows}; who {other_verb} its {len(files):,} files is not known"
            )
            return
        apps: dict[str, None] = {}
        if not files:
            yield from self._named(self._unfiled.users(origin.app, origin.node))
        if not files and self._is_backward:
            # Tables of databases, topics: another application may have written them.
            reason = f"{origin.app} read {path}, of which no files are recorded: whether another application wrote its rows is not known"
            yield NotQueried(origin.app, reason)
        elif not files:
            yield from self._named(self._tables.unlisted(origin.app, origin.node, path))
        for file_path in sorted(files):
            current_budget().check()
            links = self.of(origin, plain_path(file_path), is_end=True)
            nodes = (*links.nodes, *(copy.node for copy in links.copies))
            apps.update(dict.fromkeys(node.app for node in nodes))
            apps.update(dict.fromkeys(refusal.app for refusal in links.refused))
        for app in list(apps)[:NAMED_MAX]:
            yield NotQueried(
                app,
                f"{rows}, so whether it {other_verb} them is not known" + _others_text(len(apps)),
            )

    def _find(self, origin: FileNode, path: str, *, is_end: bool) -> JobLinks:
        recorded = self._recorded(origin, path, is_end=is_end)
        origin_versions: dict[FileVersion, None] = {}
        versions_by_node: dict[FileNode, dict[FileVersion, None]] = {}
        overwriting_versions: list[FileVersion] = []
        for file in recorded.items:
            if whose_rows(file.app, self._ids) is not None and file.app != origin.app:
                continue
            file_node = FileNode(file.app, file.node)
            if file.wrote != self._is_backward:
                if file_node == origin:
                    origin_versions[file.version] = None
                elif file.wrote:
                    overwriting_versions.append(file.version)
            elif file_node != origin:
                versions_by_node.setdefault(file_node, {})[file.version] = None
        others = {node: tuple(of_node) for node, of_node in versions_by_node.items()}
        if not origin_versions and not is_end:
            return JobLinks()
        verb = "wrote" if self._is_backward else "read"
        reason = f"whether it {verb} {path} is not known: {UNREAD_REASON}"
        unread_links = JobLinks(
            refused=tuple(NotQueried(app, reason) for app in recorded.unread if app != origin.app)
        )
        versions = tuple(origin_versions)
        copies = self._find_copies(origin, path, versions, others)
        if copies.copies:
            others = {
                node: of_node
                for node, of_node in others.items()
                if node not in {copy.node for copy in copies.copies}
            }
            if self._is_backward:
                return copies
        if others and self._is_backward and recorded.unread:
            # One of the unread applications may have written the same version later.
            links = _refused(others, f"which other applications wrote {path} is not known")
        elif others:
            links = self._compare(origin.app, path, versions, others, overwriting_versions)
        else:
            links = JobLinks()
        refused = (*links.refused, *unread_links.refused, *copies.refused)
        return JobLinks(links.nodes, refused, copies.copies)

    def _find_copies(
        self,
        origin: FileNode,
        path: str,
        versions: Sequence[FileVersion],
        others: Mapping[FileNode, Sequence[FileVersion]],
    ) -> JobLinks:
        """Where a trace continues from a file that was moved, copied or touched.

        By its checksum; where one was not taken, by its name, size and time.
        A file of which some node recorded exactly the version that is looked for is no copy.
        """
        if len(versions) != 1:
            return JobLinks()
        (version,) = versions
        if self._is_backward and any(map(version.is_same, chain.from_iterable(others.values()))):
            return JobLinks()
        recorded = self._of_same_content(path, version)
        same_content = [
            file
            for file in recorded.items
            if file.version.size == version.size and whose_rows(file.app, self._ids) is None
        ]
        written_at: dict[str, list[float]] = {}
        for file in same_content:
            current_budget().check()
            if file.wrote:
                written_at.setdefault(self._spellings.of(file.path), []).append(file.version.mtime)
        for times in written_at.values():
            times.sort()
        candidates = [
            file
            for file in same_content
            if file.wrote == self._is_backward
            and FileNode(file.app, file.node) != origin
            and self._may_be_copy(file, version, path, written_at)
        ]
        # A job that changes nothing makes the content that it reads: which file of the two was there first does not show.
        copies: dict[FileCopy, None] = {}
        own: list[FileNode] = []
        for file in candidates:
            if file.app == origin.app and not file.version.has_state_of(version):
                own.append(FileNode(file.app, file.node))
            else:
                copies[self._copy_of(file, version, path, origin)] = None
        refused = _refused(
            own,
            f"{origin.app} itself {'wrote' if self._is_backward else 'read'} a file of the content of {path}; whether one was copied from "
            "the other is not known",
        )
        if not self._is_backward:
            return replace(refused, copies=tuple(copies))
        # The same file, moved, is more than another of the same content.
        best = [copy for copy in copies if copy.exact] or list(copies)
        if len(best) > 1 or (best and recorded.unread):
            return _refused(
                (copy.node for copy in best),
                f"{origin.app} read {path}, which no captured application wrote; several files have its "
                f"{'checksum' if version.checksum else 'name, size and time'}, and which of them it was copied from is not known",
            )
        return JobLinks(copies=tuple(best)) if best else refused

    def _of_same_content(self, path: str, version: FileVersion) -> RecordedFiles:
        """Files of the same checksum, and those of the same name, size and time of which no checksum says otherwise."""
        query = FileQuery(path, self._spellings, state=version, in_any_folder=True)
        same_state = self._store.recorded_files(query)
        items = [
            file for file in same_state.items if not (file.version.checksum and version.checksum)
        ]
        if not version.checksum:
            return RecordedFiles(items, same_state.unread)
        query = FileQuery(path, self._spellings, checksum=version.checksum)
        same_checksum = self._store.recorded_files(query)
        unread = dict.fromkeys((*same_checksum.unread, *same_state.unread))
        return RecordedFiles([*same_checksum.items, *items], tuple(unread))

    def _may_be_copy(
        self,
        file: RecordedFile,
        version: FileVersion,
        path: str,
        written_at: Mapping[str, Sequence[float]],
    ) -> bool:
        """Whether what was read may be a copy of what was written: the one is not older, and nobody wrote it where it was read.

        ``written_at``: by canonical path, when files of this content were written, in order.
        """
        current_budget().check()
        if self._is_backward:
            return file.version.mtime <= version.mtime or file.version.has_state_of(version)
        canonical_path = self._spellings.of(file.path)
        if canonical_path == self._spellings.of(path) and file.version.has_state_of(version):
            return False
        is_older = file.version.mtime < version.mtime and not file.version.has_state_of(version)
        times = written_at.get(canonical_path, ())
        nearest = bisect_left(times, file.version.mtime - MTIME_TOLERANCE_S)
        is_written = (
            nearest < len(times) and times[nearest] <= file.version.mtime + MTIME_TOLERANCE_S
        )
        return not is_older and not is_written

    def _copy_of(
        self, file: RecordedFile, version: FileVersion, path: str, origin: FileNode
    ) -> FileCopy:
        is_same_path = self._spellings.of(file.path) == self._spellings.of(path)
        has_checksums = bool(file.version.checksum and version.checksum)
        is_exact = has_checksums and (is_same_path or file.version.has_state_of(version))
        other_path = plain_path(file.path)
        reader, writer = (origin.app, file.app) if self._is_backward else (file.app, origin.app)
        read_path, written_path = (path, other_path) if self._is_backward else (other_path, path)
        if not has_checksums:
            text = (
                f"{read_path}, which {reader} read, has the name, size and time of {written_path}, which {writer} wrote, and "
                "no checksum: it counts as this file, moved"
            )
        elif is_same_path:
            text = f"{path}, which {writer} wrote, had another modification time when {reader} read it, and the same checksum"
        elif is_exact:
            text = f"{read_path}, which {reader} read, is {written_path}, which {writer} wrote, moved: by size, time and checksum"
        else:
            text = f"{read_path}, which {reader} read, has the checksum of {written_path}, which {writer} wrote: it counts as its copy"
        return FileCopy(FileNode(file.app, file.node), other_path, is_exact, text)

    def _compare(
        self,
        app: str,
        path: str,
        origin_versions: Sequence[FileVersion],
        others: Mapping[FileNode, Sequence[FileVersion]],
        overwriting_versions: Sequence[FileVersion],
    ) -> JobLinks:
        verb, other_verb = ("read", "wrote") if self._is_backward else ("wrote", "read")
        if len(origin_versions) != 1:
            reason = (
                f"{app} {verb} several versions of {path}; which of them holds these rows is not known"
                if origin_versions
                else f"which version of {path} {app} {verb} is not known"
            )
            return _refused(others, reason)
        (version,) = origin_versions
        same_version_nodes = [
            node for node, versions in others.items() if any(map(version.is_same, versions))
        ]
        if self._is_backward and len(same_version_nodes) > 1:
            return _refused(
                same_version_nodes,
                f"several nodes wrote {path} in the version that {app} read; which wrote it last is not known",
            )
        unsure = [node for node in same_version_nodes if len(others[node]) > 1]
        links = _refused(
            unsure, f"it {other_verb} several versions of {path}, one of which {app} {verb}"
        )
        other_version_nodes = [
            node
            for node, versions in others.items()
            if node not in same_version_nodes
            and (
                self._is_backward
                or any(_may_hold(read, version, overwriting_versions) for read in versions)
            )
        ]
        if self._is_backward:
            # Of the writers of other versions, report the latest only, and none if some node wrote exactly this version.
            other_version_nodes = [] if same_version_nodes else other_version_nodes[:1]
        other_version_refusals = tuple(
            NotQueried(
                node.app,
                f"it {other_verb} {max(others[node], key=lambda seen_version: seen_version.mtime)} at {path}, and {app} {verb} {version}"
                + _others_text(len(other_version_nodes)),
            )
            for node in other_version_nodes[:NAMED_MAX]
        )
        return JobLinks(
            tuple(node for node in same_version_nodes if node not in unsure),
            (*links.refused, *other_version_refusals),
        )

    def _recorded(self, origin: FileNode, path: str, *, is_end: bool) -> RecordedFiles:
        """The versions of a file that decide where a trace continues from a node.

        Backward, if some node wrote exactly the version that the node read, those are the versions of its application and
        of the writers': they are found in the same time however many files of that name the store has.
        """
        query = FileQuery(path, self._spellings)
        of_origin = self._store.recorded_files(replace(query, app=origin.app))
        versions = {
            file.version
            for file in of_origin.items
            if file.node == origin.node and file.wrote != self._is_backward
        }
        if not versions and not is_end:
            return of_origin
        if self._is_backward and len(versions) == 1:
            same_state = self._store.recorded_files(replace(query, state=versions.pop()))
            writers = dict.fromkeys(file.app for file in same_state.items if file.wrote)
            if writers:
                others = (
                    self._store.recorded_files(replace(query, app=app)).items
                    for app in writers
                    if app != origin.app
                )
                items = [*of_origin.items, *(file for files in others for file in files)]
                return RecordedFiles(items, same_state.unread)
        return self._store.recorded_files(query)


def _refused(nodes: Iterable[FileNode], reason: str) -> JobLinks:
    apps = list(dict.fromkeys(node.app for node in nodes))
    reason += _others_text(len(apps))
    return JobLinks(refused=tuple(NotQueried(app, reason) for app in apps[:NAMED_MAX]))


def _others_text(number: int) -> str:
    return f" (the same holds for {number - NAMED_MAX:,} more)" if number > NAMED_MAX else ""


def _may_hold(
    read: FileVersion, written: FileVersion, overwriting_versions: Iterable[FileVersion]
) -> bool:
    """Whether a version that was read may hold rows of another version that was written.

    A program may have copied, appended to or edited the file. The version holds no rows if it is older, or if another
    application recorded that it wrote exactly this version: a write replaces the file.
    """
    current_budget().check()
    is_older = read.mtime < written.mtime and not read.has_state_of(written)
    return not is_older and not any(map(read.is_same, overwriting_versions))


TraceAt = Callable[
    [FileNode, Sequence[Location]], Iterator[tuple[Sequence[Location], Callable[[], Answer]]]
]
"""Splits rows of a file of one node into queries of its application alone, with the engine that traces each."""


@dataclass
class _EndRows:
    """Rows at which a trace ends, by application and node."""

    groups: dict[FileNode, Group] = field(default_factory=dict)
    items: dict[FileNode, list[Item]] = field(default_factory=dict)
    _located: set[tuple[FileNode, str, str]] = field(default_factory=set)

    def add(self, node: FileNode, group: Group, item: Item) -> None:
        if item.location is not None:
            # A row that is reached on two ways counts once. Rows in no file have no address of their own.
            key = node, item.address, item.location
            if key in self._located:
                return
            self._located.add(key)
        known_group = self.groups.setdefault(node, replace(group, app=node.app))
        if group.changed and not known_group.changed:
            self.groups[node] = replace(known_group, file_status=group.file_status)
        self.items.setdefault(node, []).append(item)

    def all(self) -> Iterator[Group]:
        for node, group in self.groups.items():
            items = tuple(self.items[node])
            yield replace(group, items=items, count=len(items))


@dataclass
class _PendingRows:
    """By node, rows to continue from, each with the items of the previous applications that are this row."""

    nodes: dict[FileNode, dict[Location, list[tuple[FileNode, Group, Item]]]] = field(
        default_factory=dict
    )
    versions: dict[tuple[FileNode, Location], str] = field(default_factory=dict)
    """What is said of rows that a table put into other files, where the trace can't go on from them."""
    _queued: int = 0

    def add(
        self, nodes: Sequence[FileNode], row: Location, item: tuple[FileNode, Group, Item]
    ) -> None:
        """Continue from a row at nodes: any number of nodes may have read its file.

        Raises:
            TooMuchError: there are more pairs of an item and a node than are queued for one answer.
            BudgetError: the query has no time left.
        """
        current_budget().check()
        self._queued += len(nodes)
        _check_most(self._queued, QUEUED_MAX, "rows")
        for node in nodes:
            self.nodes.setdefault(node, {}).setdefault(row, []).append(item)

    def reasons(self, node: FileNode, rows: Sequence[Location], problem: str) -> list[str]:
        """Why a trace can't go on from rows at a node."""
        versions = dict.fromkeys(self.versions.get((node, row), "") for row in rows)
        return [f"{problem} ({text})" if text else problem for text in versions]


def follow_across_applications(
    first: Answer,
    store: GraphStore,
    reader: RowReader,
    trace_at: TraceAt,
    working: Callable[[], AbstractContextManager[None]] = nullcontext,
    on_answer: Callable[[Answer], None] | None = None,
) -> Answer:
    """Continue an answer through all applications that wrote the files that were read, or read those that were written.

    Args:
        first: lists all of its items.
        store: has the applications.
        reader: decides which logs of tables may be read.
        trace_at: traces rows of a file within one application; its answers list all of their items.
        working: held while the store is read, but not while rows are traced.
        on_answer: receives the answer of each application on the way, the first included.

    Returns:
        The rows at which no other application continues. Complete if all applications on the way are, and all were queried.

    Raises:
        TooMuchError: more rows or applications lie on the way than the limits allow.
        BudgetError: the query exceeds its budget.
        StoreUnavailableError: the store does not answer.
    """
    with working():
        links = FileLinks(store, first.direction, reader)
    ends = _EndRows()
    answers, refused = list[Answer](), dict[NotQueried, None]()
    visited: set[tuple[FileNode, Location]] = set()
    stopped: set[tuple[FileNode, Location]] = set()
    queries = items = 0
    if not first.start and not first.groups:
        verb = "wrote" if first.direction is Direction.BACKWARD else "read"
        reason = f"where the rows stand is not known, so neither is which application {verb} them"
        refused[NotQueried(first.app, reason)] = None
    unfollowed = deque([first])
    while unfollowed:
        answer = unfollowed.popleft()
        answers.append(answer)
        if on_answer is not None:
            on_answer(answer)
        items += sum(len(group.items) for group in answer.groups)
        _check_most(items, ITEMS_MAX, "items")
        pending = _PendingRows()
        with working():
            if answer is first:
                # The trace may continue from the queried rows themselves: rows of a source in a backward trace.
                for group in answer.start:
                    refused.update(_queue_rows(answer, group, links, pending, None))
            for group in answer.groups:
                refused.update(_queue_rows(answer, group, links, pending, ends))
        _check_most(len(refused), REFUSALS_MAX, "files that another version was read or written of")
        for node, rows in pending.nodes.items():
            new_rows = [row for row in rows if (node, row) not in visited]
            visited.update((node, row) for row in new_rows)
            _check_most(len(visited), ROWS_MAX, "rows")
            for query_rows, trace_rows in trace_at(node, new_rows) if new_rows else ():
                queries += 1
                if queries > QUERIES_MAX:
                    raise TooMuchError(
                        f"more than {QUERIES_MAX} queries of single applications lie on the way",
                        "ask for fewer rows, or for one application (without all jobs)",
                    )
                current_budget().check()
                try:
                    unfollowed.append(trace_rows())
                except StoreUnavailableError:
                    raise
                except LineageError as problem:
                    current_budget().check()
                    for reason in pending.reasons(node, query_rows, str(problem)):
                        refused[NotQueried(node.app, reason, node.node)] = None
                    stopped.update((node, row) for row in query_rows)
            for row in rows:
                if (node, row) in stopped:
                    for origin, group, item in rows[row]:
                        ends.add(origin, group, item)
    return _composed(answers, tuple(ends.all()), tuple(refused), tuple(links.copies))


def _check_most(number: int, most: int, counted_items: str) -> None:
    if number > most:
        raise TooMuchError(
            f"more than {most:,} {counted_items} lie on the way", "ask for fewer rows"
        )


def _queue_rows(
    answer: Answer, group: Group, links: FileLinks, pending: _PendingRows, ends: _EndRows | None
) -> dict[NotQueried, None]:
    """Queue the rows from which a trace continues, and add the others to ``ends`` (unless None); return the refusals."""
    if len(group.items) != group.count:
        raise TooMuchError(
            f"{group.count:,} rows of {group.path or group.node} lie on the way",
            "ask for fewer rows",
        )
    origin = FileNode(group.app or answer.app, group.node)
    refused: dict[NotQueried, None] = {}
    if ends is not None and group.items and is_file_node(group.node):
        other_verb = "wrote" if answer.direction is Direction.BACKWARD else "read"
        reason = (
            f"parts of files are linked within an application: whether another one {other_verb} those of {group.what}, "
            "and in which version, is not known"
        )
        refused[NotQueried(origin.app, reason)] = None
    locations: Sequence[Location | None] = [_location_of(item) for item in group.items]
    if group.path is None:
        locations = links.collected.places(origin.app, origin.node, group.items, locations)
    links_of_paths = {
        path: links.of_rows(origin, path, ordinals, is_end=ends is not None)
        for path, ordinals in _ordinals_by_path(locations).items()
    }
    for item, location in zip(group.items, locations, strict=True):
        if location is None:
            if group.path is not None and ends is not None:
                # Of a file that is gone, or of a format whose rows have no places.
                refused.update(dict.fromkeys(links.of_rows_in_no_place(origin, group.path)))
            if ends is not None:
                ends.add(origin, group, item)
            continue
        job_links, linked_rows = links_of_paths[location.path]
        refused.update(dict.fromkeys(job_links.refused))
        pending.add(job_links.nodes, location, (origin, group, item))
        for copy in job_links.copies:
            copied_row = replace(location, path=copy.path)
            pending.add((copy.node,), copied_row, (origin, group, item))
        in_other_files = linked_rows.get(location.number or 0, ())
        for row in in_other_files:
            linked_node = FileNode(row.app, row.node)
            pending.add((linked_node,), row.location, (origin, group, item))
            pending.versions[linked_node, row.location] = row.versions
        if not (job_links.nodes or job_links.copies or in_other_files) and ends is not None:
            ends.add(origin, group, item)
    return refused


def _ordinals_by_path(locations: Iterable[Location | None]) -> dict[str, list[int] | None]:
    """The numbers of records, from 0, by their file; None for files that have others."""
    ordinals: dict[str, list[int] | None] = {}
    for location in locations:
        if location is None:
            continue
        of_path = ordinals.setdefault(location.path, [])
        if location.unit != "record" or location.number is None:
            ordinals[location.path] = None
        elif of_path is not None:
            of_path.append(location.number)
    return ordinals


def _location_of(item: Item) -> Location | None:
    if item.location is None or item.location.startswith(DATABASE_URL):
        return None
    try:
        return parse_location(item.location)
    except LocationError:
        return None


def _composed(
    answers: Sequence[Answer],
    groups: tuple[Group, ...],
    refused: tuple[NotQueried, ...],
    copies: tuple[FileCopy, ...],
) -> Answer:
    first = answers[0]
    apps = tuple(dict.fromkeys(app for answer in answers for app in answer.apps or (answer.app,)))

    def named(app: str, texts: Iterable[str]) -> Iterator[str]:
        yield from (f"{app}: {text}" if len(apps) > 1 else text for text in texts)

    reasons = [text for answer in answers for text in named(answer.app, answer.reasons)]
    warnings = [text for answer in answers for text in named(answer.app, answer.warnings)]
    reasons += [copy.text for copy in copies if not copy.exact]
    warnings += [copy.text for copy in copies if copy.exact]
    not_queried = dict.fromkeys(
        (*(gap for answer in answers for gap in answer.not_queried), *refused)
    )
    return replace(
        first,
        exact=all(answer.exact for answer in answers) and all(copy.exact for copy in copies),
        reasons=tuple(dict.fromkeys(reasons)),
        groups=groups,
        warnings=tuple(dict.fromkeys((*warnings, *(gap.warning() for gap in refused)))),
        changed=any(answer.changed for answer in answers),
        complete=all(answer.complete for answer in answers) and not not_queried,
        apps=apps,
        not_queried=tuple(not_queried),
    )


def regions_of_locations(
    node_locations: Locations, node: str, locations: Iterable[Location]
) -> dict[str, Region]:
    """The items of a node at locations in files, by space.

    Raises:
        LocationError: the node counts rows of the file in another unit, or has no rows there.
        RowsError: rows must be counted in a file that can't be read.
    """
    regions_by_space: dict[str, list[Region]] = {}
    for location in locations:
        node_location = replace(location, path=node_locations.spelled(location.path))
        if node_locations.unit(node, node_location.path) != node_location.unit:
            raise LocationError(f"{node} counts the rows of {location.path} in another unit")
        for space, region in node_locations.items_at(node, node_location).items():
            regions_by_space.setdefault(space, []).append(region)
    return {space: Region.union(regions) for space, regions in regions_by_space.items()}


def refuse_step_limits(until: str | None, steps: int | None) -> None:
    """Refuse options that stop a trace through all applications on the way.

    Raises:
        TraceError: the trace is limited to a node or to a number of steps.
    """
    if until is not None or steps is not None:
        raise TraceError(
            "a trace through all jobs can't stop on the way: leave out --step and --to"
        )
