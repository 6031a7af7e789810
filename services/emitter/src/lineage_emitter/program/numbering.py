"""The records of an RDD as items: numbered once by an action, and read again on request.

``getLineage`` numbers the records of an RDD and stores them on the executors' disks with the names
of where they came from. Whoever reads them later finds by these names that they are the very ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from pyspark import RDD, StorageLevel

from lineage_core.contract.address import ORDINAL_BITS
from lineage_core.contract.region import Region
from lineage_emitter import scope
from lineage_emitter.errors import TracingError
from lineage_emitter.program.recipes import SourceRecipe
from lineage_emitter.pyspark_parts import PipelinedRDD
from lineage_emitter.worker.by_record import pass_through
from lineage_emitter.worker.record_selection import (
    NumberRecords,
    OrdinalsBySplit,
    SelectRecords,
    StreamAddresses,
    count_records,
    pass_records,
)

if TYPE_CHECKING:
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session

OPERATOR = "getLineage"
"""The operator of the nodes that numbering adds to the graph."""

LocatedRecord: TypeAlias = tuple[int, int, Any]
"""A record with its split and its ordinal there."""


@dataclass(eq=False)
class NumberedRdd:
    """The numbered records of one RDD: items ``sink#split#ordinal``.

    ``persisted``: a persisted RDD of them, whose stream of each split carries ``names``.
    """

    sink: Node
    persisted: RDD[Any]
    counts: Mapping[int, int]
    names: Mapping[int, StreamAddresses]

    def items(self) -> dict[str, Region]:
        """All items, by space."""
        return _all_items(self.sink.name, self.counts)

    def pick(self, ordinals_by_split: OrdinalsBySplit) -> list[LocatedRecord]:
        """The records at some ordinals, by split and ordinal.

        Raises:
            TracingError: they are not there any more.
        """
        return _pick(self.persisted, ordinals_by_split, self.names)

    def choose(
        self, ordinals_by_split: OrdinalsBySplit, function: Callable[[Any], Any]
    ) -> dict[int, Region]:
        """Of some ordinals, those whose record ``function`` holds of; it runs on the executors.

        Raises:
            TracingError: they are not there any more.
        """
        return _choose(self.persisted, ordinals_by_split, function, self.names)


class SourceRows:
    """The rows of a source as items: nothing has to be stored, they can be read again."""

    def __init__(self, source: SourceRecipe) -> None:
        self.source = source

    def items(self) -> dict[str, Region]:
        """All items, by space. Runs a job that counts them."""
        with scope.suspended():
            count_items = self.source.plain.mapPartitionsWithIndex(count_records).collect()
        return _all_items(self.source.node, dict(count_items))

    def all_possible(self) -> dict[str, Region]:
        """All items that there may be, by space, without counting them."""
        with scope.suspended():
            splits = range(self.source.plain.getNumPartitions())
        return _all_items(self.source.node, dict.fromkeys(splits, 1 << ORDINAL_BITS))

    def pick(self, ordinals_by_split: OrdinalsBySplit) -> list[LocatedRecord]:
        """The records at some ordinals, by split and ordinal."""
        return _pick(self.source.plain, ordinals_by_split, None)

    def choose(
        self, ordinals_by_split: OrdinalsBySplit, function: Callable[[Any], Any]
    ) -> dict[int, Region]:
        """Of some ordinals, those whose record ``function`` holds of; it runs on the executors."""
        return _choose(self.source.plain, ordinals_by_split, function, None)


def number_records(rdd: CapturedRDD) -> NumberedRdd:
    """The numbered records of an RDD; an action numbers them at the first call.

    Raises:
        TracingError: capture has ended.
    """
    if rdd.numbered is None:
        rdd.numbered = _run_numbering(rdd, rdd.session)
        rdd.session.records[rdd.numbered.sink.name] = rdd.numbered
    return rdd.numbered


def _run_numbering(rdd: CapturedRDD, session: Session) -> NumberedRdd:
    session.executors.check_before_job()
    if session.closed:
        raise TracingError(
            f"capture of {session.app} has ended: call getLineage before, or ask for a row of a file"
        )
    with scope.operator(OPERATOR):
        # What a JVM operator made carries many names a partition, a chain of functions just one.
        persisted = rdd if rdd.is_cached and isinstance(rdd, PipelinedRDD) else _persisted(rdd)
        sink = session.nodes.register("sink", OPERATOR, [persisted.node], alias=OPERATOR)
        counting = persisted.pipe_function(NumberRecords(sink.name), True, sink).ending(
            rdd.ctx.serializer
        )
        splits = range(rdd.getNumPartitions())
        with session.jobs.action(OPERATOR, sink, lambda: splits), scope.suspended():
            split_counts = RDD.collect(counting)
    return NumberedRdd(
        sink,
        persisted,
        {split: rows for split, rows, _ in split_counts},
        {split: names for split, _, names in split_counts},
    )


def _persisted(rdd: CapturedRDD) -> CapturedRDD:
    """The RDD's records with their names, on the disks of the executors when they are read."""
    node = rdd.session.nodes.register("operator", OPERATOR, [rdd.node])
    named = rdd.pipe_function(pass_through, True, node)
    with scope.suspended():
        named.persist(StorageLevel.DISK_ONLY)
    return named


def _all_items(node: str, counts: Mapping[int, int]) -> dict[str, Region]:
    return {
        f"{node}#{split}": Region(np.zeros(1, np.uint64), np.array([rows - 1], np.uint64))
        for split, rows in counts.items()
        if rows
    }


def _pick(
    rdd: RDD[Any], ordinals_by_split: OrdinalsBySplit, names: Mapping[int, StreamAddresses] | None
) -> list[LocatedRecord]:
    return [
        (split, ordinal, record)
        for split, ordinals, records in _select(rdd, SelectRecords(ordinals_by_split, names))
        for ordinal, record in zip(ordinals, records, strict=True)
    ]


def _choose(
    rdd: RDD[Any],
    ordinals_by_split: OrdinalsBySplit,
    function: Callable[[Any], Any],
    names: Mapping[int, StreamAddresses] | None,
) -> dict[int, Region]:
    chosen = _select(rdd, SelectRecords(ordinals_by_split, names, function))
    return {split: Region.from_positions(np.array(ordinals)) for split, ordinals, _ in chosen}


def _select(rdd: RDD[Any], select: SelectRecords) -> list[tuple[int, Any, Any]]:
    splits = sorted(select.selection.ordinals_by_split)
    if not splits:
        return []
    with scope.suspended():
        # The plain class's own method: what reads a captured RDD here is not captured.
        selecting = RDD.mapPartitionsWithIndex(rdd, select, True)
        selected = rdd.ctx.runJob(selecting, pass_records, splits)
    lost = [split for split, ordinals, _ in selected if ordinals is None]
    if lost:
        raise TracingError(
            f"the records of partition {lost[0]} were lost and made again, perhaps in another "
            "order: call unpersist() and getLineage() again"
        )
    return selected
