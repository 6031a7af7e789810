"""A SparkContext whose records carry the ids of the source rows that they are made of.

It offers what `tests.oracle.spark` builds programs with and does each operator by the real one, around functions
that hand ids on. So a row states what it was really made of, also where a function is random, looks at the order in
which rows come, or was computed twice with two results: the truth is carried, not computed again.

See `tests.hunt.records` for what a record is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.hunt import identity
from tests.hunt.harm import Harm
from tests.hunt.records import (
    Carried,
    Ids,
    Value,
    ids_of,
    joined,
    pack,
    text_of,
    value_of,
)

ONE_BY_ONE = ("each", "each_with_index")
"""Functions over partitions that make each row of the one before them; of others each is of all rows so far."""


class CarryingContext:
    """What a program is built on; ``sc`` is a LineageContext or a captured SparkContext."""

    def __init__(self, sc: Any, harm: Harm) -> None:
        self.sc, self.harm = sc, harm
        self._operators = itertools.count()

    def made(self, real: Any) -> CarryingRdd:
        """What an operator gave; harm lies behind one of them."""
        return CarryingRdd(self, self.harm.behind(next(self._operators), real))

    def textFile(self, path: str, partitions: int) -> CarryingRdd:
        lines = self.sc.textFile(path, partitions)
        return self.made(
            lines.map(lambda line: Carried(line, frozenset([identity.id_of_line(line)])))
        )

    def wholeTextFiles(self, path: str, partitions: int) -> CarryingRdd:
        files = self.sc.wholeTextFiles(path, partitions)
        return self.made(files.map(lambda kv: pack(kv, frozenset([identity.id_of_line(kv[1])]))))

    def binaryRecords(self, path: str, length: int) -> CarryingRdd:
        name, records = Path(path).name, self.sc.binaryRecords(path, length)
        ids = identity.id_of_record
        return self.made(records.map(lambda one: Carried(one, frozenset([ids(name, one)]))))

    def parallelize(self, rows: list[Any], partitions: int) -> CarryingRdd:
        elements = self.sc.parallelize(rows, partitions)
        return self.made(elements.map(lambda row: pack(row, frozenset([identity.id_of_row(row)]))))

    def union(self, rdds: list[CarryingRdd]) -> CarryingRdd:
        return self.made(self.sc.union([one.real for one in rdds]))


def _merging(function: Callable[[Value, Value], Value]) -> Callable[[Carried, Carried], Carried]:
    return lambda a, b: Carried(function(a.value, b.value), a.ids | b.ids)


def _gathered(group: Iterable[Any]) -> Carried:
    records = list(group)
    return Carried([value_of(record) for record in records], joined(records))


def _of_partition(
    function: Callable[[Iterable[Value]], Iterable[Value]],
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """A function over values as one over records; its outputs carry what it had read by then."""
    alone = function.__name__ in ONE_BY_ONE

    def over(records: Iterable[Any]) -> Iterator[Any]:
        seen: list[Ids] = [frozenset()]

        def values() -> Iterator[Value]:
            for record in records:
                seen[0] = ids_of(record) if alone else seen[0] | ids_of(record)
                yield value_of(record)

        for value in function(values()):
            yield pack(value, seen[0])

    return over


class CarryingRdd:
    """An RDD of records, by the methods that programs call."""

    def __init__(self, context: CarryingContext, real: Any) -> None:
        self.context, self.real = context, real

    def _made(self, real: Any) -> CarryingRdd:
        return self.context.made(real)

    # Record by record ---------------------------------------------------------------------------

    def map(self, function: Callable[[Value], Value]) -> CarryingRdd:
        function = self.context.harm.instead_of(function)
        return self._made(self.real.map(lambda r: pack(function(value_of(r)), ids_of(r))))

    def flatMap(self, function: Callable[[Value], Iterable[Value]]) -> CarryingRdd:
        return self._made(
            self.real.flatMap(lambda r: [pack(v, ids_of(r)) for v in function(value_of(r))])
        )

    def filter(self, function: Callable[[Value], bool]) -> CarryingRdd:
        return self._made(self.real.filter(lambda r: function(value_of(r))))

    def keyBy(self, function: Callable[[Value], Value]) -> CarryingRdd:
        function = self.context.harm.instead_of(function)
        keyed = self.real.keyBy(lambda r: function(value_of(r)))
        return self._made(keyed.mapValues(lambda r: Carried(value_of(r), ids_of(r))))

    def mapValues(self, function: Callable[[Value], Value]) -> CarryingRdd:
        function = self.context.harm.instead_of(function)
        return self._made(self.real.mapValues(lambda c: Carried(function(c.value), c.ids)))

    def flatMapValues(self, function: Callable[[Value], Iterable[Value]]) -> CarryingRdd:
        return self._made(
            self.real.flatMapValues(lambda c: [Carried(v, c.ids) for v in function(c.value)])
        )

    def keys(self) -> CarryingRdd:
        return self._made(self.real.map(lambda kv: pack(kv[0], kv[1].ids)))

    def values(self) -> CarryingRdd:
        return self._made(self.real.values().map(lambda c: pack(c.value, c.ids)))

    # Partitions and places ----------------------------------------------------------------------

    def mapPartitions(self, function: Callable[[Iterable[Value]], Iterable[Value]]) -> CarryingRdd:
        return self._made(self.real.mapPartitions(_of_partition(function)))

    def mapPartitionsWithIndex(
        self, function: Callable[[int, Iterable[Value]], Iterable[Value]]
    ) -> CarryingRdd:
        def over(index: int, records: Iterable[Any]) -> Iterator[Any]:
            def here(values: Iterable[Value]) -> Iterable[Value]:
                return function(index, values)

            here.__name__ = function.__name__
            return _of_partition(here)(records)

        return self._made(self.real.mapPartitionsWithIndex(over))

    def glom(self) -> CarryingRdd:
        return self._made(self.real.glom().map(_gathered))

    def zipWithIndex(self) -> CarryingRdd:
        return self._made(self.real.zipWithIndex().map(_numbered))

    def zipWithUniqueId(self) -> CarryingRdd:
        return self._made(self.real.zipWithUniqueId().map(_numbered))

    def sample(self, replacement: bool, fraction: float, seed: int) -> CarryingRdd:
        return self._made(self.real.sample(replacement, fraction, seed))

    def coalesce(self, partitions: int) -> CarryingRdd:
        return self._made(self.real.coalesce(partitions))

    def repartition(self, partitions: int) -> CarryingRdd:
        return self._made(self.real.repartition(partitions))

    def partitionBy(self, partitions: int) -> CarryingRdd:
        return self._made(self.real.partitionBy(partitions))

    # By key -------------------------------------------------------------------------------------

    def reduceByKey(
        self, function: Callable[[Value, Value], Value], partitions: int
    ) -> CarryingRdd:
        return self._made(self.real.reduceByKey(_merging(function), partitions))

    def foldByKey(
        self, zero: Value, function: Callable[[Value, Value], Value], partitions: int
    ) -> CarryingRdd:
        start = Carried(zero, frozenset())
        return self._made(self.real.foldByKey(start, _merging(function), partitions))

    def aggregateByKey(
        self,
        zero: Value,
        within: Callable[[Value, Value], Value],
        between: Callable[[Value, Value], Value],
        partitions: int,
    ) -> CarryingRdd:
        start = Carried(zero, frozenset())
        real = self.real.aggregateByKey(start, _merging(within), _merging(between), partitions)
        return self._made(real)

    def combineByKey(
        self,
        create: Callable[[Value], Value],
        within: Callable[[Value, Value], Value],
        between: Callable[[Value, Value], Value],
        partitions: int,
    ) -> CarryingRdd:
        def start(c: Carried) -> Carried:
            return Carried(create(c.value), c.ids)

        real = self.real.combineByKey(start, _merging(within), _merging(between), partitions)
        return self._made(real)

    def groupByKey(self, partitions: int) -> CarryingRdd:
        return self._made(self.real.groupByKey(partitions).mapValues(_gathered))

    def groupBy(self, function: Callable[[Value], Value], partitions: int) -> CarryingRdd:
        function = self.context.harm.instead_of(function)
        groups = self.real.groupBy(lambda r: function(value_of(r)), partitions)
        return self._made(groups.mapValues(_gathered))

    def distinct(self, partitions: int) -> CarryingRdd:
        keyed = self.real.map(lambda r: (value_of(r), Carried(None, ids_of(r))))
        merged = keyed.reduceByKey(_merging(lambda a, b: None), partitions)
        return self._made(merged.map(lambda kv: pack(kv[0], kv[1].ids)))

    # Two sides ----------------------------------------------------------------------------------

    def _joined(self, how: str, other: CarryingRdd, partitions: int) -> CarryingRdd:
        real = getattr(self.real, how)(other.real, partitions)
        return self._made(real.mapValues(_both))

    def join(self, other: CarryingRdd, partitions: int) -> CarryingRdd:
        return self._joined("join", other, partitions)

    def leftOuterJoin(self, other: CarryingRdd, partitions: int) -> CarryingRdd:
        return self._joined("leftOuterJoin", other, partitions)

    def rightOuterJoin(self, other: CarryingRdd, partitions: int) -> CarryingRdd:
        return self._joined("rightOuterJoin", other, partitions)

    def fullOuterJoin(self, other: CarryingRdd, partitions: int) -> CarryingRdd:
        return self._joined("fullOuterJoin", other, partitions)

    def cogroup(self, other: CarryingRdd, partitions: int | None) -> CarryingRdd:
        real = self.real.cogroup(other.real, partitions)
        return self._made(real.mapValues(_groups))

    def subtractByKey(self, other: CarryingRdd, partitions: int) -> CarryingRdd:
        return self._made(self.real.subtractByKey(other.real, partitions))

    def subtract(self, other: CarryingRdd, partitions: int) -> CarryingRdd:
        left, right = self._by_value(), other._by_value()
        return self._made(left.subtractByKey(right, partitions).map(_unkeyed))

    def intersection(self, other: CarryingRdd) -> CarryingRdd:
        both = self._by_value().cogroup(other._by_value())
        met = both.filter(lambda kv: all(len(side) for side in kv[1]))
        return self._made(met.mapValues(_groups).map(_unkeyed))

    def _by_value(self) -> Any:
        return self.real.map(lambda r: (value_of(r), Carried(None, ids_of(r))))

    def cartesian(self, other: CarryingRdd) -> CarryingRdd:
        return self._made(self.real.cartesian(other.real).map(_paired))

    def zip(self, other: CarryingRdd) -> CarryingRdd:
        return self._made(self.real.zip(other.real).map(_paired))

    def union(self, other: CarryingRdd) -> CarryingRdd:
        return self._made(self.real.union(other.real))

    # Order --------------------------------------------------------------------------------------

    def sortBy(
        self, key: Callable[[Value], Value], ascending: bool, partitions: int
    ) -> CarryingRdd:
        return self._made(self.real.sortBy(lambda r: key(value_of(r)), ascending, partitions))

    def sortByKey(self, ascending: bool, partitions: int) -> CarryingRdd:
        return self._made(self.real.sortByKey(ascending, partitions))

    def repartitionAndSortWithinPartitions(
        self, partitions: int, ascending: bool = True
    ) -> CarryingRdd:
        real = self.real.repartitionAndSortWithinPartitions(partitions, ascending=ascending)
        return self._made(real)

    # What is kept -------------------------------------------------------------------------------

    def cache(self) -> CarryingRdd:
        return CarryingRdd(self.context, self.real.cache())

    def checkpoint(self) -> None:
        self.real.checkpoint()

    def localCheckpoint(self) -> None:
        self.real.localCheckpoint()

    def unpersist(self) -> None:
        """Evict what is cached of it."""
        self.real.unpersist(blocking=True)

    # Actions: each gives texts that carry ids ---------------------------------------------------

    def saveAsTextFile(self, path: str) -> None:
        self.real.map(text_of).saveAsTextFile(path)

    def collect(self) -> list[str]:
        return [text_of(record) for record in self.real.collect()]

    def take(self, rows: int) -> list[str]:
        return [text_of(record) for record in self.real.take(rows)]

    def first(self) -> str:
        return text_of(self.real.first())

    def takeSample(self, replacement: bool, rows: int, seed: int) -> list[str]:
        return [text_of(record) for record in self.real.takeSample(replacement, rows, seed)]

    def toLocalIterator(self) -> Iterator[str]:
        return map(text_of, self.real.toLocalIterator())

    def max(self, key: Callable[[Value], str]) -> str:
        return text_of(self.real.max(key=lambda r: key(value_of(r))))

    def min(self, key: Callable[[Value], str]) -> str:
        return text_of(self.real.min(key=lambda r: key(value_of(r))))

    def top(self, rows: int, key: Callable[[Value], str]) -> list[str]:
        return [text_of(one) for one in self.real.top(rows, key=lambda r: key(value_of(r)))]

    def takeOrdered(self, rows: int, key: Callable[[Value], str]) -> list[str]:
        found = self.real.takeOrdered(rows, key=lambda r: key(value_of(r)))
        return [text_of(one) for one in found]

    def reduce(self, function: Callable[[Value, Value], Value]) -> str:
        def merge(a: Any, b: Any) -> Carried:
            return Carried(function(value_of(a), value_of(b)), ids_of(a) | ids_of(b))

        return text_of(self.real.reduce(merge))

    def count(self) -> int:
        return int(self.real.count())

    def foreach(self, function: Callable[[Value], object]) -> None:
        self.real.foreach(lambda r: function(value_of(r)))


def _numbered(numbered: tuple[Any, int]) -> Any:
    record, number = numbered
    return pack((value_of(record), number), ids_of(record))


def _paired(pair: tuple[Any, Any]) -> Any:
    return pack((value_of(pair[0]), value_of(pair[1])), joined(pair))


def _both(sides: tuple[Carried | None, Carried | None]) -> Carried:
    there = [side for side in sides if side is not None]
    return Carried(tuple(None if side is None else side.value for side in sides), joined(there))


def _groups(sides: Iterable[Iterable[Carried]]) -> Carried:
    gathered = [_gathered(side) for side in sides]
    return Carried([one.value for one in gathered], joined(gathered))


def _unkeyed(pair: tuple[Any, Carried]) -> Any:
    return pack(pair[0], pair[1].ids)
