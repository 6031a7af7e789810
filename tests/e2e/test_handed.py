"""Functions over whole partitions are handed what PySpark hands them, and the lineage stays right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_emitter import LineageContext
from tests.support.job_runs import judged, traced_items

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
Context = Any
"""A SparkContext or a LineageContext."""


class Twice:
    """Can be read as often as one likes, and counted only by reading it."""

    def __init__(self, records: Iterable[Any]) -> None:
        self.records = list(records)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)


def looks(name: str, records: Any) -> Iterator[Any]:
    """What a function can see of what it is handed."""
    parts = [records[-1:], records[:2]] if hasattr(records, "__getitem__") else []
    sized = len(records) if hasattr(records, "__len__") else None
    readings = [list(records), list(records)]
    shown = type(records).__qualname__, isinstance(records, Iterator), sized, repr(parts)
    yield (name, *shown, sorted(map(repr, readings[0])), len(readings[1]))


def read_twice(records: Any) -> Iterator[tuple[int, int]]:
    yield sum(1 for _ in records), sum(records)


def pairs(ctx: Context) -> Any:
    return ctx.parallelize([(n % 5, n) for n in range(30)], 2)


def text(ctx: Context) -> Any:
    return ctx.textFile(__file__, 2)


INPUTS: dict[str, Callable[[Context], Any]] = {
    "range": lambda ctx: ctx.range(3, 20, 4, 2),
    "an empty range": lambda ctx: ctx.range(0, numSlices=2),
    "parallelize a list": lambda ctx: ctx.parallelize(list(range(9)), 2),
    "text": text,
    "map": lambda ctx: ctx.range(9, numSlices=2).map(str),
    "filter": lambda ctx: text(ctx).filter(len),
    "flatMap": lambda ctx: ctx.range(9, numSlices=2).flatMap(range),
    "sample": lambda ctx: text(ctx).sample(False, 0.5, 1),
    "groupByKey": lambda ctx: pairs(ctx).groupByKey(2).mapValues(list),
    "partitionBy": lambda ctx: pairs(ctx).partitionBy(2),
    "join": lambda ctx: pairs(ctx).join(pairs(ctx), 2),
    "subtractByKey": lambda ctx: pairs(ctx).subtractByKey(ctx.parallelize([(1, 1)]), 2),
    "sortBy": lambda ctx: pairs(ctx).sortBy(str, numPartitions=2),
    "union": lambda ctx: pairs(ctx).union(ctx.range(9, numSlices=2)),
    "zip": lambda ctx: ctx.range(9, numSlices=2).zip(ctx.range(9, numSlices=2)),
    "a list of a function": lambda ctx: text(ctx).mapPartitions(list),
    "a set of a function": lambda ctx: text(ctx).mapPartitions(frozenset),
    "an array of a function": lambda ctx: ctx.range(9).mapPartitions(np.array),
    "an own type of a function": lambda ctx: text(ctx).mapPartitions(Twice),
    "the same of a function": lambda ctx: ctx.range(9, numSlices=2).mapPartitions(lambda it: it),
    "mapped after a list": lambda ctx: text(ctx).mapPartitions(list).map(len),
}  # fmt: skip


def seen(ctx: Context) -> list[Any]:
    """What functions are handed of each input."""
    return [
        make(ctx).mapPartitions(partial(looks, name)).collect() for name, make in INPUTS.items()
    ]


def lent(ctx: Context) -> list[Any]:
    """What the functions of ``runJob`` are handed."""
    names = ("range", "filter", "a list of a function", "an own type of a function")
    together = ctx.range(9, numSlices=2).barrier().mapPartitions(partial(looks, "barrier"))
    return [
        *(ctx.runJob(INPUTS[name](ctx), partial(looks, name)) for name in names),
        together.mapPartitions(list).collect(),
    ]


@pytest.mark.long
def test_a_function_over_partitions_sees_the_same(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        for look in (seen, lent):
            for captured, plain in zip(look(lc), look(lc.sc), strict=True):
                assert captured == plain
        app = lc.app
    assert judged(tmp_path, app).reasons == ()


def test_a_range_can_be_read_twice(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        assert lc.range(10, numSlices=2).mapPartitions(read_twice).collect() == [(5, 10), (5, 35)]
        assert lc.runJob(lc.range(4, numSlices=2), lambda it: [sum(it), sum(it)]) == [1, 1, 5, 5]
        found = lc.sc.accumulator(0)
        lc.range(10, numSlices=2).foreachPartition(lambda it: found.add(sum(it) + 2 * sum(it)))
        assert found.value == 3 * 45


# -- lineage ---------------------------------------------------------------------------------------


def last_of(records: Any) -> Iterator[Any]:
    yield records[-1]


def test_the_lineage_of_what_was_held_is_all_of_it(capture: Capture, tmp_path: Path) -> None:
    """A collection may be read in any order: an output depends on all of its records."""
    source = tmp_path / "lines.txt"
    source.write_text("a\nb\nc\n")
    with capture() as lc:
        assert lc.range(6, numSlices=2).mapPartitions(last_of).collect() == [2, 5]
        assert lc.runJob(lc.range(6, numSlices=2), last_of) == [2, 5]
        text = lc.textFile(str(source), 1)
        assert text.mapPartitions(list).mapPartitions(last_of).map(str).collect() == ["c"]
        assert lc.runJob(text.mapPartitions(Twice), list) == ["a", "b", "c"]
        assert text.mapPartitions(list).map(str.upper).collect() == ["A", "B", "C"]
        lc.range(0, numSlices=1).foreachPartition(list)
        assert lc.range(2, numSlices=1).mapPartitions(read_twice).map(len).collect() == [2]
        app = lc.app
    verdict = judged(tmp_path, app)
    assert verdict.reasons == ()
    of_range = [f"range#1#{n}" for n in range(3)]
    lines = [f"lines.txt:{n}" for n in (1, 2, 3)]
    assert traced_items(tmp_path, app, "collect#1#0") == of_range
    assert traced_items(tmp_path, app, "runJob#1#2") == ["range:1#1#2"]
    assert traced_items(tmp_path, app, "collect:1#0#0") == lines
    assert traced_items(tmp_path, app, "runJob:1#0#0") == lines
    assert traced_items(tmp_path, app, "collect:2#0#1") == lines
    assert traced_items(tmp_path, app, "collect:3#0#0") == ["range:3#0#0", "range:3#0#1"]
