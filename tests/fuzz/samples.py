"""Whole samples of each format, made by the project's own encoders."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from lineage_core.codec.columns import pack_block
from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.edge_message import (
    Links,
    PackedEdge,
    pack_links,
    pack_stored,
    packed_edge,
    stored_block,
)
from lineage_core.codec.packing import pack_edge, pack_for_store
from lineage_core.codec.record_batch import compress, pack_record_batch
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_header import header_of
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import (
    Begin,
    DeadLetter,
    Erased,
    Fail,
    Heartbeat,
    Message,
    Recipe,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Unknown,
    dump_message,
)
from lineage_core.contract.positions import text_positions
from lineage_core.contract.region import Region
from lineage_core.contract.sealing import seal_of
from lineage_core.linking.joining import join_entry_of
from lineage_core.linking.linker import TaskId
from lineage_linker.sides import WaitingEntry, pack_side, pack_waiting
from lineage_store.spool.reader import DRIVER_FILE
from tests.fuzz.recipes import RECIPES
from tests.support.stored_lineage import spool_run

APP = "app-1"
A, B = BlockId("4", 0, 17, 2), BlockId("word-count.1", 3, 2**40, 0)


def _u64(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(numbers, np.uint64)


@cache
def blocks() -> tuple[FlowBlock, ...]:
    """Blocks of each relation and with each optional column."""
    positions = np.arange(300, dtype=np.uint64)
    texts = ["a", "", 'quoted "text", 1', "two\nlines"]
    hashes = text_positions(texts)
    return (
        FlowBlock(A, Relation.IDENTITY, "1#0", (Section("4#0", 0, 300),), positions, positions, app=APP),
        FlowBlock(
            B, Relation.ROWS, "4@3", (Section("2#0", 0, 2), Section("2#1", 2, 3)), _u64(0, 7, 12, 2**63), _u64(1, 2**64 - 1, 0),
            np.array([0, 3, 3, 4], np.int64), _u64(3, 7, 12, 2**64 - 1), out_last=_u64(1, 2**64 - 1, 5),
            exact=False, reason="keys are told apart by hash", values=["x", None, 'a "b",\nc'], app=APP,
            attempts_read=Region.from_positions([3, 4, 9]),
        ),
        FlowBlock(
            A, Relation.ROWS, "*@0", (Section("*@0", 0, 4),), hashes, hashes, in_text=texts, out_text=texts, app=APP
        ),
        FlowBlock(B, Relation.ALL, "12#*", (Section("4#0.17", 0, 1),), _u64(0), _u64(0), in_last=_u64(99), app=APP),
        FlowBlock(A, Relation.ROWS, "1@0", (), _u64(), _u64(), app=APP),
    )  # fmt: skip


@cache
def headers_and_rows() -> tuple[tuple[bytes, bytes], ...]:
    """The header of each block, and its CSV."""
    return tuple((header_of(block).to_json(), encode_csv(block)) for block in blocks())


@cache
def frames() -> tuple[bytes, ...]:
    """Block files as a task leaves them."""
    packed = [pack_record_batch(header, compress(rows)) for header, rows in headers_and_rows()]
    return (*packed, b"".join(packed))


@cache
def packed_blocks() -> tuple[bytes, ...]:
    """Blocks as stores keep them."""
    return tuple(map(pack_block, blocks()))


@cache
def edges() -> tuple[tuple[int, bytes], ...]:
    """Pairs of packed edges, and their bytes."""
    found = []
    for size, step in ((1, 1), (3, 1), (300, 7), (2_000, -1)):
        rows = (np.arange(size) * step % 70_000).astype(np.uint32)
        packed = pack_edge(EdgeBatch(A, B, size, rows, rows[::-1].copy()))
        assert packed is not None
        found.append((size, packed))
    return tuple(found)


@cache
def edge_messages() -> tuple[bytes, ...]:
    """What the linker sends."""
    stored = [
        pack_stored(stored_block(APP, TaskId("4", 0, 17), pack_for_store(block)))
        for block in blocks()
    ]
    rows = np.arange(20, dtype=np.uint32)
    batch = packed_edge(EdgeBatch(A, B, 20, rows, rows))
    seals = (seal_of("4@3", [A], [B]), seal_of("*@0", [B], []))
    links = Links(
        APP, [A, B], [(A, 3), (B, 0)], [batch, PackedEdge(B, A, 7, None)], seals, "epoch-1"
    )
    return (*stored, *pack_links(links))


@cache
def messages() -> tuple[bytes, ...]:
    """Messages of each type."""
    with tempfile.TemporaryDirectory() as made:
        spool_run(Path(made, "spool"), Path(made), summed=True)
        (driver,) = Path(made, "spool").rglob(DRIVER_FILE)
        lines = driver.read_bytes().splitlines()
    split = RecordSplit(
        partition=0, path="file:/a", start=0, length=9, first=3, file_size=9, mtime=1.5
    )
    others: tuple[Message, ...] = (
        Begin(app=APP, name="n", started_at=1.5, argv=("a", "b"), earlier=("app-0",)),
        Unknown(app=APP, node=None, what="RDD", reason="r", call_site="job.py:3"),
        DeadLetter(app=APP, place="lineage-flow/0/17", reason="r"),
        Fail(app=APP, node="4", partition=0, attempt=1, reason="r"),
        Erased(app=APP, plan="sha256:0"),
        Heartbeat(app=APP, at=1.5, beat=3),
        RecordSplits(app=APP, node="0", whole=False, splits=(split,)),
        RecordFiles(app=APP, node="3", path="out", files=()),
        *(Recipe(app=APP, node="5", recipe=recipe.to_json()) for recipe in RECIPES),
    )
    return (*lines, *(dump_message(message).encode() for message in others))


@cache
def sides() -> tuple[tuple[bytes, bytes], ...]:
    """Marks and columns of join entries, as Redis keeps them."""
    entries = map(join_entry_of, blocks())
    held = [side for entry in entries for side in (entry.inputs, *entry.outputs.values()) if side]
    return tuple(map(pack_side, held))


@cache
def waiting() -> tuple[bytes, ...]:
    """Join entries that wait for a commit."""
    marks = [mark for mark, _ in sides()]
    return (
        pack_waiting(WaitingEntry("4@3", marks[0], {"2#0": marks[1], "2#1": marks[2]})),
        pack_waiting(WaitingEntry("1#0", None, {})),
    )


def npz(columns: Iterable[tuple[str, bytes]]) -> bytes:
    """Members as numpy keeps arrays in one file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in columns:
            archive.writestr(name, content)
    return made.getvalue()
