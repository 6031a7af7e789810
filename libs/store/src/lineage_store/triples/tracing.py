"""Traces items through triples: by recursion, by components, or by connected sets (CSProv: RQ, CCProv and CSProv)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lineage_core.text_enum import StrEnum
from lineage_core.tracing.budget import current_budget
from lineage_store.errors import StoreError, TriplesNotFoundError
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.files import GROUP_ROWS, Columns, Numbers
from lineage_store.triples.numbering import item_keys
from lineage_store.triples.reading import ReadCounts, SortedPart, check_room, spans

MOST_TRIPLES: Final = 10_000_000
"""Triples that one trace reads at most: some 500 MB of memory."""
MOST_ANSWERED: Final = 1_000_000
"""Triples of an answer at most, which takes some 400 bytes for each."""
RETRIES: Final = 3
AUTO_ROWS: Final = 4 * GROUP_ROWS
"""A component of no more triples is read at once: recursion reads as many row groups after some steps."""


class Method(StrEnum):
    """How triples are found. ``AUTO``: by component where that is small, else by recursion."""

    RQ = "rq"
    CCPROV = "ccprov"
    CSPROV = "csprov"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class TripleTrace:
    """What an item was derived from, or what was derived from it.

    ``item``: as it is stored. ``items``: all others reached, in order. ``triples``: their rows of src, dst and op.
    ``method``: the one that was used. ``component_triples``: of the item's component. ``read``: what was opened.
    """

    item: int | str
    items: list[int] | list[str]
    triples: list[tuple[Any, Any, str]]
    method: Method
    component_triples: int
    read: ReadCounts


def trace(
    store: TripleStore, name: str, item: str, *, is_back: bool, method: Method = Method.AUTO
) -> TripleTrace:
    """Trace an item of a data set.

    Args:
        store: where the data set is.
        name: of the data set.
        item: the item, integers in decimal.
        is_back: whether to what it was derived from, and not to what was derived from it.
        method: all give the same answer.

    Raises:
        StoreError: there is no such data set or item, something waits to be indexed, or the storage can't be read.
        BudgetError: the trace takes more than it may.
    """
    for attempt in range(RETRIES):
        tracer = _Tracer(store, name)
        try:
            return tracer.trace(item, is_back, method)
        except FileNotFoundError as error:
            # Somebody indexed it meanwhile: the next version has other files.
            if attempt == RETRIES - 1:
                raise StoreError(f"a file of {name} is missing: {error}") from error
        finally:
            tracer.close()
    raise AssertionError


class _Tracer:
    def __init__(self, store: TripleStore, name: str) -> None:
        self._name = name
        self._files = store.indexed_files(name)
        self._reader = store.reader()

    def close(self) -> None:
        self._reader.close()

    def _part(self, part: Part) -> SortedPart:
        return SortedPart(self._reader, part, self._files)

    def trace(self, item: str, is_back: bool, method: Method) -> TripleTrace:
        number = self._number(item)
        its_set = self._part(Part.SETS).floors(np.array([number], np.int64))
        component = self._component(its_set)
        component_rows = int(component["triples"].sum())
        if method is Method.AUTO:
            method = Method.CCPROV if component_rows <= AUTO_ROWS else Method.RQ
        near, far = ("dst", "src") if is_back else ("src", "dst")
        triples = self._part(Part.BACK if is_back else Part.FORWARD)
        if method is Method.RQ:
            rows = _recursion(triples, number, near, far, MOST_ANSWERED)
        else:
            if method is Method.CCPROV:
                firsts, lasts = component["component"], component["last"]
            else:
                firsts, lasts = self._closure(int(its_set["first"][0]), is_back)
            rows = _reachable(triples.between(firsts, lasts, MOST_TRIPLES), number, near, far)
        return self._answer(number, rows, method, component_rows)

    def _number(self, item: str) -> int:
        # Names of both columns of an item are in the first row of all.
        sample = self._part(Part.ITEMS).equal(np.array([0], np.int64))
        is_text = "item_text" in sample
        value = item if is_text else _integer(item)
        if value is not None:
            keys = item_keys(pa.array([value]) if is_text else np.array([value], np.int64))
            found = self._part(Part.KEYS).equal(keys)["number"]
            for number in found.tolist():
                if not is_text or self._items(np.array([number], np.int64)) == [item]:
                    return int(number)
        raise TriplesNotFoundError(f"{self._name} has no item {item!r}")

    def _component(self, its_set: Columns) -> Columns:
        """The ranges of a set's component, and how many triples each counts."""
        roots = self._part(Part.ROOTS).equal(its_set["component"])["root"]
        if len(roots):
            members = self._part(Part.MEMBERS).equal(roots)
            order = np.argsort(members["component"])
            return {name: column[order] for name, column in members.items()}
        return {
            "component": its_set["component"],
            "last": its_set["component_last"],
            "triples": its_set["component_rows"],
        }

    def _closure(self, first: int, is_back: bool) -> tuple[Numbers, Numbers]:
        """The ranges of all sets that a set depends on, or that depend on it."""
        part = self._part(Part.PARENTS if is_back else Part.CHILDREN)
        near, far = ("child", "parent") if is_back else ("parent", "child")
        depends = _recursion(part, first, near, far, MOST_TRIPLES)[far]
        firsts = np.union1d(depends, np.array([first], np.int64))
        sets = self._part(Part.SETS).equal(firsts)
        return sets["first"], sets["last"]

    def _answer(
        self, number: int, rows: Columns, method: Method, component_rows: int
    ) -> TripleTrace:
        check_room(len(rows["op"]), MOST_ANSWERED)
        numbers = np.unique(np.concatenate([rows["src"], rows["dst"], [number]]))
        items = self._items(numbers)
        by_number = dict(zip(numbers.tolist(), items, strict=True))
        ops = np.unique(rows["op"])
        texts = self._part(Part.OPS).equal(ops)["op_text"].to_pylist()
        by_op = dict(zip(ops.tolist(), texts, strict=True))
        ends = zip(rows["src"].tolist(), rows["dst"].tolist(), rows["op"].tolist(), strict=True)
        item = by_number.pop(number)
        return TripleTrace(
            item=item,
            items=sorted(by_number.values()),
            triples=sorted(
                (by_number.get(src, item), by_number.get(dst, item), by_op[op])
                for src, dst, op in ends
            ),
            method=method,
            component_triples=component_rows,
            read=self._reader.counts,
        )

    def _items(self, numbers: Numbers) -> list[Any]:
        rows = self._part(Part.ITEMS).equal(numbers)
        values = rows["item_text"].to_pylist() if "item_text" in rows else rows["item"].tolist()
        if len(values) != len(numbers):
            raise StoreError(f"the index of {self._name} is damaged: items are missing")
        return list(values)


def _integer(item: str) -> int | None:
    """An integer of 64 bits in its one decimal form; None for other texts, of which no item can be."""
    try:
        value = int(item)
    except ValueError:
        return None
    return value if str(value) == item and -(1 << 63) <= value < 1 << 63 else None


def _recursion(part: SortedPart, start: int, near: str, far: str, most: int) -> Columns:
    """The rows whose near end is ``start``, or reached from it, step by step."""
    steps: list[Columns] = []
    seen = frontier = np.array([start], np.int64)
    count = 0
    while len(frontier):
        rows = part.equal(frontier)
        count += len(rows[near])
        check_room(count, most)
        steps.append(rows)
        frontier = np.setdiff1d(rows[far], seen)
        seen = np.union1d(seen, frontier)
    return _joined(steps)


def _reachable(rows: Columns, start: int, near: str, far: str) -> Columns:
    """As `_recursion`, of rows in memory that are in the order of their near end."""
    steps = []
    order = rows[near]
    seen = frontier = np.array([start], np.int64)
    while len(frontier):
        current_budget().check()
        taken = spans(np.searchsorted(order, frontier), np.searchsorted(order, frontier, "right"))
        steps.append(taken)
        frontier = np.setdiff1d(rows[far][taken], seen)
        seen = np.union1d(seen, frontier)
    taken = np.concatenate(steps)
    return {name: column[taken] for name, column in rows.items()}


def _joined(steps: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}
