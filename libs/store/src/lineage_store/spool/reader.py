"""Reading a spool folder: the driver's messages and the tasks' block files.

Nothing of a file is trusted: names can't leave the folder, sizes are bounded, and what can't be
read is a reason beside what can.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lineage_core.codec.csv_codec import decode_csv
from lineage_core.codec.packing import PackedBlock, pack_for_store
from lineage_core.codec.record_batch import RecordBatch, decompress_payload, read_record_batches
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.message import MESSAGE_BYTES_MAX, Message, parse_message
from lineage_core.contract.trimming import RowLimit, cut_block
from lineage_core.errors import BlockError, ContractError, TruncatedRecordBatchError
from lineage_store.paths import open_file

DRIVER_FILE = "driver.jsonl"
BLOCKS_FOLDER = "blocks"
BLOCK_SUFFIX = ".lmf"

_FILE_NAME = re.compile(r"[A-Za-z0-9_.:*-]{1,250}\.lmf")


def age_s(folder: Path) -> float:
    """Seconds since the driver wrote its last message, both moments by the clock of the file system.

    0 if it can't be determined, because the folder is read-only.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            return max(
                0.0, os.fstat(probe.fileno()).st_mtime - (folder / DRIVER_FILE).stat().st_mtime
            )
    except OSError:
        return 0.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the driver's file: a message, or the reason why it is not one.

    ``start``/``stop``: its bytes in the file.
    """

    message: Message | None
    reason: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Why the rest of a file, or one frame of it, can't be read.

    ``truncated``: the file just ends too early, as it does when its writer was killed.
    """

    reason: str
    truncated: bool = False


def read_lines(stream: IO[bytes], offset: int) -> Iterator[Line]:
    """Whole lines from a byte offset; a last line without its end is left for another time."""
    stream.seek(offset)
    while text := stream.readline(MESSAGE_BYTES_MAX + 1):
        size = len(text)
        if not text.endswith(b"\n"):
            if size <= MESSAGE_BYTES_MAX:
                return
            while more := stream.readline(MESSAGE_BYTES_MAX):
                size += len(more)
                if more.endswith(b"\n"):
                    break
            else:
                return
            reason = f"a line of {size} bytes is no message"
            yield Line(None, reason, offset, offset + size)
        else:
            yield _line(text, offset)
        offset += size


def _line(text: bytes, offset: int) -> Line:
    try:
        return Line(parse_message(text), "", offset, offset + len(text))
    except ContractError as error:
        return Line(None, str(error), offset, offset + len(text))


def block_path(folder: Path, name: str) -> Path | None:
    """Path of a block file that a commit names; None when the name is not one."""
    name = name.replace("\\", "/").rpartition("/")[2]
    if not _FILE_NAME.fullmatch(name):
        return None
    return folder / BLOCKS_FOLDER / name


def block_files(folder: Path) -> list[Path]:
    """All block files, in order of name."""
    try:
        paths = [path for path in (folder / BLOCKS_FOLDER).iterdir() if _is_block_file(path)]
    except FileNotFoundError:
        return []
    return sorted(paths)


def _is_block_file(path: Path) -> bool:
    return path.suffix == BLOCK_SUFFIX


def record_batches_of(path: Path) -> Iterator[RecordBatch | Damage]:
    """Whole frames of a file, then perhaps the damage that ends them. Missing: damage alone."""
    try:
        with open_file(str(path)) as stream:
            yield from read_record_batches(stream)
    except TruncatedRecordBatchError as error:
        yield Damage(str(error), truncated=True)
    except ContractError as error:
        yield Damage(str(error))
    except FileNotFoundError:
        yield Damage("the file is missing", truncated=True)
    except OSError as error:
        yield Damage(f"can't be read: {error.strerror or error}")


def first_header(path: Path) -> BlockHeader | None:
    """Header of a file's first frame; None when it has no whole one."""
    for batch in record_batches_of(path):
        if isinstance(batch, RecordBatch):
            try:
                return BlockHeader.from_json(batch.header)
            except ContractError:
                return None
    return None


def decode(
    batch: RecordBatch,
    app: str,
    is_source: Callable[[str], bool],
    row_limit: RowLimit | None = None,
) -> PackedBlock | Damage:
    """Decode, cut and pack one frame's block; runs in a thread."""
    try:
        header = BlockHeader.from_json(batch.header)
        if header.app != app:
            raise BlockError(f"of application {header.app!r:.80}, not {app}", where="app")
        block = decode_csv(decompress_payload(batch.payload), header)
        associations: int | None = header.associations
        if row_limit is not None:
            cut = cut_block(block, row_limit.space, row_limit.rows)
            if cut is not block:
                block, associations = cut, None
        return pack_for_store(block, is_source, associations)
    except ContractError as error:
        return Damage(f"frame at byte {batch.offset}: {error}")
