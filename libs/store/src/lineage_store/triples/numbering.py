"""Distinct items and labels of triples, in order, and the code of each in many columns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from lineage_store.lake.arrow import array_of, int64_of, nulls, pc
from lineage_store.triples.files import Numbers

UNPACKED_ROWS: Final = 1 << 20
"""Rows that are in memory in a wider form at a time."""

Values: TypeAlias = Any
"""Items: integers of NumPy, or texts of Arrow."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """``values``: distinct ones, in order. ``codes``: of each column, the place of each of its values in it."""

    values: Values
    codes: list[Numbers]


def code_type(count: int) -> type[np.int32 | np.int64]:
    """The smallest type that holds codes below ``count``, and -1: they take most of the memory of an index that is made."""
    return np.int32 if count <= np.iinfo(np.int32).max else np.int64


def distinct_numbers(columns: Iterable[Numbers]) -> Numbers:
    """The numbers of some columns in order, each once; one column is in memory at a time."""
    parts: list[Numbers] = []
    for column in columns:
        distinct = sorted_distinct(column)
        # As in a log-structured merge: each number is sorted again few times.
        while parts and len(parts[-1]) <= len(distinct):
            distinct = sorted_distinct(parts.pop(), distinct)
        parts.append(distinct)
    return sorted_distinct(*parts)


def sorted_distinct(*columns: Numbers) -> Numbers:
    """The numbers of some columns in order, each once: as `numpy.unique`, which takes several times as long for many numbers."""
    return _sorted_in_place(np.concatenate([np.empty(0, np.int64), *columns]))


def with_new(seen: Numbers, found: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers that were seen, with those that were found; and of these the ones that are new, in order, each once.

    Args:
        seen: numbers, in order, each once.
        found: numbers.
    """
    distinct = sorted_distinct(found)
    places = np.searchsorted(seen, distinct)
    is_new = np.ones(len(distinct), bool)
    inner = places < len(seen)
    is_new[inner] = seen[places[inner]] != distinct[inner]
    return np.insert(seen, places[is_new], distinct[is_new]), distinct[is_new]


def _sorted_in_place(numbers: Numbers) -> Numbers:
    numbers.sort()
    differs = np.ones(len(numbers), bool)
    np.not_equal(numbers[1:], numbers[:-1], out=differs[1:])
    return numbers if differs.all() else numbers[differs]


def codes_of(values: Numbers, column: Numbers) -> Numbers:
    """The place of each number of a column among ``values``, which are in order, distinct, and hold all of them."""
    distinct, place = np.unique(column, return_inverse=True)
    return np.asarray(np.searchsorted(values, distinct).astype(code_type(len(values)))[place])


def encoded_texts(columns: Sequence[Iterable[Any]]) -> Encoded:
    """Codes of columns of texts, each given by its chunks; their order is that of their bytes in UTF-8.

    Of a chunk only its distinct texts are kept, and which of them its rows have.
    """
    encoded: list[list[Any]] = [
        [pc.dictionary_encode(_one(chunk)) for chunk in column if len(chunk)] for column in columns
    ]
    texts = [chunk.dictionary for column in encoded for chunk in column]
    joined: Any = pc.dictionary_encode(pa.chunked_array(texts, pa.string())).unify_dictionaries()
    words: Any = joined.chunk(0).dictionary if joined.num_chunks else nulls(0, pa.string())
    order = int64_of(pc.sort_indices(words))
    ranks = np.empty(len(order), code_type(len(order)))
    ranks[order] = np.arange(len(order))
    ranks_of_chunk = (ranks[int64_of(chunk.indices)] for chunk in joined.chunks)
    codes = [
        np.concatenate(
            [
                np.empty(0, ranks.dtype),
                *(next(ranks_of_chunk)[int64_of(chunk.indices)] for chunk in column),
            ]
        )
        for column in encoded
    ]
    return Encoded(words.take(array_of(order)), codes)


def _one(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


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
        packed *= width
        packed += column
    packed = _sorted_in_place(packed)
    unpacked = tuple(np.empty(len(packed), code_type(width)) for width in widths)
    for first in range(0, len(packed), UNPACKED_ROWS):
        rows = slice(first, first + UNPACKED_ROWS)
        left = packed[rows]
        for column, width in zip(unpacked[:0:-1], widths[:0:-1], strict=True):
            left, column[rows] = np.divmod(left, width)
        unpacked[0][rows] = left
    return unpacked
