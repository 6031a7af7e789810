"""How a question crosses each step: by reading what is kept of its lineage, or by running its operator again (section VII.C of the paper).

By itself a question reads what is kept; a black box runs again in the mode that writes least. On request (``auto``) the operator runs again where
reading is estimated to take longer, or not much less; and as estimates err, a reading that has taken three quarters of what the re-execution is
estimated to take is given up for it. So a question takes at most about twice as long as re-execution alone. Where the operator gives another output, or other lineage at the
cells that are compared, what is kept answers. An operator may write one thing in one mode and another in the next, so an answer by another
run counts as exact and complete only where all that it rests on was compared: what was written, in the mode that is kept, or each cell of the question.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from lineage_arrays.cells import Cells
from lineage_arrays.claims import StepWay
from lineage_arrays.errors import GivenUpError, ModeError
from lineage_arrays.mappings import Choice, Mapping
from lineage_arrays.operators.asking import Answered, ask
from lineage_arrays.operators.deadlines import give_up_after
from lineage_arrays.operators.encodings import Orientation, PayloadStore, RangeStore
from lineage_arrays.operators.estimating import WRITTEN_CELL_S, Clock, Estimator, written_cells
from lineage_arrays.operators.operator import Mode
from lineage_arrays.operators.strategies import (
    WRITING,
    Again,
    Composite,
    ReExecution,
    Strategy,
    read_from,
    wrote_same,
)
from lineage_arrays.querying import CellTrace
from lineage_arrays.workflow import Node
from lineage_core.tracing.budget import BudgetError

By: TypeAlias = Literal["auto", "stored", "rerun"]
"""How a question crosses the operators: in the quicker way; by what is kept, and black boxes by another run; by running each one again."""
BYS: tuple[By, ...] = ("auto", "stored", "rerun")

PATIENCE = 0.75
"""The share of a re-execution that a reading may take: what is left of twice the re-execution is for comparing both, and for errors of the estimate."""
GUARD_MIN_S = 1e-3
"""A reading is given no less than that: below it the clock says little."""
SPARE_CELLS_MAX = 1 << 22
"""Output cells times operands up to which region pairs are written by an operator that has another mode: each takes some hundred bytes."""
COMPARED = 3
"""Cells whose lineage by what is kept and by re-execution is compared before re-execution answers: at both ends and in between."""


@dataclass
class StepTimes:
    """What is known from earlier runs about how long one operator takes.

    ``writing_s``: of a mode, how much longer a run takes that writes in it, as strategies were measured. ``tracing_s``: of a mode, seconds of a
    run in it and the cells of that run's arrays.
    """

    writing_s: dict[Mode, float] = field(default_factory=dict)
    tracing_s: dict[Mode, tuple[float, int]] = field(default_factory=dict)


@dataclass
class StepRun:
    """One run of an operator, as questions about it need it.

    ``run_s``: seconds that it took; ``wrote``: the modes in which it wrote lineage meanwhile. ``refused``: why it can't run again; empty: nobody knows of
    a reason.
    """

    name: str
    again: ReExecution
    run_s: float
    wrote: frozenset[Mode]
    times: StepTimes
    clock: Clock = time.perf_counter
    refused: str = ""

    def __post_init__(self) -> None:
        operands = range(len(self.again.shapes.inputs))
        self.estimators = [Estimator(self.again.operator, self.clock) for _ in operands]
        if len(self.wrote) == 1:
            self._learn(next(iter(self.wrote)), self.run_s)

    @property
    def cells(self) -> int:
        """Cells of all its arrays."""
        shapes = (*self.again.shapes.inputs, self.again.shapes.output)
        return sum(map(math.prod, shapes))

    def _learn(self, mode: Mode, seconds: float) -> None:
        self.times.tracing_s[mode] = (seconds, self.cells)

    def mappings_in(self, mode: Mode) -> list[Mapping]:
        """The mapping of each operand by a run in a mode; the time of the run is known from now on.

        Raises:
            ModeError: the operator gives another output than it gave.
        """
        is_new = not self.again.has_run_in(mode)
        mappings = self.again.in_mode(mode, self.clock)
        if is_new:
            self._learn(mode, self.again.seconds[mode])
        return mappings

    def modes(self) -> Iterator[Mode]:
        """Those in which it may run again: the one that writes least, and others of which it is known what they take, and that have room."""
        shapes = self.again.shapes
        has_room = math.prod(shapes.output) * len(shapes.inputs) <= SPARE_CELLS_MAX
        for mode in self.again.modes:
            is_known = mode in self.times.tracing_s or mode in self.times.writing_s
            if mode is self.again.modes[0] or (is_known and has_room):
                yield mode

    def tracing_s(self, mode: Mode) -> float:
        """Seconds that a run in a mode takes, about."""
        if self.again.has_run_in(mode):
            return 0.0
        if mode in self.times.tracing_s:
            seconds, cells = self.times.tracing_s[mode]
            return seconds * self.cells / cells if cells else seconds
        given = self.times.writing_s
        if mode in given:
            written_s = sum(given.get(wrote, 0.0) for wrote in self.wrote)
            return max(self.run_s - written_s, 0.0) + given[mode]
        return self.run_s + math.prod(self.again.shapes.output) * WRITTEN_CELL_S

    def rerun_s(
        self, mode: Mode, operand: int, direction: Orientation, cells: Cells, kept: Mapping
    ) -> float:
        """Seconds that re-execution in a mode takes to answer, about. ``kept``: what is kept of the operand's lineage."""
        estimator = self.estimators[operand]
        if self.again.has_run_in(mode):
            return estimator.read_s(self.mappings_in(mode)[operand], direction, cells)
        target, written = self.again.shapes.output, written_cells(kept, mode)
        return self.tracing_s(mode) + estimator.traced_s(mode, target, direction, cells, written)


@dataclass
class Crossings:
    """The ways in which one question crosses the steps of a run. ``runs``: by the number of the step's node."""

    runs: ReadOnly[int, StepRun]
    by: By = "stored"
    clock: Clock = time.perf_counter
    ways: list[StepWay] = field(default_factory=list)

    def __call__(self, node: Node, operand: int, mapping: Mapping) -> Mapping:
        run = self.runs.get(node.number)
        # With all that took part in a choice a question crosses another mapping than the operator's.
        if run is None or not run.again.modes or mapping is not node.inputs[operand].mapping:
            return mapping
        return Answered(mapping, partial(self.answer, run, operand, mapping))

    def answer(
        self, run: StepRun, operand: int, mapping: Mapping, direction: Orientation, cells: Cells
    ) -> Cells:
        """The cells beyond a step."""
        if not cells:
            return ask(mapping, direction, cells)
        is_stored = not isinstance(_kept(mapping), Again)
        if self.by == "stored" and is_stored:
            begin = self.clock()
            found = ask(mapping, direction, cells)
            took_s = self.clock() - begin
            # Nothing is to be decided: an estimate would take as long as a lookup.
            self.ways.append(
                StepWay(
                    run.name,
                    operand,
                    _word(direction),
                    "stored",
                    "requested",
                    None,
                    None,
                    took_s,
                    "",
                )
            )
            return found
        way = _Way(self, run, operand, mapping, direction, cells)
        if self.by == "rerun" or not is_stored:
            return way.run_again("requested" if is_stored else "nothing else is kept")
        return way.quicker()

    def claimed(self, trace: CellTrace) -> CellTrace:
        """The trace of the question with the ways that it took, and what is not known for sure by them."""
        reasons = tuple(
            dict.fromkeys(f"{way.step}: {way.unproven}" for way in self.ways if way.unproven)
        )
        return replace(
            trace,
            ways=tuple(self.ways),
            superset_reasons=(*trace.superset_reasons, *reasons),
            incomplete_reasons=(*trace.incomplete_reasons, *reasons),
        )


@dataclass
class _Way:
    """A question at a step."""

    crossings: Crossings
    run: StepRun
    operand: int
    mapping: Mapping
    direction: Orientation
    cells: Cells

    def __post_init__(self) -> None:
        self._begin = self.crossings.clock()
        estimator = self.run.estimators[self.operand]
        self._read_s = estimator.read_s(self.mapping, self.direction, self.cells)
        self._kept = read_from(_kept(self.mapping), self.direction)
        seconds = {
            mode: self.run.rerun_s(mode, self.operand, self.direction, self.cells, self._kept)
            for mode in self._modes()
        }
        self._mode = min(seconds, key=lambda mode: seconds[mode], default=self.run.again.modes[0])
        self._rerun_s = seconds.get(self._mode, math.inf)

    def _modes(self) -> Iterable[Mode]:
        """Those in which the operator may run again; none, where it can only write the payloads that are kept, which take as long to open then."""
        if self._is_own_black_box:
            return self.run.again.modes[:1]
        if self.crossings.by != "auto":
            return self.run.modes()
        kept = {Composite: Mode.COMP, PayloadStore: Mode.PAY}.get(type(self._kept))
        return [mode for mode in self.run.modes() if mode is not kept]

    @property
    def _is_own_black_box(self) -> bool:
        """Whether nothing is kept, and no quicker mode was requested than the one that a black box is read by."""
        return self.crossings.by == "stored" and isinstance(self._kept, Again)

    def read(self, why: str) -> Cells:
        """By what is kept."""
        found = ask(self.mapping, self.direction, self.cells)
        self._say("stored", why)
        return found

    def run_again(self, why: str) -> Cells:
        """By re-execution.

        Raises:
            ModeError: the operator gives another output than it gave.
        """
        mapping = self.run.mappings_in(self._mode)[self.operand]
        found = ask(mapping, self.direction, self.cells)
        self._say("rerun", why, "" if self._is_known_same(mapping) else self._unproven(""))
        return found

    def quicker(self) -> Cells:
        """In the way that takes less time, and after a reading that takes longer than was thought in the other one."""
        if self.run.refused:
            return self.read(f"can't run again: {self.run.refused}")
        patience_s = PATIENCE * self._rerun_s
        if self._read_s > patience_s:
            return self._run_again_or_read("reading would take longer")
        try:
            with give_up_after(max(patience_s, GUARD_MIN_S), self.crossings.clock):
                return self.read("running again would take longer")
        except GivenUpError:
            return self._run_again_or_read("reading was given up, as it took longer")

    def _run_again_or_read(self, why: str) -> Cells:
        try:
            mapping = self.run.mappings_in(self._mode)[self.operand]
            found = ask(mapping, self.direction, self.cells)
            if self._is_known_same(mapping):
                self._say("rerun", why)
                return found
            self.run.refused = self._difference(mapping, found)
            if not self.run.refused:
                self._say("rerun", why, self._unproven_by_few(mapping))
                return found
        except BudgetError:
            raise
        except Exception as error:
            # Whatever the operator raises now: what is kept answers.
            self.run.refused = f"{type(error).__name__}: {error}"
        return self.read(f"can't run again: {self.run.refused}")

    def _is_known_same(self, again: Mapping) -> bool:
        """Whether another run can only give the cells that are kept: it wrote the same, in the same mode; or a black box is read by it anyhow."""
        if isinstance(self._kept, Again):
            return self._mode is self.run.again.modes[0]
        return wrote_same(self._kept, again)

    def _unproven_by_few(self, again: Mapping) -> str:
        """What is not known for sure after :meth:`_difference` saw none; empty: it compared each cell that counts."""
        is_backward = self.direction is Orientation.BACKWARD
        outputs = self.cells if is_backward else Cells.whole(again.target)
        if outputs.count <= COMPARED:
            return ""
        return self._unproven(f" but at {COMPARED} output cells" if is_backward else " but at a few output cells")  # fmt: skip

    def _unproven(self, but: str) -> str:
        kept = (
            "the mode that black boxes are read by"
            if isinstance(self._kept, Again)
            else "what is kept"
        )
        return f"ran again, and what it wrote then ({self._mode}) is not compared with {kept}{but}"

    def _difference(self, again: Mapping, found: Cells) -> str:
        """Where what is kept says something else of a few output cells than the answer of re-execution does; empty: it does not."""
        if isinstance(self._kept, RangeStore) and self._kept.unread and self._mode is Mode.FULL:
            # A lookup would merge all pairs into ranges first; and these are not the pairs that another run wrote in the same mode.
            return f"it writes something else ({self._mode}) than what is kept"
        if self.direction is Orientation.BACKWARD:
            differ = (
                at
                for at in _few(self.cells)
                if self._kept_of(at) != again.backward(Cells.at(again.target, [at]))
            )
        else:
            reached = {*_few(found), *_few(Cells.whole(again.target))}
            differ = (
                at
                for at in reached
                if found.has(np.array([at]))[0]
                != self.cells.has(self._kept_of(at).positions()).any()
            )
        at = next(differ, None)
        if at is None:
            return ""
        return f"of output cell {at} it writes something else ({self._mode}) than what is kept"

    def _kept_of(self, output: int) -> Cells:
        return self.mapping.backward(Cells.at(self.mapping.target, [output]))

    def _say(self, by: Literal["stored", "rerun"], why: str, unproven: str = "") -> None:
        took_s = self.crossings.clock() - self._begin
        self.crossings.ways.append(
            StepWay(
                self.run.name, self.operand, _word(self.direction),
                by, why, self._read_s, self._rerun_s, took_s, str(self._mode), unproven,
            )
        )  # fmt: skip


def _word(direction: Orientation) -> Literal["backward", "forward"]:
    return "backward" if direction is Orientation.BACKWARD else "forward"


def _few(cells: Cells) -> list[int]:
    """Positions of a few cells, as far from each other as goes."""
    positions = cells.positions()
    if not len(positions):
        return []
    ends = np.linspace(0, len(positions) - 1, min(COMPARED, len(positions))).astype(np.int64)
    return [int(at) for at in positions[ends]]


def _kept(mapping: Mapping) -> Mapping:
    return mapping.witness if isinstance(mapping, Choice) else mapping


def written_by(strategies: Iterable[Strategy]) -> frozenset[Mode]:
    """The modes in which a run with strategies writes lineage."""
    return frozenset(strategy.mode for strategy in strategies if strategy.mode in WRITING)


def check_by(by: str) -> None:
    """Refuse another word.

    Raises:
        ModeError: it is none of the ways of a question.
    """
    if by not in BYS:
        raise ModeError(f"by={by!r}: one of {', '.join(BYS)}")
