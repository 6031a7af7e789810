"""Traces items through triples: by recursion, by components, or by connected sets (CSProv: RQ, CCProv and CSProv)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from lineage_core.text_enum import StrEnum
from lineage_core.tracing.budget import TooMuchError
from lineage_store.errors import DamagedError, StoreError
from lineage_store.lake.storage_errors import reason_of
from lineage_store.triples.columns import Part
from lineage_store.triples.data_sets import TripleStore, damaged_index
from lineage_store.triples.files import GROUP_ROWS, Columns, Numbers
from lineage_store.triples.finding import asked_numbers, asked_texts
from lineage_store.triples.following import Walk, reachable, recursion
from lineage_store.triples.numbering import sorted_distinct
from lineage_store.triples.reading import ROOM_HINT, ReadCounts, SortedPart, check_room

MOST_TRIPLES: Final = 10_000_000
"""Triples that one trace reads at most: some 500 MB of memory."""
MOST_DEPENDENCIES: Final = 10_000_000
"""Pairs of connected sets, one of which depends on the other, that one trace follows at most: some 300 MB of memory."""
MOST_ANSWERED: Final = 1_000_000
"""Triples of an answer, and items of a question, at most, which take some 400 bytes for each."""
MOST_ASKED: Final = 10_000_000
"""Items of a question to Spark at most: their numbers are looked up here, some 200 bytes for each."""
USED_BY_ALL: Final = frozenset(
    {Part.KEYS, Part.ITEMS, Part.OPS, Part.SETS, Part.ROOTS, Part.MEMBERS}
)
"""Parts that each trace reads, whatever its direction and method."""
RETRIES: Final = 3
AUTO_ROWS: Final = 4 * GROUP_ROWS
"""A component of no more triples is read at once: recursion reads as many row groups after some steps."""
SETS_LOOKED_AT: Final = 64 * GROUP_ROWS
"""What is spent step by step, as triples that are read, before it is looked at what connected sets depend on."""


class Method(StrEnum):
    """How triples are found.

    ``AUTO``: by component where that is small; else by recursion, for as long as its reads and steps cost less than another
    method would read. So it takes at most about twice as long as the best of them. ``CSPROV`` goes on so, too, where sets depend on
    more others than may be followed.
    """

    RQ = "rq"
    CCPROV = "ccprov"
    CSPROV = "csprov"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class TripleTrace:
    """What items were derived from, or what was derived from them.

    ``asked``: the items of the question, in order. ``items``: all others reached, in order. ``triples``: their rows of src, dst and op.
    ``method``: the one that was used, and ``reason`` why; empty: it was named. ``component_triples``: of the items'
    components. ``read``: what was opened.
    """

    asked: list[int] | list[str]
    items: list[int] | list[str]
    triples: list[tuple[Any, Any, str]]
    method: Method
    component_triples: int
    read: ReadCounts
    reason: str = ""

    @property
    def title(self) -> str:
        """The item of the question, or how many it has."""
        return str(self.asked[0]) if len(self.asked) == 1 else f"{len(self.asked):,} items"


@dataclass(frozen=True, slots=True)
class Named:
    """Names of triples. ``items``: by their numbers; ``triples``: rows of src, dst and op, in order."""

    items: dict[int, Any]
    triples: list[tuple[Any, Any, str]]


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
    return trace_items(store, name, asked_texts([item]), is_back=is_back, method=method)


def trace_items(
    store: TripleStore,
    name: str,
    asked: pa.Array[Any],
    *,
    is_back: bool,
    method: Method = Method.AUTO,
) -> TripleTrace:
    """Trace many items of a data set by one question.

    Args:
        store: where the data set is.
        name: of the data set.
        asked: the items: integers, or texts, which stand for integers in a data set of these.
        is_back: as for `trace`.
        method: as for `trace`.

    Raises:
        StoreError: as `trace`, or items are of another type.
        BudgetError: the trace takes more than it may.
    """
    check_asked(len(asked), MOST_ANSWERED, ROOM_HINT)
    return with_reading(
        store, name, lambda reading: _answered(reading, asked, is_back=is_back, method=method)
    )


def check_asked(count: int, most: int, hint: str) -> None:
    """Refuse a question of more items than it may have.

    Args:
        count: items of the question.
        most: that it may have.
        hint: what to do where there are more.

    Raises:
        TooMuchError: there are more.
    """
    if count > most:
        raise TooMuchError(f"the question has {count:,} items, more than {most:,}", hint)


T = TypeVar("T")
Ranges: TypeAlias = "tuple[Numbers, Numbers]"
"""Where ranges of numbers begin, and where they end: both ends belong to them."""


def with_reading(store: TripleStore, name: str, function: Callable[[Reading], T]) -> T:
    """Call a function with the files of a data set; again, if somebody replaced one of them meanwhile.

    Args:
        store: where the data set is.
        name: of the data set.
        function: raises `FileNotFoundError` where a file is not there any more.

    Raises:
        StoreError: there is no such data set, something waits to be indexed, or the storage can't be read.
    """
    for attempt in range(RETRIES):
        try:
            # Some files are opened at once, so that this fails as the function does.
            with closing(Reading(store, name)) as reading:
                return function(reading)
        except FileNotFoundError as error:
            # Somebody indexed it meanwhile, or put another copy in place of the store: the next version has other files.
            store.table.snapshot(surely=True)
            if attempt == RETRIES - 1:
                raise damaged_index(name, f"a file is missing: {reason_of(error)}") from error
        except DamagedError as error:
            raise damaged_index(name, error.damage) from error
    raise AssertionError


class Reading:
    """The index of a data set as one version has it. ``files``: all of it.

    Raises:
        FileNotFoundError: a file is not there any more.
        StoreError: there is no such data set, something waits to be indexed, a file is damaged, or the storage can't be read.
    """

    def __init__(self, store: TripleStore, name: str) -> None:
        self.name = name
        self.files = store.indexed_files(name)
        self.reader = store.reader()
        try:
            self.reader.open_together([file for file in self.files if file.part in USED_BY_ALL])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close what is open."""
        self.reader.close()

    def part(self, part: Part) -> SortedPart:
        """The rows of a part."""
        return SortedPart(self.reader, part, self.files)

    def numbers_of(self, asked: pa.Array[Any]) -> Numbers:
        """The numbers of some items, in order; see `asked_numbers`."""
        return asked_numbers(self.part(Part.KEYS), self.part(Part.ITEMS), self.name, asked)

    def components(self, numbers: Numbers) -> Columns:
        """The ranges of the components of some items, in order, and how many triples each counts."""
        its_sets = self.part(Part.SETS).floors(numbers)
        component, first = np.unique(its_sets["component"], return_index=True)
        moved = self.part(Part.ROOTS).equal(component)
        members = self.part(Part.MEMBERS).equal(sorted_distinct(moved["root"]))
        single = first[np.isin(component, moved["component"], invert=True)]
        rows = {
            "component": np.concatenate([members["component"], its_sets["component"][single]]),
            "last": np.concatenate([members["last"], its_sets["component_last"][single]]),
            "triples": np.concatenate([members["triples"], its_sets["component_rows"][single]]),
        }
        order = np.argsort(rows["component"])
        return {name: column[order] for name, column in rows.items()}

    def closure(self, numbers: Numbers, is_back: bool) -> Ranges | None:
        """The ranges of all sets that those of some items depend on, or that depend on them.

        Returns:
            None: more than `MOST_DEPENDENCIES` pairs of sets say which these are.
        """
        firsts = sorted_distinct(self.part(Part.SETS).floors(numbers)["first"])
        part = self.part(Part.PARENTS if is_back else Part.CHILDREN)
        near, far = ("child", "parent") if is_back else ("parent", "child")
        walk = Walk(part, firsts, near, far, MOST_DEPENDENCIES)
        try:
            walk.go_on()
        except TooMuchError:
            return None
        sets = self.part(Part.SETS).equal(walk.reached)
        return sets["first"], sets["last"]

    def named(self, rows: Columns, start: Numbers) -> Named:
        """The names of triples and of some other items.

        Raises:
            StoreError: the index lacks some, or can't be read.
            BudgetError: the query has no time left.
        """
        numbers = sorted_distinct(rows["src"], rows["dst"], start)
        items = self._names(Part.ITEMS, numbers)
        ops = self._names(Part.OPS, sorted_distinct(rows["op"]))
        columns = zip(*(rows[name].tolist() for name in ("src", "dst", "op")), strict=True)
        return Named(items, sorted((items[src], items[dst], ops[op]) for src, dst, op in columns))

    def _names(self, part: Part, numbers: Numbers) -> dict[int, Any]:
        """The items or operations with some numbers, which are distinct and in order."""
        rows = self.part(part).equal(numbers)
        texts = [name for name in ("item_text", "op_text") if name in rows]
        values = rows[texts[0]].to_pylist() if texts else rows["item"].tolist()
        if len(values) != len(numbers):
            raise StoreError(f"the index of {self.name} is damaged: {part} are missing")
        return dict(zip(numbers.tolist(), values, strict=True))


def sets_given_up() -> str:
    """Why a trace does not go by connected sets though it was to; see `Reading.closure`."""
    return f"connected sets depend on each other more than {MOST_DEPENDENCIES:,} times"


def ends(is_back: bool) -> tuple[Part, str, str]:
    """The part with the triples of a direction, and which of their ends is known, and which is looked for."""
    return (Part.BACK, "dst", "src") if is_back else (Part.FORWARD, "src", "dst")


@dataclass(frozen=True, slots=True)
class _Found:
    """Triples on the way, by numbers; ``reason``: why the method was chosen."""

    rows: Columns
    method: Method
    reason: str = ""


def _answered(
    reading: Reading, asked: pa.Array[Any], *, is_back: bool, method: Method
) -> TripleTrace:
    numbers = reading.numbers_of(asked)
    components = reading.components(numbers)
    component_rows = int(components["triples"].sum())
    part, near, far = ends(is_back)
    triples = reading.part(part)
    component_ranges = components["component"], components["last"]

    def within(firsts: Numbers, lasts: Numbers) -> Columns:
        return reachable(triples.between(firsts, lasts, MOST_TRIPLES), numbers, near, far)

    def closure() -> Ranges | None:
        return reading.closure(numbers, is_back)

    sets = closure() if method is Method.CSPROV else None
    if sets is not None:
        found = _Found(within(*sets), method)
    elif method is Method.RQ:
        found = _Found(recursion(triples, numbers, near, far, MOST_ANSWERED), method)
    elif method is Method.CCPROV:
        found = _Found(within(*component_ranges), method)
    elif component_rows <= AUTO_ROWS:
        reason = f"its component has {component_rows:,} triples in all"
        found = _Found(within(*component_ranges), Method.CCPROV, reason)
    else:
        walk = Walk(triples, numbers, near, far, MOST_ANSWERED)
        more = closure if method is Method.AUTO else None
        found = _cheapest(walk, triples, component_ranges, more, within)
    if method is Method.CSPROV and sets is None:
        found = replace(found, reason=f"{sets_given_up()}, and {found.reason}")
    return _answer(reading, numbers, found, component_rows)


def _cheapest(
    walk: Walk,
    triples: SortedPart,
    component: Ranges,
    sets: Callable[[], Ranges | None] | None,
    within: Callable[[Numbers, Numbers], Columns],
) -> _Found:
    """What a walk finds, for as long as it costs no more than to read all of the component, or of the sets that matter.

    A walk opens no row group that the others would not open, but takes a look-up for each step, and how many it takes is
    known when it is over. What the others read is known from footers, before they do. ``sets``: None where they are known to be too many.
    """
    costs = {Method.CCPROV: triples.overlapping(*component)[1]}
    ranges = {Method.CCPROV: component}
    is_over = walk.go_on(min(SETS_LOOKED_AT, costs[Method.CCPROV]))
    # To look at sets takes reads, too: it pays where the component has far more than was spent by now.
    if not is_over and sets is not None and costs[Method.CCPROV] > 2 * SETS_LOOKED_AT:
        # Where they depend on more than may be followed, a walk may still find few.
        closure = sets()
        if closure is not None:
            ranges[Method.CSPROV] = closure
            costs[Method.CSPROV] = triples.overlapping(*closure)[1]
    least = min(costs, key=lambda method: costs[method])
    # More than a trace may hold in memory is followed to its end.
    most = costs[least] if costs[least] <= MOST_TRIPLES else None
    is_over = is_over or walk.go_on(most)
    spent = f"rq took {walk.steps:,} steps"
    others = ", ".join(f"{method} would read {cost:,} triples" for method, cost in costs.items())
    if is_over:
        return _Found(walk.rows(), Method.RQ, f"{spent}; {others}")
    return _Found(within(*ranges[least]), least, f"{spent} and was not over; {others}")


def _answer(reading: Reading, asked: Numbers, found: _Found, component_rows: int) -> TripleTrace:
    rows = found.rows
    check_room(len(rows["op"]), MOST_ANSWERED)
    named = reading.named(rows, asked)
    return TripleTrace(
        asked=sorted(named.items.pop(number) for number in asked.tolist()),
        items=sorted(named.items.values()),
        triples=named.triples,
        method=found.method,
        component_triples=component_rows,
        read=reading.reader.counted(),
        reason=found.reason and f"as {found.reason}",
    )
