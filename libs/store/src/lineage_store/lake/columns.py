"""Columns of the lake's table, and how rows of each kind are ordered.

All that one commit adds is in one table, so that it is visible at once. Its rows are of several kinds; a file
has the columns alone that its rows use, ordered by kind and key, so that statistics of row groups tell where a row may be.
"""

from __future__ import annotations

import hashlib
from typing import Final

import pyarrow as pa

from lineage_core.text_enum import StrEnum

APP: Final = "app"
"""The partition: all files of an application are in one folder."""


class Kind(StrEnum):
    """What a row is. The order is that of a file."""

    APPLICATION = "application"
    MESSAGE = "message"
    PROBLEMS = "problems"
    FILE = "file"
    TASK = "task"
    SEAL = "seal"
    UNMATCHED = "unmatched"
    BLOCK = "block"
    SECTION = "section"
    EDGE = "edge"
    VISIBLE = "visible"
    EPOCH = "epoch"


BLOCK_ID: Final = ("node", "partition", "attempt", "seq")
PRODUCER_ID: Final = ("producer_node", "producer_partition", "producer_attempt", "producer_seq")
REF: Final = (
    *BLOCK_ID,
    "task_node",
    "task_partition",
    "task_attempt",
    "in_space",
    "in_low",
    "in_high",
    "rows",
    "associations",
    "exact",
    "reason",
    "number",
)
"""Columns of a block without its flows; rows of kind ``section`` repeat them."""

TYPES: Final[dict[str, pa.DataType]] = {
    APP: pa.string(),
    "kind": pa.string(),
    "number": pa.int64(),
    "recorded_at": pa.float64(),
    "name": pa.string(),
    "type": pa.string(),
    "digest": pa.binary(),
    "body": pa.string(),
    "body_bytes": pa.int64(),
    "file_name": pa.int64(),
    "folder": pa.string(),
    "file": pa.string(),
    "wrote": pa.bool_(),
    "size": pa.int64(),
    "mtime": pa.float64(),
    "checksum": pa.string(),
    "committed": pa.bool_(),
    "outputs_digest": pa.string(),
    "node": pa.string(),
    "partition": pa.int64(),
    "attempt": pa.int64(),
    "seq": pa.int64(),
    "task_node": pa.string(),
    "task_partition": pa.int64(),
    "task_attempt": pa.int64(),
    "space": pa.string(),
    "low": pa.int64(),
    "high": pa.int64(),
    "in_space": pa.string(),
    "in_low": pa.int64(),
    "in_high": pa.int64(),
    "rows": pa.int64(),
    "associations": pa.int64(),
    "exact": pa.bool_(),
    "reason": pa.string(),
    "unmatched": pa.int64(),
    "seal": pa.string(),
    "producer_node": pa.string(),
    "producer_partition": pa.int64(),
    "producer_attempt": pa.int64(),
    "producer_seq": pa.int64(),
    "pairs": pa.int64(),
    "data": pa.binary(),
}
"""Type of each column. Positions are stored less 2**63 (`lineage_store.signed`)."""

USED: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.APPLICATION: ("number", "recorded_at", "name"),
    Kind.MESSAGE: ("number", "recorded_at", "type", "node", "digest", "body", "body_bytes"),
    Kind.PROBLEMS: ("number", "body"),
    Kind.FILE: ("number", "file_name", "folder", "file", "node", "wrote", "size", "mtime", "checksum"),
    Kind.TASK: ("number", "task_node", "task_partition", "task_attempt", "committed", "outputs_digest"),
    Kind.SEAL: ("number", "space", "seal"),
    Kind.UNMATCHED: ("number", *BLOCK_ID, "unmatched"),
    Kind.BLOCK: (*REF, "committed", "data"),
    Kind.SECTION: ("space", "low", "high", *REF),
    Kind.EDGE: (*BLOCK_ID, *PRODUCER_ID, "pairs", "data"),
    Kind.VISIBLE: BLOCK_ID,
    Kind.EPOCH: ("name",),
}  # fmt: skip
"""Columns of each kind. ``committed`` of a block: false if it is visible only once a row of kind ``visible`` names it."""

ORDER: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.APPLICATION: ("number",),
    Kind.MESSAGE: ("type", "number"),
    Kind.PROBLEMS: ("number",),
    Kind.FILE: ("file_name", "number"),
    Kind.TASK: ("task_node", "task_partition", "task_attempt"),
    Kind.SEAL: ("space", "number"),
    Kind.UNMATCHED: (*BLOCK_ID, "number"),
    Kind.BLOCK: BLOCK_ID,
    Kind.SECTION: ("space", "low", "high"),
    Kind.EDGE: (*BLOCK_ID, *PRODUCER_ID),
    Kind.VISIBLE: BLOCK_ID,
    Kind.EPOCH: ("name",),
}
"""By what the rows of a kind are ordered in a file."""

SAME: Final[dict[Kind, tuple[str, ...]]] = {
    Kind.APPLICATION: ("name",),
    Kind.MESSAGE: ("type", "digest"),
    Kind.PROBLEMS: ("number", "body"),
    Kind.FILE: ("file_name", "folder", "file", "node", "wrote", "size", "mtime", "checksum"),
    Kind.TASK: (
        "number",
        "task_node",
        "task_partition",
        "task_attempt",
        "committed",
        "outputs_digest",
    ),
    Kind.SEAL: ("space", "number", "seal"),
    Kind.UNMATCHED: (*BLOCK_ID, "unmatched"),
    Kind.BLOCK: (*BLOCK_ID, "committed"),
    Kind.SECTION: (*BLOCK_ID, "space"),
    Kind.EDGE: (*BLOCK_ID, *PRODUCER_ID),
    Kind.VISIBLE: BLOCK_ID,
    Kind.EPOCH: ("name",),
}
"""What names a row of a kind: rows that are equal in it are one row, that with the smallest number.

A number alone names nothing: writers that began on one version give the same ones.
"""

BLOBS: Final = frozenset(["body", "data", "digest", "reason", "seal"])
"""Columns without statistics: nothing is looked up by them."""
PACKED: Final = frozenset(["data", "digest"])
"""Columns that are compressed already, or can't be."""

SCHEMA: Final = pa.schema(list(TYPES.items()))


def application_key(app: str) -> str:
    """The name of an application's folder: its id may be any text."""
    return hashlib.blake2b(app.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def file_schema(kinds: list[Kind]) -> pa.Schema:
    """The columns of a file with rows of some kinds; the partition is in the name of its folder."""
    used = {"kind"}.union(*(USED[kind] for kind in kinds))
    return pa.schema([(name, TYPES[name]) for name in TYPES if name in used])
