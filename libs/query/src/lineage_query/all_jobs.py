"""Traces through all applications: a trace that ends at a file continues in the application that wrote (or read) it.

A file links two applications if one wrote exactly the version that the other read: size and modification time are equal,
and so are the checksums if both applications recorded one. So does a file that was moved, copied or touched between the two,
if both recorded the same checksum, or, where one of them recorded none, the same name, size and time. Otherwise the trace ends there, and the answer gives the reason
with both versions. After Logothetis et al., Scalable Lineage Capture for Debugging DISC Analytics, SoCC 2013.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import (
    TooMuchError,
    current_budget,
)
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.collected_rows import CollectedLinks
from lineage_query.file_parts import region_of_parts
from lineage_query.job_links import (
    NAMED_MAX,
    FileCopy,
    FileNode,
    JobLinks,
    location_of,
    others_text,
)
from lineage_query.part_links import NotUsedError, PartUses, merged_parts, parts_of
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, record_of_topic
from lineage_query.rows.reader import RowReader
from lineage_query.table_links import TableLinks
from lineage_query.topic_links import TopicLinks
from lineage_query.tracked_rows import LinkedRow, RowLinks
from lineage_query.unfiled_links import UnfiledLinks
from lineage_query.unfiled_uses import UnfiledUses
from lineage_query.version_links import VersionLinks
from lineage_store.dataset_paths import is_no_file
from lineage_store.errors import StoreUnavailableError
from lineage_store.paths import Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import (
    FILE_MESSAGES,
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


class FileLinks:
    """Which nodes wrote the files that others read. Caches what it found for one query.

    ``copies``: the copies of files by which applications were linked.
    """

    def __init__(self, store: GraphStore, direction: Direction, reader: RowReader) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = Spellings()
        self._versions = VersionLinks(store, direction, self._spellings)
        self._tables = TableLinks(store, reader, self._spellings)
        uses = UnfiledUses(store, self._spellings)
        self._unfiled = UnfiledLinks(uses, direction)
        self._topics = TopicLinks(store, direction, uses)
        self.collected = CollectedLinks(store, direction)
        self.parts = PartUses(store, reader, direction)
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
        record = record_of_topic(path)
        if record is not None:
            if key not in self._links:
                found = self._topics.find(origin, record, is_end=is_end)
                named = tuple(self._named(found.refused)), tuple(self._named(found.unsure))
                self._links[key] = replace(found, refused=named[0], unsure=named[1])
            return self._links[key], {}
        if key not in self._links:
            self._links[key] = self._versions.find(origin, path, is_end=is_end)
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
        more = others_text(len(by_app))
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
                f"{rows}, so whether it {other_verb} them is not known" + others_text(len(apps)),
            )


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

    def add_all(self, node: FileNode, group: Group) -> None:
        """Add the items of a group that have a place; those that are added again count once."""
        for item in group.items:
            if item.location is not None:
                self.add(node, group, item)

    def all(self) -> Iterator[Group]:
        for node, group in self.groups.items():
            items = tuple(self.items[node])
            if is_file_node(node.node):
                items = merged_parts(items)
            yield replace(group, items=items, count=len(items))


@dataclass
class _PendingRows:
    """By node, rows to continue from, each with the items of the previous applications that are this row."""

    nodes: dict[FileNode, dict[Location, list[tuple[FileNode, Group, Item]]]] = field(
        default_factory=dict
    )
    versions: dict[tuple[FileNode, Location], str] = field(default_factory=dict)
    """What is said of rows that a table put into other files, where the trace can't go on from them."""
    records: dict[tuple[FileNode, Location], JobLinks] = field(default_factory=dict)
    """Records of topics by the nodes that read them, with who may have written them."""
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

    def not_used(
        self, unused: Set[tuple[FileNode, Location]]
    ) -> Iterator[tuple[FileNode, Group, Item]]:
        """Items that no node used. ``unused``: nodes, with the rows of files of theirs that they did not use."""
        if not unused:
            return
        used = {
            id(item)
            for node, rows in self.nodes.items()
            for row, items in rows.items()
            if (node, row) not in unused
            for _, _, item in items
        }
        for node, rows in self.nodes.items():
            for row, items in rows.items():
                if (node, row) in unused:
                    yield from (entry for entry in items if id(entry[2]) not in used)

    def not_settled(
        self, settled: Set[tuple[FileNode, Location]]
    ) -> Iterator[tuple[JobLinks, list[tuple[FileNode, Group, Item]]]]:
        """Records of which it is not certain that a node wrote them, with the items that they are. ``settled``: nodes, with records of theirs."""
        for (origin, row), links in self.records.items():
            if not any((node, row) in settled for node in links.nodes):
                items = (item for node in links.nodes for item in self.nodes[node][row])
                yield links, [item for item in items if item[0] == origin]

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
    *,
    lists_way: bool = False,
) -> Answer:
    """Continue an answer through all applications that wrote the files that were read, or read those that were written.

    Args:
        first: lists all of its items.
        store: has the applications.
        reader: decides which logs of tables may be read.
        trace_at: traces rows of a file within one application; its answers list all of their items.
        working: held while the store is read, but not while rows are traced.
        on_answer: receives the answer of each application on the way, the first included.
        lists_way: whether the rows at which others continue are listed, too.

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
    unused: set[tuple[FileNode, Location]] = set()
    settled: set[tuple[FileNode, Location]] = set()
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
            for group in answer.parts_passed:
                origin = FileNode(group.app or answer.app, group.node)
                refused.update(
                    _queue_parts(
                        answer.direction, origin, group, links, pending, ends, is_passed=True
                    )
                )
            for group in answer.groups:
                if lists_way:
                    ends.add_all(FileNode(group.app or answer.app, group.node), group)
                refused.update(_queue_rows(answer, group, links, pending, ends))
            refused.update(dict.fromkeys(answer.parts_unknown))
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
                    traced = trace_rows()
                    unfollowed.append(traced)
                    if traced.exact:
                        settled.update((node, row) for row in query_rows)
                except StoreUnavailableError:
                    raise
                except NotUsedError:
                    unused.update((node, row) for row in query_rows)
                except LineageError as problem:
                    current_budget().check()
                    for reason in pending.reasons(node, query_rows, str(problem)):
                        refused[NotQueried(node.app, reason, node.node)] = None
                    stopped.update((node, row) for row in query_rows)
            for row in rows:
                if (node, row) in stopped:
                    for origin, group, item in rows[row]:
                        ends.add(origin, group, item)
        for origin, group, item in pending.not_used(unused):
            ends.add(origin, group, item)
        for job_links, row_items in pending.not_settled(settled):
            refused.update(dict.fromkeys(job_links.unsure))
            for origin, group, item in row_items:
                # Another program may have written it: it is an end, too.
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
    if is_file_node(group.node):
        return _queue_parts(answer.direction, origin, group, links, pending, ends)
    refused: dict[NotQueried, None] = {}
    locations: Sequence[Location | None] = [location_of(item) for item in group.items]
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
        if answer.direction is Direction.BACKWARD and record_of_topic(location.path) is not None:
            pending.records[origin, location] = job_links
        for row in _lines_of(item, location):
            pending.add(job_links.nodes, row, (origin, group, item))
            for copy in job_links.copies:
                of_copy = replace(row, path=copy.path)
                if answer.direction is Direction.BACKWARD:
                    of_copy = replace(of_copy, held_in=row.path)
                pending.add((copy.node,), of_copy, (origin, group, item))
        in_other_files = linked_rows.get(location.number or 0, ())
        for linked_row in in_other_files:
            linked_node = FileNode(linked_row.app, linked_row.node)
            pending.add((linked_node,), linked_row.location, (origin, group, item))
            pending.versions[linked_node, linked_row.location] = linked_row.versions
        if not (job_links.nodes or job_links.copies or in_other_files) and ends is not None:
            ends.add(origin, group, item)
    return refused


def _lines_of(item: Item, location: Location) -> Iterator[Location]:
    """The places of an item: a record that holds ends of lines is several lines for others."""
    yield location
    if location.unit == "line" and location.number is not None:
        for line in range(location.number + 1, location.number + item.lines):
            yield replace(location, number=line)


def _queue_parts(
    direction: Direction,
    origin: FileNode,
    group: Group,
    links: FileLinks,
    pending: _PendingRows,
    ends: _EndRows | None,
    *,
    is_passed: bool = False,
) -> dict[NotQueried, None]:
    """The same for parts of a file: each byte goes on by itself. ``is_passed``: the application itself has read some of them again."""
    if not group.items:
        return {}
    location = location_of(group.items[0])
    if location is None:
        if ends is None:
            return {}
        for item in group.items:
            ends.add(origin, group, item)
        verb, other_verb = (
            ("read", "wrote") if direction is Direction.BACKWARD else ("wrote", "read")
        )
        reason = (
            f"in which version it {verb} {group.what} was not recorded: whether another application {other_verb} these parts "
            "of it is not known"
        )
        return {NotQueried(origin.app, reason): None}
    whole = rest = region_of_parts(item.address for item in group.items)
    job_links = links.of(origin, location.path, is_end=ends is not None)
    refused = dict.fromkeys(job_links.refused)
    ways = [(node, location.path) for node in job_links.nodes]
    ways += [(copy.node, copy.path) for copy in job_links.copies]
    for far, path in ways:
        used = links.parts.of(far, whole)
        for place, item in parts_of(group.items, used):
            assert place is not None
            pending.add((far,), replace(place, path=path), (origin, group, item))
        rest -= used
        if rest and direction is Direction.BACKWARD:
            refused[links.parts.unwritten(far, origin.app, path, rest)] = None
    if is_passed:
        rest -= links.parts.of(origin, whole)
    if ends is not None:
        for _, item in parts_of(group.items, rest):
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
        if not node_locations.names(node, node_location):
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
