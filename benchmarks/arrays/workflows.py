"""Runs of the astronomy workflow, with lineage and without, and its questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.arrays.astronomy import Astronomy, astronomy, exposures, prepared_by_numpy
from benchmarks.intervals import median_interval
from lineage_arrays import CellTrace, Recording
from lineage_arrays.operators import Encoding, Mode, Orientation, Step, Strategy, Version

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
BLACKBOX = Strategy(Mode.BLACKBOX)


def in_turns(
    plain: Callable[[], Any], recorded: Callable[[], Any], pairs: int
) -> tuple[list[float], list[float]]:
    """Seconds of both, which take turns: A B B A."""
    seconds: tuple[list[float], list[float]] = ([], [])
    kinds = (plain, recorded)
    for number in range(pairs):
        for kind in (0, 1) if number % 2 == 0 else (1, 0):
            begin = time.perf_counter()
            kinds[kind]()
            seconds[kind].append(time.perf_counter() - begin)
    return seconds


def ratio(seconds: tuple[Sequence[float], Sequence[float]]) -> dict[str, float]:
    """The median of recorded over plain of each pair, with its interval."""
    return median_interval([after / before for before, after in zip(*seconds, strict=True)])


def numpy_row(shape: Shape2, pairs: int) -> dict[str, Any]:
    """The built-in operators of both exposures, as an unchanged program, plain and recorded."""
    taken = exposures(shape)

    def plain() -> list[Any]:
        return [prepared_by_numpy(exposure) for exposure in taken.values()]

    def recorded() -> list[Any]:
        recording = Recording()
        return [
            prepared_by_numpy(recording.source(name, exposure)) for name, exposure in taken.items()
        ]

    same = all(
        np.array_equal(ours.value, numpys) for ours, numpys in zip(recorded(), plain(), strict=True)
    )
    seconds = in_turns(plain, recorded, pairs)
    return {
        "shape": shape, "same": same, "plain_s": round(float(np.median(seconds[0])), 4),
        "wall_ratio": ratio(seconds),
    }  # fmt: skip


def without_lineage(of: Astronomy, sources: dict[str, Any]) -> dict[Step, Any]:
    """The arrays of all steps, as a program without lineage computes them."""
    arrays: dict[Step, Any] = {}
    for step in of.graph.steps:
        operands = [arrays[before] for before in step.inputs]
        if step.operator is not None:
            arrays[step] = step.operator.run_with(None, tuple(operands), frozenset())
        elif step.function is not None:
            arrays[step] = step.function(*operands)
        else:
            arrays[step] = sources[step.name]
    return arrays


@dataclass(frozen=True)
class Question:
    """Cells that a trace begins at; forward from the first exposure, where ``forward``."""

    name: str
    step: Step
    where: Any
    forward: bool = False

    def ask(self, of: Astronomy, version: Version) -> CellTrace:
        if self.forward:
            return version.forward(of.sources[0], self.step, self.where)
        return version.back(self.step, self.where)


def questions(of: Astronomy, arrays: dict[Step, Any]) -> list[Question]:
    """Five backward, one forward: of a star, one of its pixels, a cosmic ray, a pixel and a part of the clean image."""
    light = arrays[of.stars]
    star = tuple(int(axis[0]) for axis in np.nonzero(light))
    ray = tuple(int(axis[0]) for axis in np.nonzero(arrays[of.rays[0]]))
    middle = tuple(length // 2 for length in light.shape)
    part = tuple(slice(at, at + 10) for at in middle)
    return [
        Question("star", of.stars, light == light[star]),
        Question("star-pixel", of.stars, star),
        Question("cosmic-ray", of.rays[0], ray),
        Question("clean-pixel", of.clean, middle),
        Question("clean-part", of.clean, part),
        Question("pixel-forward", of.stars, star, forward=True),
    ]


def astronomy_rows(shape: Shape2, smaller: Shape2, pairs: int) -> Iterator[dict[str, Any]]:
    """A row for each strategy; those that write pairs of each cell over smaller exposures."""
    for size, strategies in ((shape, PLAN), (smaller, PLAN | PAIRS)):
        workflow, taken = astronomy(), exposures(size)
        arrays = without_lineage(workflow, taken)
        asked = questions(workflow, arrays)
        reference = _asked(workflow, taken, BLACKBOX, asked, anew=True)
        for name, strategy in {"blackbox": BLACKBOX, **strategies}.items():
            how = dict.fromkeys(workflow.udfs, (strategy,))
            answers = _asked(workflow, taken, strategy, asked, anew=strategy is BLACKBOX)
            version = workflow.graph.run(taken, how)
            seconds = _timed(workflow, taken, how, pairs if strategy.mode is not Mode.FULL else 1)
            yield {
                "shape": size,
                "strategy": name,
                "same": _same(answers, reference)
                and all(np.array_equal(version.array(step), arrays[step]) for step in arrays),
                "plain_s": round(float(np.median(seconds[0])), 4),
                "wall_ratio": ratio(seconds),
                "lineage_over_inputs": round(
                    version.stored_bytes / sum(array.nbytes for array in taken.values()), 5
                ),
                "query_s": {question: taking for question, (taking, _) in answers.items()},
            }


def _timed(
    of: Astronomy, taken: dict[str, Any], how: Mapping[Step, tuple[Strategy, ...]], pairs: int
) -> tuple[list[float], list[float]]:
    return in_turns(lambda: without_lineage(of, taken), lambda: of.graph.run(taken, how), pairs)


Answers = dict[str, tuple[float, CellTrace]]


def _asked(
    of: Astronomy, taken: dict[str, Any], how: Strategy, asked: Sequence[Question], anew: bool
) -> Answers:
    """Seconds and trace of each question. ``anew``: a version for each, or re-execution runs for the first alone."""

    def fresh() -> Version:
        version = of.graph.run(taken, dict.fromkeys(of.udfs, (how,)))
        assert version.stored_bytes >= 0  # indexes are built before a question is timed
        return version

    version, answers = fresh(), {}
    for question in asked:
        version = fresh() if anew else version
        begin = time.perf_counter()
        trace = question.ask(of, version)
        answers[question.name] = round(time.perf_counter() - begin, 5), trace
    return answers


def _same(ours: Answers, theirs: Answers) -> bool:
    return all(
        ours[name][1].exact == theirs[name][1].exact
        and ours[name][1].cells == theirs[name][1].cells
        for name in theirs
    )
