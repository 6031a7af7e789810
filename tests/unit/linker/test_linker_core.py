"""The linker's core: records in, records out, in one process that never dies."""

from __future__ import annotations

import io
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from lineage_core.codec.columns import unpack_block
from lineage_core.codec.csv_codec import decode_csv
from lineage_core.codec.edge_message import StoredBlock, parse_edge_record
from lineage_core.codec.packing import PackedBlock, unpack_edge
from lineage_core.codec.record_batch import (
    compress,
    decompress_payload,
    pack_record_batch,
    read_record_batches,
)
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.dead_letter import TopicPartitionOffset, read_dead_record
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Commit, Register, parse_message
from lineage_core.linking.joining import JoinEntry, Side
from lineage_core.linking.linker import TaskId
from lineage_kafka.topics import app_partition, flow_partition
from lineage_linker import batch as batch_module
from lineage_linker import events
from lineage_linker.app_state import BlockTreatment, treatment_of
from lineage_linker.batch import LinkBatch
from lineage_linker.events import BlockRecord, Prepared
from lineage_linker.records import VALUE_BYTES_MAX, Incoming
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.support.linker_job import Job, keyed, make_job, record_batch_of, value_of
from tests.support.linker_memory import LAYOUT, TOPICS, MemoryAppState, MemoryLinker, Seen, incoming
from tests.support.spool_builder import Spool, contents

pytestmark = pytest.mark.unit

APP = "app-1"


def spooled(job: Job, folder: Path) -> Spool:
    """The same job as the embedded store reads it."""
    spool = Spool(folder, job.app)
    files: dict[TaskId, list[bytes]] = {}
    messages = [parse_message(value) for value in job.node]
    commits = []
    for _, value in job.flow:
        if value.startswith(b"{"):
            commit = parse_message(value)
            assert isinstance(commit, Commit)
            name = f"{commit.node}-{commit.partition}-{commit.attempt}.lmf"
            commits.append(commit.model_copy(update={"file": name}))
        else:
            frame = events.read_block_record(value)
            files.setdefault(frame.task, []).append(value)
    spool.send(*messages[:-1], *commits, messages[-1])
    for task, frames in files.items():
        path = spool.blocks / f"{task.node}-{task.partition}-{task.attempt}.lmf"
        path.write_bytes(b"".join(frames))
    return spool


def stored(seen: Seen, folder: Path) -> dict[str, object]:
    """What a store has when it does what it is told."""
    blocks = {key: one for key, one in seen.blocks.items() if key in seen.visible}
    edges = []
    for (producer, consumer), edge in seen.edges.items():
        rows = (None, None) if edge.data is None else unpack_edge(edge.pairs, edge.data)
        edges.append(EdgeBatch(producer, consumer, edge.pairs, *rows))
    with SqliteStore(folder / "pipeline.db") as store:
        store.write(
            APP,
            seen.messages,
            [unpack_block(one.data) for one in blocks.values()],
            edges,
            tasks={key: one.task for key, one in blocks.items()},
            unmatched=seen.unmatched,
        )
        return contents(store, APP)


def same_lineage(left: dict[str, object], right: dict[str, object]) -> None:
    for part in ("nodes", "links", "refs", "blocks", "edges"):
        assert left[part] == right[part], part


def test_the_same_as_the_embedded_store(tmp_path: Path) -> None:
    for seed in range(3):
        folder = tmp_path / str(seed)
        folder.mkdir()
        job = make_job(APP, seed)
        linker = MemoryLinker()
        linker.batch(job.values())
        with SqliteStore(folder / "embedded.db") as store:
            ingest(store, spooled(job, folder / "spool").folder)
            embedded = contents(store, APP)
        same_lineage(stored(linker.seen, folder), embedded)


def test_any_order_and_any_batches(tmp_path: Path) -> None:
    expected = MemoryLinker()
    job = make_job(APP, 5)
    expected.batch(job.values())
    for seed in range(10):
        rng = random.Random(seed)
        values = job.values()
        values += rng.sample(values, 10)
        rng.shuffle(values)
        # Sources are told first here: what happens otherwise is the state's part.
        values = job.node[:-1] + values
        linker = MemoryLinker()
        while values:
            size = rng.randint(1, 8)
            linker.batch(values[:size])
            values = values[size:]
        assert linker.seen.linked() == expected.seen.linked()


def test_where_records_go() -> None:
    job = make_job(APP, 1)
    found = MemoryLinker().batch(job.values())
    by_value = {record.value: record for record in found.outgoing}
    for value in job.values():
        if value.startswith(b"{"):
            message = parse_message(value)
            flows = message.type == "commit"
            part = message.partition if isinstance(message, Commit) else 0
            expected = flow_partition(APP, part, 4) if flows else app_partition(APP, 4)
            assert by_value[value].partition == expected
    for record in found.outgoing:
        assert (record.topic, record.key) == (TOPICS.edge, APP.encode())
        assert record.timestamp >= 1000.0
        if not record.value.startswith(b"{"):
            sent = parse_edge_record(record.value)
            if isinstance(sent, StoredBlock):
                assert record.partition == flow_partition(APP, sent.task.partition, 4)
            else:
                assert record.partition == app_partition(APP, 4)


@pytest.mark.parametrize("registered", [None, "take", "first"])
def test_what_a_take_read_ahead_is_never_sent(registered: str | None) -> None:
    task = TaskId("5", 2, 9)
    rows = [[position] for position in range(8)]
    block = keyed(APP, BlockId("5", 2, 9, 0), "4@1", [("5#2", range(8))], rows)
    commit = Commit(app=APP, node="5", partition=2, attempt=9, blocks=1, keep=3)
    register = [] if registered is None else [node(registered)]
    for values in (
        [*register, record_batch_of(block, task), value_of(commit)],
        [*register, value_of(commit), record_batch_of(block, task)],
        [*register, record_batch_of(block, task), record_batch_of(block, task), value_of(commit)],
    ):
        linker = MemoryLinker()
        for value in values:
            linker.batch([value])
        sent = linker.seen.blocks[block.block_id]
        assert (sent.rows, sent.task, sent.sections) == (3, task, (("5#2", 0, 2),))
        assert linker.seen.visible == {block.block_id}


def node(op: str) -> bytes:
    return value_of(Register(app=APP, node="5", kind="sink", op=op))


def test_other_sinks_do_not_wait() -> None:
    block = keyed(APP, BlockId("5", 2, 9, 0), "4@1", [("5#2", range(8))], [[n] for n in range(8)])
    linker = MemoryLinker()
    linker.batch([node("saveAsTextFile"), record_batch_of(block, TaskId("5", 2, 9))])
    assert linker.seen.blocks.keys() == {block.block_id}
    assert not linker.seen.visible


def test_a_block_of_which_nothing_counts_still_arrives() -> None:
    block = keyed(APP, BlockId("5", 2, 9, 0), "4@1", [("5#2", range(8))], [[n] for n in range(8)])
    commit = Commit(app=APP, node="5", partition=2, attempt=9, blocks=1, keep=0)
    linker = MemoryLinker()
    linker.batch([node("take"), record_batch_of(block, TaskId("5", 2, 9)), value_of(commit)])
    sent = linker.seen.blocks[block.block_id]
    assert (sent.rows, sent.associations, sent.sections) == (0, 0, ())
    assert unpack_block(sent.data).rows == 0
    assert linker.seen.visible == {block.block_id}
    assert not linker.seen.edges


def test_uses_of_nodes() -> None:
    def used(kind: str, op: str) -> BlockTreatment:
        return treatment_of(Register(app=APP, node="1", kind=kind, op=op))

    assert used("source", "take") is BlockTreatment.SOURCE
    assert used("sink", "take") is BlockTreatment.TRIMMED
    assert used("sink", "collect") is BlockTreatment.ORDINARY
    assert used("operator", "take") is BlockTreatment.ORDINARY


# -- records that can't be used --------------------------------------------------------------


def good_frame() -> bytes:
    block = keyed(APP, BlockId("2", 0, 1, 0), "1#0", [("2@0", [7, 9])], [[1], [2]])
    return record_batch_of(block, TaskId("2", 0, 1))


def broken_frame(**fields: object) -> bytes:
    (frame,) = read_record_batches(io.BytesIO(good_frame()))
    header = BlockHeader.from_json(frame.header)
    text = {**header.to_fields(), **fields}
    return pack_record_batch(json.dumps(text).encode(), frame.payload)


@pytest.mark.parametrize(
    ("value", "app"),
    [
        (None, ""),
        (b"", ""),
        (b"\x00\x01", ""),
        (b"LMF1", APP),
        (good_frame()[:-1], APP),
        (good_frame() * 2, APP),
        (broken_frame(rows=1), APP),
        (broken_frame(app="other", rows=1), "other"),
        (broken_frame(app=""), APP),
        (broken_frame(app="x" * 513), APP),
        (broken_frame(v=7), APP),
        (broken_frame(associations=5), APP),
        (pack_record_batch(b"[" * 100_000, b""), APP),
        (b"{", APP),
        (b'{"v":1,"type":"commit","app":"other"}', "other"),
        (b'{"v":1,"type":"new","app":"other"}', "other"),
        (b'{"v":1,"type":"recipe","app":"other","node":"1","recipe":"[]"}', "other"),
        (b'{"v":2,"type":"begin","app":"other"}', "other"),
        (b'{"app":5}', APP),
        (b"{" + b" " * VALUE_BYTES_MAX, APP),
        (b"LMF1" + b"\xff" * 60, APP),
    ],
)
def test_unusable_records_are_dead_letters(value: bytes | None, app: str) -> None:
    linker = MemoryLinker()
    good = make_job("good", 1)
    linker.batch([*good.values(), value, *good.values()[:3]])
    (letter,) = linker.dead
    dead = read_dead_record(letter.headers, letter.value)
    assert dead.place == TopicPartitionOffset(TOPICS.flow, 2, len(good.values()))
    assert (dead.app, dead.service, dead.size) == (app, "linker", len(value or b""))
    assert dead.reason
    assert dead.cut == (len(value or b"") > VALUE_BYTES_MAX)
    assert letter.value == (b"" if dead.cut else value or b"")
    assert letter.key == b"app-1"
    told = [seen.messages[-1] for name, seen in linker.received.apps.items() if name != "good"]
    assert [(one.app, one.type) for one in told] == ([(app, "dead_letter")] if app else [])
    assert len(linker.received.apps["good"].blocks) == 15


def test_random_damage_never_gets_past() -> None:
    """A record is used as it was sent, or it is a dead letter; nothing else happens."""
    rng = random.Random(7)
    frame = good_frame()
    for _ in range(300):
        value = bytearray(frame)
        for _ in range(rng.randint(1, 3)):
            value[rng.randrange(len(value))] = rng.randrange(256)
        linker = MemoryLinker()
        linker.batch([bytes(value)])
        assert len(linker.dead) == (bytes(value) != frame)


def test_payload_that_does_not_fit_its_header_is_read_by_nobody() -> None:
    """Behind a right checksum there may still be anything."""
    rng = random.Random(8)
    (frame,) = read_record_batches(io.BytesIO(good_frame()))
    text = decompress_payload(frame.payload)
    header = BlockHeader.from_json(frame.header)
    for _ in range(300):
        content = bytearray(text)
        content[rng.randrange(len(content))] = rng.randrange(256)
        value = pack_record_batch(frame.header, compress(bytes(content)))
        linker = MemoryLinker()
        linker.batch([value])
        if not linker.dead:
            sent = linker.seen.blocks[header.block_id]
            assert unpack_block(sent.data).rows == decode_csv(bytes(content), header).rows


def test_a_bug_is_no_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong behind decoding is not the record's fault: it must not be skipped."""

    def broken(*_: object) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(MemoryAppState, "wait", broken)
    with pytest.raises(ValueError, match="a bug"):
        MemoryLinker().batch([good_frame()])


def test_out_of_memory_is_no_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(events, "decode_csv", exhausted)
    with pytest.raises(MemoryError):
        MemoryLinker().batch([good_frame()])


def test_a_block_too_large_when_packed_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "VALUE_BYTES_MAX", len(good_frame()))
    monkeypatch.setattr(events, "pack_stored", lambda _: b"x" * (len(good_frame()) + 1))
    linker = MemoryLinker()
    linker.batch([good_frame()])
    assert len(linker.dead) == 1
    assert list(linker.received.apps) == [APP]
    assert not linker.seen.blocks


def test_what_kafka_refuses_is_a_dead_letter() -> None:
    batch = LinkBatch(LAYOUT, lambda _: MemoryAppState(), 5.0)
    record = incoming(good_frame(), 12)
    batch.handle(record)
    sent = list(batch.outgoing)
    letter, message = batch.dead_letters_of_refused(record)
    assert batch.outgoing == sent
    dead = read_dead_record(letter.headers, letter.value)
    assert (dead.place, dead.cut, letter.value) == (record.place, True, b"")
    assert letter.source is None
    assert parse_message(message.value).type == "dead_letter"


# -- size ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "links_max"), [(256, 24), pytest.param(1_000, 300, marks=pytest.mark.long)]
)
def test_a_wide_shuffle_is_few_records(
    size: int, links_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Edge batches travel in thousands per record; each pair of blocks is told once."""
    nothing, no_rows = np.empty(0, np.uint64), np.empty(0, np.uint32)

    def dense(low: int, high: int) -> Side:
        return Side(nothing, nothing, no_rows, low, high, 0, distinct=True)

    def prepared(frame: BlockRecord, *_: object) -> Prepared:
        block_id = frame.block_id
        at = block_id.partition
        if block_id.node == "2":
            side = dense(at, at)
            entry = JoinEntry(block_id, f"1#{at}", None, {f"2@{n}": side for n in range(size)})
        else:
            entry = JoinEntry(block_id, f"2@{at}", dense(0, size - 1), {})
        packed = PackedBlock(block_id, entry.in_space, None, None, 1, 1, True, "", (), b"", entry)
        return Prepared(packed, b"")

    monkeypatch.setattr(batch_module, "prepare_block", prepared)
    monkeypatch.setattr(batch_module, "read_event", lambda value: frames[int(value)])
    frames: list[BlockRecord | Commit] = []
    for at, task_node in enumerate("23"):
        for part in range(size):
            block_id = BlockId(task_node, part, at * size + part, 0)
            frames.append(BlockRecord(header(block_id), b"", b""))
            frames.append(
                Commit(app=APP, node=task_node, partition=part, attempt=block_id.attempt, blocks=1)
            )
    state = MemoryAppState()
    kinds: Counter[str] = Counter()
    edges = 0
    batch_size = 256
    for start in range(0, len(frames), batch_size):
        batch = LinkBatch(LAYOUT, lambda _: state, 5.0)
        for at in range(start, min(start + batch_size, len(frames))):
            batch.handle(Incoming(TopicPartitionOffset(TOPICS.flow, 0, at), b"", str(at).encode()))
        batch.recount_unmatched()
        batch.send_links("")
        for record in batch.outgoing:
            if record.value.startswith(b"LMF1"):
                kinds["links"] += 1
                assert len(record.value) < 2 << 20
            else:
                kinds["others"] += 1
        edges += batch.counts.edge_batches
        batch.seal()
        batch.finish()
    assert edges == size * size
    assert kinds["others"] == 4 * size  # each block and each commit goes on as one record
    assert kinds["links"] < links_max


def header(block_id: BlockId) -> BlockHeader:
    from lineage_core.contract.block import Relation

    return BlockHeader(APP, block_id, Relation.ROWS, "1#0", (), 0, 0)


def test_blocks_are_sent_as_they_are_stored() -> None:
    job = make_job(APP, 9)
    linker = MemoryLinker()
    linker.batch(job.values())
    for _, value in job.flow:
        if value.startswith(b"LMF1"):
            frame = events.read_block_record(value)
            if frame.block_id.node != "5":
                sent = unpack_block(linker.seen.blocks[frame.block_id].data)
                read: FlowBlock = decode_csv(decompress_payload(frame.payload), frame.header)
                assert np.array_equal(sent.in_first, read.in_first)
                assert np.array_equal(sent.out_first, read.out_first)
