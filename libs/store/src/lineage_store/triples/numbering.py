"""Distinct items and labels of triples, in order, and the code of each in many columns."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineage_store.triples.files import Numbers

Values: TypeAlias = Any
"""Items: integers of NumPy, or texts of Arrow."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """``values``: distinct ones, in order. ``codes``: of each column, the place of each of its values in it."""

    values: Values
    codes: list[Numbers]


def encoded_numbers(columns: Sequence[Numbers]) -> Encoded:
    """Codes of columns of integers."""
    values = np.unique(np.concatenate([np.unique(column) for column in columns]))
    return Encoded(values, [np.searchsorted(values, column) for column in columns])


def encoded_texts(columns: Sequence[Any]) -> Encoded:
    """Codes of columns of texts; their order is that of their bytes in UTF-8."""
    lengths = [len(column) for column in columns]
    joined = pa.chunked_array(
        [chunk for column in columns for chunk in _chunks(column)], pa.string()
    )
    encoded: Any = pc.dictionary_encode(joined).unify_dictionaries()
    words: Any = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.string())
    order = np.asarray(pc.sort_indices(words).to_numpy(), np.int64)
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    places = [np.asarray(chunk.indices.to_numpy(), np.int64) for chunk in encoded.chunks]
    codes = ranks[np.concatenate(places)] if places else np.empty(0, np.int64)
    return Encoded(words.take(pa.array(order)), np.split(codes, np.cumsum(lengths)[:-1]))


def _chunks(column: Any) -> list[Any]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def text_key(text: str) -> int:
    """A number by which a text is found; texts may share one."""
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def item_keys(items: Values) -> Numbers:
    """The numbers by which items are found: integers themselves, and hashes of texts."""
    if isinstance(items, np.ndarray):
        return items
    return np.fromiter((text_key(text.as_py()) for text in items), np.int64, len(items))


def distinct_rows(*columns: Numbers) -> tuple[Numbers, ...]:
    """Rows of numbers from 0, each once, in the order of the columns."""
    if not len(columns[0]):
        return columns
    widths = [int(column.max()) + 1 for column in columns]
    if np.prod([float(width) for width in widths]) < float(1 << 62):
        return _packed_rows(columns, widths)
    order = np.lexsort(columns[::-1])
    ordered = [column[order] for column in columns]
    differs = np.ones(len(order), bool)
    differs[1:] = np.any([column[1:] != column[:-1] for column in ordered], axis=0)
    return tuple(column[differs] for column in ordered)


def _packed_rows(columns: Sequence[Numbers], widths: Sequence[int]) -> tuple[Numbers, ...]:
    packed = columns[0].astype(np.int64)
    for column, width in zip(columns[1:], widths[1:], strict=True):
        packed = packed * width + column
    packed.sort()
    differs = np.ones(len(packed), bool)
    np.not_equal(packed[1:], packed[:-1], out=differs[1:])
    packed = packed[differs]
    unpacked = []
    for width in widths[:0:-1]:
        packed, last = np.divmod(packed, width)
        unpacked.append(last)
    return (packed, *unpacked[::-1])
