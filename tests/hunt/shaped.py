"""A text whose lines go through functions over partitions, side by side: plain records with ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from tests.hunt.claims import marked
from tests.hunt.identity import id_of_line
from tests.hunt.shapes import SHAPES, Record


class ShapedContext:
    """Reads one text, and gives what the functions make of it."""

    def __init__(self, sc: Any, shapes: tuple[str, ...]) -> None:
        self.sc, self.shapes = sc, shapes

    def textFile(self, path: str, partitions: int) -> ShapedRdd:
        records = self.sc.textFile(path, partitions).map(record_of)
        beside = [records.mapPartitions(SHAPES[name]()) for name in self.shapes]
        return ShapedRdd(reduce(lambda one, other: one.union(other), beside))


class ShapedRdd:
    """Records with ids, to be saved."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def map(self, function: Callable[[Any], Any]) -> ShapedRdd:
        """Rendering, which saving does anyway."""
        return self

    def saveAsTextFile(self, path: str) -> None:
        self.real.map(text_of).saveAsTextFile(path)


def record_of(line: str) -> Record:
    """A line as a plain record."""
    return line, (id_of_line(line),)


def text_of(record: Record) -> str:
    """The text of a record, with its ids."""
    return marked(record[0], record[1])
