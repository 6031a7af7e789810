"""The writer over a lake: what is in the log is stored once, whatever is refused, lost, repeated or done beside it."""

from __future__ import annotations

import asyncio
import errno
import itertools
import random
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lineage_core.codec.edge_message import parse_edge_record
from lineage_core.contract.message import Begin, DeadLetter, Message, Register, dump_message
from lineage_query.verdicts import verdict_of
from lineage_store.dump import dump_application
from lineage_store.errors import StoreUnavailableError
from lineage_store.lake import file_writing
from lineage_store.lake import transaction as transaction_module
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import LakeTable
from lineage_store.lake.writing import LakeWriter
from lineage_store.sqlite.store import SqliteStore
from lineage_writer.health import Health
from lineage_writer.loading import record_lost
from lineage_writer.metrics import Metrics
from lineage_writer.partition import PartitionWriter, Tools
from lineage_writer.settings import WriterSettings
from lineage_writer.threads import ThreadedStore
from tests.support.edge_log import EdgeLog, disordered, word_count_log
from tests.support.lakes import rows_stored
from tests.support.writer_fakes import EDGES, FakeLetters, FakeSource
from tests.support.writer_process import wait_until

pytestmark = pytest.mark.integration

GROUP = "lineage-writer"


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lineage_writer.waiting.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr("lineage_writer.waiting.LONGEST_PAUSE_S", 0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


class Writers:
    """Some writers of one partition, each with a lake of its own that is opened, as processes have it."""

    def __init__(self, folder: Path, values: Sequence[bytes], count: int = 1, **more: Any) -> None:
        settings = {"writer_batch_wait_s": 0.0, "writer_batch_rows": 10, **more}
        self.settings = WriterSettings.model_validate(settings)
        self.lakes = [LakeStore(LakeAddress(str(folder)), retry_s=0.2) for _ in range(count)]
        self.sources = [FakeSource(values) for _ in range(count)]
        self.metrics = Metrics()
        self.letters = FakeLetters()

    def run(self, during: Callable[[], None] = lambda: None, limit_s: float = 20.0) -> None:
        """Run until the log's end is stored, and ``during`` is over."""
        asyncio.run(self._run(during, limit_s))

    async def _run(self, during: Callable[[], None], limit_s: float) -> None:
        health = Health(self.metrics)
        threaded = [ThreadedStore(lake, GROUP, 1) for lake in self.lakes]
        writers = [
            PartitionWriter(
                EDGES,
                Tools(
                    source,
                    store,
                    self.letters,
                    self.settings,
                    self.metrics,
                    health,
                    asyncio.Semaphore(1),
                ),
            )
            for source, store in zip(self.sources, threaded, strict=True)
        ]
        tasks = [asyncio.create_task(writer.run()) for writer in writers]
        beside = asyncio.ensure_future(asyncio.to_thread(during))
        deadline = time.monotonic() + limit_s
        while not (beside.done() and await self._stored() == self.sources[0].end):
            assert time.monotonic() < deadline, "nothing moves"
            for writer in writers:
                with suppress(StoreUnavailableError):
                    await writer.check_stored_position()
            await asyncio.sleep(0.01)
        await beside
        for writer in writers:
            writer.stop()
        await asyncio.wait_for(asyncio.gather(*tasks), 10)
        for store in threaded:
            assert await store.close(10)

    async def _stored(self) -> int | None:
        try:
            return await asyncio.to_thread(self.lakes[0].offset, GROUP, *EDGES)
        except StoreUnavailableError:
            return None

    def retries(self, cause: str) -> float:
        name = "lineage_writer_retries_total"
        return self.metrics.registry.get_sample_value(name, {"cause": cause}) or 0.0


def assert_same(folder: Path, logs: list[EdgeLog], tmp_path: Path) -> None:
    """The lake holds what writing the logs' content gives, byte for byte."""
    with LakeStore(LakeAddress(str(folder))) as lake, SqliteStore(tmp_path / "oracle.db") as oracle:
        for log in logs:
            log.store(oracle)
            wanted = list(dump_application(oracle, log.app))
            assert list(dump_application(lake, log.app)) == wanted
            # The same heartbeat tells how long ago it was; both are over.
            assert verdict_of(lake, log.app).complete


def assert_no_other_files(folder: Path) -> None:
    """What was not committed is deleted, as a full disk would stay full."""
    with LakeStore(LakeAddress(str(folder))) as lake:
        live = {file.path for files in lake.table.snapshot().files.values() for file in files}
    assert {str(path.relative_to(folder)) for path in folder.glob("app=*/*")} == live


def values_of(logs: list[EdgeLog], seed: int) -> list[bytes]:
    """The records of some applications, in any order, some of them several times."""
    values = [value for log in logs for _, value in disordered(log, seed)]
    random.Random(seed).shuffle(values)
    return values


def test_records_that_several_writers_hold_are_stored_once(folder: Path, tmp_path: Path) -> None:
    logs = [word_count_log(f"app-{at}", at) for at in range(2)]
    values = values_of(logs, 1)
    writers = Writers(folder, values, 3)
    writers.run()
    assert writers.retries("fenced") > 0
    assert_same(folder, logs, tmp_path)
    messages = [value for value in values if value.startswith(b"{")]
    with LakeStore(LakeAddress(str(folder))) as lake:
        stored = rows_stored(lake)
    assert stored["message"] == len(messages)
    assert stored["visible"] == sum(
        len(getattr(parse_edge_record(value), "visible", ()))
        for value in values
        if not value.startswith(b"{")
    )


def test_files_are_merged_and_deleted_beside_it(folder: Path, tmp_path: Path) -> None:
    logs = [word_count_log(f"app-{at}", at) for at in range(2)]
    LakeStore(LakeAddress(str(folder))).close()
    merged = list[int]()

    def compacting() -> None:
        until = time.monotonic() + 15
        with LakeStore(LakeAddress(str(folder))) as lake:
            # The first rounds may be over before the writers have written anything.
            while len(merged) < 6 or (sum(merged) <= 4 and time.monotonic() < until):
                merged.append(compact(lake).merged)
                for app in lake.application_ids():
                    list(dump_application(lake, app))

    Writers(folder, values_of(logs, 2), 2).run(compacting)
    assert sum(merged) > 4
    assert_same(folder, logs, tmp_path)


@pytest.mark.parametrize("seed", range(2))
def test_a_storage_that_refuses_now_and_then_loses_and_repeats_nothing(
    folder: Path, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Full disks, refused commits, and commits whose answer is lost."""
    rng = random.Random(seed)
    commit, write = LakeTable._try_commit, LakeWriter._flush
    refused = 0

    def committing(table: LakeTable, *arguments: Any) -> None:
        nonlocal refused
        chance = rng.random()
        refused += chance < 0.2 or chance > 0.8
        if chance < 0.2:
            raise OSError(errno.EROFS, "Read-only file system")
        commit(table, *arguments)
        if chance > 0.8:
            raise OSError(errno.ECONNRESET, "Connection reset by peer")

    def flushing(writer: LakeWriter) -> None:
        if rng.random() < 0.1:
            raise StoreUnavailableError("can't write the lake: No space left on device")
        write(writer)

    monkeypatch.setattr(LakeTable, "_try_commit", committing)
    monkeypatch.setattr(LakeWriter, "_flush", flushing)
    logs = [word_count_log("app-1", 1)]
    values = values_of(logs, seed)
    writers = Writers(folder, values, 2, writer_batch_rows=3)
    writers.run()
    assert refused > 3
    monkeypatch.undo()
    assert_same(folder, logs, tmp_path)
    with LakeStore(LakeAddress(str(folder))) as lake:
        assert rows_stored(lake)["message"] == sum(value.startswith(b"{") for value in values)
    assert_no_other_files(folder)
    assert writers.letters.sent == []


def test_a_full_disk_is_waited_for(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full, was_tried = threading.Event(), threading.Event()
    is_full.set()
    write, tries = file_writing._write, itertools.count(1)

    def writing(stream: pa.NativeFile, whole: pa.Buffer) -> None:
        if is_full.is_set():
            if next(tries) == 5:
                was_tried.set()
            raise OSError(errno.ENOSPC, "No space left on device")
        write(stream, whole)

    def freed() -> None:
        assert was_tried.wait(30)
        is_full.clear()

    monkeypatch.setattr(file_writing, "_write", writing)
    logs = [word_count_log("app-1", 1)]
    writers = Writers(folder, values_of(logs, 3))
    writers.run(freed)
    assert writers.letters.sent == []
    assert_same(folder, logs, tmp_path)
    assert_no_other_files(folder)


def test_a_record_that_is_refused_is_a_dead_letter(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = word_count_log("app-1", 1)
    refused = Register(app="app-1", node="91", kind="source", op="refused")
    message = LakeWriter.message

    def choosing(writer: LakeWriter, given: Message) -> None:
        if given == refused:
            raise ValueError("no such value")
        message(writer, given)

    monkeypatch.setattr(LakeWriter, "message", choosing)
    values = [*log.records[:10], dump_message(refused).encode(), *log.records[10:], b"no record"]
    writers = Writers(folder, values, writer_batch_rows=1000)
    writers.run()
    assert [dead.place.offset for _, dead in writers.letters.sent] == [len(values) - 1, 10]
    assert "refused by the store: ValueError: no such value" in writers.letters.sent[1][1].reason
    with LakeStore(LakeAddress(str(folder))) as lake:
        told = [one for one in lake.messages("app-1") if isinstance(one, DeadLetter)]
        assert {one.place for one in told} == {
            f"lineage-edge/0/{offset}" for offset in (10, len(values) - 1)
        }
        assert not verdict_of(lake, "app-1").complete
        assert {one.block_id for one in lake.graph("app-1").blocks()} == {
            one.block_id for one in log.blocks
        }


def test_records_that_kafka_removed_are_told_to_what_is_incomplete(folder: Path) -> None:
    whole, part = word_count_log("whole", 1), word_count_log("part", 2)
    writers = Writers(folder, [*whole.records, *part.records[:12]])
    writers.run()
    stored = writers.sources[0].end
    later = FakeSource(part.records[-2:], stored + 5)
    writers.sources = [later]
    writers.run()
    with LakeStore(LakeAddress(str(folder))) as lake:
        assert verdict_of(lake, "whole").complete
        (lost,) = (one for one in lake.messages("part") if isinstance(one, DeadLetter))
        assert f"before offset {stored + 5}" in lost.reason
        assert not verdict_of(lake, "part").complete
        record_lost(lake, EDGES, stored, stored + 5)
        assert sum(isinstance(one, DeadLetter) for one in lake.messages("part")) == 1


def test_a_lake_that_was_restored_from_an_older_copy_is_filled_again(
    folder: Path, tmp_path: Path
) -> None:
    logs = [word_count_log("app-1", 1)]
    values = values_of(logs, 4)
    Writers(folder, values[: len(values) // 2]).run()
    shutil.copytree(folder, tmp_path / "copy")
    writers = Writers(folder, values)

    def restored() -> None:
        wait_until(
            lambda: writers.lakes[0].offset(GROUP, *EDGES) == len(values), "all is stored", 20
        )
        folder.rename(tmp_path / "newer")
        # It is waited for, and not made: its disk may only not be mounted.
        with pytest.raises(StoreUnavailableError, match="is its disk mounted"):
            writers.lakes[0].offset(GROUP, *EDGES)
        assert not folder.exists()
        (tmp_path / "copy").rename(folder)

    writers.run(restored)
    assert_same(folder, logs, tmp_path)


def test_a_partition_that_is_copied_on_keeps_what_was_there(folder: Path) -> None:
    """An application that was deleted while its records were stored is there in part, and says so."""
    log = word_count_log("app-1", 1)
    writers = Writers(folder, log.records)

    def deleted() -> None:
        with LakeStore(LakeAddress(str(folder))) as lake:
            lake.delete("app-1")

    Writers(folder, log.records[: len(log.records) // 2]).run()
    deleted()
    writers.run()
    with LakeStore(LakeAddress(str(folder))) as lake:
        assert not verdict_of(lake, "app-1").complete


def test_nothing_of_a_transaction_is_seen_before_it_is_committed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of several applications in one batch all are seen or none."""
    seen: list[Sequence[str]] = []
    commit = transaction_module.LakeTransaction.commit

    def looking(transaction: transaction_module.LakeTransaction) -> None:
        with LakeStore(LakeAddress(str(folder))) as other:
            seen.append(other.application_ids())
        commit(transaction)

    monkeypatch.setattr(transaction_module.LakeTransaction, "commit", looking)
    begun = [
        dump_message(Begin(app=f"app-{at}", name="n", started_at=float(at))).encode()
        for at in range(5)
    ]
    Writers(folder, begun).run()
    assert seen == [[]]
