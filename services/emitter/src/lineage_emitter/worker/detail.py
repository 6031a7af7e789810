"""Detailed mode in the workers: items and values at every operator, and limits of capture.

At stage level a numbering spans a chain of functions. :class:`Renumber` ends the numbering behind one
function and numbers its records again, so that a trace can stop there. :class:`Observe` records texts of the
records that a function puts out, and leaves out those that a rule of the user leaves out.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_core.contract.block import FlowBlock, Relation, Section
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.partition_inputs import is_uncountable, wrap_like
from lineage_emitter.worker.recorders import FLOWS_MAX, DenseRecorder, fallback_space
from lineage_emitter.worker.segment import EXCLUDED, Numbering, Segment
from lineage_emitter.worker.values import ValueTexts
from lineage_emitter.worker.watched_run import WatchedOperator
from lineage_emitter.worker.watching import watchable

Records = Iterable[Any]
PartitionFunction = Callable[[int, Records], Records]

TEXT_CHARS_MAX = 4 << 20
"""Characters of texts held before they are written."""
_MIX, _MASK = 0x9E3779B97F4A7C15, 2**64 - 1


@dataclass(frozen=True, slots=True)
class CaptureLimit:
    """Which records of a node are captured (or have texts): those that all conditions hold for.

    ``nothing``: none. ``record``, ``key``: the user's predicates, of a record and of its first
    element. ``share``: so many of them, the same ones whenever a partition is computed again in the
    same order.
    """

    nothing: bool = False
    record: Callable[[Any], Any] | None = None
    key: Callable[[Any], Any] | None = None
    share: float = 1.0

    def captures(self, record: Any, ordinal: int) -> bool:
        """Whether a record is captured. Raises what the predicates raise."""
        if self.nothing or (self.record is not None and not self.record(record)):
            return False
        if self.key is not None and not self.key(record[0]):
            return False
        # Fibonacci hashing (Knuth, The Art of Computer Programming 3, 6.4).
        return self.share >= 1.0 or ((ordinal + 1) * _MIX & _MASK) < self.share * 2.0**64


@dataclass(frozen=True, slots=True)
class Detail:
    """What a node of the running program shows beyond stage level.

    ``items``: it has items of its own. ``texts``: what they look like; ``texts_of``: of which.
    ``limit``: which of its records are captured. ``by_key``: a join's output rows are from all rows
    of their key. ``watched``: its records can be watched.
    """

    node: str
    items: bool = False
    texts: ValueTexts | None = None
    texts_of: CaptureLimit | None = None
    limit: CaptureLimit | None = None
    by_key: bool = False
    watched: WatchedOperator | None = None

    @property
    def shows(self) -> bool:
        """Whether its records have texts or a limit."""
        return self.texts is not None or self.limit is not None

    def observe(
        self, function: PartitionFunction, *, takes_records: bool = False
    ) -> PartitionFunction:
        """A function whose records have a numbering already, with texts, limit and watches. ``takes_records``: it works on those of the chain."""
        shown = Observe(function, self) if self.shows else function
        if self.watched is None:
            return shown
        return watchable(shown, self.watched, takes_records=takes_records)

    def sink(self, segment: Segment, space: str, records: Records) -> Records:
        """The records that reach a sink, with texts; they are the items 0, 1, ... of ``space``."""
        if self.texts is None:
            return records
        numbering = Numbering.of_space(space)
        counted = _renumbered(records, segment.numbering.cell, numbering.cell)
        recorder = TextRecorder(segment, numbering, self.node)
        return recorder.record(counted, self.texts, self.texts_of)

    def wrap_step(self, function: PartitionFunction) -> PartitionFunction:
        """A function of the middle of a segment, with items, texts, limit and watches."""
        step = Renumber(function, self.node) if self.items else function
        return self.observe(step, takes_records=True)


class Renumber:
    """Numbers the records that ``function`` puts out as items of ``node``."""

    def __init__(self, function: PartitionFunction, node: str) -> None:
        self.function = function
        self.node = node

    def __call__(self, split: int, iterator: Records) -> Records:
        segment = segments.current_segment()
        records = self.function(split, iterator)
        if is_uncountable(records):
            # What comes behind traces to what this function read.
            return records
        before, space = segment.numbering, segment.space(self.node)
        after = Numbering.of_space(space)
        if before.unlimited is not None:
            after = after.limited()
        after.base = before
        segment.numbering = after
        recorder = DenseRecorder(segment, before, self.node, space)
        return wrap_like(records, self._numbered(segment, recorder, after, records))

    @staticmethod
    def _numbered(
        segment: Segment, recorder: DenseRecorder, after: Numbering, records: Records
    ) -> Iterator[Any]:
        buffer, append = recorder.buffer, recorder.buffer.append
        before, cell = recorder.numbering.cell, after.cell
        unlimited_cell = cell if after.unlimited is None else after.unlimited.cell
        for ordinal, record in enumerate(records):
            item = before[0]
            append(item)
            unlimited_cell[0] = ordinal
            cell[0] = EXCLUDED if item == EXCLUDED else ordinal
            yield record
            if len(buffer) >= FLOWS_MAX:
                segment.guard(recorder.flush)


class Observe:
    """Texts of the records that ``function`` puts out, and excludes records by the rules."""

    def __init__(self, function: PartitionFunction, detail: Detail) -> None:
        self.function = function
        self.detail = detail

    def __call__(self, split: int, iterator: Records) -> Records:
        output = records = self.function(split, iterator)
        if is_uncountable(output):
            return output
        segment, detail = segments.current_segment(), self.detail
        if detail.limit is not None:
            before = segment.numbering
            segment.numbering = before.limited()
            records = _limited(segment, before, segment.numbering, detail, detail.limit, records)
        if detail.texts is not None:
            recorder = TextRecorder(segment, segment.numbering, detail.node)
            records = recorder.record(records, detail.texts, detail.texts_of)
        return wrap_like(output, records)


def _renumbered(records: Records, before: list[int], cell: list[int]) -> Iterator[Any]:
    for ordinal, record in enumerate(records):
        cell[0] = EXCLUDED if before[0] == EXCLUDED else ordinal
        yield record


def _limited(
    segment: Segment,
    before: Numbering,
    after: Numbering,
    detail: Detail,
    limit: CaptureLimit,
    records: Records,
) -> Iterator[Any]:
    cell_before, cell = before.cell, after.cell
    counts = segment.limits.setdefault(detail.node, [0, 0])
    for record in records:
        ordinal = cell_before[0]
        is_captured = ordinal != EXCLUDED and _is_captured(segment, limit, record, ordinal)
        counts[0] += 1
        counts[1] += is_captured
        cell[0] = ordinal if is_captured else EXCLUDED
        yield record


def _is_captured(segment: Segment, limit: CaptureLimit, record: Any, ordinal: int) -> bool:
    """A predicate that fails is capture's failure, not the job's; it leaves out nothing."""
    try:
        return limit.captures(record, ordinal)
    except Exception as problem:
        segment.fail(problem)
        return True


class TextRecorder:
    """Texts of items, as flows without inputs.

    Where an item comes from and what it looks like are separate flows: the flows of its operator stay
    what they are (often a few bytes for a million items), and a trace that shows no texts reads none.
    """

    def __init__(self, segment: Segment, numbering: Numbering, node: str) -> None:
        self.segment = segment
        self.numbering = numbering
        self.node = node
        self.ordinals = array("Q")
        self.texts: list[str] = []
        segment.on_flush(self.flush)

    def record(
        self, records: Records, text_of: ValueTexts, texts_of: CaptureLimit | None
    ) -> Iterator[Any]:
        """Pass records on, keeping their texts."""
        cell, append_ordinal, append_text = (
            self.numbering.cell,
            self.ordinals.append,
            self.texts.append,
        )
        texts, segment, held_chars = self.texts, self.segment, 0
        for record in records:
            ordinal = cell[0]
            if ordinal != EXCLUDED and (
                texts_of is None or _is_captured(segment, texts_of, record, ordinal)
            ):
                text = text_of(record)
                append_ordinal(ordinal)
                append_text(text)
                held_chars += len(text)
            yield record
            if held_chars >= TEXT_CHARS_MAX or len(texts) >= FLOWS_MAX:
                segment.guard(self.flush)
                held_chars = 0

    def flush(self) -> None:
        """Emit what is buffered."""
        if not self.texts:
            return
        ordinals = np.array(self.ordinals, dtype=np.uint64)
        texts = self.texts[:]
        del self.ordinals[:]
        self.texts.clear()
        segment = self.segment
        for space, rows, positions in self.numbering.resolve(ordinals):
            segment.emit(
                FlowBlock(
                    block_id=segment.next_block(self.node),
                    relation=Relation.ROWS,
                    in_space=fallback_space(segment, self.numbering),
                    out=(Section(space, 0, len(rows)),),
                    in_ptr=np.zeros(len(rows) + 1, dtype=np.int64),
                    in_first=np.zeros(0, dtype=np.uint64),
                    out_first=positions,
                    values=[texts[row] for row in rows.tolist()],
                    app=segment.config.app,
                )
            )
