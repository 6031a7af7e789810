"""Finds items of an index: their numbers, and those that a question names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lineage_store.errors import StoreError, TriplesNotFoundError
from lineage_store.lake.arrow import array_of_texts, int64_of
from lineage_store.triples.files import Numbers
from lineage_store.triples.json_reading import whole_text
from lineage_store.triples.numbering import Values, item_keys, sorted_distinct
from lineage_store.triples.reading import SortedPart

NAMED: Final = 3
"""Items that a message names."""


def numbers_of(keys: SortedPart, items: SortedPart, values: Values) -> Numbers:
    """The numbers of some items; -1 for those that the index does not have.

    Args:
        keys: the numbers by key.
        items: the items by number.
        values: distinct items; integers in order.

    Raises:
        StoreError: a file is damaged, or the storage can't be read.
        BudgetError: the query has no time left.
    """
    rows = keys.equal(sorted_distinct(item_keys(values)))
    if isinstance(values, np.ndarray):
        found = np.full(len(values), -1, np.int64)
        found[np.searchsorted(values, rows["key"])] = rows["number"]
        return found
    # Other texts may have the same key.
    alike = np.sort(rows["number"])
    return places_of(values, items.equal(alike)["item_text"], alike)


def places_of(texts: Any, held: Any, codes: Numbers) -> Numbers:
    """The codes of some distinct texts by those that are held; -1 for others."""
    # The table of hashes is that of the texts, which are few: those that are held may be many.
    places = pc.index_in(held, value_set=texts).cast(pa.int64())
    found = np.full(len(texts), -1, np.int64)
    found[int64_of(places.drop_null())] = codes[int64_of(pc.indices_nonzero(places.is_valid()))]
    return found


def asked_texts(items: Sequence[str]) -> pa.Array[Any]:
    """The items of a question as a column.

    Raises:
        StoreError: one has half a character, as no item has.
    """
    texts: pa.Array[Any] = array_of_texts([whole_text(item, "an item") for item in items])
    return texts


def asked_numbers(keys: SortedPart, items: SortedPart, name: str, asked: pa.Array[Any]) -> Numbers:
    """The numbers of the items of a question, in order, each once.

    Args:
        keys: the numbers by key.
        items: the items by number.
        name: of the data set.
        asked: texts, which stand for integers in a data set of these; or integers.

    Raises:
        StoreError: the data set does not have one of them, a file is damaged, or the storage can't be read.
        BudgetError: the query has no time left.
    """
    is_text = has_texts(items)
    distinct = pc.unique(asked)
    if is_text and asked.type != pa.string():
        raise StoreError(f"items of {name} are texts, and those that are asked for are integers")
    look_up = numbers_of if is_text else _integer_numbers
    found = look_up(keys, items, distinct)
    _check_found(name, found, distinct)
    return np.sort(found)


def has_texts(items: SortedPart) -> bool:
    """Whether the items of an index are texts."""
    # Names of both columns of an item are in the first row of all.
    return "item_text" in items.equal(np.array([0], np.int64))


def _integer_numbers(keys: SortedPart, items: SortedPart, asked: pa.Array[Any]) -> Numbers:
    """Numbers of distinct items that are integers, or texts of these."""
    if asked.type == pa.string():
        texts: list[Any] = asked.to_pylist()
        values = [_integer(text) for text in texts]
        known = np.array([value is not None for value in values], bool)
        integers = np.array([value for value in values if value is not None], np.int64)
    else:
        integers = int64_of(asked)
        known = np.ones(len(integers), bool)
    found = np.full(len(known), -1, np.int64)
    order = np.argsort(integers)
    placed = np.empty(len(integers), np.int64)
    placed[order] = numbers_of(keys, items, integers[order])
    found[known] = placed
    return found


def _integer(item: str) -> int | None:
    """An integer of 64 bits in its one decimal form; None for other texts, of which no item can be."""
    try:
        value = int(item)
    except ValueError:
        return None
    return value if str(value) == item and -(1 << 63) <= value < 1 << 63 else None


def _check_found(name: str, found: Numbers, asked: pa.Array[Any]) -> None:
    missing = np.flatnonzero(found < 0)
    if not len(missing):
        return
    named = ", ".join(repr(asked[at].as_py()) for at in missing[:NAMED].tolist())
    others = f" and {len(missing) - NAMED:,} others" if len(missing) > NAMED else ""
    which = "item" if len(missing) == 1 else "items"
    raise TriplesNotFoundError(f"{name} has no {which} {named}{others}")
