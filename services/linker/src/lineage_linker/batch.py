"""The linker's core: records in, records out, over a state that may be anything.

Without I/O of its own and without a clock. A batch is handled, its records are sent, and only when
all of them are acknowledged is it finished; until then it may be done again from the beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lineage_core.codec.edge_message import Links, PackedEdge, pack_links, packed_edge
from lineage_core.contract.block import BlockId
from lineage_core.contract.dead_letter import DeadRecord
from lineage_core.contract.message import (
    Commit,
    End,
    Fail,
    Message,
    Register,
    Unknown,
    dump_message,
)
from lineage_core.contract.sealing import Seal
from lineage_core.contract.trimming import RowLimit
from lineage_core.linking.linker import Linker, LinkResult, TaskId
from lineage_kafka.topics import app_partition, flow_partition
from lineage_linker.app_state import AppState, BlockTreatment, commit_summary_of, treatment_of
from lineage_linker.errors import UnusableRecordError
from lineage_linker.events import (
    BlockRecord,
    Prepared,
    app_of,
    prepare_block,
    read_block_record,
    read_event,
)
from lineage_linker.records import VALUE_BYTES_MAX, Incoming, Layout, Outgoing

SERVICE = "linker"
UNLINKED_REASON = "more blocks share it than are linked with each other (LINEAGE_LINKER_SPACE_PAIRS); traces load all of them instead"


@dataclass(slots=True)
class Counts:
    """What a batch did; ``edges`` and ``flows`` count pairs and rows, not batches and blocks."""

    messages: int = 0
    blocks: int = 0
    flows: int = 0
    associations: int = 0
    edges: int = 0
    edge_batches: int = 0
    bytes: int = 0
    dead_letters: int = 0
    complete: int = 0


@dataclass(slots=True)
class _App:
    """One application in this batch."""

    state: AppState
    linker: Linker
    timestamp: float = 0.0
    sent: set[BlockId] = field(default_factory=set)
    visible: list[BlockId] = field(default_factory=list)
    edges: list[PackedEdge] = field(default_factory=list)
    seals: list[Seal] = field(default_factory=list)


class LinkBatch:
    """Handles records one by one; :attr:`outgoing` is what they brought about.

    ``now``: unix seconds, which dead letters carry.
    """

    def __init__(self, layout: Layout, state_of: Callable[[str], AppState], now: float) -> None:
        self.outgoing: list[Outgoing] = []
        self.counts = Counts()
        self.dead: list[DeadRecord] = []
        self.complete: list[str] = []
        """Applications whose state is not needed any more; known once the batch is finished."""
        self._layout = layout
        self._state_of = state_of
        self._now = now
        self._apps: dict[str, _App] = {}

    def handle(self, record: Incoming) -> None:
        """One record, in the order of its partition. What can't be used is a dead letter."""
        self.counts.messages += 1
        self.counts.bytes += record.size
        try:
            event = read_event(record.value)
            if isinstance(event, BlockRecord):
                self._block(record, event)
                return
        except UnusableRecordError as error:
            self._dead_letter(record, error)
            return
        self._message(record, event)

    def recount_unmatched(self) -> None:
        """After the last record: count what is unmatched."""
        for app in self._apps.values():
            app.linker.recount_unmatched()

    def send_links(self, epoch: str) -> None:
        """Add the records that carry the links, all of them made by the state of ``epoch``."""
        for name, app in self._apps.items():
            for space in app.state.unlinked_spaces():
                unknown = Unknown(app=name, what=f"linking of {space}", reason=UNLINKED_REASON)
                value = dump_message(unknown).encode()
                self._send(name, value, self._app_partition(name), app.timestamp)
            links = Links(name, app.visible, app.state.counts(), app.edges, epoch=epoch)
            frames = pack_links(links)
            partition = self._app_partition(name)
            for value in frames.edges:
                self._send(name, value, partition, app.timestamp)
            for value in frames.last:
                self._send(name, value, partition, app.timestamp, after=bool(frames.edges))

    def seal(self) -> None:
        """All links are sent and safe: their blocks are visible, and what is whole by them is sealed."""
        for app in self._apps.values():
            app.state.make_visible()
        for app in self._apps.values():
            app.seals += app.linker.seal()

    def send_seals(self, epoch: str) -> list[Outgoing]:
        """Add the records that carry the seals to :attr:`outgoing`, and return them."""
        sent = len(self.outgoing)
        for name, app in self._apps.items():
            packed_links = (
                pack_links(Links(name, seals=app.seals, epoch=epoch)) if app.seals else None
            )
            for value in () if packed_links is None else packed_links.last:
                self._send(name, value, self._app_partition(name), app.timestamp)
            app.seals.clear()
        return self.outgoing[sent:]

    def finish(self) -> None:
        """All that was sent is safe, seals among it."""
        self.complete = [name for name, app in self._apps.items() if app.state.finish()]
        self.counts.complete = len(self.complete)

    # -- blocks ------------------------------------------------------------------------------

    def _block(self, record: Incoming, frame: BlockRecord) -> None:
        app = self._app(frame.header.app, record)
        task = frame.task
        if frame.may_be_trimmed and app.state.treatment_of(task.node) in (
            None,
            BlockTreatment.TRIMMED,
        ):
            # Read now, so that what can't be read is a dead letter of its own record.
            prepare_block(frame, self._is_source(app))
            if not app.state.is_visible(frame.block_id):
                app.state.hold(task, frame.block_id, frame.raw)
            # Held first: a commit that comes between the two finds it.
            summary = app.state.commit_summary(task)
            if summary is None:
                return
            prepared = prepare_block(
                frame, self._is_source(app), _row_limit(task, summary.row_limit)
            )
        else:
            prepared = prepare_block(frame, self._is_source(app))
        self._link(app, frame, prepared, record)

    def _link(self, app: _App, frame: BlockRecord, prepared: Prepared, record: Incoming) -> None:
        """Send a block, and link it unless it is visible.

        One that is may not have been sent: what a batch that was given up left waiting is found by others.
        """
        app.sent.add(frame.block_id)
        packed = prepared.packed
        name, task = frame.header.app, frame.task
        partition = flow_partition(name, task.partition, self._layout.edge_partitions)
        self._send(name, prepared.value, partition, record.timestamp, record)
        self.counts.blocks += 1
        self.counts.flows += packed.rows
        self.counts.associations += packed.associations
        self._linked(app, app.linker.receive(task, packed.entry))

    def _linked(self, app: _App, linked: LinkResult) -> None:
        app.visible += linked.visible
        for edge in linked.edges:
            app.edges.append(packed_edge(edge))
            self.counts.edges += edge.pairs
        self.counts.edge_batches += len(linked.edges)

    # -- messages ----------------------------------------------------------------------------

    def _message(self, record: Incoming, message: Message) -> None:
        assert record.value is not None
        partitions = self._layout.edge_partitions
        match message:
            case Commit() | Fail():
                partition = flow_partition(message.app, message.partition, partitions)
            case _:
                partition = app_partition(message.app, partitions)
        self._send(message.app, record.value, partition, record.timestamp, record)
        match message:
            case Register():
                self._app(message.app, record).state.register(message.node, treatment_of(message))
            case Commit():
                self._commit(record, message)
            case End():
                self._app(message.app, record).state.end(message.totals)
            case _:
                pass

    def _commit(self, record: Incoming, commit: Commit) -> None:
        app = self._app(commit.app, record)
        task = TaskId(commit.node, commit.partition, commit.attempt)
        app.state.set_commit_summary(task, commit_summary_of(commit))
        self._linked(app, app.linker.commit(task))
        for raw in app.state.held_of(task):
            frame = read_block_record(raw)
            if frame.block_id not in app.sent:
                row_limit = _row_limit(task, commit.keep)
                prepared = prepare_block(frame, self._is_source(app), row_limit)
                self._link(app, frame, prepared, record)

    # -- dead letters ------------------------------------------------------------------------

    def dead_letters_of_refused(self, record: Incoming) -> list[Outgoing]:
        """The dead letter of a record whose form Kafka refuses as too large."""
        sent = len(self.outgoing)
        reason = "too large for its topic: see max.message.bytes"
        self._dead_letter(record, UnusableRecordError(reason), cut=True)
        records = self.outgoing[sent:]
        del self.outgoing[sent:]
        return records

    def _dead_letter(
        self, record: Incoming, error: UnusableRecordError, *, cut: bool = False
    ) -> None:
        self.counts.dead_letters += 1
        cut = cut or record.size > VALUE_BYTES_MAX
        dead = DeadRecord(
            record.place,
            str(error),
            SERVICE,
            self._now,
            app_of(record),
            record.size,
            cut,
        )
        self.dead.append(dead)
        self.outgoing.append(
            Outgoing(
                self._layout.topics.dead_letter,
                record.place.partition % self._layout.dead_letter_partitions,
                record.key or b"",
                b"" if cut else record.value or b"",
                dead.headers(),
                source=None if cut else record,
            )
        )
        message = dead.message()
        if message is not None:
            value = dump_message(message).encode()
            self._send(message.app, value, self._app_partition(message.app), record.timestamp)

    # -- within ------------------------------------------------------------------------------

    def _app(self, name: str, record: Incoming) -> _App:
        app = self._apps.get(name)
        if app is None:
            state = self._state_of(name)
            app = self._apps[name] = _App(state, Linker(state))
        app.timestamp = max(app.timestamp, record.timestamp)
        return app

    def _app_partition(self, app: str) -> int:
        return app_partition(app, self._layout.edge_partitions)

    @staticmethod
    def _is_source(app: _App) -> Callable[[str], bool]:
        return lambda node: app.state.treatment_of(node) is BlockTreatment.SOURCE

    def _send(
        self,
        app: str,
        value: bytes,
        partition: int,
        timestamp: float,
        source: Incoming | None = None,
        *,
        after: bool = False,
    ) -> None:
        topic = self._layout.topics.edge
        key = app.encode()
        self.outgoing.append(
            Outgoing(topic, partition, key, value, timestamp=timestamp, source=source, after=after)
        )


def _row_limit(task: TaskId, keep: int | None) -> RowLimit | None:
    return None if keep is None else RowLimit(f"{task.node}#{task.partition}", keep)
