"""Functions over partitions that keep records in every way that one can write: each row carries what it was made of.

They are what a rule has to withstand that pairs a row with the records read since the last one. Records are plain,
(text, ids), for such a rule looks into a function's code and trusts no classes but Python's own.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

Record = tuple[str, tuple[str, ...]]
Records = Iterable[Any]
Shape = Callable[[Records], Iterable[Any]]


def over(record: Record, *others: Record) -> Record:
    """A record that was made of itself and others."""
    ids = list(record[1])
    for other in others:
        ids.extend(other[1])
    return record[0], tuple(sorted(set(ids)))


def each(records: Records) -> Iterator[Any]:
    for record in records:
        yield over(record)


def twice(records: Records) -> Iterator[Any]:
    for record in records:
        yield record
        yield record


def second(records: Records) -> Iterator[Any]:
    """A row for every two records, of both."""
    for record in records:
        for other in records:
            yield over(record, other)
            break


def running(records: Records) -> Iterator[Any]:
    total = None
    for record in records:
        total = record if total is None else over(record, total)
        yield total


def late(records: Records) -> Iterator[Any]:
    """Each row when the next record has been read."""
    before = None
    for record in records:
        if before is not None:
            yield before
        before = record
    if before is not None:
        yield before


def window(records: Records) -> Iterator[Any]:
    last: deque[Any] = deque(maxlen=2)
    for record in records:
        last.append(record)
        yield over(*last)


def unique(records: Records) -> Iterator[Any]:
    seen = set()
    for record in records:
        text = record[0][-1:]
        if text not in seen:
            seen.add(text)
            yield record


def buffered(records: Records) -> Iterator[Any]:
    kept = []
    for record in records:
        kept.append(record)
        if len(kept) == 3:
            yield from kept
            kept.clear()
    yield from kept


def backwards(records: Records) -> list[Any]:
    return list(records)[::-1]


def headed(records: Records) -> Iterator[Any]:
    """The first record goes into all others."""
    left = iter(records)
    head = next(left, None)
    for record in left:
        yield over(record, *([] if head is None else [head]))


def ended(records: Records) -> Iterator[Any]:
    """A last row of all records, from a finally."""
    everything: list[Any] = []
    try:
        for record in records:
            everything.append(record)
            yield record
    finally:
        if everything:
            yield over(*everything)


def in_default(records: Records, kept: list[Any] | None = None) -> Iterator[Any]:
    kept = [] if kept is None else kept
    for record in records:
        kept[:] = [over(record, *kept)]
        yield kept[0]


def in_dictionary(records: Records) -> Iterator[Any]:
    last: dict[int, Any] = {}
    for record in records:
        yield over(record, *last.values())
        last[0] = record


def in_tuple(records: Records) -> Iterator[Any]:
    state: tuple[Any, ...] = ()
    for record in records:
        state = (record, *state[:1])
        yield over(*state)


class Keeping:
    """An object that is called, and keeps."""

    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, records: Records) -> Iterator[Any]:
        for record in records:
            yield self.with_last(record)

    def with_last(self, record: Any) -> Any:
        found = over(record, *self.kept)
        self.kept = [record]
        return found


def closed() -> Shape:
    """A closure over a list."""
    kept: list[Any] = []

    def function(records: Records) -> Iterator[Any]:
        for record in records:
            kept.append(record)
            yield over(*kept[-2:])

    return function


def counted() -> Shape:
    """A closure over a variable of its own."""
    last = None

    def function(records: Records) -> Iterator[Any]:
        nonlocal last
        for record in records:
            yield record if last is None else over(record, last)
            last = record

    return function


def by_map(records: Records) -> Iterator[Any]:
    kept: list[Any] = []

    def with_last(record: Any) -> Any:
        found = over(record, *kept[-1:])
        kept.append(record)
        return found

    return map(with_last, records)


def by_pairs(records: Records) -> Iterator[Any]:
    for one, other in itertools.pairwise(records):
        yield over(one, other)


def by_groups(records: Records) -> Iterator[Any]:
    for _, group in itertools.groupby(records, key=lambda record: len(record[0]) % 2):
        yield over(*group)


def by_step(records: Records) -> Iterator[Any]:
    left = iter(records)
    while True:
        some = list(itertools.islice(left, 2))
        if not some:
            return
        yield over(*some)


def from_another(records: Records) -> Iterator[Any]:
    yield from running(late(records))


def read_ahead(records: Records) -> Iterator[Any]:
    """Reads two, gives two: the second row is of a record that was read before the first."""
    left = iter(records)
    for one in left:
        other = next(left, None)
        yield one
        if other is not None:
            yield other


def sometimes(records: Records) -> Iterator[Any]:
    """Most rows are of one record; now and then one that was kept comes back."""
    kept = None
    for number, record in enumerate(records):
        if number % 4 == 3 and kept is not None:
            yield over(record, kept)
        else:
            yield record
        if number % 4 == 1:
            kept = record


SHAPES: dict[str, Callable[[], Shape]] = {
    **{
        function.__name__: partial(lambda one: one, function)
        for function in (
            each, twice, second, running, late, window, unique, buffered, backwards, headed, ended,
            in_default, in_dictionary, in_tuple, by_map, by_pairs, by_groups, by_step,
            from_another, read_ahead, sometimes,
        )
    },
    "object": Keeping,
    "closure": closed,
    "nonlocal": counted,
}  # fmt: skip
"""By name, what makes a function of the shape."""
