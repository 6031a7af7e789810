"""What a record says: pure functions of its bytes, which nobody vouches for.

Sizes are bounded before anything is decoded. Whatever goes wrong here is the record's own fault.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from pydantic_core import from_json

from lineage_core.codec.csv_codec import decode_csv
from lineage_core.codec.edge_message import pack_stored, stored_block
from lineage_core.codec.packing import PackedBlock, pack_for_store
from lineage_core.codec.record_batch import (
    RECORD_BATCH_MAGIC,
    decompress_payload,
    read_record_batches,
)
from lineage_core.contract.block import BlockId
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.dead_letter import APP_MAX, app_of_key, dead_letter_reason
from lineage_core.contract.message import Message, parse_message
from lineage_core.contract.trimming import RowLimit, cut_block
from lineage_core.errors import AddressError, BlockError, LineageError, RecordBatchError
from lineage_core.linking.joining import is_source_space
from lineage_core.linking.linker import TaskId
from lineage_linker.errors import UnusableRecordError
from lineage_linker.records import VALUE_BYTES_MAX, Incoming

_JSON = b"{"


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block as it came: its header, and its rows still compressed."""

    header: BlockHeader
    payload: bytes
    raw: bytes

    @property
    def block_id(self) -> BlockId:
        return self.header.block_id

    @property
    def task(self) -> TaskId:
        """The task whose commit makes the block visible."""
        return TaskId(self.header.task_node, self.block_id.partition, self.block_id.attempt)

    @property
    def may_be_trimmed(self) -> bool:
        """Whether it puts out rows of the task's own partition: just those are ever cut."""
        home = f"{self.task.node}#{self.task.partition}"
        return any(section.space == home for section in self.header.out)


Event: TypeAlias = Message | BlockRecord


@dataclass(frozen=True, slots=True)
class Prepared:
    """A block ready to be linked, and the value to be sent to the store."""

    packed: PackedBlock
    value: bytes


def read_event(value: bytes | None) -> Event:
    """What a record's value says; a block's rows are not looked at yet.

    Raises:
        UnusableRecordError: nothing that the linker could use.
    """
    try:
        if not value:
            raise RecordBatchError("an empty value", where="record")
        if len(value) > VALUE_BYTES_MAX:
            message = f"{len(value)} bytes, at most {VALUE_BYTES_MAX} are read"
            raise RecordBatchError(message, where="record")
        return parse_message(value) if value.startswith(_JSON) else read_block_record(value)
    except Exception as error:
        unusable(error)


def read_block_record(value: bytes) -> BlockRecord:
    """The one frame of a value.

    Raises:
        ContractError: it is not one frame with the header of a block.
    """
    frames = list(read_record_batches(io.BytesIO(value)))
    if len(frames) != 1:
        raise RecordBatchError(f"{len(frames)} frames in one record", where="frame")
    header = BlockHeader.from_json(frames[0].header)
    if not 1 <= len(header.app) <= APP_MAX:
        raise BlockError(f"must have 1 to {APP_MAX} characters", where="app")
    return BlockRecord(header, frames[0].payload, value)


def prepare_block(
    record: BlockRecord, is_source: Callable[[str], bool], row_limit: RowLimit | None = None
) -> Prepared:
    """Decode, cut and pack a block.

    Raises:
        UnusableRecordError: the block can't be read, or can't be sent on.
        Exception: what ``is_source`` raises, which is no fault of the block.
    """
    try:
        from_outside = is_source_space(record.header.in_space, is_source)
    except AddressError as error:
        unusable(error)
    try:
        block = decode_csv(decompress_payload(record.payload), record.header)
        associations: int | None = record.header.associations
        if row_limit is not None:
            cut = cut_block(block, row_limit.space, row_limit.rows)
            if cut is not block:
                block, associations = cut, None
        packed = pack_for_store(block, lambda _: from_outside, associations)
        value = pack_stored(stored_block(record.header.app, record.task, packed))
        if len(value) > VALUE_BYTES_MAX:
            raise BlockError(f"{len(value)} bytes when packed", where="block")
    except Exception as error:
        unusable(error)
    return Prepared(packed, value)


def app_of(record: Incoming) -> str:
    """The application that an unusable record is about, as far as that is known; else empty."""
    value = record.value or b""
    app: object = None
    try:
        if len(value) <= VALUE_BYTES_MAX:
            frame = value.startswith(RECORD_BATCH_MAGIC)
            text = next(read_record_batches(io.BytesIO(value))).header if frame else value
            fields = from_json(text) if frame or value.startswith(_JSON) else None
            app = fields.get("app") if isinstance(fields, dict) else None
    except MemoryError:
        raise
    except Exception:
        app = None
    if isinstance(app, str) and app_of_key(app.encode("utf-8", "replace")):
        return app[:APP_MAX]
    # What is no record of ours at all says nothing about an application, whatever its key.
    return app_of_key(record.key) if value.startswith((_JSON, RECORD_BATCH_MAGIC)) else ""


def unusable(error: Exception) -> NoReturn:
    """Decoding is a pure function of the record, so what it raises is the record's fault."""
    if isinstance(error, MemoryError):
        raise error
    kind = "" if isinstance(error, LineageError) else "could not be decoded: "
    raise UnusableRecordError(kind + dead_letter_reason(error)) from error
