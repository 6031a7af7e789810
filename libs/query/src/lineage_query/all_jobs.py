"""Traces through all applications: where one ends at a file that another wrote (or read), it goes on there.

A file leads from one application to another where one wrote just the version that the other read: the size and the time of
both are the same, and so are their checksums where both took one. Where they are not, the trace ends, and the answer says
why with both versions. After Logothetis et al., Scalable Lineage Capture for Debugging DISC Analytics, SoCC 2013.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from lineage_core.contract.message import RecordFiles, RecordSplits, SinkFiles, Splits
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, parse_location
from lineage_store.errors import StoreUnavailableError
from lineage_store.materialised import whose_rows
from lineage_store.paths import MTIME_TOLERANCE_S, Spellings
from lineage_store.port import GraphStore
from lineage_store.records import FILES, SPLITS

ROWS_MAX = 10_000
"""Rows that are handed from one application to others, for one question."""
USES_MAX = 500
"""Nodes of applications that are asked for one question."""


@dataclass(frozen=True, slots=True)
class Version:
    """A file as a node read or wrote it."""

    size: int
    mtime: float
    checksum: str = ""

    def is_same(self, other: Version) -> bool:
        """Whether both are one version, as far as can be told."""
        return (
            self.size == other.size
            and abs(self.mtime - other.mtime) <= MTIME_TOLERANCE_S
            and (not self.checksum or not other.checksum or self.checksum == other.checksum)
        )

    def __str__(self) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.mtime))
        return f"{self.size:,} bytes of {at}Z"


@dataclass(frozen=True, slots=True)
class Use:
    """A node that read or wrote a file, with the versions that it had of it."""

    app: str
    node: str
    wrote: bool
    versions: frozenset[Version]


@dataclass(frozen=True, slots=True)
class Links:
    """Where a trace goes on from a file of one node. ``refused``: applications whose version is another, with both."""

    uses: tuple[Use, ...] = ()
    refused: tuple[NotQueried, ...] = ()


TraceAt = Callable[[Use, list[Location]], Iterable[Answer]]
"""Traces rows of a file of one node, and goes no further than its application; lists all that it finds."""


def find_links(
    store: GraphStore, app: str, node: str, path: str, direction: Direction, spellings: Spellings
) -> Links:
    """The nodes that wrote (backward) or read (forward) a file in the version that a node had of it.

    Args:
        store: has the applications.
        app: whose node it is.
        node: read the file (backward), or wrote it.
        path: of the file.
        direction: of the trace.
        spellings: which links of folders were followed just now.
    """
    back = direction is Direction.BACKWARD
    ids = store.application_ids()
    known = [other for other in store.applications_knowing(path, spellings) if other in ids]
    uses = [
        use
        for other in dict.fromkeys((*known, app))
        if whose_rows(other, ids) is None
        for use in _uses_of(store, other, path, spellings)
    ]
    own = next((u for u in uses if (u.app, u.node, u.wrote) == (app, node, not back)), None)
    others = [use for use in uses if use.wrote == back and (use.app, use.node) != (app, node)]
    verb, other_verb = ("read", "wrote") if back else ("wrote", "read")
    if not others:
        return Links()
    if own is None:
        reason = f"which version of {path} {app} {verb} is not known"
        return Links(refused=tuple(NotQueried(name, reason) for name in _apps(others)))
    if len(own.versions) > 1:
        reason = (
            f"{app} {verb} several versions of {path}, and which one these rows are of is not known"
        )
        return Links(refused=tuple(NotQueried(name, reason) for name in _apps(others)))
    (version,) = own.versions
    same = [use for use in others if any(map(version.is_same, use.versions))]
    if back and len({(use.app, use.node) for use in same}) > 1:
        reason = f"{path} was written more than once as {app} read it, and who wrote it last is not known"
        return Links(refused=tuple(NotQueried(name, reason) for name in _apps(same)))
    unsure = [use for use in same if len(use.versions) > 1]
    refused = [
        NotQueried(
            use.app, f"it {other_verb} several versions of {path}, one of which {app} {verb}"
        )
        for use in unsure
    ]
    if not back or not same:
        # Of several writers of other versions, which were overwritten, the latest says enough.
        different = [use for use in others if use not in same]
        refused += [
            NotQueried(
                use.app,
                f"it {other_verb} {_last(use)} at {path}, and {app} {verb} {version}",
            )
            for use in (different[:1] if back else _may_be_later(different, version))
        ]
    return Links(tuple(use for use in same if use not in unsure), tuple(refused))


def _may_be_later(uses: list[Use], version: Version) -> Iterator[Use]:
    """Those that read something else than was written: nothing of it went there. Only an unknown size may hide that."""
    yield from (use for use in uses if any(_is_doubtful(one, version) for one in use.versions))


def _is_doubtful(read: Version, wrote: Version) -> bool:
    """Whether a version that was read may hold what was written: its time alone is another."""
    return read.size == wrote.size and not (read.checksum and wrote.checksum)


def _last(use: Use) -> Version:
    return max(use.versions, key=lambda version: version.mtime)


def _apps(uses: Iterable[Use]) -> Iterator[str]:
    yield from dict.fromkeys(use.app for use in uses)


def _uses_of(store: GraphStore, app: str, path: str, spellings: Spellings) -> Iterator[Use]:
    canonical_path = spellings.of(path)
    versions: dict[tuple[str, bool], set[Version]] = {}
    for message in store.messages(app, *SPLITS, *FILES):
        if isinstance(message, Splits | RecordSplits):
            for split in message.splits:
                if spellings.of(split.path) == canonical_path:
                    version = Version(split.file_size, split.mtime, split.checksum)
                    versions.setdefault((message.node, False), set()).add(version)
        elif isinstance(message, SinkFiles | RecordFiles):
            for file in message.files:
                if spellings.of(file.path) == canonical_path:
                    version = Version(file.size, file.mtime, file.checksum)
                    versions.setdefault((message.node, True), set()).add(version)
    for (node, wrote), found in versions.items():
        yield Use(app, node, wrote, frozenset(found))


@dataclass
class _Followed:
    """What was found on the way. ``groups``: rows at which the trace ends, by application and node."""

    answers: list[Answer] = field(default_factory=list)
    groups: dict[tuple[str, str], dict[str, Item]] = field(default_factory=dict)
    heads: dict[tuple[str, str], Group] = field(default_factory=dict)
    not_queried: dict[NotQueried, None] = field(default_factory=dict)
    warnings: dict[str, None] = field(default_factory=dict)

    def end(self, app: str, group: Group, items: Iterable[Item]) -> None:
        key = app, group.node
        head = self.heads.setdefault(key, replace(group, app=app))
        if group.changed and not head.changed:
            self.heads[key] = replace(head, file_status=group.file_status)
        held = self.groups.setdefault(key, {})
        for item in items:
            held.setdefault(item.address, item)


def follow(firsts: Sequence[Answer], store: GraphStore, trace_at: TraceAt) -> Answer:
    """Go on from answers of single applications through all that wrote what was read, or read what was written.

    Args:
        firsts: to one question, at least one; they list all of their items.
        store: has the applications.
        trace_at: traces rows of a file within one application.

    Returns:
        The rows at which no known application goes on. Complete where all applications on the way are, and all were asked.

    Raises:
        TooMuchError: more rows or applications lie on the way than are followed.
        BudgetError: it takes more than the query may.
        StoreUnavailableError: the store does not answer.
    """
    found, spellings = _Followed(), Spellings()
    seen: set[tuple[str, str, str]] = set()
    pending, direction = deque(firsts), firsts[0].direction
    rows = asked = 0
    while pending:
        answer = pending.popleft()
        found.answers.append(answer)
        next_rows: dict[Use, dict[str, Location]] = {}
        for group in answer.groups:
            app = group.app or answer.app
            if len(group.items) != group.count:
                raise TooMuchError(
                    f"{group.count:,} rows of {group.path or group.node} lie on the way",
                    "ask for fewer rows",
                )
            for path, items in _by_file(group).items():
                links = Links()
                if path:
                    links = find_links(store, app, group.node, path, direction, spellings)
                found.not_queried.update(dict.fromkeys(links.refused))
                for use in links.uses:
                    held = next_rows.setdefault(use, {})
                    held.update((str(place), place) for place, _ in items if place is not None)
                if not links.uses:
                    found.end(app, group, [item for _, item in items])
        for use, places in next_rows.items():
            new = [place for text, place in places.items() if (use.app, use.node, text) not in seen]
            seen.update((use.app, use.node, str(place)) for place in new)
            rows, asked = rows + len(new), asked + 1
            if rows > ROWS_MAX or asked > USES_MAX:
                raise TooMuchError(
                    f"more than {ROWS_MAX:,} rows, or {USES_MAX} steps of applications, lie on the way",
                    "ask for fewer rows, or for one application (without all jobs)",
                )
            if not new:
                continue
            current_budget().check()
            try:
                pending += trace_at(use, new)
            except StoreUnavailableError:
                raise
            except LineageError as problem:
                current_budget().check()
                found.not_queried[NotQueried(use.app, str(problem), use.node)] = None
    return _composed(firsts, found)


def _by_file(group: Group) -> dict[str, list[tuple[Location | None, Item]]]:
    """Items by the file that they lie in; those in none by an empty path."""
    found: dict[str, list[tuple[Location | None, Item]]] = {}
    for item in group.items:
        place = None
        if item.location is not None:
            try:
                place = parse_location(item.location)
            except LocationError:
                place = None
        found.setdefault("" if place is None else place.path, []).append((place, item))
    return found


def _composed(firsts: Sequence[Answer], found: _Followed) -> Answer:
    apps = tuple(dict.fromkeys(app for one in found.answers for app in (one.apps or (one.app,))))
    several = len(apps) > 1

    def named(app: str, texts: Iterable[str]) -> Iterator[str]:
        yield from (f"{app}: {text}" if several else text for text in texts)

    not_queried = tuple(
        dict.fromkeys(
            (*(gap for one in found.answers for gap in one.not_queried), *found.not_queried)
        )
    )
    groups = tuple(
        replace(found.heads[key], items=tuple(items.values()), count=len(items))
        for key, items in found.groups.items()
    )
    reasons = dict.fromkeys(t for one in found.answers for t in named(one.app, one.reasons))
    warnings = dict.fromkeys(t for one in found.answers for t in named(one.app, one.warnings))
    warnings.update(dict.fromkeys(gap.warning() for gap in found.not_queried))
    return replace(
        firsts[0],
        start=tuple(
            replace(group, app=group.app or one.app) for one in firsts for group in one.start
        ),
        exact=all(one.exact for one in found.answers),
        reasons=tuple(reasons),
        groups=groups,
        warnings=tuple(warnings),
        changed=any(one.changed for one in found.answers),
        complete=all(one.complete for one in found.answers) and not not_queried,
        apps=apps,
        not_queried=not_queried,
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
