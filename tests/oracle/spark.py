"""The same program on a SparkContext, or on anything that offers the same methods."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.oracle import functions
from tests.oracle.brute import function_of
from tests.oracle.model import RECORD_BYTES, Program, Sink, Source, Step

Rdd = Any
"""An RDD, or what stands in for one."""


def write_sources(program: Program, folder: Path) -> dict[str, str]:
    """Write the sources that are files below ``folder``; source name -> path to read."""
    paths: dict[str, str] = {}
    for source in program.sources:
        if source.kind == "list":
            continue
        home = folder / source.name
        home.mkdir(parents=True)
        for name, content in source.files:
            packed = gzip.compress(content, mtime=0) if name.endswith(".gz") else content
            (home / name).write_bytes(packed)
        one = source.kind != "whole" and len(source.files) == 1
        paths[source.name] = str(home / source.files[0][0] if one else home)
    return paths


def build(
    program: Program,
    sc: Any,
    paths: Mapping[str, str],
    before_step: Callable[[int], None] = lambda _number: None,
) -> list[Rdd]:
    """One RDD for each step; ``before_step`` is called with its number before each is made."""
    rdds: list[Rdd] = []
    for number, step in enumerate(program.steps):
        before_step(number)
        if step.op == "source":
            rdds.append(_read(program.sources[step.inputs[0]], sc, paths))
        else:
            inputs = [rdds[i] for i in step.inputs]
            rdds.append(_BUILDERS.get(step.op, _plain)(step, inputs, sc))
    return rdds


def _read(source: Source, sc: Any, paths: Mapping[str, str]) -> Rdd:
    if source.kind == "list":
        return sc.parallelize(list(source.rows), source.partitions)
    if source.kind == "whole":
        return sc.wholeTextFiles(paths[source.name], source.partitions).map(functions.named)
    if source.kind == "bytes":
        return sc.binaryRecords(paths[source.name], RECORD_BYTES)
    return sc.textFile(paths[source.name], source.partitions)


def _plain(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    """Method of the name, with the function and the number of partitions where it takes them."""
    arguments: list[Any] = [*inputs[1:]]
    if step.function:
        arguments.append(function_of(step))
    if step.partitions is not None:
        arguments.append(step.partitions)
    return getattr(inputs[0], step.op)(*arguments)


def _union(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].union(inputs[1]) if len(inputs) == 2 else sc.union(inputs)


def _cogroup(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    groups = inputs[0].cogroup(inputs[1], step.partitions)
    return groups.mapValues(functions.groups_in_order)


def _fold_by_key(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].foldByKey(0, function_of(step), step.partitions)


def _aggregate_by_key(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].aggregateByKey(
        (0, 0), functions.count_in, functions.add_counts, step.partitions
    )


def _combine_by_key(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    combined = inputs[0].combineByKey(
        functions.start_list, functions.append, functions.extend, step.partitions
    )
    return combined.mapValues(functions.in_order)


def _glom(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].glom().map(tuple)


def _group(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return _plain(step, inputs, sc).mapValues(functions.in_order)


def _sort_by(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    function = function_of(step)
    return inputs[0].sortBy(
        lambda x: functions.order_key(function(x)), step.ascending, step.partitions
    )


def _sort_by_key(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].sortByKey(step.ascending, step.partitions)


def _sort_within(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].repartitionAndSortWithinPartitions(step.partitions, ascending=step.ascending)


def _sample(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    return inputs[0].sample(False, step.fraction, step.seed)


def _checkpoint(step: Step, inputs: list[Rdd], sc: Any) -> Rdd:
    getattr(inputs[0], step.op)()
    return inputs[0]


_BUILDERS: dict[str, Callable[[Step, list[Rdd], Any], Rdd]] = {
    "union": _union,
    "cogroup": _cogroup,
    "foldByKey": _fold_by_key,
    "aggregateByKey": _aggregate_by_key,
    "combineByKey": _combine_by_key,
    "glom": _glom,
    "groupByKey": _group,
    "groupBy": _group,
    "sortBy": _sort_by,
    "sortByKey": _sort_by_key,
    "repartitionAndSortWithinPartitions": _sort_within,
    "sample": _sample,
    "checkpoint": _checkpoint,
    "localCheckpoint": _checkpoint,
}


@dataclass(frozen=True)
class Outcome:
    """What an action gave: texts of rows, by part file for save, in one list otherwise."""

    sink: Sink
    parts: tuple[tuple[str, ...], ...]

    @property
    def rows(self) -> list[str]:
        """All texts, in order."""
        return [row for part in self.parts for row in part]


def run_sink(sink: Sink, rdds: list[Rdd], output: Path) -> Outcome:
    """Run one action; ``output`` is the folder that save writes (a row with a newline is two)."""
    rdd = rdds[sink.step]
    if sink.action == "save":
        rdd.map(functions.render).saveAsTextFile(str(output))
        return Outcome(sink, saved_parts(output))
    values: list[Any]
    match sink.action:
        case "collect":
            values = rdd.collect()
        case "take":
            values = rdd.take(sink.rows)
        case "first":
            values = [rdd.first()]
        case "takeSample":
            values = rdd.takeSample(False, sink.rows, seed=11)
        case "toLocalIterator":
            values = list(itertools.islice(rdd.toLocalIterator(), sink.rows))
        case "max" | "min":
            values = [getattr(rdd, sink.action)(key=functions.order_key)]
        case "top" | "takeOrdered":
            values = getattr(rdd, sink.action)(sink.rows, key=functions.order_key)
        case "count":
            values = [rdd.count()]
        case "reduce":
            values = [rdd.reduce(functions.add)]
        case "foreach":
            rdd.foreach(functions.mark)
            values = []
        case _:
            raise ValueError(f"unknown action {sink.action}")
    return Outcome(sink, (tuple(functions.render(value) for value in values),))


def saved_parts(output: Path) -> tuple[tuple[str, ...], ...]:
    """The lines of each part file, in order of partition."""
    texts = [part.read_bytes().decode("utf-8") for part in sorted(output.glob("part-*"))]
    return tuple(tuple(text.split("\n")[:-1]) for text in texts)
