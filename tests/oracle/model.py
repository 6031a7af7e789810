"""Programs as data: sources, steps, sinks.

A program is a list of steps; a step names its operator, the steps it reads (by index, all before
it), its function (a name in ``functions``) and its numbers. Sinks are actions on steps, in order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

Witness: TypeAlias = tuple[str, int]
"""(source file or source name, index of the row in it from 0)."""

ELEMENTWISE = ("map", "flatMap", "filter", "keyBy")
ON_PAIRS = ("mapValues", "flatMapValues", "keys", "values")
ON_PARTITIONS = ("mapPartitions", "mapPartitionsWithIndex")
COMBINING = ("reduceByKey", "foldByKey", "aggregateByKey", "combineByKey", "groupByKey")
JOINS = ("join", "leftOuterJoin", "rightOuterJoin", "fullOuterJoin")
OUTER_JOINS = JOINS[1:]
SETS = ("subtract", "intersection")
KEPT = ("cache", "checkpoint", "localCheckpoint")
CHOOSING = ("take", "first", "takeSample", "toLocalIterator")
"""Actions that give some of the rows, as many as are asked for."""
RANKING = ("max", "min", "top", "takeOrdered")
"""Actions that give the first rows by ``functions.order_key``."""
RECORD_BYTES = 3


class _Short:
    """Shown without the fields that have their default."""

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{one.name}={value!r}"
            for one in fields(self)  # type: ignore[arg-type]
            if (value := getattr(self, one.name)) != one.default
        )
        return f"{type(self).__name__}({shown})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, repr=False)
class Source(_Short):
    """Rows to start from.

    ``kind`` "text": ``files`` are (file name, bytes); one file is read by its path, several as a
    folder. "whole": a folder whose files are rows as a whole, as (name, text). "bytes": one file of
    records of ``RECORD_BYTES``. "list": ``rows`` go to ``parallelize``. ``partitions`` is what is
    asked for.
    """

    name: str
    kind: str
    partitions: int
    files: tuple[tuple[str, bytes], ...] = ()
    rows: tuple[Any, ...] = ()


@dataclass(frozen=True, repr=False)
class Step(_Short):
    """One operator. ``source`` reads ``Program.sources[inputs[0]]``; others read earlier steps.

    ``partitions`` None: the operator's own default.
    """

    op: str
    inputs: tuple[int, ...]
    function: str = ""
    partitions: int | None = None
    ascending: bool = True
    fraction: float = 0.0
    seed: int = 0


@dataclass(frozen=True, repr=False)
class Sink(_Short):
    """One action on a step: save, collect, count, reduce, foreach, one of CHOOSING or RANKING.

    ``rows``: how many a take, takeSample, toLocalIterator, top or takeOrdered is asked for.
    """

    action: str
    step: int
    rows: int = 0


@dataclass(frozen=True)
class Program:
    """Steps and actions over sources."""

    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    sinks: tuple[Sink, ...] = field(default=())

    def ancestors(self, step: int) -> frozenset[int]:
        """The step and all that it reads, however far."""
        found: set[int] = set()
        waiting = [step]
        while waiting:
            here = waiting.pop()
            if here not in found:
                found.add(here)
                if self.steps[here].op != "source":
                    waiting.extend(self.steps[here].inputs)
        return frozenset(found)
