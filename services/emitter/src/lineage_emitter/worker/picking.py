"""What runs inside the workers for tracing from the program: numbering records, finding them again."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from lineage_core.contract.region import Region
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.recorders import DenseRecorder

READ_ON = 10_000
"""Records. Spark ends a worker that leaves some of its input, and a new one takes longer to start."""
Kept: TypeAlias = Mapping[int, Region]
"""Ordinals of records by split; splits that are missing keep none."""
Names: TypeAlias = tuple[tuple[int, int, str], ...]
"""Whose records a stream holds: from which one on (start), the first item (base), its space."""


class KeepRows:
    """The records at some ordinals of their split, in order."""

    def __init__(self, kept: Kept) -> None:
        self.kept = {split: rows for split, rows in kept.items() if rows}

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[Any]:
        return (record for _, record in self.placed(split, records))

    def placed(self, split: int, records: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """The records with their ordinals; not much behind the last is read."""
        iterator, ordinal = iter(records), 0
        for first, last in self.kept.get(split, ()):
            some = islice(iterator, first - ordinal, last + 1 - ordinal)
            yield from enumerate(some, first)
            ordinal = last + 1
        deque(islice(iterator, READ_ON), maxlen=0)


class Number:
    """Sink of the action that numbers: each record is an item. Gives their count and names."""

    def __init__(self, node: str) -> None:
        self.node = node

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[tuple[int, int, Names]]:
        segment = segments.current()
        frame = segment.frame
        recorder = DenseRecorder(segment, frame, self.node, f"{self.node}#{split}")
        deque(recorder.record(records), maxlen=0)
        segment.rows_out = recorder.count
        segment.finish()
        yield split, segment.rows_out, names_of(frame)


class Select:
    """What is asked for of the records at some ordinals of a split.

    Gives the split, the ordinals and, where no ``function`` chooses among them, the records; no
    ordinals (None) where the stream holds others than those that ``names`` tells of.
    """

    def __init__(
        self,
        kept: Kept,
        names: Mapping[int, Names] | None,
        function: Callable[[Any], Any] | None = None,
    ) -> None:
        self.keep = KeepRows(kept)
        self.names = names
        self.function = function

    def __call__(
        self, split: int, records: Iterable[Any]
    ) -> Iterator[tuple[int, array[int] | None, list[Any]]]:
        ordinals: array[int] = array("Q")
        chosen: list[Any] = []
        for ordinal, record in self.keep.placed(split, records):
            if self.function is None:
                chosen.append(record)
            elif not self.function(record):
                continue
            ordinals.append(ordinal)
        if self.names is not None:
            # Without any, they were not kept but are being made again.
            seen = names_of(getattr(records, "pieces", None))
            if not seen or seen != self.names[split][: len(seen)]:
                yield split, None, []
                return
        yield split, ordinals, chosen


def names_of(pieces: Any) -> Names:
    """The names that a stream or a frame has met so far."""
    if pieces is None:
        return ()
    return tuple(zip(pieces.starts, pieces.bases, pieces.spaces, strict=True))


def count(split: int, records: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """The split and how many records it has."""
    yield split, sum(1 for _ in records)


def as_they_are(records: Iterable[Any]) -> Iterable[Any]:
    """The records."""
    return records
