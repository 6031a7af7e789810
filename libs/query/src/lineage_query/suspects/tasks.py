"""What the tasks of an application made of their records: how many outputs of how many inputs, overall, along a task, and by key.

An operator's work in one task is a *step*: its flows from one space or more. Of several attempts at a task the latest counts. Spark's narrow
operators leave no flows of their own (README, "Run a job"): a step goes from where records enter a chain of functions to where they leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.block import I64, U64, BlockId, FlowBlock, Relation
from lineage_core.contract.graph import BlockRef, FlowGraph, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.contract.runs import Runs, union_runs
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_query.blocks import iter_blocks

F64: TypeAlias = npt.NDArray[np.float64]

BLOCKS_MAX = 1_000_000
"""Blocks of an application that are compared."""
KEYS_MAX = 4_000_000
"""Keys of an application, each counted once a task that read records of it: 64 MiB. With more, keys are not compared."""
COUNT_MAX = 2.0**62
"""Records of a key, whatever its flows say."""
PARTS_MAX, PARTS_MIN, RECORDS_OF_PART_MIN = 50, 8, 20
"""Parts of a task's records, in order, whose outputs are compared."""


class Task(NamedTuple):
    """What Spark ran: the last node of its chain, and the partition."""

    node: str
    partition: int


class Step(NamedTuple):
    """An operator that reads the items of another one."""

    source: str
    node: str


@dataclass(slots=True)
class StepOfTask:
    """What a task made of the items of one step.

    ``spaces``: of its inputs. ``records``: items of these, of which ``used`` went into an output; ``pairs``: of an input and an output.
    ``part``: inputs of each part, and ``outputs`` by part (none: it was not cut into parts).
    """

    task: Task
    step: Step
    attempt: int
    blocks: list[BlockRef] = field(default_factory=list)
    spaces: set[str] = field(default_factory=set)
    records: int = 0
    used: int = 0
    pairs: int = 0
    part: int = 0
    outputs: F64 = field(default_factory=lambda: np.zeros(0))
    inputs: list[Runs] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class KeyCounts:
    """How many records a shuffle combined into each key of a space: ``positions`` (uint64) and ``records`` (int64)."""

    node: str
    space: str
    positions: U64
    records: I64


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """What was measured. ``keys``: None where there are more than `KEYS_MAX`."""

    steps: Sequence[StepOfTask]
    keys: Sequence[KeyCounts] | None


def steps_of_tasks(graph: FlowGraph) -> dict[tuple[Task, Step], StepOfTask]:
    """The work of all tasks, by their blocks, which are not loaded.

    Raises:
        TooMuchError: the application has more blocks than are compared.
        BudgetError: it costs more than the query may.
    """
    steps: dict[tuple[Task, Step], StepOfTask] = {}
    for n, ref in enumerate(graph.blocks()):
        if n >= BLOCKS_MAX:
            raise TooMuchError(f"the application has more than {BLOCKS_MAX:,} blocks of flows")
        current_budget().check()
        if ref.in_min > ref.in_max:
            continue
        block = ref.block_id
        key = (
            Task(ref.task or block.node, block.partition),
            Step(parse_space(ref.in_space).name, block.node),
        )
        of_task = steps.get(key)
        if of_task is None or of_task.attempt < block.attempt:
            of_task = steps[key] = StepOfTask(*key, block.attempt)
        if of_task.attempt == block.attempt:
            of_task.blocks.append(ref)
            of_task.spaces.add(ref.in_space)
            of_task.pairs += ref.associations
    return steps


def measure(graph: FlowGraph, nodes: Sequence[NodeRecord]) -> Measures:
    """Measure all tasks of an application; raises as `steps_of_tasks`."""
    steps = list(steps_of_tasks(graph).values())
    rows = _rows_of_sources(graph, nodes)
    of_block: dict[BlockId, StepOfTask] = {}
    for step in steps:
        of_block |= {ref.block_id: step for ref in step.blocks}
        _cut_into_parts(step, rows)
    current_budget().count_blocks(len(of_block))
    items, keys = _Items(rows), _Keys()
    for block in iter_blocks(graph, of_block):
        _add(of_block[block.block_id], block)
        items.add(block)
        keys.add(block)
    for step in steps:
        step.used = Region.of_runs(*_joined(step.inputs)).count
        step.inputs.clear()
        step.records = max(sum(items.count(space) for space in step.spaces), step.used)
    return Measures(steps, keys.counts())


def _rows_of_sources(graph: FlowGraph, nodes: Sequence[NodeRecord]) -> dict[str, int]:
    """By space of a source, how many rows its task read; spaces of which that is not known are left out."""
    rows: dict[str, int] = {}
    unknown = set[str]()
    for node in nodes:
        if node.kind != "source":
            continue
        for split in graph.splits(node.node):
            space = f"{node.node}#{split.partition}"
            if split.rows is None:
                unknown.add(space)
            rows[space] = rows.get(space, 0) + (split.rows or 0)
    return {space: count for space, count in rows.items() if space not in unknown}


def _cut_into_parts(step: StepOfTask, rows: dict[str, int]) -> None:
    """Choose the parts of a task whose inputs have an order: those of one partition."""
    if len(step.spaces) != 1:
        return
    (space,) = step.spaces
    if parse_space(space).kind is not SpaceKind.PARTITION:
        return
    # Whoever wrote the lineage may have written any number.
    length = min(max(rows.get(space, 0), 1 + max(ref.in_max for ref in step.blocks)), 1 << 63)
    parts = min(PARTS_MAX, length // RECORDS_OF_PART_MIN)
    if parts >= PARTS_MIN:
        step.part = -(-length // parts)
        # Without the last part, where it is shorter.
        step.outputs = np.zeros(length // step.part)


def _inputs(block: FlowBlock) -> tuple[Runs, I64]:
    """The runs of a block's inputs, and the block's row of each."""
    last = block.in_first if block.in_last is None else block.in_last
    rows = np.arange(block.rows, dtype=np.int64)
    if block.in_ptr is not None:
        rows = np.repeat(rows, np.diff(block.in_ptr))
    return (block.in_first, last), rows


def _outputs_per_row(block: FlowBlock) -> F64:
    if block.out_last is None:
        return np.ones(block.rows)
    return (block.out_last - block.out_first).astype(np.float64) + 1


def _add(step: StepOfTask, block: FlowBlock) -> None:
    """Add the inputs of a block to its step, and its outputs to their parts."""
    (first, last), rows = _inputs(block)
    step.inputs.append((first, last))
    if len(step.inputs) > 8:
        step.inputs = [_joined(step.inputs)]
    if not step.part:
        return
    outputs = np.ones(len(first))
    if block.relation is Relation.ALL:
        outputs *= _outputs_per_row(block).sum()
    elif block.relation is Relation.ROWS:
        outputs = _outputs_per_row(block)[rows]
    parts = len(step.outputs)
    single = first == last
    at = (first[single] // np.uint64(step.part)).astype(np.int64)
    inside = at < parts
    step.outputs += np.bincount(at[inside], outputs[single][inside], parts)[:parts]
    low, high = first[~single].astype(np.float64), last[~single].astype(np.float64) + 1
    for part in range(parts) if len(low) else ():
        begin, end = part * step.part, (part + 1) * step.part
        common = np.clip(np.minimum(high, end) - np.maximum(low, begin), 0, None)
        step.outputs[part] += float(common @ outputs[~single])


def _joined(parts: list[Runs]) -> Runs:
    return union_runs(parts)


class _Items:
    """How many items a space has: those that were put out, or the rows of a source."""

    def __init__(self, rows: dict[str, int]) -> None:
        self._rows = rows
        self._runs: dict[str, list[Runs]] = {}

    def add(self, block: FlowBlock) -> None:
        last = block.out_first if block.out_last is None else block.out_last
        for section in block.out:
            if parse_space(section.space).kind is not SpaceKind.PARTITION:
                continue
            rows = slice(section.row_first, section.row_stop)
            runs = self._runs.setdefault(section.space, [])
            runs.append((block.out_first[rows], last[rows]))
            if len(runs) > 8:
                self._runs[section.space] = [_joined(runs)]

    def count(self, space: str) -> int:
        """Items of a space; 0 where it is not known."""
        if space in self._rows:
            return self._rows[space]
        return Region.of_runs(*_joined(self._runs.get(space, []))).count


class _Keys:
    """How many records went into each key."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[U64, I64]]] = {}
        self._rows = 0

    def add(self, block: FlowBlock) -> None:
        spaces = [part for part in block.out if parse_space(part.space).kind is SpaceKind.KEYS]
        if not spaces or self._rows > KEYS_MAX:
            return
        self._rows += block.rows
        if self._rows > KEYS_MAX:
            self._parts.clear()
            return
        (first, last), rows = _inputs(block)
        sizes = np.bincount(rows, (last - first).astype(np.float64) + 1, block.rows)
        if block.relation is Relation.ALL:
            sizes[:] = sizes.sum()
        for part in spaces:
            of_part = slice(part.row_first, part.row_stop)
            counts = np.minimum(sizes[of_part], COUNT_MAX).astype(np.int64)
            self._parts.setdefault(part.space, []).append((block.out_first[of_part], counts))

    def counts(self) -> list[KeyCounts] | None:
        if self._rows > KEYS_MAX:
            return None
        return list(self._counts())

    def _counts(self) -> Iterator[KeyCounts]:
        for space, parts in sorted(self._parts.items()):
            current_budget().check()
            positions, at = np.unique(np.concatenate([p for p, _ in parts]), return_inverse=True)
            records = np.bincount(at, np.concatenate([c for _, c in parts]), len(positions))
            counts = np.minimum(records, COUNT_MAX).astype(np.int64)
            yield KeyCounts(parse_space(space).name, space, positions, counts)
