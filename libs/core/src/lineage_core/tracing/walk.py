"""One running trace: waves over spaces in topological order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lineage_core.contract.address import POSITION_MAX, SpaceKind
from lineage_core.contract.block import I64, BlockId, FlowBlock
from lineage_core.contract.graph import BlockRef, FlowGraph, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.contract.runs import EMPTY, Runs, each_once, intersect, subtract, union
from lineage_core.linking.attempts import SEVERAL, UNREAD, AttemptsRead, was_read, which_read
from lineage_core.tracing.crossing import Crossing, back, forth, inputs_of, outputs_of
from lineage_core.tracing.reaching import blocks_at, loads, space_of
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import DeadEnd, Direction, NodeItems, TraceResult

ASKERS_AT_ONCE = 16
"""Blocks of askers in memory together: some MiB each."""
LOOSE_RUNS_MAX = 1 << 20
"""Runs that wait unmerged in one space: 16 MiB."""
OPAQUE = "*"
NOT_RECORDED = "no lineage of these items was recorded"


class WalkSource(Protocol):
    """What a walk reads from: a graph, its topology and a way to load blocks."""

    graph: FlowGraph
    topology: Topology

    def load(self, wanted: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        """Blocks by id."""

    def missing(self, wanted: Iterable[BlockId]) -> list[BlockId]:
        """Those of some blocks that have to be loaded from the graph."""


@dataclass(slots=True, eq=False)
class _Wanted:
    """Positions of one space that wait to be crossed, and the block rows that asked for them."""

    parts: list[Runs] = field(default_factory=list)
    askers: dict[BlockId, list[I64]] = field(default_factory=dict)
    readers: dict[AttemptsRead, list[BlockId]] = field(default_factory=dict)
    """Backward, in a space of keys: askers by the attempts that they read."""
    own: Runs = EMPTY
    """What the trace began with that no asker asked for: edges of askers do not lead to it."""
    asked: dict[tuple[BlockId, ...], Runs] = field(default_factory=dict)
    """What all but some askers asked for."""
    asked_at: dict[str, list[Runs]] = field(default_factory=dict)
    loose: int = 0

    def add(self, runs: Runs) -> None:
        """Add runs; many are merged now and then, so that memory stays near the answer's size."""
        self.parts.append(runs)
        self.loose += len(runs[0])
        if self.loose > LOOSE_RUNS_MAX + 2 * len(self.parts[0][0]):
            self.parts = [union(self.parts)]
            self.loose = 0


class Walk:
    """The state of one running trace."""

    def __init__(
        self, source: WalkSource, direction: Direction, goal: str | None, *, exact_only: bool
    ) -> None:
        self.source = source
        self.graph = source.graph
        self.topology = source.topology
        self.direction = direction
        self.backward = direction is Direction.BACKWARD
        self.goal = goal
        self.exact_only = exact_only
        self.relevant = (
            None if goal is None else self.topology.around(goal, upstream=not self.backward)
        )
        self.passed: dict[tuple[str, str], list[Runs]] = {}
        self.found: dict[tuple[str, str], list[Runs]] = {}
        self.done: dict[str, Runs] = {}
        self.reasons: dict[str, None] = {}
        self.dead_ends: list[DeadEnd] = []
        self.crossed: set[BlockId] = set()
        self.reached: dict[str, _Wanted] = {}

    def run(self, start: Mapping[str, Runs], steps: int | None) -> TraceResult:
        """Trace to the ends, or ``steps`` blocks far."""
        frontier = {
            space: _Wanted([runs], own=runs) for space, runs in start.items() if len(runs[0])
        }
        for space, wanted in frontier.items():
            if self.backward and space_of(space).kind is SpaceKind.KEYS:
                self._find_readers(space, wanted)
        if steps is None:
            self.reached = frontier
            while self.reached:
                rank = min(self._rank(space) for space in self.reached)
                level = [space for space in self.reached if self._rank(space) == rank]
                self._take_up({space: self.reached.pop(space) for space in level}, once=True)
        else:
            for _ in range(steps):
                self.reached = {}
                self._take_up(frontier, once=False)
                frontier = self.reached
            for space, wanted in frontier.items():
                self._find_here(space, wanted)
        return self._result()

    def _rank(self, space: str) -> int:
        rank = self.topology.rank(space_of(space).name)
        return -rank if self.backward else rank

    def _take_up(self, level: Mapping[str, _Wanted], *, once: bool) -> None:
        """Cross all that waits in some spaces: each block is loaded once for all of them.

        ``once``: positions that were crossed before (by another way) are left out.
        """
        wanted_runs: dict[str, Runs] = {}
        for space, wanted in level.items():
            runs = self._to_cross(space, wanted, once=once)
            if len(runs[0]):
                wanted_runs[space] = runs
        askers = {
            space: {} if len(level[space].own[0]) else level[space].askers for space in wanted_runs
        }
        reached = blocks_at(
            self.graph,
            wanted_runs,
            askers,
            backward=self.backward,
            missing=self.source.missing,
        )
        seen: dict[str, list[Runs]] = {space: [] for space in wanted_runs}
        self._cross_each(_with_inputs(reached, wanted=True), wanted_runs, seen, level)
        # Blocks without inputs say what items look like. Where no other block tells where items are
        # from they were made of nothing; those of a source are from outside.
        bare = _with_inputs(reached, wanted=False)
        open_spaces = [
            space
            for space in bare
            if not self.topology.is_source(space_of(space).name)
            and len(_left(wanted_runs[space], seen[space])[0])
        ]
        self._cross_each({space: bare[space] for space in open_spaces}, wanted_runs, seen, level)
        for space, runs in wanted_runs.items():
            left = _left(runs, seen[space])
            if len(left[0]):
                self._end(space, level[space], left)

    def _cross_each(
        self,
        reached: Mapping[str, list[BlockRef]],
        wanted_runs: Mapping[str, Runs],
        seen: Mapping[str, list[Runs]],
        level: Mapping[str, _Wanted],
    ) -> None:
        """Load blocks, each once for all spaces that reached it, and cross them."""
        refs: dict[BlockId, BlockRef] = {}
        spaces_of_block: dict[BlockId, list[str]] = {}
        for space, found in reached.items():
            for ref in found:
                refs[ref.block_id] = ref
                spaces_of_block.setdefault(ref.block_id, []).append(space)
        for part in loads(refs.values()):
            for block_id, block in self.source.load(part).items():
                for space in spaces_of_block[block_id]:
                    runs = self._read(space, wanted_runs[space], level[space], block)
                    self._cross(block_id, block, space, runs, seen[space])

    def _read(self, space: str, runs: Runs, wanted: _Wanted, block: FlowBlock) -> Runs:
        """The wanted positions of a space that a block put out for (took in from) those who asked.

        Outputs of several attempts at a task meet at a key. Who reads it has read those of one.
        """
        if space_of(space).kind is not SpaceKind.KEYS or not wanted.askers:
            return runs
        if self.backward:
            met, missed = _by_reading(wanted.readers, block.block_id.attempt)
        else:
            met, missed = _by_attempt(wanted.askers, block.attempts_read)
        if not missed:
            return runs
        key = tuple(missed)
        if key not in wanted.asked:
            wanted.asked[key] = union([wanted.own, *self._asked(space, wanted, met)])
        return intersect(wanted.asked[key], runs)

    def _find_readers(self, space: str, wanted: _Wanted) -> None:
        """What a key is made from is what its readers read: let them have asked for it."""
        runs, taken = union(wanted.parts), list[Runs]()
        refs = self.graph.blocks_from(space, int(runs[0][0]), int(runs[1][-1]))
        for part in loads(refs):
            for block_id, block in self.source.load(part).items():
                crossing = forth(block, runs)
                if len(crossing.rows):
                    wanted.askers[block_id] = [crossing.rows]
                    wanted.readers.setdefault(block.attempts_read, []).append(block_id)
                    taken.append(crossing.seen)
        wanted.own = _left(runs, taken)
        if len(wanted.readers) > 1:
            self._doubt(space_of(space).name, SEVERAL)
        if len(wanted.own[0]):
            tasks: dict[tuple[str, int], int] = {}
            for ref in self.graph.blocks_into(space, 0, POSITION_MAX):
                one = ref.block_id
                if tasks.setdefault((one.node, one.partition), one.attempt) != one.attempt:
                    self._doubt(one.node, UNREAD)

    def _asked(self, space: str, wanted: _Wanted, askers: Sequence[BlockId]) -> Iterator[Runs]:
        """The positions of a space that some blocks asked for."""
        for at in range(0, len(askers), ASKERS_AT_ONCE):
            for block_id, block in self.source.load(askers[at : at + ASKERS_AT_ONCE]).items():
                rows = each_once(np.concatenate(wanted.askers[block_id]))
                if self.backward:
                    yield inputs_of(block, rows)
                else:
                    yield outputs_of(block, rows).get(space, EMPTY)

    def _to_cross(self, space: str, wanted: _Wanted, *, once: bool) -> Runs:
        """The positions of a space that are still to be crossed."""
        runs = union(wanted.parts)
        if once:
            done = self.done.get(space)
            if done is not None:
                runs = subtract(runs, done)
            self.done[space] = runs if done is None else union([done, runs])
        name = space_of(space).name
        if name == OPAQUE or len(runs[0]) == 0:
            return runs
        self._pass(name, space, runs)
        if name == self.goal:
            self._find(name, space, runs)
            return EMPTY
        return runs if self.relevant is None or name in self.relevant else EMPTY

    def _cross(
        self, block_id: BlockId, block: FlowBlock, space: str, runs: Runs, seen: list[Runs]
    ) -> None:
        """Cross one block from the wanted positions of one of its spaces."""
        crossing = back(block, space, runs) if self.backward else forth(block, runs)
        if len(crossing.rows) == 0:
            return
        seen.append(crossing.seen)
        if space_of(space).name == OPAQUE and self.backward:
            owned = intersect(union([crossing.seen]), runs)
            self._pass(block_id.node, space, owned)
            if block_id.node == self.goal:
                self._find(block_id.node, space, owned)
                return
        if self.exact_only and not self._is_exact(block_id.node, block):
            return
        self.crossed.add(block_id)
        if not block.exact:
            self._doubt(block_id.node, block.reason or "a superset")
        for next_space, found in crossing.reached.items():
            if len(found[0]):
                self._reach(block, crossing, next_space, found)

    def _is_exact(self, node: str, block: FlowBlock) -> bool:
        record = self.topology.by_id.get(node)
        return block.exact and (record is None or record.exact)

    def _reach(self, block: FlowBlock, crossing: Crossing, space: str, runs: Runs) -> None:
        """Let positions wait that were reached through a block."""
        block_id = block.block_id
        if space_of(space).name == OPAQUE:
            # An opaque position does not tell its node: the block that put it out does.
            runs = union([runs])
            if not self.backward:
                self._pass(block_id.node, space, runs)
                if block_id.node == self.goal:
                    self._find(block_id.node, space, runs)
                    return
            elif self.topology.is_source(block_id.node) and self.goal in (None, block_id.node):
                # What a source of an SDK takes in lies outside, even if an item has its name.
                self._find(block_id.node, space, runs)
        wanted = self.reached.setdefault(space, _Wanted())
        if space_of(space).name == OPAQUE:
            wanted.asked_at.setdefault(block_id.node, []).append(runs)
        wanted.add(runs)
        if block_id not in wanted.askers:
            wanted.readers.setdefault(block.attempts_read, []).append(block_id)
        wanted.askers.setdefault(block_id, []).append(crossing.rows)

    def _end(self, space: str, wanted: _Wanted, runs: Runs) -> None:
        """Items that no block continues: found, lost, or (forward) simply not used further."""
        name = space_of(space).name
        if name != OPAQUE:
            is_end = self.topology.is_end(name, upstream=self.backward)
            self._end_at(name, space, runs, is_end=is_end)
            return
        for node, asked in wanted.asked_at.items():
            here = intersect(union(asked), runs)
            if len(here[0]):
                owner, is_end = self.topology.end_near(node, upstream=self.backward)
                self._pass(owner, space, here)
                self._end_at(owner, space, here, is_end=is_end)
        if not wanted.asked_at and self.backward:
            self._die(name, space, runs, NOT_RECORDED)

    def _end_at(self, name: str, space: str, runs: Runs, *, is_end: bool) -> None:
        record = self.topology.by_id.get(name)
        if record is not None and record.kind == "unknown":
            self._die(
                name,
                space,
                runs,
                f"what {record.name or record.op} does is not known: {record.reason}",
            )
        elif is_end:
            if self.goal is None or self.goal == name:
                self._find(name, space, runs)
        elif self.backward:
            self._die(name, space, runs, NOT_RECORDED)

    def _find_here(self, space: str, wanted: _Wanted) -> None:
        """What the last step reached."""
        name = space_of(space).name
        if name != OPAQUE:
            runs = union(wanted.parts)
            self._pass(name, space, runs)
            self._find(name, space, runs)
        for node, asked in wanted.asked_at.items():
            owner = self.topology.end_near(node, upstream=True)[0] if self.backward else node
            self._find(owner, space, union(asked))

    def _pass(self, node: str, space: str, runs: Runs) -> None:
        self.passed.setdefault((node, space), []).append(runs)

    def _find(self, node: str, space: str, runs: Runs) -> None:
        self.found.setdefault((node, space), []).append(runs)

    def _die(self, node: str, space: str, runs: Runs, reason: str) -> None:
        self.dead_ends.append(DeadEnd(node, space, Region(*runs), reason))
        self._doubt(node, reason)

    def _doubt(self, node: str, reason: str) -> None:
        record = self.topology.by_id.get(node)
        what = f"node {node}" if record is None else f"node {node} ({record.name or record.op})"
        self.reasons[f"{what}: {reason}"] = None

    def _result(self) -> TraceResult:
        passed = _by_node(self.passed)
        for node in passed:
            record = self.topology.by_id.get(node)
            if record is not None and not record.exact and record.kind != "unknown":
                self._doubt(node, record.reason or "a superset")
        if not self.backward:
            self._look_for_unknown(passed)
        return TraceResult(
            self.direction,
            _by_node(self.found),
            passed,
            not self.reasons,
            tuple(self.reasons),
            tuple(self.dead_ends),
            len(self.crossed),
        )

    def _look_for_unknown(self, passed: Mapping[str, NodeItems]) -> None:
        """Forward, an unknown node that may have read the items leaves no block behind."""
        unknown = [node for node in self.topology.by_id.values() if node.kind == "unknown"]
        if not unknown or self.goal is not None:
            return
        for node in unknown:
            for owner in self.topology.owners_above(node.node, self._owns_items):
                for space, region in passed[owner].spaces.items() if owner in passed else ():
                    reason = f"{node.name or node.op} (node {node.node}) reads on from here and is not known"
                    self._die(owner, space, _runs(region), reason)

    def _owns_items(self, node: NodeRecord) -> bool:
        return node.kind in ("source", "sink", "shuffle") or bool(self.graph.spaces_of(node.node))


def _runs(region: Region) -> Runs:
    return region.first, region.last


def _by_node(parts: Mapping[tuple[str, str], list[Runs]]) -> dict[str, NodeItems]:
    spaces: dict[str, dict[str, Region]] = {}
    for (node, space), runs in parts.items():
        merged = runs[0] if len(runs) == 1 else union(runs)
        spaces.setdefault(node, {})[space] = Region(*merged)
    return {node: NodeItems(node, found) for node, found in spaces.items()}


def _with_inputs(
    reached: Mapping[str, list[BlockRef]], *, wanted: bool
) -> dict[str, list[BlockRef]]:
    """Of the blocks by space those with inputs, or those without; spaces that have any."""
    found = {
        space: [ref for ref in refs if (ref.in_min <= ref.in_max) == wanted]
        for space, refs in reached.items()
    }
    return {space: refs for space, refs in found.items() if refs}


def _by_reading(
    readers: Mapping[AttemptsRead, list[BlockId]], attempt: int
) -> tuple[list[BlockId], list[BlockId]]:
    """Those who read outputs of an attempt, and those who did not."""
    met: list[BlockId] = []
    missed: list[BlockId] = []
    for attempts, blocks in readers.items():
        (met if was_read(attempts, attempt) else missed).extend(blocks)
    return met, missed


def _by_attempt(
    producers: Iterable[BlockId], attempts: AttemptsRead
) -> tuple[list[BlockId], list[BlockId]]:
    """Blocks of attempts that were read, and of others."""
    blocks = list(producers)
    read = which_read(attempts, (block.attempt for block in blocks))
    met = [block for block, one in zip(blocks, read, strict=True) if one]
    missed = [block for block, one in zip(blocks, read, strict=True) if not one]
    return met, missed


def _left(runs: Runs, seen: list[Runs]) -> Runs:
    return subtract(runs, union(seen)) if seen else runs
