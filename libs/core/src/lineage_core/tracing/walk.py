"""One running trace: waves over spaces in topological order."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lineage_core.contract.address import POSITION_MAX, SpaceKind
from lineage_core.contract.block import I64, BlockId, FlowBlock
from lineage_core.contract.graph import BlockRef, FlowGraph, NodeRecord
from lineage_core.contract.reasons import ReasonList
from lineage_core.contract.region import Region
from lineage_core.contract.runs import (
    EMPTY,
    Runs,
    intersect_runs,
    sorted_unique,
    subtract_runs,
    union_runs,
)
from lineage_core.linking.attempts import (
    READ_DIFFERENTLY,
    READ_UNKNOWN,
    AttemptsRead,
    was_read,
    were_read,
)
from lineage_core.linking.linker import TaskId
from lineage_core.tracing.block_lookup import cached_space, load_batches, reached_blocks
from lineage_core.tracing.crossing import (
    BlockCrossing,
    cross_backward,
    cross_forward,
    inputs_of_rows,
    outputs_of_rows,
)
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import (
    CROSSED_MAX,
    DeadEnd,
    Direction,
    NodeItems,
    TraceResult,
)

REQUESTERS_AT_ONCE = 16
"""Requesting blocks in memory together: some MiB each."""
TASK_PARTS_MAX = 64
"""Unmerged parts of the positions that were reached through one task."""
LOOSE_RUNS_MAX = 1 << 20
"""Runs that wait unmerged in one space: 16 MiB."""
OPAQUE = "*"
NOT_RECORDED = "no lineage of these items was recorded"


class WalkSource(Protocol):
    """What a walk reads from: a graph, its topology and a way to load blocks."""

    graph: FlowGraph
    topology: Topology

    def load(self, requested: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        """Blocks by id."""

    def uncached(self, requested: Iterable[BlockId]) -> list[BlockId]:
        """Those of some blocks that have to be loaded from the graph."""


@dataclass(slots=True, eq=False)
class _Requested:
    """Positions of one space that are still to be crossed, and the block rows that requested them."""

    parts: list[Runs] = field(default_factory=list)
    requesters: dict[BlockId, list[I64]] = field(default_factory=dict)
    readers: dict[AttemptsRead, list[BlockId]] = field(default_factory=dict)
    """Backward, in a space of keys: requesting blocks by the attempts that they read."""
    unrequested: Runs = EMPTY
    """Positions that the trace starts with and no block requested: no edge of a requesting block leads to them."""
    runs_without: dict[tuple[BlockId, ...], Runs] = field(default_factory=dict)
    """The requested positions without those of some requesting blocks."""
    runs_by_node: dict[str, list[Runs]] = field(default_factory=dict)
    loose: int = 0

    def add(self, runs: Runs) -> None:
        """Add runs; many are merged now and then, so that memory stays near the answer's size."""
        self.parts.append(runs)
        self.loose += len(runs[0])
        if self.loose > LOOSE_RUNS_MAX + 2 * len(self.parts[0][0]):
            self.parts = [union_runs(self.parts)]
            self.loose = 0


class Walk:
    """The state of one running trace."""

    def __init__(
        self,
        source: WalkSource,
        direction: Direction,
        goal: str | None,
        *,
        exact_only: bool,
        by_task: bool = False,
    ) -> None:
        self.source = source
        self.graph = source.graph
        self.topology = source.topology
        self.direction = direction
        self.backward = direction is Direction.BACKWARD
        self.goal = goal
        self.exact_only = exact_only
        self.relevant = (
            None if goal is None else self.topology.reachable_from(goal, upstream=not self.backward)
        )
        self.passed: dict[tuple[str, str], list[Runs]] = {}
        self.found: dict[tuple[str, str], list[Runs]] = {}
        self.crossed_runs: dict[str, Runs] = {}
        self.reasons = ReasonList()
        self.dead_ends: list[DeadEnd] = []
        self.crossed: set[BlockId] = set()
        self.reached: dict[str, _Requested] = {}
        self.task_runs: dict[str, dict[TaskId, list[Runs]]] | None = {} if by_task else None
        """By space and task, the positions that were reached through its blocks."""

    def run(self, start: Mapping[str, Runs], steps: int | None) -> TraceResult:
        """Trace to the ends, or ``steps`` blocks far."""
        frontier = {
            space: _Requested([runs], unrequested=runs)
            for space, runs in start.items()
            if len(runs[0])
        }
        for space, requested in frontier.items():
            if self.backward and cached_space(space).kind is SpaceKind.KEYS:
                self._find_readers(space, requested)
        if steps is None:
            self.reached = frontier
            while self.reached:
                rank = min(self._rank(space) for space in self.reached)
                level = [space for space in self.reached if self._rank(space) == rank]
                self._cross_level({space: self.reached.pop(space) for space in level}, once=True)
        else:
            for _ in range(steps):
                self.reached = {}
                self._cross_level(frontier, once=False)
                frontier = self.reached
            for space, requested in frontier.items():
                self._record_last_step(space, requested)
        return self._result()

    def _rank(self, space: str) -> int:
        rank = self.topology.rank(cached_space(space).name)
        return -rank if self.backward else rank

    def _cross_level(self, level: Mapping[str, _Requested], *, once: bool) -> None:
        """Cross all that waits in some spaces: each block is loaded once for all of them.

        ``once``: positions that were crossed before (by another way) are left out.
        """
        requested_runs: dict[str, Runs] = {}
        for space, requested in level.items():
            runs = self._to_cross(space, requested, once=once)
            if len(runs[0]):
                requested_runs[space] = runs
        requesters = {
            space: {} if len(level[space].unrequested[0]) else level[space].requesters
            for space in requested_runs
        }
        reached = reached_blocks(
            self.graph,
            requested_runs,
            requesters,
            backward=self.backward,
            uncached=self.source.uncached,
        )
        seen: dict[str, list[Runs]] = {space: [] for space in requested_runs}
        self._cross_each(_with_inputs(reached, requested=True), requested_runs, seen, level)
        # Blocks without inputs hold the values of items. Items that no other block has inputs for
        # were made of nothing; those of a source come from outside.
        without_inputs = _with_inputs(reached, requested=False)
        open_spaces = [
            space
            for space in without_inputs
            if not self.topology.is_source(cached_space(space).name)
            and len(_unseen(requested_runs[space], seen[space])[0])
        ]
        self._cross_each(
            {space: without_inputs[space] for space in open_spaces}, requested_runs, seen, level
        )
        for space, runs in requested_runs.items():
            unseen = _unseen(runs, seen[space])
            if len(unseen[0]):
                self._handle_end(space, level[space], unseen)

    def _cross_each(
        self,
        reached: Mapping[str, list[BlockRef]],
        requested_runs: Mapping[str, Runs],
        seen: Mapping[str, list[Runs]],
        level: Mapping[str, _Requested],
    ) -> None:
        """Load blocks, each once for all spaces that reached it, and cross them."""
        refs: dict[BlockId, BlockRef] = {}
        spaces_of_block: dict[BlockId, list[str]] = {}
        for space, space_refs in reached.items():
            for ref in space_refs:
                refs[ref.block_id] = ref
                spaces_of_block.setdefault(ref.block_id, []).append(space)
        for part in load_batches(refs.values()):
            for block_id, block in self.source.load(part).items():
                for space in spaces_of_block[block_id]:
                    runs = self._readable_runs(space, requested_runs[space], level[space], block)
                    self._cross(refs[block_id], block, space, runs, seen[space])

    def _readable_runs(
        self, space: str, runs: Runs, requested: _Requested, block: FlowBlock
    ) -> Runs:
        """The requested positions of a space that a block wrote for (read from) the blocks that requested them.

        Outputs of several attempts at a task meet at a key; a reader has read only those of its `attempts_read`.
        """
        if cached_space(space).kind is not SpaceKind.KEYS or not requested.requesters:
            return runs
        if self.backward:
            read_from, not_read = _split_readers(requested.readers, block.block_id.attempt)
        else:
            read_from, not_read = _split_producers(requested.requesters, block.attempts_read)
        if not not_read:
            return runs
        key = tuple(not_read)
        if key not in requested.runs_without:
            requested.runs_without[key] = union_runs(
                [requested.unrequested, *self._requested_by(space, requested, read_from)]
            )
        return intersect_runs(requested.runs_without[key], runs)

    def _find_readers(self, space: str, requested: _Requested) -> None:
        """Record the readers of keys as their requesters: a key is made from what its readers read."""
        runs, read_runs = union_runs(requested.parts), list[Runs]()
        refs = self.graph.blocks_from(space, int(runs[0][0]), int(runs[1][-1]))
        for part in load_batches(refs):
            for block_id, block in self.source.load(part).items():
                crossing = cross_forward(block, runs)
                if len(crossing.rows):
                    requested.requesters[block_id] = [crossing.rows]
                    requested.readers.setdefault(block.attempts_read, []).append(block_id)
                    read_runs.append(crossing.seen)
        requested.unrequested = _unseen(runs, read_runs)
        if len(requested.readers) > 1:
            self._mark_inexact(cached_space(space).name, READ_DIFFERENTLY)
        if len(requested.unrequested[0]):
            tasks: dict[tuple[str, int], int] = {}
            for ref in self.graph.blocks_into(space, 0, POSITION_MAX):
                producer = ref.block_id
                if (
                    tasks.setdefault((producer.node, producer.partition), producer.attempt)
                    != producer.attempt
                ):
                    self._mark_inexact(producer.node, READ_UNKNOWN)

    def _requested_by(
        self, space: str, requested: _Requested, requesters: Sequence[BlockId]
    ) -> Iterator[Runs]:
        """The positions of a space that some blocks requested."""
        for at in range(0, len(requesters), REQUESTERS_AT_ONCE):
            for block_id, block in self.source.load(
                requesters[at : at + REQUESTERS_AT_ONCE]
            ).items():
                rows = sorted_unique(np.concatenate(requested.requesters[block_id]))
                if self.backward:
                    yield inputs_of_rows(block, rows)
                else:
                    yield outputs_of_rows(block, rows).get(space, EMPTY)

    def _to_cross(self, space: str, requested: _Requested, *, once: bool) -> Runs:
        """The positions of a space that are still to be crossed."""
        runs = union_runs(requested.parts)
        if once:
            crossed_before = self.crossed_runs.get(space)
            if crossed_before is not None:
                runs = subtract_runs(runs, crossed_before)
            self.crossed_runs[space] = (
                runs if crossed_before is None else union_runs([crossed_before, runs])
            )
        name = cached_space(space).name
        if name == OPAQUE or len(runs[0]) == 0:
            return runs
        self._record_passed(name, space, runs)
        if name == self.goal:
            self._record_result(name, space, runs)
            return EMPTY
        return runs if self.relevant is None or name in self.relevant else EMPTY

    def _cross(
        self, ref: BlockRef, block: FlowBlock, space: str, runs: Runs, seen: list[Runs]
    ) -> None:
        """Cross one block from the requested positions of one of its spaces."""
        block_id = ref.block_id
        crossing = (
            cross_backward(block, space, runs) if self.backward else cross_forward(block, runs)
        )
        if len(crossing.rows) == 0:
            return
        seen.append(crossing.seen)
        if cached_space(space).name == OPAQUE and self.backward:
            owned = intersect_runs(union_runs([crossing.seen]), runs)
            self._record_passed(block_id.node, space, owned)
            if block_id.node == self.goal:
                self._record_result(block_id.node, space, owned)
                return
        if self.exact_only and not self._is_exact(block_id.node, block):
            return
        self.crossed.add(block_id)
        if not block.exact:
            self._mark_inexact(block_id.node, block.reason or "a superset")
        for next_space, next_runs in crossing.reached.items():
            if len(next_runs[0]):
                self._record_task(ref, next_space, next_runs)
                self._enqueue(block, crossing, next_space, next_runs)

    def _record_task(self, ref: BlockRef, space: str, runs: Runs) -> None:
        """Record the task whose block reached positions, if tasks are requested."""
        if self.task_runs is None:
            return
        block_id = ref.block_id
        task = TaskId(ref.task or block_id.node, block_id.partition, block_id.attempt)
        parts = self.task_runs.setdefault(space, {}).setdefault(task, [])
        parts.append(runs)
        if len(parts) > TASK_PARTS_MAX:
            parts[:] = [union_runs(parts)]

    def _is_exact(self, node: str, block: FlowBlock) -> bool:
        record = self.topology.by_id.get(node)
        return block.exact and (record is None or record.exact)

    def _enqueue(self, block: FlowBlock, crossing: BlockCrossing, space: str, runs: Runs) -> None:
        """Queue positions that were reached through a block."""
        block_id = block.block_id
        if cached_space(space).name == OPAQUE:
            # An opaque position does not identify its node; the block that wrote it does.
            runs = union_runs([runs])
            if not self.backward:
                self._record_passed(block_id.node, space, runs)
                if block_id.node == self.goal:
                    self._record_result(block_id.node, space, runs)
                    return
            elif self.topology.is_source(block_id.node) and self.goal in (None, block_id.node):
                # What a source of an SDK takes in lies outside, even if an item has its name.
                self._record_result(block_id.node, space, runs)
        requested = self.reached.setdefault(space, _Requested())
        if cached_space(space).name == OPAQUE:
            requested.runs_by_node.setdefault(block_id.node, []).append(runs)
        requested.add(runs)
        if block_id not in requested.requesters:
            requested.readers.setdefault(block.attempts_read, []).append(block_id)
        requested.requesters.setdefault(block_id, []).append(crossing.rows)

    def _handle_end(self, space: str, requested: _Requested, runs: Runs) -> None:
        """Items that no block continues: found, lost, or (forward) simply not used further."""
        name = cached_space(space).name
        if name != OPAQUE:
            is_end = self.topology.is_end(name, upstream=self.backward)
            self._handle_end_at(name, space, runs, is_end=is_end)
            return
        for node, requested_parts in requested.runs_by_node.items():
            ended_runs = intersect_runs(union_runs(requested_parts), runs)
            if len(ended_runs[0]):
                owner, is_end = self.topology.opaque_end_of(node, upstream=self.backward)
                self._record_passed(owner, space, ended_runs)
                self._handle_end_at(owner, space, ended_runs, is_end=is_end)
        if not requested.runs_by_node and self.backward:
            self._record_dead_end(name, space, runs, NOT_RECORDED)

    def _handle_end_at(self, name: str, space: str, runs: Runs, *, is_end: bool) -> None:
        missing = missing_reason(self.topology, name, is_end=is_end, backward=self.backward)
        if missing:
            self._record_dead_end(name, space, runs, missing)
        elif is_end and (self.goal is None or self.goal == name):
            self._record_result(name, space, runs)

    def _record_last_step(self, space: str, requested: _Requested) -> None:
        """What the last step reached."""
        name = cached_space(space).name
        if name != OPAQUE:
            runs = union_runs(requested.parts)
            self._record_passed(name, space, runs)
            self._record_result(name, space, runs)
        for node, requested_parts in requested.runs_by_node.items():
            owner = self.topology.opaque_end_of(node, upstream=True)[0] if self.backward else node
            self._record_result(owner, space, union_runs(requested_parts))

    def _record_passed(self, node: str, space: str, runs: Runs) -> None:
        self.passed.setdefault((node, space), []).append(runs)

    def _record_result(self, node: str, space: str, runs: Runs) -> None:
        self.found.setdefault((node, space), []).append(runs)

    def _record_dead_end(self, node: str, space: str, runs: Runs, reason: str) -> None:
        self.dead_ends.append(DeadEnd(node, space, Region(*runs), reason))
        self._mark_inexact(node, reason)

    def _mark_inexact(self, node: str, reason: str) -> None:
        self.reasons.add(node_reason(self.topology, node, reason))

    def _result(self) -> TraceResult:
        passed = _by_node(self.passed)
        for node in passed:
            record = self.topology.by_id.get(node)
            if record is not None and not record.exact and record.kind != "unknown":
                self._mark_inexact(node, record.reason or "a superset")
        if not self.backward:
            self._check_unknown_readers(passed)
        return TraceResult(
            self.direction,
            _by_node(self.found),
            passed,
            not self.reasons,
            self.reasons.items(),
            tuple(self.dead_ends),
            len(self.crossed),
            self._tasks(),
            frozenset(self.crossed if len(self.crossed) <= CROSSED_MAX else ()),
        )

    def _tasks(self) -> dict[str, dict[TaskId, Region]]:
        """By space of what was found, the tasks through whose blocks it was reached."""
        spaces = {space for _, space in self.found}
        return {
            space: {task: Region(*union_runs(parts)) for task, parts in tasks.items()}
            for space, tasks in (self.task_runs or {}).items()
            if space in spaces
        }

    def _check_unknown_readers(self, passed: Mapping[str, NodeItems]) -> None:
        """Forward, an unknown node that may have read the items leaves no block behind."""
        if self.goal is not None:
            return
        for owner, reason in unknown_readers(self.graph, self.topology, passed):
            for space, region in passed[owner].spaces.items():
                self._record_dead_end(owner, space, _runs(region), reason)


def missing_reason(topology: Topology, node: str, *, is_end: bool, backward: bool) -> str:
    """Why something is missing past items of a node that no block continues; empty: nothing is.

    ``is_end``: the node is one where items end by rights.
    """
    record = topology.by_id.get(node)
    if record is not None and record.kind == "unknown":
        return f"what {record.name or record.op} does is not known: {record.reason}"
    return NOT_RECORDED if backward and not is_end else ""


def node_reason(topology: Topology, node: str, reason: str) -> str:
    """A reason why items are a superset, with the node that it is about."""
    record = topology.by_id.get(node)
    node_text = f"node {node}" if record is None else f"node {node} ({record.name or record.op})"
    return f"{node_text}: {reason}"


def unknown_readers(
    graph: FlowGraph, topology: Topology, passed: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Nodes among ``passed`` that an unknown node may have read from, each with what is to be said of it."""

    def owns_items(node: NodeRecord) -> bool:
        return node.kind in ("source", "sink", "shuffle") or bool(graph.spaces_of(node.node))

    for node in topology.by_id.values():
        if node.kind != "unknown":
            continue
        for owner in topology.owners_above(node.node, owns_items):
            if owner in passed:
                yield (
                    owner,
                    f"{node.name or node.op} (node {node.node}) reads on from here and is not known",
                )


def _runs(region: Region) -> Runs:
    return region.first, region.last


def _by_node(parts: Mapping[tuple[str, str], list[Runs]]) -> dict[str, NodeItems]:
    spaces: dict[str, dict[str, Region]] = {}
    for (node, space), runs in parts.items():
        merged = runs[0] if len(runs) == 1 else union_runs(runs)
        spaces.setdefault(node, {})[space] = Region(*merged)
    return {node: NodeItems(node, regions) for node, regions in spaces.items()}


def _with_inputs(
    reached: Mapping[str, list[BlockRef]], *, requested: bool
) -> dict[str, list[BlockRef]]:
    """Of the blocks by space those with inputs, or those without; spaces that have any."""
    refs_by_space = {
        space: [ref for ref in refs if (ref.in_min <= ref.in_max) == requested]
        for space, refs in reached.items()
    }
    return {space: refs for space, refs in refs_by_space.items() if refs}


def _split_readers(
    readers: Mapping[AttemptsRead, list[BlockId]], attempt: int
) -> tuple[list[BlockId], list[BlockId]]:
    """The readers that read outputs of an attempt, and the readers that did not."""
    read_from: list[BlockId] = []
    not_read: list[BlockId] = []
    for attempts, blocks in readers.items():
        (read_from if was_read(attempts, attempt) else not_read).extend(blocks)
    return read_from, not_read


def _split_producers(
    producers: Iterable[BlockId], attempts: AttemptsRead
) -> tuple[list[BlockId], list[BlockId]]:
    """Blocks of attempts that were read, and of others."""
    blocks = list(producers)
    is_read = were_read(attempts, (block.attempt for block in blocks))
    read_from = [
        block for block, was_block_read in zip(blocks, is_read, strict=True) if was_block_read
    ]
    not_read = [
        block for block, was_block_read in zip(blocks, is_read, strict=True) if not was_block_read
    ]
    return read_from, not_read


def _unseen(runs: Runs, seen: list[Runs]) -> Runs:
    return subtract_runs(runs, union_runs(seen)) if seen else runs
