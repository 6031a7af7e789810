"""What runs inside the workers for tracing from the program: numbering records, selecting them again."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, TypeAlias

from lineage_core.contract.region import Region
from lineage_core.environment.archives import forget_archives
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.recorders import DenseRecorder

READ_AHEAD_RECORDS = 10_000
"""Records. Spark ends a worker that leaves some of its input, and a new one takes longer to start."""
OrdinalsBySplit: TypeAlias = Mapping[int, Region]
"""Ordinals of records by split; splits that are missing have none."""
StreamAddresses: TypeAlias = tuple[tuple[int, int, str], ...]
"""Whose records a stream holds: from which one on (start), the first item (base), its space."""


class RecordsAtOrdinals:
    """The records at some ordinals of their split, in order.

    A replay has many small tasks, so the worker is kept from reading archives again at each (`forget_archives`).
    """

    def __init__(self, ordinals_by_split: OrdinalsBySplit) -> None:
        self.ordinals_by_split = {split: rows for split, rows in ordinals_by_split.items() if rows}

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[Any]:
        forget_archives()
        return (record for _, record in self.with_ordinals(split, records))

    def with_ordinals(self, split: int, records: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        """The records with their ordinals; not much behind the last is read."""
        iterator, ordinal = iter(records), 0
        for first, last in self.ordinals_by_split.get(split, ()):
            selected = islice(iterator, first - ordinal, last + 1 - ordinal)
            yield from enumerate(selected, first)
            ordinal = last + 1
        deque(islice(iterator, READ_AHEAD_RECORDS), maxlen=0)


def records_of_lists(lists: Iterable[list[Any]]) -> Iterator[Any]:
    """The records of lists that the program has sent, as `RecordsAtOrdinals` for those that Spark reads."""
    forget_archives()
    return chain.from_iterable(lists)


class RepairedRecords:
    """All records of a split, with what ``function`` gives in the place of those at some ordinals; None: nothing."""

    def __init__(self, ordinals_by_split: OrdinalsBySplit, function: Callable[[Any], Any]) -> None:
        self.ordinals_by_split = ordinals_by_split
        self.function = function

    def __call__(self, split: int, records: Iterable[Any]) -> Iterator[Any]:
        iterator, ordinal = iter(records), 0
        for first, last in self.ordinals_by_split.get(split, ()):
            yield from islice(iterator, first - ordinal)
            for record in islice(iterator, last + 1 - first):
                repaired = self.function(record)
                if repaired is not None:
                    yield repaired
            ordinal = last + 1
        yield from iterator


class NumberRecords:
    """Sink of the action that numbers: each record is an item. Gives their count and names."""

    def __init__(self, node: str) -> None:
        self.node = node

    def __call__(
        self, split: int, records: Iterable[Any]
    ) -> Iterator[tuple[int, int, StreamAddresses]]:
        segment = segments.current_segment()
        numbering = segment.numbering
        recorder = DenseRecorder(segment, numbering, self.node, f"{self.node}#{split}")
        deque(recorder.record(records), maxlen=0)
        segment.rows_out = recorder.count
        segment.finish()
        yield split, segment.rows_out, addresses_of(numbering)


class SelectRecords:
    """Select records at ordinals of a split.

    Gives the split, the ordinals and, where no ``function`` chooses among them, the records; no
    ordinals (None) where the stream holds other records than ``names`` lists.
    """

    def __init__(
        self,
        ordinals_by_split: OrdinalsBySplit,
        names: Mapping[int, StreamAddresses] | None,
        function: Callable[[Any], Any] | None = None,
    ) -> None:
        self.selection = RecordsAtOrdinals(ordinals_by_split)
        self.names = names
        self.function = function

    def __call__(
        self, split: int, records: Iterable[Any]
    ) -> Iterator[tuple[int, array[int] | None, list[Any]]]:
        ordinals: array[int] = array("Q")
        chosen: list[Any] = []
        for ordinal, record in self.selection.with_ordinals(split, records):
            if self.function is None:
                chosen.append(record)
            elif not self.function(record):
                continue
            ordinals.append(ordinal)
        if self.names is not None:
            # A stream without addresses comes from no cache: its records are computed again.
            addresses = addresses_of(getattr(records, "address_ranges", None))
            if not addresses or addresses != self.names[split][: len(addresses)]:
                yield split, None, []
                return
        yield split, ordinals, chosen


def addresses_of(address_ranges: Any) -> StreamAddresses:
    """The addresses that a stream or a numbering has so far."""
    if address_ranges is None:
        return ()
    return tuple(
        zip(address_ranges.starts, address_ranges.bases, address_ranges.spaces, strict=True)
    )


def count_records(split: int, records: Iterable[Any]) -> Iterator[tuple[int, int]]:
    """The split and how many records it has."""
    yield split, sum(1 for _ in records)


def pass_records(records: Iterable[Any]) -> Iterable[Any]:
    """The records."""
    return records
