"""A function over a partition that keeps nothing from record to record goes on without the records that it fails on.

The proof of :mod:`lineage_emitter.code.one_record` says that nothing but its loop lives from one turn to the next, that it gives nothing ahead of the loop, does
nothing behind it, and changes nothing that it gave. So what it makes of a partition is what it makes of each record, one after the other, until it leaves the loop. It is called on each
record by itself: one that fails ends that call alone, and what the record gave before that is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from lineage_emitter.code.values import is_plain
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.by_record import ByRecord
from lineage_emitter.worker.operators import OneRecord, OpaqueFunction, PartitionFunction, Records
from lineage_emitter.worker.partition_inputs import NumberedRecords
from lineage_emitter.worker.quarantine import OrSetAside, QuarantineRule

if TYPE_CHECKING:
    from lineage_emitter.worker.segment import Numbering

NOT_PLAIN = "the function over the partition is proved to keep nothing of plain records alone"


class PartitionOrSetAside:
    """A function over a partition, without the records that it fails on, where it is proved to keep none of them.

    ``operator``: an opaque function where the proof did not hold any more when an action sent it to the workers: nothing is set aside then.
    """

    def __init__(
        self, operator: OneRecord | OpaqueFunction, rule: QuarantineRule, node: str, name: str
    ) -> None:
        """``node``, ``name``: of the operator."""
        self.operator = operator
        self.rule = rule
        self.node = node
        self.name = name

    def __call__(self, split: int, records: Records) -> Records:
        numbering = segments.current_segment().numbering
        if isinstance(self.operator, OpaqueFunction) or numbering.unlimited is not None:
            return self.operator(split, records)
        by_record = InPartition(self.operator.function, split)
        plain = _Plain(records, numbering, by_record)
        # At once: functions behind this one may begin another numbering.
        outputs = OrSetAside(by_record, self.rule, self.node, self.name).run(plain)
        return NumberedRecords(_with_others(outputs, plain, by_record), by_record.kind)


def _with_others(outputs: Iterator[Any], plain: _Plain, by_record: InPartition) -> Iterator[Any]:
    yield from outputs
    if plain.others is not None:
        # It may keep something of these: it gets all that follow in one call, as without quarantine.
        yield from by_record.call(plain.others)
    elif not by_record.has_ended:
        # What is ahead of its loop may fail, also where no record is left.
        yield from by_record.call(iter(()))


class InPartition(ByRecord):
    """A function over a partition, called on each record by itself."""

    def __init__(self, function: PartitionFunction, split: int) -> None:
        super().__init__(function)
        self.split = split
        self.kind = type(function(split, iter(())))
        self.plain: Any = None
        """The record that is known to be plain."""
        self.has_ended = False
        """Whether it left its loop at the last record: what follows is not read."""

    def call(self, records: Iterator[Any]) -> Records:
        """What it makes of records that it gets together."""
        return self.function(self.split, records)  # type: ignore[no-any-return]

    def outputs(self, record: Any) -> Sequence[Any]:
        """What it makes of one record.

        Raises:
            TypeError: the record is another one than the proof is of.
        """
        self.has_ended = False
        plain, self.plain = self.plain, None
        # A repair may give the same object, with others in it.
        if record is not plain and not is_plain(record):
            raise TypeError(NOT_PLAIN)
        read = _Single(record)
        try:
            outputs = list(self.call(read))
        except Exception:
            # Not ahead of its loop, nor behind it.
            self.is_at_record = read.is_read and not read.is_over
            raise
        self.has_ended = not read.is_over
        return outputs


class _Single:
    """An iterator of one record. ``is_read``: it was taken; ``is_over``: there was asked for another one."""

    __slots__ = ("is_over", "is_read", "record")

    def __init__(self, record: Any) -> None:
        self.record = record
        self.is_read = False
        self.is_over = False

    def __iter__(self) -> _Single:
        return self

    def __next__(self) -> Any:
        if self.is_read:
            self.is_over = True
            raise StopIteration
        self.is_read = True
        return self.record


class _Plain:
    """The records ahead of the first one that is not plain, as far as the function reads them.

    ``others``: the rest, from that one on.
    """

    def __init__(self, records: Records, numbering: Numbering, by_record: InPartition) -> None:
        self._records = records
        self._numbering = numbering
        self._by_record = by_record
        self.others: Iterator[Any] | None = None

    def __iter__(self) -> Iterator[Any]:
        cell, records = self._numbering.cell, iter(self._records)
        first = None
        for record in records:
            if first is None:
                first = cell[0]
            if not is_plain(record):
                self._numbering.become_opaque(first)
                self.others = chain((record,), records)
                return
            self._by_record.plain = record
            yield record
            if self._by_record.has_ended:
                return
