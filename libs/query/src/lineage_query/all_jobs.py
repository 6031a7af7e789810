"""Traces through all applications: a trace that ends at a file continues in the application that wrote (or read) it.

A file links two applications if one wrote exactly the version that the other read: size and modification time are equal,
and so are the checksums if both applications recorded one. Otherwise the trace ends there, and the answer gives the reason
with both versions. After Logothetis et al., Scalable Lineage Capture for Debugging DISC Analytics, SoCC 2013.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace

from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import (
    MEMORY_OF_MESSAGES,
    SMALL_MESSAGES,
    BusyError,
    TooManyMessagesError,
    TooMuchError,
    current_budget,
)
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.finding import UNREAD_REASON, FileVersion, FileVersions, recorded_files
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, parse_location
from lineage_store.errors import StoreUnavailableError
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore

ROWS_MAX = 10_000
"""Maximum number of rows that one query passes from one application to others."""
QUERIES_MAX = 500
"""Maximum number of queries of single applications that one query makes."""
ITEMS_MAX = 200_000
"""Maximum number of items in all answers of single applications together."""
QUEUED_MAX = 10 * ROWS_MAX
"""Maximum number of pairs of an item and a node that the trace continues from it at, for one answer."""
REFUSALS_MAX = 10_000
"""Maximum number of applications, each for a file, at which a query ends without an answer of theirs."""
VERSION_BYTES = 800
"""Memory of one version of a file that is kept."""
NAMED_MAX = 20
"""Maximum number of applications that are named for one file."""


@dataclass(frozen=True, slots=True)
class FileNode:
    """A node of an application that read or wrote a file."""

    app: str
    node: str


@dataclass(frozen=True, slots=True)
class JobLinks:
    """Where a trace continues from a file of one node. ``refused``: applications with another version, with both versions."""

    nodes: tuple[FileNode, ...] = ()
    refused: tuple[NotQueried, ...] = ()


class FileLinks:
    """Which nodes wrote the files that others read. Caches the recorded file versions of applications for one query."""

    def __init__(self, store: GraphStore, direction: Direction) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = Spellings()
        self._ids = store.application_ids()
        self._files: dict[str, dict[str, FileVersions] | None] = {}
        self._links: dict[tuple[FileNode, str, bool], JobLinks] = {}
        self._held = 0

    def of(self, origin: FileNode, path: str, *, is_end: bool) -> JobLinks:
        """The nodes that wrote (backward) or read (forward) the version of a file that a node recorded.

        Args:
            origin: read the file (backward), or wrote it.
            path: of the file.
            is_end: whether ``origin`` is known to have done so; else, where it has not, nothing goes on from it.
        """
        key = origin, path, is_end
        if key not in self._links:
            self._links[key] = self._find(origin, path, is_end=is_end)
        return self._links[key]

    def _find(self, origin: FileNode, path: str, *, is_end: bool) -> JobLinks:
        spelled = self._spellings.of(path)
        own: Sequence[FileVersion] = ()
        others: dict[FileNode, Sequence[FileVersion]] = {}
        rewritten: list[FileVersion] = []
        unread = list[str]()
        for app in dict.fromkeys(
            (*self._store.applications_knowing(path, self._spellings), origin.app)
        ):
            if whose_rows(app, self._ids) is not None and app != origin.app:
                continue
            files = self._files_of(app)
            if files is None:
                unread.append(app)
                continue
            for (node, wrote), versions in files.get(spelled, {}).items():
                file_node = FileNode(app, node)
                if wrote != self._is_backward:
                    if file_node == origin:
                        own = tuple(versions)
                    elif wrote:
                        rewritten += versions
                elif file_node != origin:
                    others[file_node] = tuple(versions)
        if not own and not is_end:
            return JobLinks()
        verb = "wrote" if self._is_backward else "read"
        why = f"whether it {verb} {path} is not known: {UNREAD_REASON}"
        links = JobLinks(refused=tuple(NotQueried(app, why) for app in unread if app != origin.app))
        if others and self._is_backward and unread:
            # One of them may have written the same version later.
            found = _refused(others, f"who else wrote {path} is not known")
        elif others:
            found = self._compare(origin.app, path, own, others, rewritten)
        else:
            return links
        return JobLinks(found.nodes, (*found.refused, *links.refused))

    def _compare(
        self,
        app: str,
        path: str,
        own: Sequence[FileVersion],
        others: dict[FileNode, Sequence[FileVersion]],
        rewritten: Sequence[FileVersion],
    ) -> JobLinks:
        verb, other_verb = ("read", "wrote") if self._is_backward else ("wrote", "read")
        if len(own) != 1:
            known = "is not known" if not own else "of several these rows are of is not known"
            return _refused(others, f"which version of {path} that {app} {verb} {known}")
        (version,) = own
        same = [node for node, versions in others.items() if any(map(version.is_same, versions))]
        if self._is_backward and len(same) > 1:
            return _refused(
                same,
                f"{path} was written more than once as {app} read it, and who wrote it last is not known",
            )
        unsure = [node for node in same if len(others[node]) > 1]
        links = _refused(
            unsure, f"it {other_verb} several versions of {path}, one of which {app} {verb}"
        )
        different = [
            node
            for node, versions in others.items()
            if node not in same
            and (self._is_backward or any(_may_hold(read, version, rewritten) for read in versions))
        ]
        if self._is_backward:
            # Of the writers of other versions, report the latest only, and none if some node wrote exactly this version.
            different = [] if same else different[:1]
        more = tuple(
            NotQueried(
                node.app,
                f"it {other_verb} {max(others[node], key=lambda one: one.mtime)} at {path}, and {app} {verb} {version}"
                + _others_text(len(different)),
            )
            for node in different[:NAMED_MAX]
        )
        return JobLinks(tuple(node for node in same if node not in unsure), (*links.refused, *more))

    def _files_of(self, app: str) -> dict[str, FileVersions] | None:
        """What an application recorded of files; None: it is more than this query may hold."""
        if app not in self._files:
            try:
                files = recorded_files(self._store, app, self._spellings)
                self._hold(
                    sum(len(versions) for uses in files.values() for versions in uses.values())
                )
            except TooManyMessagesError:
                self._files[app] = None
            except BusyError:
                # The rest of the room may be taken by this query itself: to ask it again later would not help.
                if not self._held:
                    raise
                self._files[app] = None
            else:
                self._files[app] = files
        return self._files[app]

    def _hold(self, versions: int) -> None:
        """Count what was recorded of files as the messages that take as much memory, until this query ends."""
        amount = versions * VERSION_BYTES // MEMORY_OF_MESSAGES
        # Many applications of few files each are as much as one of many.
        small = max(SMALL_MESSAGES - self._held, 0)
        current_budget().hold_messages(self, lambda: amount, small)
        self._held += amount


def _refused(nodes: Iterable[FileNode], reason: str) -> JobLinks:
    apps = list(dict.fromkeys(node.app for node in nodes))
    reason += _others_text(len(apps))
    return JobLinks(refused=tuple(NotQueried(app, reason) for app in apps[:NAMED_MAX]))


def _others_text(number: int) -> str:
    return f" (the same holds for {number - NAMED_MAX:,} more)" if number > NAMED_MAX else ""


def _may_hold(read: FileVersion, written: FileVersion, rewritten: Iterable[FileVersion]) -> bool:
    """Whether a version that was read may hold rows of the version that was written, which it is not.

    Whoever made it may have copied, appended to or edited the file. It holds none if it is older, or if another
    application recorded that it wrote exactly this version: a write replaces the file.
    """
    is_older = read.mtime < written.mtime and not read.has_state_of(written)
    return not is_older and not any(map(read.is_same, rewritten))


TraceAt = Callable[
    [FileNode, Sequence[Location]], Iterator[tuple[Sequence[Location], Callable[[], Answer]]]
]
"""Splits rows of a file of one node into queries of its application alone, with the engine that traces each."""


@dataclass
class _Ends:
    """Rows at which a trace ends, by application and node."""

    groups: dict[FileNode, Group] = field(default_factory=dict)
    items: dict[FileNode, list[Item]] = field(default_factory=dict)
    _located: set[tuple[FileNode, str, str]] = field(default_factory=set)

    def add(self, node: FileNode, group: Group, item: Item) -> None:
        if item.location is not None:
            # On two ways to one row it is one. Rows in no file have no address of their own.
            key = node, item.address, item.location
            if key in self._located:
                return
            self._located.add(key)
        known = self.groups.setdefault(node, replace(group, app=node.app))
        if group.changed and not known.changed:
            self.groups[node] = replace(known, file_status=group.file_status)
        self.items.setdefault(node, []).append(item)

    def all(self) -> Iterator[Group]:
        for node, group in self.groups.items():
            items = tuple(self.items[node])
            yield replace(group, items=items, count=len(items))


@dataclass
class _Pending:
    """By node, rows to continue from, each with the items of the applications before that are this row."""

    nodes: dict[FileNode, dict[Location, list[tuple[FileNode, Group, Item]]]] = field(
        default_factory=dict
    )
    _queued: int = 0

    def add(
        self, nodes: Sequence[FileNode], row: Location, item: tuple[FileNode, Group, Item]
    ) -> None:
        """Continue from a row at nodes: any number of them may say that they read its file.

        Raises:
            TooMuchError: there are more pairs of an item and a node than are queued for one answer.
            BudgetError: the query has no time left.
        """
        current_budget().check()
        self._queued += len(nodes)
        _check_most(self._queued, QUEUED_MAX, "rows")
        for node in nodes:
            self.nodes.setdefault(node, {}).setdefault(row, []).append(item)


def follow(
    first: Answer,
    store: GraphStore,
    trace_at: TraceAt,
    working: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Answer:
    """Go on from an answer through all applications that wrote what was read, or read what was written.

    Args:
        first: lists all of its items.
        store: has the applications.
        trace_at: traces rows of a file within one application; its answers list all of their items.
        working: held while the store is read, but not while rows are traced.

    Returns:
        The rows at which no known application continues. Complete if all applications on the way are, and all were queried.

    Raises:
        TooMuchError: more rows or applications lie on the way than the limits allow.
        BudgetError: the query exceeds its budget.
        StoreUnavailableError: the store does not answer.
    """
    with working():
        links = FileLinks(store, first.direction)
    ends = _Ends()
    answers, refused = list[Answer](), dict[NotQueried, None]()
    visited: set[tuple[FileNode, Location]] = set()
    stopped: set[tuple[FileNode, Location]] = set()
    queries = items = 0
    unfollowed = deque([first])
    while unfollowed:
        answer = unfollowed.popleft()
        answers.append(answer)
        items += sum(len(group.items) for group in answer.groups)
        _check_most(items, ITEMS_MAX, "items")
        pending = _Pending()
        with working():
            if answer is first:
                # The queried rows may be ends themselves: rows of a source in a backward trace.
                for group in answer.start:
                    refused.update(_go_on(answer, group, links, pending, None))
            for group in answer.groups:
                refused.update(_go_on(answer, group, links, pending, ends))
        _check_most(len(refused), REFUSALS_MAX, "files that another version was read or written of")
        for node, rows in pending.nodes.items():
            new = [row for row in rows if (node, row) not in visited]
            visited.update((node, row) for row in new)
            _check_most(len(visited), ROWS_MAX, "rows")
            for some, ask in trace_at(node, new) if new else ():
                queries += 1
                if queries > QUERIES_MAX:
                    raise TooMuchError(
                        f"more than {QUERIES_MAX} queries of single applications lie on the way",
                        "ask for fewer rows, or for one application (without all jobs)",
                    )
                current_budget().check()
                try:
                    unfollowed.append(ask())
                except StoreUnavailableError:
                    raise
                except LineageError as problem:
                    current_budget().check()
                    refused[NotQueried(node.app, str(problem), node.node)] = None
                    stopped.update((node, row) for row in some)
            for row in rows:
                if (node, row) in stopped:
                    for origin, group, item in rows[row]:
                        ends.add(origin, group, item)
    return _composed(answers, tuple(ends.all()), tuple(refused))


def _check_most(number: int, most: int, what: str) -> None:
    if number > most:
        raise TooMuchError(f"more than {most:,} {what} lie on the way", "ask for fewer rows")


def _go_on(
    answer: Answer, group: Group, links: FileLinks, pending: _Pending, ends: _Ends | None
) -> dict[NotQueried, None]:
    """Queue the rows from which a trace continues, add the others to ``ends`` (unless None); return what can't be queried."""
    if len(group.items) != group.count:
        raise TooMuchError(
            f"{group.count:,} rows of {group.path or group.node} lie on the way",
            "ask for fewer rows",
        )
    origin = FileNode(group.app or answer.app, group.node)
    refused: dict[NotQueried, None] = {}
    for item in group.items:
        place = _place_of(item)
        found = (
            JobLinks() if place is None else links.of(origin, place.path, is_end=ends is not None)
        )
        refused.update(dict.fromkeys(found.refused))
        if place is not None:
            pending.add(found.nodes, place, (origin, group, item))
        if not found.nodes and ends is not None:
            ends.add(origin, group, item)
    return refused


def _place_of(item: Item) -> Location | None:
    try:
        return None if item.location is None else parse_location(item.location)
    except LocationError:
        return None


def _composed(
    answers: Sequence[Answer], groups: tuple[Group, ...], refused: tuple[NotQueried, ...]
) -> Answer:
    first = answers[0]
    apps = tuple(dict.fromkeys(app for answer in answers for app in answer.apps or (answer.app,)))

    def named(app: str, texts: Iterable[str]) -> Iterator[str]:
        yield from (f"{app}: {text}" if len(apps) > 1 else text for text in texts)

    reasons = [text for answer in answers for text in named(answer.app, answer.reasons)]
    warnings = [text for answer in answers for text in named(answer.app, answer.warnings)]
    not_queried = dict.fromkeys((*(gap for one in answers for gap in one.not_queried), *refused))
    return replace(
        first,
        exact=all(answer.exact for answer in answers),
        reasons=tuple(dict.fromkeys(reasons)),
        groups=groups,
        warnings=tuple(dict.fromkeys((*warnings, *(gap.warning() for gap in refused)))),
        changed=any(answer.changed for answer in answers),
        complete=all(answer.complete for answer in answers) and not not_queried,
        apps=apps,
        not_queried=tuple(not_queried),
    )


def regions_at(locations: Locations, node: str, places: Iterable[Location]) -> dict[str, Region]:
    """The items of a node at places of files, by space.

    Raises:
        LocationError: the node counts rows of a file otherwise, or has none there.
        RowsError: rows must be counted in a file that can't be read.
    """
    found: dict[str, list[Region]] = {}
    for place in places:
        where = replace(place, path=locations.spelled(place.path))
        if locations.unit(node, where.path) != where.unit:
            raise LocationError(f"rows of {place.path} are counted otherwise there")
        for space, region in locations.items_at(node, where).items():
            found.setdefault(space, []).append(region)
    return {space: Region.union(regions) for space, regions in found.items()}


def check_followed(until: str | None, steps: int | None) -> None:
    """Refuse a part of the way of a trace through all applications.

    Raises:
        TraceError: it is to end at a node, or after steps.
    """
    if until is not None or steps is not None:
        raise TraceError("a trace through all jobs goes all the way: leave out --step and --to")
