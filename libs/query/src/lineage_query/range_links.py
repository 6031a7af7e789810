"""Where ranges of rows of files go on in other applications: the links of :mod:`lineage_query.all_jobs`, of any number of rows at once.

A file that one application wrote and another read links ranges of items to ranges of items. That needs each record written to be
one row read. It is, if as many rows were read as records were written; where the reader did not read all of them, if the file shows it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lineage_core.contract.address import parse_space
from lineage_core.contract.message import Begin
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.tagged_plan import WITHOUT_SPARK
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.all_jobs import FileLinks
from lineage_query.answers import NotQueried
from lineage_query.job_links import FileNode
from lineage_query.recipe_rows import recipe_nodes_among
from lineage_query.rows.locations import FilePart
from lineage_query.rows.places import LocationError
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_store.errors import StoreUnavailableError
from lineage_store.paths import RowsError
from lineage_store.port import GraphStore

_ALL = 2**62
"""More rows than a partition has."""
OPENED_MAX = 8


@dataclass(frozen=True, slots=True)
class RangeLink:
    """Items ``first..last`` of a space are, ``shift`` further (modulo 2**64), those of ``space`` of ``app``. ``reason``: why that is not sure; empty: it is."""

    first: int
    last: int
    app: str
    space: str
    shift: int
    reason: str


@dataclass(slots=True)
class RangeLinks:
    """Where items of a space go on. ``ends``: ranges of those that don't, or not at each node that used their file: the answer has them."""

    links: list[RangeLink] = field(default_factory=list)
    ends: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows ``first..last`` of a file are items of a space, from ``item`` on."""

    first: int
    last: int
    space: str
    item: int


class RangeFollower:
    """Finds where ranges of rows go on.

    ``refused``: what is not queried, as a trace through all jobs says it.

    Args:
        store: has the applications.
        reader: decides which files may be read.
        direction: of the trace.
        refusal: why an application can't be traced; empty: it can.
    """

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        direction: Direction,
        refusal: Callable[[str], str],
    ) -> None:
        self._is_backward = direction is Direction.BACKWARD
        self._store = store
        self._links = FileLinks(store, direction, reader)
        self._reader = reader
        self._cache = ApplicationCache(store, reader, cached_max=OPENED_MAX)
        self._refusal = refusal
        self._rows: dict[FileNode, dict[str, list[_Rows]]] = {}
        self.refused: dict[NotQueried, None] = {}

    def copies(self, *, exact: bool) -> list[str]:
        """What is said of files that were moved (``exact``), or copied, on the way."""
        return [copy.text for copy in self._links.copies if copy.exact is exact]

    def began_at(self, app: str) -> float:
        """When an application began, in unix seconds; 0 where that is not known."""
        begins = [one for one in self._store.messages(app, "begin") if isinstance(one, Begin)]
        return max((float(begin.started_at) for begin in begins), default=0.0)

    def opened(self, app: str) -> ApplicationSnapshot:
        """An application."""
        return self._cache.open(app)

    def of(self, origin: ApplicationSnapshot, space: str, first: int, last: int) -> RangeLinks:
        """Where items ``first..last`` of a space, at which the trace of its application ends, go on.

        Raises:
            StoreUnavailableError: the store does not answer.
            BudgetError: the query has no time left.
        """
        node = FileNode(origin.app, parse_space(space).name)
        ends = (np.array([end], np.uint64) for end in (first, last))
        region = Region.of_runs(*ends)
        links, covered = RangeLinks(), [Region()]
        for part in origin.locations.parts_of(space, region):
            current_budget().check()
            covered.append(part.items)
            is_continued = self._follow(origin, node, part, links)
            if not is_continued:
                links.ends.append((int(part.items.first[0]), int(part.items.last[-1])))
        rest = region - Region.union(covered)
        links.ends += list(zip(rest.first.tolist(), rest.last.tolist(), strict=True))
        record = origin.record(node.node)
        if rest and record is not None and record.path is not None:
            # Of a format whose rows have no places.
            self._refuse(self._links.of_rows_in_no_place(node, record.path))
        return links

    def _refuse(self, gaps: Sequence[NotQueried]) -> None:
        self.refused.update(dict.fromkeys(gaps))

    def _follow(
        self, origin: ApplicationSnapshot, node: FileNode, part: FilePart, links: RangeLinks
    ) -> bool:
        """Whether all nodes that the rows go on at were followed, and there is one."""
        if part.rows is None:
            self._refuse(self._links.of_rows_in_no_place(node, part.path))
            return False
        found = self._links.of(node, part.path, is_end=True)
        self._refuse(found.refused)
        ways = [(far, part.path, "") for far in found.nodes]
        ways += [(copy.node, copy.path, "" if copy.exact else copy.text) for copy in found.copies]
        is_continued = bool(ways)
        for far, path, reason in ways:
            try:
                links.links += list(self._at(origin, node, part, far, path, reason))
            except StoreUnavailableError:
                raise
            except LineageError as problem:
                current_budget().check()
                self._refuse([NotQueried(far.app, str(problem), far.node)])
                is_continued = False
        return is_continued

    def _at(
        self,
        origin: ApplicationSnapshot,
        node: FileNode,
        part: FilePart,
        far: FileNode,
        path: str,
        reason: str,
    ) -> list[RangeLink]:
        """Where the rows of a part go on at one node.

        Raises:
            LineageError: they can't be followed there.
        """
        refusal = self._refusal(far.app)
        if refusal:
            raise TraceError(refusal)
        opened = self.opened(far.app)
        if part.unit == "byte" or is_file_node(far.node):
            raise TraceError(
                f"{path} is known there by its bytes, each of which goes on by itself: {WITHOUT_SPARK}"
            )
        if recipe_nodes_among(opened.nodes, (far.node,)):
            raise TraceError(
                f"rows of {path} are rows of a DataFrame there ({opened.names.label(far.node)}), which are traced by its recipe, a few at a "
                f"time: {WITHOUT_SPARK}"
            )
        canonical = opened.locations.spelled(path)
        if opened.locations.unit(far.node, canonical) != part.unit:
            raise LocationError(f"{far.node} counts the rows of {path} in another unit")
        near, target = (origin, node, part.canonical_path), (opened, far, canonical)
        self._check_rows(part, *((target, near) if self._is_backward else (near, target)))
        rows = part.rows or Region()
        first, last = int(rows.first[0]), int(rows.last[-1])
        shift = first - int(part.items.first[0])
        links = []
        covered = [Region()]
        for some in self._rows_of(opened, far).get(canonical, ()):
            low, high = max(first, some.first), min(last, some.last)
            if low <= high:
                covered.append(Region.of_runs(*(np.array([end], np.uint64) for end in (low, high))))
                onward = shift - some.first + some.item
                links.append(RangeLink(low - shift, high - shift, far.app, some.space, onward % 2**64, reason))  # fmt: skip
        if rows - Region.union(covered):
            raise LocationError(f"which rows of {path} {far.app} used is not known")
        return links

    def _check_rows(
        self,
        part: FilePart,
        written: tuple[ApplicationSnapshot, FileNode, str],
        read: tuple[ApplicationSnapshot, FileNode, str],
    ) -> None:
        """See that each record that was written is one row that was read.

        Raises:
            TraceError: that is not known.
        """
        if part.unit != "line":
            return
        (writer, sink, written_path), (reader, source, read_path) = written, read
        count = writer.locations.row_count(sink.node, written_path)
        if count is not None and count == reader.locations.row_count(source.node, read_path):
            return
        files = writer.graph.sink_files(sink.node)
        has_ends = any(
            file.newlines for file in files if writer.locations.spelled(file.path) == written_path
        )
        is_same = reader.locations.file_status(source.node, read_path) == "same"
        try:
            is_plain = is_same and not self._reader.index(read_path).lone_returns
        except RowsError:
            is_plain = False
        if has_ends or not is_plain:
            raise TraceError(
                f"whether each record of {part.path} is one row is not known: {WITHOUT_SPARK}"
            )

    def _rows_of(self, opened: ApplicationSnapshot, node: FileNode) -> dict[str, list[_Rows]]:
        """The rows of all files of a node, by canonical path."""
        if node not in self._rows:
            by_path: dict[str, list[_Rows]] = {}
            for path, rows in _all_rows(opened, node.node):
                by_path.setdefault(path, []).append(rows)
            self._rows[node] = {path: _apart(rows) for path, rows in by_path.items()}
        return self._rows[node]


def _apart(parts: Sequence[_Rows]) -> list[_Rows]:
    """Parts of a file of which each ends before the next; of some it is not known how many rows they have."""
    firsts = [*sorted({rows.first for rows in parts}), _ALL * 2]
    return [
        replace(rows, last=min(rows.last, firsts[bisect_right(firsts, rows.first)] - 1))
        for rows in parts
    ]


def _all_rows(opened: ApplicationSnapshot, node: str) -> Iterator[tuple[str, _Rows]]:
    for partition, count in opened.locations.partitions(node).items():
        current_budget().check()
        if count == 0:
            continue
        space = f"{node}#{partition}"
        span = (np.array([end], np.uint64) for end in (0, (_ALL if count is None else count) - 1))
        for part in opened.locations.parts_of(space, Region.of_runs(*span)):
            if part.rows is None:
                continue
            item, first = int(part.items.first[0]), int(part.rows.first[0])
            last = int(part.rows.last[-1])
            yield part.canonical_path, _Rows(first, last, space, item)
