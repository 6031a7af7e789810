"""The graph store in a lake: any number of processes read and write it at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Message
from lineage_core.contract.sealing import Seal
from lineage_core.contract.times import JsonTime
from lineage_core.contract.verdict import StoreCounts
from lineage_core.linking.linker import TaskId
from lineage_store.errors import DamagedError, StoreError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.application import (
    Summary,
    life_of,
    recipe_bodies,
    revision_of,
    summary_of,
    unmatched_of,
)
from lineage_store.lake.columns import USED, Kind
from lineage_store.lake.counting import count_nodes
from lineage_store.lake.erasing import erase_application
from lineage_store.lake.files import Files, LakeReader
from lineage_store.lake.graph import LakeGraph
from lineage_store.lake.recorded_files import LakeFileRows
from lineage_store.lake.table import RETRY_S, LakeFile, LakeTable, ReplacedError
from lineage_store.lake.transaction import LakeTransaction
from lineage_store.lake.writing import LakeWriter
from lineage_store.offsets import offset_key
from lineage_store.port import ApplicationRecord, Rewrite
from lineage_store.recipes import names_in
from lineage_store.recorded_files import FileQuery, FileRows, RecordedFiles, find_files

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")


class LakeStore:
    """Implements :class:`lineage_store.port.GraphStore` over a lake.

    May be shared by threads, and by any number of processes that open their own. What is written is visible at once, in one
    commit; what comes twice is stored twice and read once. ``clock`` gives unix seconds; it decides whether an
    application counts as abandoned. The machines that write and read a lake have clocks that agree.
    """

    def __init__(
        self,
        address: LakeAddress,
        *,
        create: bool = True,
        clock: Callable[[], float] = time.time,
        retry_s: float = RETRY_S,
    ) -> None:
        """Open the lake, or with ``create`` a new one.

        ``retry_s``: how long a commit is tried that does not succeed.

        Raises:
            StoreError: there is none, it is of a newer version, or the storage can't be used.
        """
        self.address = address
        self._clock = clock
        self.table = LakeTable(address, create=create, retry_s=retry_s)
        self.reader = LakeReader(self.table)

    def writer(self, app: str, heard_at: float | None = None) -> LakeWriter:
        """A transaction of one application. ``heard_at``: when its messages were heard, by the store's clock; None: now."""
        heard_at = self._clock() if heard_at is None else heard_at
        return LakeWriter(self.table, app, heard_at, self.table.newest_version())

    def in_transaction(self, work: Callable[[LakeTransaction], T]) -> T:
        """Run ``work`` and store what it gave to the :class:`LakeTransaction`, in one commit.

        An exception of ``work`` gives the transaction up.

        Raises:
            OffsetMovedError: another writer moved the offset meanwhile; nothing is stored.
            StoreUnavailableError: the lake can't be written for now.
        """
        transaction = LakeTransaction(self.table, self._clock())
        try:
            result = work(transaction)
        except BaseException:
            transaction.discard()
            raise
        transaction.commit()
        return result

    def offset(self, group: str, topic: str, partition: int) -> int | None:
        """Where a Kafka offset stands (the next one to be stored); None if it never moved."""
        return self.table.offset(offset_key(group, topic, partition))

    def prepare(self) -> None:
        """Have programs refuse the lake that do not know of blocks which are not visible yet.

        Raises:
            StoreError: the lake is of a newer version, or can't be written.
        """
        self.table.upgrade()

    def server_statistics(self) -> None:
        """There is no server."""

    def now(self) -> float:
        """The store's clock."""
        return self._clock()

    def write(
        self,
        app: str,
        messages: Iterable[Message] = (),
        blocks: Iterable[FlowBlock] = (),
        edges: Iterable[EdgeBatch] = (),
        *,
        tasks: Mapping[BlockId, TaskId] | None = None,
        unmatched: Mapping[BlockId, int] | None = None,
        seals: Iterable[Seal] = (),
    ) -> None:
        writer = self.writer(app)
        for message in messages:
            writer.message(message)
        for block in blocks:
            block_id = block.block_id
            own_task = TaskId(block_id.node, block_id.partition, block_id.attempt)
            writer.block((tasks or {}).get(block_id, own_task), pack_for_store(block))
        all_edges = list(edges)
        self._check_ends(app, all_edges, writer.blocks)
        for edge in all_edges:
            writer.edge(edge)
        if unmatched:
            known = self.unmatched(app)
            for block_id, positions in unmatched.items():
                # Of most blocks all positions are matched, and always were.
                if positions or block_id in known:
                    writer.unmatched(block_id, positions)
        for seal in seals:
            writer.seal(seal)
        writer.commit()

    def _check_ends(
        self, app: str, edges: Iterable[EdgeBatch], written: Collection[BlockId]
    ) -> None:
        ends = {end for edge in edges for end in (edge.producer, edge.consumer)}.difference(written)
        known = set() if not ends or not self._files(app) else self.graph(app).stored(ends)
        for block_id in sorted(ends - known):
            raise KeyError(f"edge of block {block_id}, which is not in the store")

    def unmatched(self, app: str) -> Mapping[BlockId, int]:
        """How many input positions of a block no block puts out, of the blocks that have any."""
        key = self.reader.key_of(app)
        return self.reader.answer(key, lambda files: unmatched_of(self.reader, files))

    def applications(self) -> Sequence[ApplicationRecord]:
        answers = self.reader.answers(self._record, of_damaged=_damaged_record)
        records = [record for record in answers if record is not None]
        return sorted(records, key=lambda record: (record.started_at, record.app), reverse=True)

    def _record(self, files: Files) -> ApplicationRecord | None:
        if not files:
            return None
        summary = summary_of(self.reader, files)
        counts = count_nodes(self.reader, files).values()
        return ApplicationRecord(
            app=summary.app,
            name=summary.name,
            started_at=summary.started_at,
            ended_at=summary.ended_at,
            status=summary.status_at(self._clock()),
            flows=sum(count.flows for count in counts),
            associations=sum(count.associations for count in counts),
            recipes=len(recipe_bodies(self.reader, files)),
        )

    def _summaries(self) -> list[Summary]:
        def read(files: Files) -> Summary | None:
            return summary_of(self.reader, files) if files else None

        answers = self.reader.answers(read, of_damaged=_damaged_summary)
        return [summary for summary in answers if summary is not None]

    def application_ids(self) -> Sequence[str]:
        starts = self.starts()
        return sorted(starts, key=lambda app: (starts[app], app), reverse=True)

    def starts(self) -> Mapping[str, JsonTime]:
        """When each application began."""
        return {summary.app: summary.started_at for summary in self._summaries()}

    def catch_up(self) -> None:
        """Read from the newest version from now on: what was committed before this call is in it."""
        # A folder of this machine always shows its newest version.
        self.table.snapshot(newest=not self.address.is_local)

    def revision(self, app: str) -> Hashable:
        revision = self.revisions([app]).get(app)
        if revision is None:
            raise KeyError(f"there is no application {app} in {self.address}")
        return revision

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        revisions: dict[str, Hashable] = {}
        for app in apps:
            openings = self.table.openings
            try:
                revision = self.reader.answer(
                    self.reader.key_of(app),
                    lambda files: revision_of(self.reader, files) if files else None,
                )
            except DamagedError as error:
                # Another once the file is put back.
                revision = error.damage, error.written_at
            if revision is not None:
                # Where another copy was put in place of the lake, what was read before is not to be used, either.
                revisions[app] = openings, revision
        return revisions

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        return find_files(query, self.file_rows(query))

    def file_rows(self, query: FileQuery) -> FileRows:
        """Rows of files, as :meth:`recorded_files` looks them up."""
        return LakeFileRows(self.reader, query)

    def names(self) -> Mapping[str, frozenset[str]]:
        # Of one that is damaged no name is known.
        answers = self.reader.answers(self._beginnings, of_damaged=lambda _: [])
        return names_in(list(chain.from_iterable(answers)))

    def _beginnings(self, files: Files) -> list[tuple[str, str]]:
        if not files:
            return []
        app = summary_of(self.reader, files).app
        return [
            (app, body) for stored, body in life_of(self.reader, files) if stored.type == "begin"
        ]

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        return self.graph(app).messages(*kinds)

    def graph(self, app: str) -> LakeGraph:
        if not self._files(app):
            raise KeyError(f"there is no application {app} in {self.address}")
        return LakeGraph(self.reader, app, self._clock)

    def counts(self, app: str) -> StoreCounts:
        return self.graph(app).counts()

    def check_files(self, app: str) -> None:
        self.graph(app)

        def read(files: Files) -> None:
            for file in files:
                for kind in Kind:
                    self.reader.read((file,), kind, USED[kind])

        self.reader.answer(self.reader.key_of(app), read)

    def delete(self, app: str) -> None:
        key = self.reader.key_of(app)
        removed: tuple[LakeFile, ...] = ()
        while files := self.table.snapshot(newest=True).files.get(key, ()):
            removed += files
            # Else somebody merged them meanwhile, which are to be deleted, too.
            with suppress(ReplacedError):
                self.table.commit((), files)
        # Also those that were merged in the week before.
        self.table.erase([*removed, *(self.table.removed_files(key) if removed else ())])
        if self.address.is_local and removed:
            remove_if_empty(Path(self.address.location) / Path(removed[0].path).parent)

    def erase(self, app: str, rewrite: Rewrite, messages: Iterable[Message]) -> int:
        self.graph(app)
        return erase_application(self, app, rewrite, messages)

    def _files(self, app: str) -> Files:
        return self.reader.files(self.reader.key_of(app))

    def close(self) -> None:
        """Release the store; nothing is open between calls."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _damaged_record(error: DamagedError) -> ApplicationRecord:
    return ApplicationRecord(
        app=error.app,
        name="",
        started_at=error.written_at,
        ended_at=None,
        status="damaged",
        flows=0,
        associations=0,
        damage=error.damage,
    )


def _damaged_summary(error: DamagedError) -> Summary:
    written_at = error.written_at
    return Summary(error.app, "", written_at, None, "damaged", written_at)


def remove_if_empty(folder: Path) -> None:
    """Remove a folder of this machine, unless somebody wrote into it since."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if not any(folder.iterdir()):
            raise StoreError(f"can't remove {folder}: {error}") from error
