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
from benchmarks.arrays.plans import LIMITS_MB, Plan, costs_of, limits_of, planned
from benchmarks.arrays.workloads import Question, Workload, part_behind, without_lineage
from benchmarks.intervals import median_interval
from lineage_arrays import CellTrace, Recording
from lineage_arrays.operators import Encoding, Mode, Orientation, Strategy, Version
from lineage_arrays.operators.query_time import By
from lineage_arrays.operators.strategies import WRITING

Shape2 = tuple[int, int]
Strategies = dict[str, tuple[Strategy, ...]]

FULL_ONE = Strategy(Mode.FULL, Encoding.ONE)
FULL_MANY = Strategy(Mode.FULL, Encoding.MANY)
FULL_FORWARD = Strategy(Mode.FULL, Encoding.ONE, Orientation.FORWARD)
PAY_ONE = Strategy(Mode.PAY, Encoding.ONE)

PLAN: Strategies = {
    "composite-one": (Strategy(Mode.COMP, Encoding.ONE),),
    "composite-many": (Strategy(Mode.COMP, Encoding.MANY),),
}
"""What the paper calls SubZero, in both of its encodings."""
FULL: Strategies = {"full-one": (FULL_ONE,), "full-many": (FULL_MANY,)}
"""FullOne and FullMany."""
PAIRS: Strategies = {
    **FULL,
    "full-one-forward": (FULL_FORWARD,),
    "ranges": (Strategy(Mode.FULL, Encoding.RANGES),),
}
"""These, FullForw, and ranges."""
PAYLOADS: Strategies = {
    "payload-one": (PAY_ONE,),
    "payload-many": (Strategy(Mode.PAY, Encoding.MANY),),
}
"""PayOne and PayMany."""
BOTH: Strategies = {
    "full-both": (FULL_FORWARD, FULL_ONE),
    "payload-both": (PAY_ONE, FULL_FORWARD),
}
"""FullBoth and PayBoth."""
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
    """A row for each strategy of the paper's table II; those that it does not have over smaller exposures."""
    yield from workload_rows(astronomy(shape), {"shape": shape}, PLAN | FULL, pairs, offered=PLAN)
    yield from workload_rows(astronomy(smaller), {"shape": smaller}, PLAN | PAIRS, pairs)


def genomics_rows(replicas: int, pairs: int) -> Iterator[dict[str, Any]]:
    """A row for each strategy of the paper's table II, where the UDFs support it, and for ranges."""
    strategies = PAYLOADS | PAIRS | BOTH
    yield from workload_rows(
        genomics(replicas), {"replicas": replicas}, strategies, pairs, limits_mb=LIMITS_MB
    )


def workload_rows(
    workload: Workload,
    words: dict[str, Any],
    strategies: Strategies,
    pairs: int,
    *,
    offered: Strategies | None = None,
    limits_mb: Sequence[int] = (),
) -> Iterator[dict[str, Any]]:
    """A row for black boxes, one for each strategy, and one for each limit of disk for what the optimiser chooses within it.

    Args:
        workload: the workload.
        words: of each row.
        strategies: of all UDFs that support them; the others are black boxes, or are mapped by their functions.
        pairs: runs of each kind.
        offered: strategies that the optimiser chooses among; None: all.
        limits_mb: of disk, for the optimiser, beside those that it always has.
    """
    taken = workload.sources()
    arrays = without_lineage(workload.graph, taken)
    asked = workload.questions(arrays)
    everything = Run(workload, taken, dict.fromkeys(workload.udfs, (BLACKBOX,)))
    reference = everything.answers(asked, anew=True)
    plain = in_turns(lambda: without_lineage(workload.graph, taken), pairs=3)[0]
    plain_s = float(np.median(plain.seconds))
    black_boxes = _black_boxes(workload, taken, words, asked, reference, plain_s)
    yield black_boxes
    plans = {"blackbox": everything.how}
    plans |= {name: _where_supported(workload, some) for name, some in strategies.items()}
    among = [one for some in (strategies if offered is None else offered).values() for one in some]
    costs = costs_of(workload, arrays, asked, among)
    # Questions know from here on how long it takes to run an operator again.
    workload.graph.learn(costs.writing_s)
    choices = planned(costs, limits_of(plain_s, limits_mb))
    plans |= {name: choice.strategies for name, choice in choices.items()}
    for name, how in plans.items():
        run = Run(workload, taken, how)
        writes_pairs = any(
            strategy.mode is Mode.FULL for of_step in how.values() for strategy in of_step
        )
        versions = 1 if writes_pairs else VERSIONS
        answers = reference if name == "blackbox" else run.answers(asked, anew=False, versions=versions)  # fmt: skip
        quicker = run.answers(asked, anew=True, by="auto", versions=1)
        version = run.version()
        times = run.timed(1 if writes_pairs else pairs)
        query_s = {question: taking for question, (taking, _) in answers.items()}
        yield {
            **words,
            "strategy": name,
            "same": _same(answers, reference)
            and _same(quicker, reference)
            and all(np.array_equal(version.array(step), arrays[step], equal_nan=True) for step in arrays),
            "plain_s": round(float(np.median(times[0].seconds)), 4),
            "wall_ratio": ratio(*times),
            "lineage_bytes": version.stored_bytes,
            "lineage_over_inputs": round(
                version.stored_bytes / sum(array.nbytes for array in taken.values()), 5
            ),
            "chosen": {step.name: _text(of_step) for step, of_step in how.items()},
            "query_s": query_s,
            "blackbox_over": round(_mean_back_s(asked, black_boxes["query_s"]) / _mean_back_s(asked, query_s), 2),
            "auto_s": {question: taking for question, (taking, _) in quicker.items()},
            "run_again": sorted({
                f"{question}: {way.step}" for question, (_, trace) in quicker.items() for way in trace.ways if way.by == "rerun"
            }),
        }  # fmt: skip


def _mean_back_s(asked: Sequence[Question], seconds: dict[str, float]) -> float:
    return float(np.mean([seconds[question.name] for question in asked if question.source is None]))


def _black_boxes(
    workload: Workload,
    taken: dict[str, Any],
    words: dict[str, Any],
    asked: Sequence[Question],
    reference: Answers,
    plain_s: float,
) -> dict[str, Any]:
    """The paper's BlackBox: nothing is kept of built-in operators either, so all that a question crosses runs again, in tracing mode.

    The run itself is the one without lineage.
    """
    seconds, same = {}, True
    for question in asked:
        part = part_behind(workload.graph, question.step)
        tracing = {
            step: (Strategy(next(mode for mode in WRITING if mode in step.operator.supported_modes())),)
            for step in part.steps
            if step.operator is not None
        }  # fmt: skip
        sources = {name: array for name, array in taken.items() if any(step.name == name for step in part.steps)}  # fmt: skip
        times = []
        for _ in range(VERSIONS):
            begin = time.process_time()
            cells = question.ask(part.run(sources, tracing)).cells
            times.append(time.process_time() - begin)
            same = same and cells == reference[question.name][1].cells
        seconds[question.name] = round(float(np.median(times)), 5)
    return {
        **words, "strategy": "blackbox-all", "same": same, "plain_s": round(plain_s, 4),
        "lineage_bytes": 0, "lineage_over_inputs": 0.0, "chosen": {}, "query_s": seconds, "auto_s": seconds, "run_again": [],
    }  # fmt: skip


def _where_supported(workload: Workload, strategies: Sequence[Strategy]) -> Plan:
    supported = {
        step: tuple(one for one in strategies if one.mode in step.operator.supported_modes())
        for step in workload.udfs
        if step.operator is not None
    }
    return {step: some for step, some in supported.items() if some}


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

    def answers(
        self,
        asked: Sequence[Question],
        *,
        anew: bool,
        by: By = "stored",
        versions: int = VERSIONS,
    ) -> Answers:
        """The processor's seconds (of so many versions, the median), and the trace of each question.

        ``anew``: a version for each question; else re-execution runs for the first alone. ``by``: how questions cross the UDFs.
        """

        def fresh() -> Version:
            version = self.version()
            assert version.stored_bytes >= 0  # indexes are built before a question is timed
            return version

        seconds: dict[str, list[float]] = {question.name: [] for question in asked}
        traces: dict[str, CellTrace] = {}
        for _ in range(versions):
            version = fresh()
            for question in asked:
                version = fresh() if anew else version
                begin = time.process_time()
                traces[question.name] = question.ask(version, by)
                seconds[question.name].append(time.process_time() - begin)
        return {
            name: (round(float(np.median(seconds[name])), 5), trace)
            for name, trace in traces.items()
        }


def _same(ours: Answers, theirs: Answers) -> bool:
    return all(
        (
            ours[name][1].exact == theirs[name][1].exact
            or _is_unproven(ours[name][1], theirs[name][1])
        )
        and ours[name][1].cells == theirs[name][1].cells
        for name in theirs
    )


def _is_unproven(*traces: CellTrace) -> bool:
    """Whether another run answered that is not compared in full: it is not exact for that alone."""
    return any(way.unproven for trace in traces for way in trace.ways)
