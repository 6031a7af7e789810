"""The answer of a trace through a lake as a table of Parquet: which rows of inputs which rows of outputs were made from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lineage_core.codec.tagged_runs import unpack_tagged
from lineage_core.contract.block import I64, U64
from lineage_core.tracing.tagged_pairs import distinct_pairs
from lineage_dataframes.lakes.exchange import PAIRS_AT_ONCE
from lineage_query.rows.locations import FilePart
from lineage_store.lake.arrow import nulls

SIDE: Final = ("node", "file", "row", "space", "position")
_TYPES: Final[dict[str, tuple[str, pa.DataType]]] = {
    "node": ("STRING", pa.string()),
    "file": ("STRING", pa.string()),
    "row": ("BIGINT", pa.int64()),
    "space": ("STRING", pa.string()),
    "position": ("DECIMAL(20,0)", pa.decimal128(20, 0)),
    "application": ("STRING", pa.string()),
    "exact": ("BOOLEAN", pa.bool_()),
    "reason": ("STRING", pa.string()),
}
_COLUMNS: Final = {
    **{f"input_{name}": _TYPES[name] for name in SIDE},
    **{f"output_{name}": _TYPES[name] for name in SIDE},
    **{name: _TYPES[name] for name in ("application", "exact", "reason")},
}
TABLE_DDL: Final = ", ".join(f"{name} {ddl}" for name, (ddl, _) in _COLUMNS.items())
_SCHEMA: Final = pa.schema([(name, kind) for name, (_, kind) in _COLUMNS.items()])


@dataclass(frozen=True, slots=True, eq=False)
class SpaceFiles:
    """Where items of a space lie in files. ``node``: as people call it.

    ``first`` and ``last``: of the items of a file, in order; ``shift`` leads from an item to its row in the file (both uint64, with
    wrapping), unless ``is_known`` is false.
    """

    node: str
    first: U64
    last: U64
    paths: tuple[str, ...]
    shift: U64
    is_known: npt.NDArray[np.bool_]

    @classmethod
    def of_parts(cls, node: str, parts: Iterable[FilePart]) -> SpaceFiles:
        """Of the parts of files of one space."""
        rows = [
            (
                int(part.items.first[0]),
                int(part.items.last[-1]),
                part.path,
                0 if part.rows is None else int(part.rows.first[0]) - int(part.items.first[0]),
                part.rows is not None,
            )
            for part in parts
        ]
        rows.sort()
        first, last, paths, shift, known = zip(*rows, strict=True) if rows else ((),) * 5
        return cls(
            node,
            np.array(first, np.uint64),
            np.array(last, np.uint64),
            tuple(paths),
            np.array([number % 2**64 for number in shift], np.uint64),
            np.array(known, np.bool_),
        )

    def columns(self, space: str, positions: U64) -> list[Any]:
        """The columns `SIDE` of some items."""
        at = np.searchsorted(self.last, positions)
        inside = at < len(self.last)
        inside[inside] = self.first[at[inside]] <= positions[inside]
        file: Any = pa.array(np.where(inside, at, 0), mask=~inside)
        safe = np.where(inside, at, 0)
        known = inside.copy()
        known[inside] = self.is_known[safe[inside]]
        rows = positions.copy()
        rows[known] += self.shift[safe[known]]
        return [
            _repeated(self.node, len(positions)),
            pa.array(self.paths, pa.string()).take(file),
            pa.array(np.where(known, rows, 0).astype(np.int64), mask=~known),
            _repeated(space, len(positions)),
            pa.array(positions).cast(pa.decimal128(20, 0)),
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """The items of a question by their tags: those of space ``k`` from tag ``tags[k]`` on, its runs in order.

    ``counts[k]``: how many positions come before each run of the space.
    """

    spaces: tuple[str, ...]
    tags: I64
    firsts: tuple[U64, ...]
    counts: tuple[I64, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Writing:
    """What a row of the table is made of. ``app``: of what was found, in ``files``. ``asked``: None where it says not of which item of the question; else these are in ``asked_files``."""

    app: str
    backward: bool
    reasons: Sequence[str]
    files: Mapping[str, SpaceFiles]
    asked_files: Mapping[str, SpaceFiles]
    asked: Asked | None


def table_rows(batches: Iterable[pa.RecordBatch], writing: Writing) -> Iterator[pa.RecordBatch]:
    """Rows of the table of what was found; ``batches`` are rows between processes, of kind `FOUND`."""
    reasons = pa.array([reason or None for reason in writing.reasons], pa.string())
    for batch in batches:
        spaces = map(str, batch.column("space").to_pylist())
        for space, payload in zip(spaces, batch.column("payload"), strict=True):
            for rows in distinct_pairs(unpack_tagged(payload.as_py()), PAIRS_AT_ONCE):
                found = writing.files[space].columns(space, rows.first)
                start = [nulls(len(rows), _TYPES[name][1]) for name in SIDE]
                if writing.asked is not None:
                    start = _asked_columns(writing, writing.asked, rows.tag)
                inputs, outputs = (found, start) if writing.backward else (start, found)
                more = [
                    _repeated(writing.app, len(rows)),
                    pa.array(rows.reason == 0),
                    reasons.take(_numbers(rows.reason)),
                ]
                yield pa.record_batch([*inputs, *outputs, *more], schema=_SCHEMA)


def _asked_columns(writing: Writing, asked: Asked, tags: I64) -> list[Any]:
    """The columns `SIDE` of the items of the question, by their tags."""
    number = np.searchsorted(asked.tags, tags, side="right") - 1
    order = np.argsort(number, kind="stable")
    parts: list[list[Any]] = []
    for space in np.unique(number).tolist():
        some = tags[order][number[order] == space] - asked.tags[space]
        run = np.searchsorted(asked.counts[space], some, side="right") - 1
        offset = (some - asked.counts[space][run]).astype(np.uint64)
        positions = asked.firsts[space][run] + offset
        name = asked.spaces[space]
        parts.append(writing.asked_files[name].columns(name, positions))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    joined = [pa.concat_arrays(list(columns)) for columns in zip(*parts, strict=True)]
    return [column.take(_numbers(back)) for column in joined]


def _numbers(numbers: I64) -> Any:
    return pa.array(numbers)


def _repeated(text: str, count: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(text, pa.string()), count)
