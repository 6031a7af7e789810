"""Runs of the astronomy workflow, with lineage and without, and its questions."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.arrays.astronomy import (
    astronomy,
    exposures,
    prepared_by_numpy,
    smoothed_by_names,
)
from benchmarks.arrays.genomics import genomics
from benchmarks.arrays.plans import LIMITS_MB, Plan, limits_of, planned
from benchmarks.arrays.workloads import Question, Workload, without_lineage
from benchmarks.intervals import median_interval
from lineage_arrays import CellTrace, Recording
from lineage_arrays.operators import Encoding, Mode, Orientation, Strategy, Version

Shape2 = tuple[int, int]
Strategies = dict[str, Strategy]

PLAN: Strategies = {
    "composite-one": Strategy(Mode.COMP, Encoding.ONE),
    "composite-many": Strategy(Mode.COMP, Encoding.MANY),
}
"""What the paper calls SubZero, in both of its encodings."""
PAIRS: Strategies = {
    "full-one": Strategy(Mode.FULL, Encoding.ONE),
    "full-many": Strategy(Mode.FULL, Encoding.MANY),
    "full-one-forward": Strategy(Mode.FULL, Encoding.ONE, Orientation.FORWARD),
    "ranges": Strategy(Mode.FULL, Encoding.RANGES),
}
PAYLOADS: Strategies = {
    "payload-one": Strategy(Mode.PAY, Encoding.ONE),
    "payload-many": Strategy(Mode.PAY, Encoding.MANY),
}
VERSIONS = 3
"""Of which questions are asked: the first of each has what is found out once."""
BLACKBOX = Strategy(Mode.BLACKBOX)


@dataclass
class Times:
    """The processor's seconds of runs of one kind, and the pages that each touched for the first time."""

    seconds: list[float] = field(default_factory=list)
    new_pages: list[int] = field(default_factory=list)


def in_turns(*kinds: Callable[[], Any], pairs: int) -> list[Times]:
    """Times of several kinds of runs, which take turns: A B B A."""
    times = [Times() for _ in kinds]
    for number in range(pairs):
        order = range(len(kinds))
        for kind in order if number % 2 == 0 else reversed(order):
            pages, begin = _new_pages(), time.process_time()
            kinds[kind]()
            times[kind].seconds.append(time.process_time() - begin)
            times[kind].new_pages.append(_new_pages() - pages)
    return times


def _new_pages() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def ratio(before: Times, after: Times) -> dict[str, float]:
    """The median of one kind over another, pair by pair, with its interval."""
    pairs = zip(before.seconds, after.seconds, strict=True)
    return median_interval([recorded / plain for plain, recorded in pairs])


def numpy_row(shape: Shape2, pairs: int) -> dict[str, Any]:
    """The built-in operators of both exposures, as an unchanged program, plain and recorded.

    And plain code that does what recording can't avoid: it copies its inputs, and its temporary arrays have names, so that NumPy
    does not reuse their memory for the next result.
    """
    taken = exposures(shape)

    def plain() -> list[Any]:
        return [prepared_by_numpy(exposure) for exposure in taken.values()]

    def named() -> list[Any]:
        return [
            prepared_by_numpy(exposure.copy(), smoothed_by_names) for exposure in taken.values()
        ]

    def recorded() -> list[Any]:
        recording = Recording()
        return [
            prepared_by_numpy(recording.source(name, exposure)) for name, exposure in taken.items()
        ]

    same = all(
        np.array_equal(ours.current, numpys) and np.array_equal(names, numpys)
        for ours, names, numpys in zip(recorded(), named(), plain(), strict=True)
    )
    times = in_turns(plain, named, recorded, pairs=pairs)
    return {
        "shape": shape, "same": same, "plain_s": round(float(np.median(times[0].seconds)), 4),
        "wall_ratio": ratio(times[0], times[2]), "named_ratio": ratio(times[0], times[1]),
        "wall_over_named": ratio(times[1], times[2]),
        "new_pages": [int(np.median(of_kind.new_pages)) for of_kind in times],
    }  # fmt: skip


def astronomy_rows(shape: Shape2, smaller: Shape2, pairs: int) -> Iterator[dict[str, Any]]:
    """A row for each strategy; those that write pairs of each cell over smaller exposures."""
    yield from workload_rows(astronomy(shape), {"shape": shape}, PLAN, pairs)
    yield from workload_rows(astronomy(smaller), {"shape": smaller}, PLAN | PAIRS, pairs)


def genomics_rows(replicas: int, pairs: int) -> Iterator[dict[str, Any]]:
    """A row for each strategy of the UDFs, where they support it; pairs of each cell are written once."""
    yield from workload_rows(
        genomics(replicas), {"replicas": replicas}, PAYLOADS | PAIRS, pairs, LIMITS_MB
    )


def workload_rows(
    workload: Workload,
    words: dict[str, Any],
    strategies: Strategies,
    pairs: int,
    limits_mb: Sequence[int] = (),
) -> Iterator[dict[str, Any]]:
    """A row for each strategy, and one for each limit of disk for what the optimiser chooses within it.

    Args:
        workload: the workload.
        words: of each row.
        strategies: of all UDFs that support them; the others are black boxes, or are mapped by their functions.
        pairs: runs of each kind.
        limits_mb: of disk, for the optimiser, beside those that it always has.
    """
    taken = workload.sources()
    arrays = without_lineage(workload.graph, taken)
    asked = workload.questions(arrays)
    everything = Run(workload, taken, dict.fromkeys(workload.udfs, (BLACKBOX,)))
    reference = everything.answers(asked, anew=True)
    plans = {"blackbox": everything.how}
    plans |= {name: _where_supported(workload, strategy) for name, strategy in strategies.items()}
    plain = in_turns(lambda: without_lineage(workload.graph, taken), pairs=3)[0]
    limits = limits_of(float(np.median(plain.seconds)), limits_mb)
    choices = planned(workload, arrays, asked, limits, list(strategies.values()))
    plans |= {name: choice.strategies for name, choice in choices.items()}
    for name, how in plans.items():
        run = Run(workload, taken, how)
        answers = reference if name == "blackbox" else run.answers(asked, anew=False)
        version = run.version()
        writes_pairs = any(
            strategy.mode is Mode.FULL for of_step in how.values() for strategy in of_step
        )
        times = run.timed(1 if writes_pairs else pairs)
        yield {
            **words,
            "strategy": name,
            "same": _same(answers, reference)
            and all(np.array_equal(version.array(step), arrays[step], equal_nan=True) for step in arrays),
            "plain_s": round(float(np.median(times[0].seconds)), 4),
            "wall_ratio": ratio(*times),
            "lineage_bytes": version.stored_bytes,
            "lineage_over_inputs": round(
                version.stored_bytes / sum(array.nbytes for array in taken.values()), 5
            ),
            "chosen": {step.name: _text(of_step) for step, of_step in how.items()},
            "query_s": {question: taking for question, (taking, _) in answers.items()},
        }  # fmt: skip


def _where_supported(workload: Workload, strategy: Strategy) -> Plan:
    return {
        step: (strategy,)
        for step in workload.udfs
        if step.operator is not None and strategy.mode in step.operator.supported_modes()
    }


def _text(strategies: Sequence[Strategy]) -> str:
    return "; ".join(
        f"{how.mode}-{how.encoding}-{how.orientation}"
        if how.mode in (Mode.FULL, Mode.PAY, Mode.COMP)
        else str(how.mode)
        for how in strategies
    )


Answers = dict[str, tuple[float, CellTrace]]


@dataclass(frozen=True)
class Run:
    """A workload with strategies of its UDFs; steps without one have their default."""

    workload: Workload
    taken: dict[str, Any]
    how: Plan

    def version(self) -> Version:
        return self.workload.graph.run(self.taken, self.how)

    def timed(self, pairs: int) -> list[Times]:
        """Runs without lineage, and with it."""
        graph = self.workload.graph
        return in_turns(lambda: without_lineage(graph, self.taken), self.version, pairs=pairs)

    def answers(self, asked: Sequence[Question], *, anew: bool) -> Answers:
        """The processor's seconds (of three versions, the median), and the trace of each question.

        ``anew``: a version for each question; else re-execution runs for the first alone.
        """

        def fresh() -> Version:
            version = self.version()
            assert version.stored_bytes >= 0  # indexes are built before a question is timed
            return version

        seconds: dict[str, list[float]] = {question.name: [] for question in asked}
        traces: dict[str, CellTrace] = {}
        for _ in range(VERSIONS):
            version = fresh()
            for question in asked:
                version = fresh() if anew else version
                begin = time.process_time()
                traces[question.name] = question.ask(version)
                seconds[question.name].append(time.process_time() - begin)
        return {
            name: (round(float(np.median(seconds[name])), 5), trace)
            for name, trace in traces.items()
        }


def _same(ours: Answers, theirs: Answers) -> bool:
    return all(
        ours[name][1].exact == theirs[name][1].exact
        and ours[name][1].cells == theirs[name][1].cells
        for name in theirs
    )
