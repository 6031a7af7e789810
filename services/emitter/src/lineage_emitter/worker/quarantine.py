"""Quarantine: records that a function failed on are set aside with their lineage, and the task goes on without them, or with others in their place.

Each is an item of a sink of its operator, made from what the record was made from; its text says what failed, and of what.
Off unless the user allows it, up to a number of records a task: the next failure ends the task as it does without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lineage_core.contract.block import FlowBlock, Relation, Section
from lineage_core.contract.verdict import QUARANTINE, REPAIRED
from lineage_emitter.failures import ERROR_CHARS_MAX, add_note, in_words
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.by_record import ByRecord, stop_iteration_error
from lineage_emitter.worker.partition_inputs import NumberedRecords
from lineage_emitter.worker.recorders import (
    PREFIX_REASON,
    emit_regions,
    fallback_space,
    made_from,
)

if TYPE_CHECKING:
    from lineage_emitter.worker.culprits import PositionRun
    from lineage_emitter.worker.segment import Segment


def quarantine_of(node: str) -> str:
    """The name of the sink of what an operator sets aside."""
    return f"{node}:{QUARANTINE}"


@dataclass(frozen=True, slots=True)
class QuarantineRule:
    """``records_max``: in one run of a segment. ``says_errors``: with what errors say, not their types alone.

    ``repair``: gets a record and the error, and gives the record to be tried in its place; None: none.
    """

    records_max: int
    says_errors: bool
    repair: Callable[[Any, Exception], Any] | None = None


class OrSetAside:
    """A function that works record by record, without the records that it fails on.

    What a record gives is gathered before any of it goes on: a record gives all, or is set aside.
    """

    def __init__(self, by_record: ByRecord, rule: QuarantineRule, node: str, name: str) -> None:
        """``node``, ``name``: of the operator."""
        self.by_record = by_record
        self.rule = rule
        self.node = node
        self.name = name

    def __call__(self, split: int, records: Iterable[Any]) -> NumberedRecords:
        return NumberedRecords(self.run(records), self.by_record.kind)

    def run(self, records: Iterable[Any]) -> Iterator[Any]:
        """What the function makes of the records that it does not fail on."""
        return self._run(records, Quarantine(segments.current_segment(), self))

    def _run(self, records: Iterable[Any], quarantine: Quarantine) -> Iterator[Any]:
        outputs_of = self.by_record.outputs
        for record in records:
            try:
                outputs = outputs_of(record)
            except StopIteration as stop:
                raise stop_iteration_error(stop) from stop
            except Exception as problem:
                if not self.by_record.is_at_record:
                    raise
                repaired = self._repaired(record, problem)
                if not quarantine.takes(problem, is_repaired=repaired is not None):
                    raise
                if repaired is None:
                    continue
                outputs = repaired
            yield from outputs

    def _repaired(self, record: Any, problem: Exception) -> Sequence[Any] | None:
        """What the function makes of the record that is given in the place of one that it failed on; None: the record is set aside."""
        repair = self.rule.repair
        if repair is None:
            return None
        try:
            other = repair(record, problem)
            return None if other is None else self.by_record.outputs(other)
        except Exception as failure:
            # StopIteration, too: nothing ends the data here.
            reason = in_words(failure, ERROR_CHARS_MAX)
            add_note(problem, f"the repair of the record failed: {reason}")
            return None


class Quarantine:
    """What an operator sets aside in one run of a segment.

    Its sink is its own: blocks and spaces of a node are of one segment.
    """

    def __init__(self, segment: Segment, operator: OrSetAside) -> None:
        self._segment = segment
        self._operator = operator
        # Of the records that reach the operator: the segment goes on to others behind it.
        self._numbering = segment.numbering.unlimited or segment.numbering
        self._written = 0
        self._runs: list[list[PositionRun]] = []
        self._is_superset: list[bool] = []
        self._texts: list[str] = []
        segment.on_flush(self.flush)

    def takes(self, problem: Exception, *, is_repaired: bool) -> bool:
        """Set the record aside that is being worked on, or note that it was repaired; False: its failure ends the task.

        A record whose lineage can't be recorded would be lost.
        """
        segment, operator = self._segment, self._operator
        rule = operator.rule
        count = sum(segment.set_aside.values()) + sum(segment.repaired.values())
        if segment.failed:
            return False
        if count >= rule.records_max:
            done = "set aside" if rule.repair is None else "set aside or repaired"
            add_note(
                problem,
                f"the task had {done} {count:,} records, as many as LINEAGE_QUARANTINE allows",
            )
            return False
        try:
            runs = made_from(self._numbering)
        except Exception as failure:
            segment.fail(failure)
            return False
        error = in_words(problem, ERROR_CHARS_MAX) if rule.says_errors else type(problem).__name__
        self._runs.append(runs)
        self._is_superset.append(self._numbering.opaque)
        self._texts.append(f"{REPAIRED * is_repaired}{operator.name}: {error}")
        counts = segment.repaired if is_repaired else segment.set_aside
        counts[operator.node] = counts.get(operator.node, 0) + 1
        return True

    def flush(self) -> None:
        """Emit what is held."""
        if not self._runs:
            return
        segment, node = self._segment, quarantine_of(self._operator.node)
        space, fallback = segment.space(node), fallback_space(segment, self._numbering)
        outs = np.arange(self._written, self._written + len(self._runs), dtype=np.uint64)
        runs, texts = self._runs, self._texts
        is_superset = np.array(self._is_superset)
        self._written += len(runs)
        self._runs, self._texts, self._is_superset = [], [], []
        for of_supersets, reason in ((False, ""), (True, PREFIX_REASON)):
            chosen = np.flatnonzero(is_superset == of_supersets)
            if len(chosen):
                regions = [runs[row] for row in chosen.tolist()]
                emit_regions(segment, node, space, regions, outs[chosen], reason, fallback)
        segment.emit(
            FlowBlock(
                block_id=segment.next_block(node),
                relation=Relation.ROWS,
                in_space=fallback,
                out=(Section(space, 0, len(outs)),),
                in_ptr=np.zeros(len(outs) + 1, dtype=np.int64),
                in_first=np.zeros(0, dtype=np.uint64),
                out_first=outs,
                values=texts,
                app=segment.config.app,
            )
        )
