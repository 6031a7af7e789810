"""Which of the items that a trace found were joined with each other on the way.

The blocks that the trace crossed say which items an item was made from. An item of a join was made from one item of
each side: what these two were made from belongs together. An item of an aggregate was made from many, each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeAlias

from lineage_core.contract.address import OPAQUE_SPACE, SpaceKind
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.region import Region
from lineage_core.contract.runs import Runs
from lineage_core.linking.attempts import AttemptsRead, was_read
from lineage_core.tracing.block_lookup import LOAD_BLOCKS, cached_space
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.derivations import Derivations, block_derivations
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import TraceResult

ItemName: TypeAlias = tuple[str, int]
"""Space and position."""
Combination: TypeAlias = tuple[ItemName, ...]
"""Items that belong together, in order; one that was joined with itself is there twice."""
Combinations: TypeAlias = frozenset[Combination]
Reload: TypeAlias = Callable[[Iterable[BlockId]], Mapping[BlockId, FlowBlock]]

JOINED_MAX = 1_000
"""Combinations that are listed."""
ITEMS_MAX = 20_000
"""Items on the way of a trace whose combinations are looked for."""
PAIRS_MAX = 100_000
"""Pairs of an item and one that it was made from."""
WORK_MAX = 200_000
"""Combinations that are put together on the way."""

JOINS = frozenset(("join", "cartesian", "zip"))
"""An item is made from one item of each side; an outer join's perhaps from that of one side alone."""
TWO_SIDED = frozenset(("cartesian", "zip"))
"""Of these from both, which may be the same item."""
COGROUPS = frozenset(("cogroup", "groupWith", "intersection"))
"""Names of operators that are aggregates of several sides."""
AGGREGATES = frozenset(
    ("combineByKey", "glom", "count", "reduce", "fold", "aggregate", "treeReduce", "treeAggregate",
     "sum", "stats", "histogram", "countByValue", "countApprox", "sumApprox", "meanApprox",
     "countApproxDistinct", "reduceByKeyLocally")
)  # fmt: skip
"""An item is made from any number, none of which is joined with another."""
RECORD_BY_RECORD = frozenset(
    ("map", "named", "union", "coalesce", "repartition", "partitionBy", "sortBy", "sortByKey", "subtractByKey",
     "repartitionAndSortWithinPartitions", "collect", "take", "foreach", "foreachPartition", "max", "min", "top",
     "takeOrdered", "takeSample", "toLocalIterator", "saveAsTextFile", "saveAsPickleFile", "saveAsSequenceFile",
     "saveAsHadoopFile", "saveAsHadoopDataset", "saveAsNewAPIHadoopFile", "saveAsNewAPIHadoopDataset")
)  # fmt: skip
"""An item is made from one. Others may be, too: this only says where there is nothing to look for."""

NOT_EXACT = "the answer names more rows than were used, so which of them were joined is not known"
OF_GROUPS = "rows that were used together with a group (of an aggregate, a window or a semi join) belong together with all rows of it"
TOO_MANY = f"there are more than {JOINED_MAX:,} combinations of rows: ask for fewer rows"
TOO_LARGE = "the trace is too large to say which of its rows were joined: ask for fewer rows"
OPAQUE_ITEMS = "the program names its items itself, and does not say which of them it joined"
INSIDE_A_SHUFFLE = "the trace begins inside of a shuffle, of which several attempts may differ"
READ_DIFFERENTLY = "readers of a shuffle read different attempts of its tasks"
STOPPED_ON_THE_WAY = "the trace stops at rows that others on the way were made from"


@dataclass(frozen=True, slots=True)
class JoinedItems:
    """Combinations of two or more items. ``unknown``: why others may be missing; empty: these are all."""

    rows: tuple[Combination, ...] = ()
    unknown: tuple[str, ...] = ()


class _NotKnownError(Exception):
    """Nothing can be said; the text says why."""


def joined_items(
    topology: Topology,
    reload: Reload,
    start: Mapping[str, Region],
    result: TraceResult,
) -> JoinedItems:
    """Which items that a trace back found were joined with each other to make the items that it starts with.

    Args:
        topology: of the application.
        reload: gives blocks that the trace has crossed.
        start: the items that it starts with, by space.
        result: of the trace; nothing of the lineage that it went along is missing.
    """
    if all(_never_joins(topology.by_id.get(node)) for node in result.passed):
        return JoinedItems()
    if not result.exact:
        return JoinedItems(unknown=(NOT_EXACT,))
    try:
        made_from = _MadeFrom.of_trace(topology, reload, start, result)
        return _Combiner(made_from, _positions_by_space(result)).joined(start)
    except _NotKnownError as problem:
        return JoinedItems(unknown=(str(problem),))


def _never_joins(record: NodeRecord | None) -> bool:
    """Whether capture made a node whose items are made from one item each, or from items that are not joined."""
    if record is None or not record.node.isdecimal() or record.name in COGROUPS:
        return False
    return record.kind == "source" or record.op in AGGREGATES or record.op in RECORD_BY_RECORD


def _positions_by_space(result: TraceResult) -> dict[str, set[int]]:
    """What a trace found."""
    positions: dict[str, set[int]] = {}
    for items in result.found.values():
        for space, region in items.spaces.items():
            positions.setdefault(space, set()).update(region.positions().tolist())
    return positions


@dataclass(slots=True)
class _MadeFrom:
    """The items that items on the way were made from, and the nodes that made them."""

    topology: Topology
    inputs: dict[ItemName, dict[ItemName, None]] = field(default_factory=dict)
    makers: dict[ItemName, str] = field(default_factory=dict)
    pairs: int = 0

    @classmethod
    def of_trace(
        cls,
        topology: Topology,
        reload: Reload,
        start: Mapping[str, Region],
        result: TraceResult,
    ) -> _MadeFrom:
        """All that the blocks say which a trace crossed.

        Raises:
            _NotKnownError: they are too many, or don't say it.
        """
        on_the_way = _regions(start, result)
        if OPAQUE_SPACE in on_the_way:
            raise _NotKnownError(OPAQUE_ITEMS)
        count = sum(region.count for region in on_the_way.values())
        if count > ITEMS_MAX or len(result.crossed) < result.blocks_crossed:
            raise _NotKnownError(TOO_LARGE)
        made_from = cls(topology)
        requested: dict[str, Runs] = {
            space: (region.first, region.last) for space, region in on_the_way.items()
        }
        readers: dict[str, set[AttemptsRead]] = {}
        written: list[Derivations] = []
        for block in _blocks(reload, result.crossed):
            readers.setdefault(block.in_space, set()).add(block.attempts_read)
            for derivations in block_derivations(block, requested):
                made_from._count(len(derivations.ins))
                if cached_space(derivations.out_space).kind is SpaceKind.KEYS:
                    written.append(derivations)
                else:
                    made_from._add(derivations)
        for derivations in written:
            if _is_read(derivations, readers.get(derivations.out_space)):
                made_from._add(derivations)
        return made_from

    def _count(self, pairs: int) -> None:
        self.pairs += pairs
        if self.pairs > PAIRS_MAX:
            raise _NotKnownError(TOO_LARGE)

    def _add(self, derivations: Derivations) -> None:
        node = derivations.block_id.node
        for used, made in zip(derivations.ins.tolist(), derivations.outs.tolist(), strict=True):
            item = (derivations.out_space, made)
            self.inputs.setdefault(item, {})[derivations.in_space, used] = None
            if self.makers.setdefault(item, node) != node:
                raise _NotKnownError(f"{self.label(node)} and another node made the same rows")

    def maker(self, item: ItemName) -> NodeRecord | None:
        """The node that made an item."""
        return self.topology.by_id.get(self.makers[item])

    def label(self, node: str) -> str:
        """What people call a node."""
        record = self.topology.by_id.get(node)
        return f"{record.name or record.op} (node {node})" if record else f"node {node}"


def _regions(start: Mapping[str, Region], result: TraceResult) -> dict[str, Region]:
    """All items on the way of a trace, by space."""
    parts: dict[str, list[Region]] = {space: [region] for space, region in start.items()}
    for items in chain(result.passed.values(), result.found.values()):
        for space, region in items.spaces.items():
            parts.setdefault(space, []).append(region)
    return {space: Region.union(regions) for space, regions in parts.items()}


def _blocks(reload: Reload, block_ids: Iterable[BlockId]) -> Iterator[FlowBlock]:
    ordered = sorted(block_ids)
    for at in range(0, len(ordered), LOAD_BLOCKS):
        current_budget().check()
        yield from reload(ordered[at : at + LOAD_BLOCKS]).values()


def _is_read(derivations: Derivations, readers: set[AttemptsRead] | None) -> bool:
    """Whether the readers of a shuffle read what an attempt at a task wrote.

    Raises:
        _NotKnownError: some did, some did not, or nobody is known to have read it.
    """
    if not readers:
        raise _NotKnownError(INSIDE_A_SHUFFLE)
    is_read = {was_read(attempts, derivations.block_id.attempt) for attempts in readers}
    if len(is_read) > 1:
        raise _NotKnownError(READ_DIFFERENTLY)
    return is_read.pop()


class _Combiner:
    """Puts combinations together, from what was found to what the trace starts with."""

    def __init__(self, made_from: _MadeFrom, found: Mapping[str, set[int]]) -> None:
        self._made_from = made_from
        self._found = found
        self._combinations: dict[ItemName, Combinations] = {}
        self._unknown: dict[str, None] = {}
        self._work = 0

    def joined(self, start: Mapping[str, Region]) -> JoinedItems:
        """The combinations of the items that a trace starts with, and why there may be others."""
        # Many may be made from the same.
        distinct = {
            self._of((space, position))
            for space, region in start.items()
            for position in region.positions().tolist()
        }
        joined = {together for together in self._all(list(distinct)) if len(together) > 1}
        if len(joined) > JOINED_MAX:
            raise _NotKnownError(TOO_MANY)
        return JoinedItems(tuple(sorted(joined)), tuple(self._unknown))

    def _of(self, wanted: ItemName) -> Combinations:
        """What an item was made from: those of its inputs first, without recursion."""
        pending, under_way = [wanted], set[ItemName]()
        while pending:
            item = pending[-1]
            if item in self._combinations:
                pending.pop()
                continue
            missing = [used for used in self._inputs(item) if used not in self._combinations]
            if missing and item in under_way:
                raise _NotKnownError(f"{self._label(item)} reads what was made from its own rows")
            under_way.add(item)
            pending += missing
            if not missing:
                self._combinations[item] = self._combined(item)
                pending.pop()
        return self._combinations[wanted]

    def _inputs(self, item: ItemName) -> Sequence[ItemName]:
        inputs = tuple(self._made_from.inputs.get(item, ()))
        if inputs and self._is_found(item):
            raise _NotKnownError(STOPPED_ON_THE_WAY)
        return inputs

    def _is_found(self, item: ItemName) -> bool:
        space, position = item
        return position in self._found.get(space, ())

    def _combined(self, item: ItemName) -> Combinations:
        inputs = self._inputs(item)
        if not inputs:
            # One that was not found lies beyond what is looked for, or was made from nothing.
            return frozenset([(item,) if self._is_found(item) else ()])
        of_inputs = [self._combinations[used] for used in inputs]
        maker = self._made_from.maker(item)
        op = maker.op if maker is not None and maker.node.isdecimal() else ""
        # A node that only names the rows of a side has the same operator, and says which side it is.
        if op in TWO_SIDED and len(of_inputs) == 1 and maker is not None and not maker.description:
            of_inputs *= 2
        if len(of_inputs) == 1:
            return of_inputs[0]
        current_budget().check()
        if op in JOINS and len(of_inputs) == 2:
            return self._side_by_side(*of_inputs)
        if op not in AGGREGATES:
            self._unknown[f"which rows {self._label(item)} joined is not recorded"] = None
        elif maker is not None and maker.name in COGROUPS:
            label = self._label(item)
            self._unknown[
                f"{label} makes one row from all rows of a key: which of them belong together is not known"
            ] = None
        return self._all(of_inputs)

    def _side_by_side(self, left: Combinations, right: Combinations) -> Combinations:
        """What a row of a join was made from. A side made from several is a group."""
        for side, other in ((left, right), (right, left)):
            if side == {()}:
                return other
        if len(left) > 1 or len(right) > 1:
            self._unknown[OF_GROUPS] = None
            return self._all((left, right))
        ((of_left,), (of_right,)) = left, right
        self._count(len(of_left) + len(of_right))
        return frozenset([tuple(sorted(of_left + of_right))])

    def _all(self, of_inputs: Sequence[Combinations]) -> Combinations:
        self._count(sum(map(len, of_inputs)))
        return frozenset().union(*of_inputs)

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > WORK_MAX:
            raise _NotKnownError(TOO_MANY)

    def _label(self, item: ItemName) -> str:
        return self._made_from.label(self._made_from.makers[item])
