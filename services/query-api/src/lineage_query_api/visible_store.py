"""The visible part of an application with hidden parts: its store, its graph, and the rows of its files."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain
from typing import Any, TypeVar

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import U64, BlockId, FlowBlock
from lineage_core.contract.graph import (
    BlockRef,
    EdgeBatch,
    FlowGraph,
    LinkRecord,
    NodeRecord,
    PositionRange,
    SinkFileRecord,
    SplitRecord,
)
from lineage_core.contract.message import (
    Begin,
    Commit,
    DeadLetter,
    Fail,
    Message,
    RecordFiles,
    RecordSplits,
    SinkFiles,
    Splits,
    Stream,
    Unknown,
)
from lineage_core.contract.region import Region
from lineage_core.contract.sealing import Seal
from lineage_core.contract.verdict import StoreCounts, Verdict
from lineage_core.tracing.trace_result import Direction, TraceResult
from lineage_core.tracing.tracer import Tracer
from lineage_query.listing import Listing, Page
from lineage_query.names import Names
from lineage_query.rows.formats import is_parquet
from lineage_query.rows.line_index import LineIndex
from lineage_query.rows.locations import Locations
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache, ApplicationSnapshot
from lineage_query.verdicts import with_reasons
from lineage_query_api.errors import hidden_parts_error
from lineage_query_api.granted_store import GrantedStore, ReadOnlyStore
from lineage_query_api.masking import MASK, masked_row
from lineage_query_api.visibility import DatasetVisibility, VisibleApplication
from lineage_store.paths import Bytes, FileState, RowsError, Spellings, canonical
from lineage_store.port import ApplicationRecord
from lineage_store.recipes import derived_messages
from lineage_store.recorded_files import (
    FILE_MESSAGES,
    FileQuery,
    RecordedFiles,
    rows_of_message,
    select_files,
)
from lineage_store.records import FILES, SPLITS

HIDDEN_NAME = "hidden"
HIDDEN_SCHEME = "hidden://"
"""Scheme of placeholder paths for files of hidden datasets: no real path has it."""
WITHHELD_REASON = "the reason is not shown: it may reveal what is hidden from you, or masked"
HIDDEN_WARNING = (
    "datasets of this application are hidden from you: their paths and rows are not shown"
)
UNKNOWN_FILE_WARNING = "its rows are not shown: a link leads to it that was put in the place of a file which the application used"
MASKED_WARNING = "columns or rows of this application are masked for you"
ALIASES = frozenset({"read", "write"})
"""Generic aliases of nodes: other names may reveal what is hidden."""
HEADER_MAX = 1 << 16
"""Maximum bytes of a file's header line."""
CACHED_READERS_MAX = 16
"""Maximum number of applications whose readers are kept for callers of the same rights: each holds the paths of its files."""
LOOKUP_MESSAGE_TYPES = {"begin", "unknown", *SPLITS, *FILES}
"""Types of the messages that lookups of files need."""
_File = TypeVar("_File", SplitRecord, SinkFileRecord)
_BY_VALUE = {SpaceKind.KEYS, SpaceKind.OPAQUE}
"""Spaces whose positions are hashes of values."""


class VisibleGraph:
    """The lineage of an application without its hidden parts: a :class:`lineage_core.contract.graph.FlowGraph`.

    It leaves out texts that capture stored beside flows: their origin is unknown.
    """

    def __init__(self, graph: FlowGraph, visible_app: VisibleApplication) -> None:
        self._graph = graph
        self._visible_app = visible_app
        self._links = Spellings()
        self._lock = threading.Lock()
        self._hidden: dict[str, str] = {}

    def nodes(self) -> Sequence[NodeRecord]:
        nodes = self._graph.nodes()
        return [self._node(node) for node in nodes] if self._visible_app.hides else nodes

    def links(self) -> Sequence[LinkRecord]:
        return self._graph.links()

    def splits(self, node: str) -> Sequence[SplitRecord]:
        splits = self._graph.splits(node)
        starts: dict[str, set[int]] = {}
        for split in splits:
            starts.setdefault(split.path, set()).add(split.start)
        ranks = {
            (path, start): rank
            for path, of_path in starts.items()
            for rank, start in enumerate(sorted(of_path))
        }
        return [
            # In order as they were: the bytes at which the splits of a hidden file begin say how large it and its rows are.
            replace(shown, start=ranks[split.path, split.start], length=1)
            if shown is not split
            else split
            for split in splits
            for shown in [self._file(node, split)]
        ]

    def sink_files(self, node: str) -> Sequence[SinkFileRecord]:
        return [self._file(node, file) for file in self._graph.sink_files(node)]

    def recipe(self, node: str) -> str | None:
        return None if self._visible_app.hides else self._graph.recipe(node)

    def blocks_into(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self._refs(self._graph.blocks_into(space, first, last))

    def blocks_from(self, space: str, first: int, last: int) -> Sequence[BlockRef]:
        return self._refs(self._graph.blocks_from(space, first, last))

    def blocks_into_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return [self._refs(some) for some in self._graph.blocks_into_each(ranges)]

    def blocks_from_each(self, ranges: Sequence[PositionRange]) -> Sequence[Sequence[BlockRef]]:
        return [self._refs(some) for some in self._graph.blocks_from_each(ranges)]

    def blocks(self) -> Iterator[BlockRef]:
        return iter(self._refs(self._graph.blocks()))

    def spaces_of(self, node: str) -> Sequence[str]:
        return self._graph.spaces_of(node)

    def load(self, blocks: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        return {
            block_id: replace(block, values=None, in_text=None, out_text=None, reason="")
            for block_id, block in self._graph.load(blocks).items()
        }

    def edges_into(self, consumers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return self._graph.edges_into(consumers)

    def edges_from(self, producers: Iterable[BlockId]) -> Sequence[EdgeBatch]:
        return self._graph.edges_from(producers)

    def seals(self) -> Sequence[Seal]:
        return self._graph.seals()

    def sealed(self, spaces: Iterable[str]) -> Collection[str]:
        return self._graph.sealed(spaces)

    def is_hidden(self, node: str, path: str) -> bool:
        """Whether a file of a node is of a hidden dataset."""
        visible_app = self._visible_app
        return not (
            visible_app.of_node(node).visible and visible_app.of_file(self._links.of(path)).visible
        )

    def _file(self, node: str, file: _File) -> _File:
        if not self.is_hidden(node, file.path):
            return file
        return replace(file, path=self._path(node, file.path), checksum="")

    def _path(self, node: str, path: str) -> str:
        """The placeholder of a hidden file: always the same for the same file, so that positions in it stay correct."""
        with self._lock:
            return self._hidden.setdefault(path, f"{HIDDEN_SCHEME}{len(self._hidden) + 1}")

    def _refs(self, refs: Iterable[BlockRef]) -> list[BlockRef]:
        return [replace(ref, reason=_withheld(ref.reason)) for ref in refs]

    def _node(self, node: NodeRecord) -> NodeRecord:
        visible = self._visible_app.of_node(node.node).visible
        alias = (node.alias or "").partition(":")[0]
        return replace(
            node,
            op=node.kind,
            name="" if visible else HIDDEN_NAME,
            description="",
            call_site="",
            call_path="",
            alias=alias if alias in ALIASES else None,
            reason=_withheld(node.reason),
            path=node.path if visible else None,
            containers=(),
        )


class VisibleStore(ReadOnlyStore):
    """A store of one application, without its hidden parts.

    ``key``: identifies the visible content uniquely. ``judged``: the full store, for verdicts, from which :meth:`verdict_of`
    removes what is hidden.
    """

    def __init__(self, granted: GrantedStore, app: str, visible_app: VisibleApplication) -> None:
        """``granted``: the applications that the caller may see, with their full content."""
        self.judged = granted
        self.app = app
        self.visible_app = visible_app
        # By identity: a later equal object gets another key.
        self.key: Hashable = (granted.key, app, _Identity(visible_app))

    def application_ids(self) -> Sequence[str]:
        return [app for app in self.judged.application_ids() if app == self.app]

    def revision(self, app: str) -> Hashable:
        self._check(app)
        return self.judged.revision(app)

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        return self.judged.revisions([app for app in apps if app == self.app])

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        if query.app not in (None, self.app) or self.app not in self.application_ids():
            return RecordedFiles()
        # Of hidden datasets, messages name no real paths.
        messages = enumerate(self.messages(self.app, *FILE_MESSAGES))
        rows = (rows_of_message(self.app, 0.0, number, message) for number, message in messages)
        return RecordedFiles(select_files(query, chain.from_iterable(rows)))

    def applications(self) -> Sequence[ApplicationRecord]:
        return [record for record in self.judged.applications() if record.app == self.app]

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        """As :meth:`GraphStore.messages`.

        Raises:
            KeyError: there is no such application.
            ProblemError: 403, a dataset is hidden and the request is for other messages than lookups of files need.
        """
        self._check(app)
        if not self.visible_app.hides:
            messages = self.judged.messages(app, *kinds)
            return derived_messages(map(_without_reasons, messages), messages)
        if not kinds or not set(kinds) <= LOOKUP_MESSAGE_TYPES:
            # With some of them left out a verdict would be another.
            raise hidden_parts_error()
        messages = self.judged.messages(app, *kinds)
        return derived_messages(self._shown(messages), messages)

    def graph(self, app: str) -> VisibleGraph:
        self._check(app)
        self._check_ids()
        return VisibleGraph(self.judged.graph(app), self.visible_app)

    def counts(self, app: str) -> StoreCounts:
        self._check(app)
        counts = self.judged.counts(app)
        return replace(counts, problems=dict.fromkeys(counts.problems, WITHHELD_REASON))

    def delete(self, app: str) -> None:
        if app == self.app:
            self.judged.delete(app)

    def names(self) -> Mapping[str, frozenset[str]]:
        names = self.judged.names()
        return {app: names[app] for app in self.application_ids() if app in names}

    def verdict_of(self, app: str, verdict: Verdict) -> Verdict:
        """A verdict without the parts that reveal hidden datasets, or values.

        Raises:
            ProblemError: 403, the program chose the names of its nodes, which may reveal what is hidden.
        """
        self._check_ids()
        return (
            verdict_without_details(verdict)
            if self.visible_app.hides
            else verdict_without_reasons(verdict)
        )

    def _check(self, app: str) -> None:
        if app != self.app:
            raise KeyError(app)

    def _check_ids(self) -> None:
        if self.visible_app.hides and not self.visible_app.ids_are_plain:
            raise hidden_parts_error()

    def _shown(self, messages: Iterable[Message]) -> Iterator[Message]:
        """What lookups of files need, and no more."""
        graph = VisibleGraph(self.judged.graph(self.app), self.visible_app)
        for message in messages:
            if isinstance(message, Begin):
                yield Begin(app=message.app, name=message.name, started_at=message.started_at)
            elif isinstance(message, Splits | RecordSplits):
                splits = [s for s in message.splits if not graph.is_hidden(message.node, s.path)]
                yield message.model_copy(update={"splits": tuple(splits)})
            elif isinstance(message, SinkFiles | RecordFiles):
                files = [f for f in message.files if not graph.is_hidden(message.node, f.path)]
                if files:
                    yield message.model_copy(update={"files": tuple(files)})


def verdict_without_details(verdict: Verdict) -> Verdict:
    """A verdict without a word of the program or of its data."""
    return replace(
        verdict_without_reasons(verdict),
        superset=dict.fromkeys(verdict.superset, (WITHHELD_REASON,)),
        refusals=(),
        answerable=None,
        unchecked=0,
    )


def verdict_without_reasons(verdict: Verdict) -> Verdict:
    """A verdict without reasons: errors of a program may contain values."""
    return replace(
        verdict,
        reasons=(WITHHELD_REASON,) if verdict.reasons else (),
        unknown=(WITHHELD_REASON,) if verdict.unknown else (),
        streams=tuple(replace(run, reason=_withheld(run.reason)) for run in verdict.streams),
    )


def _without_reasons(message: Message) -> Message:
    """A message without reasons, for the same purpose as :func:`verdict_without_reasons`."""
    if isinstance(message, Fail | Unknown | DeadLetter | Stream):
        return message.model_copy(update={"reason": _withheld(message.reason)})
    if isinstance(message, Commit):
        fields = ("failed", "spooled_reason")
        return message.model_copy(
            update={field: _withheld(getattr(message, field)) for field in fields}
        )
    return message


class VisibleReader(RowReader):
    """Reads rows of files of one application, masked and withheld as its datasets are.

    Whoever may write to a file's folder may put a link in its place. So what decides is where a path leads when it is read,
    and no other link is followed then.
    """

    def __init__(self, reader: RowReader, visible_app: VisibleApplication) -> None:
        super().__init__()
        self.formats = reader.formats
        self.names_unknown_files = False
        self._reader = reader.without_links()
        self._visible_app = visible_app

    def of_application(self, app: str) -> RowReader:
        return self

    def state(self, path: str) -> FileState | None:
        return self._reader.state(self._visible(path)[0])

    def may_read(self, path: str) -> bool:
        try:
            return self._reader.may_read(self._visible(path)[0])
        except RowsError:
            return False

    def opened(self, path: str, *, packed: bool = False) -> Bytes:
        spelled, shown = self._visible(path)
        if not shown.is_fully_visible:
            raise RowsError(MASKED_WARNING)
        return self._reader.opened(spelled, packed=packed)

    def computing(self) -> ComputingReader:
        """Reads the same for traces."""
        return ComputingReader(self._reader, self._visible_app)

    def header(self, path: str) -> str | None:
        """The unmasked first line of a file, to be compared and never shown; None if it is unknown."""
        try:
            with closing(self._reader.opened(self._visible(path)[0])) as source:
                line, end, _ = source.read(0, HEADER_MAX).partition(b"\n")
            return line.decode("utf-8-sig").removesuffix("\r") if end else None
        except (RowsError, UnicodeDecodeError):
            return None

    def is_folder(self, path: str) -> bool:
        try:
            return self._reader.is_folder(self._visible(path)[0])
        except RowsError:
            return False

    def files_below(self, path: str, *, hidden: bool = False) -> list[str]:
        files = self._reader.files_below(self._visible(path)[0], hidden=hidden)
        return [file for file in files if self._visible_app.of_file(file).visible]

    def index(self, path: str) -> LineIndex:
        return self._reader.index(self._visible(path)[0])

    def rows(self, path: str, rows: U64) -> list[str | None]:
        spelled, shown = self._visible(path)
        return self._masked(shown, self._reader.rows(spelled, rows))

    def sums(self, path: str, first: int, rows: int) -> Sequence[str | None]:
        return self._reader.sums(self._visible(path)[0], first, rows)

    def sums_of(
        self, path: str, first: int, rows: int, blocks: Iterable[int]
    ) -> Mapping[int, str | None]:
        return self._reader.sums_of(self._visible(path)[0], first, rows, blocks)

    def checksum(self, path: str) -> str:
        return self._reader.checksum(self._visible(path)[0])

    def records(self, path: str, rows: U64) -> list[str | None]:
        spelled, shown = self._visible(path)
        texts = self._reader.records(spelled, rows)
        if not is_parquet(spelled):
            return self._masked(shown, texts)
        return [masked_row(text, shown.masked) if shown.rows else None for text in texts]

    def lines(self, path: str, first: U64, last: U64) -> list[str | None]:
        spelled, shown = self._visible(path)
        return self._masked(shown, self._reader.lines(spelled, first, last))

    def lines_of_rows(self, path: str, rows: U64) -> U64:
        return self._reader.lines_of_rows(self._visible(path)[0], rows)

    def rows_of_line(self, path: str, line: int) -> range:
        return self._reader.rows_of_line(self._visible(path)[0], line)

    def rows_in_split(self, path: str, start: int, length: int) -> int:
        return self._reader.rows_in_split(self._visible(path)[0], start, length)

    def _visible(self, path: str) -> tuple[str, DatasetVisibility]:
        """The canonical path of a file now, and its visibility.

        Raises:
            RowsError: it is hidden.
        """
        if path.startswith(HIDDEN_SCHEME):
            raise RowsError(HIDDEN_WARNING)
        spelled = canonical(path)
        shown = self._visible_app.of_file(spelled)
        if not shown.visible:
            raise RowsError(HIDDEN_WARNING if self._visible_app.hides else UNKNOWN_FILE_WARNING)
        return spelled, shown

    @staticmethod
    def _masked(shown: DatasetVisibility, texts: Sequence[str | None]) -> list[str | None]:
        """The text of lines: the position of columns in a line is unknown."""
        if not shown.rows:
            return [None] * len(texts)
        if shown.masked:
            return [None if text is None else MASK for text in texts]
        return list(texts)


class ComputingReader(VisibleReader):
    """Opens files that are masked, too: for traces that compute with rows, and whose answer is masked."""

    def opened(self, path: str, *, packed: bool = False) -> Bytes:
        return self._reader.opened(self._visible(path)[0], packed=packed)


class VisibleReaders:
    """Readers of the applications that a caller sees, by what of each is visible. May be shared by threads.

    Called with the full id of an application, it raises as :meth:`RowReader.of_application`.
    """

    def __init__(
        self, reader: RowReader, visible_application: Callable[[str], VisibleApplication]
    ) -> None:
        self._reader = reader
        self._visible_application = visible_application
        self._lock = threading.Lock()
        self._cached: OrderedDict[str, tuple[VisibleApplication, VisibleReader]] = OrderedDict()

    def __call__(self, app: str) -> VisibleReader:
        visible_app = self._visible_application(app)
        with self._lock:
            cached = self._cached.get(app)
            if cached is None or cached[0] is not visible_app:
                # The same object as long as nothing changes: what is kept is of it.
                cached = self._cached[app] = (
                    visible_app,
                    VisibleReader(self._reader, visible_app),
                )
            self._cached.move_to_end(app)
            while len(self._cached) > CACHED_READERS_MAX:
                self._cached.popitem(last=False)
        return cached[1]


class VisibleNames(Names):
    """The names of nodes; items that are named by hashes of values go by no name."""

    def space(self, text: str) -> str:
        """As :meth:`Names.space`.

        Raises:
            ProblemError: 403, positions of the space are hashes of values.
        """
        _check_space(text)
        return super().space(text)

    def find(self, address: str, graph: FlowGraph) -> dict[str, Region]:
        """As :meth:`Names.find`.

        Raises:
            ProblemError: 403, the address is the hash of a value.
        """
        regions = super().find(address, graph)
        for space in regions:
            _check_space(space)
        return regions


class VisibleTracer(Tracer):
    """Traces over a whole application, for callers who see only a part of it."""

    shows_joins = False

    def __init__(self, tracer: Tracer, visible_app: VisibleApplication) -> None:
        # Its cache is that of the other tracer.
        self._tracer = tracer
        self._visible_app = visible_app

    def trace(
        self,
        direction: Direction,
        start: Mapping[str, Region],
        *,
        until: str = "ends",
        steps: int | None = None,
        exact_only: bool = False,
        by_task: bool = False,
    ) -> TraceResult:
        """As :meth:`Tracer.trace`.

        Raises:
            ProblemError: 403, it would reveal what is hidden.
        """
        if not (self._visible_app.traceable and self._visible_app.of_records):
            raise hidden_parts_error()
        for space in start:
            _check_space(space)
        result = self._tracer.trace(
            direction, start, until=until, steps=steps, exact_only=exact_only, by_task=by_task
        )
        if not self._visible_app.hides:
            return result
        return replace(result, reasons=(WITHHELD_REASON,) if result.reasons else ())


class VisibleApplicationCache(ApplicationCache):
    """Opens the one application of a store by a cache that all callers share."""

    def __init__(
        self, shared: ApplicationCache, store: VisibleStore, reader: VisibleReader
    ) -> None:
        super().__init__(store, reader)
        self._shared = shared
        self._visible_store = store
        self._last_opened: tuple[ApplicationSnapshot, ApplicationSnapshot] | None = None

    def open(self, app: str) -> ApplicationSnapshot:
        """As :meth:`ApplicationCache.open`; raises KeyError for others, too."""
        graph = self._visible_store.graph(app)
        opened = self._shared.open(app)
        cached = self._last_opened
        if cached is None or cached[0] is not opened:
            cached = self._last_opened = opened, self._shown(opened, graph)
        return cached[1]

    def forget(self, app: str) -> None:
        """As :meth:`ApplicationCache.forget`, for all callers."""
        self._shared.forget(app)

    def _shown(self, opened: ApplicationSnapshot, graph: VisibleGraph) -> ApplicationSnapshot:
        verdict = self._visible_store.verdict_of(opened.app, opened.verdict)
        nodes = with_reasons(graph.nodes(), verdict.superset)
        return replace(
            opened,
            graph=graph,
            nodes=nodes,
            names=VisibleNames(nodes),
            locations=Locations(graph, self.reader),
            tracer=VisibleTracer(opened.tracer, self._visible_store.visible_app),
            verdict=verdict,
        )


class VisibleListing(Listing):
    """Items of nodes, which can't be searched by text."""

    def page(self, *args: Any, contains: str = "", **options: Any) -> Page:
        """As :meth:`Listing.page`.

        Raises:
            ProblemError: 403, the matches would reveal what is masked.
        """
        if contains:
            raise hidden_parts_error()
        return super().page(*args, **options)


class _Identity:
    """Equal where it is of the very same object."""

    def __init__(self, of: object) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self._of is other._of

    def __hash__(self) -> int:
        return id(self._of)


def _check_space(text: str) -> None:
    if parse_space(text).kind in _BY_VALUE:
        raise hidden_parts_error()


def _withheld(reason: str) -> str:
    return WITHHELD_REASON if reason else ""
