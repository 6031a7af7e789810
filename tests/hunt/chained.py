"""Jobs without Spark that nothing happens to: sources, shuffles behind one another, a sink.

Unlike those of `simulated` they come many to an application, and their shapes differ more: map tasks that drop, copy or
join records, several sources into one shuffle, records that are cached on the way, a task's blocks in several batches,
tasks that number their records one by one (``IDENTITY``) or make each output of all inputs (``ALL``). Each record
holds its source rows, so each row of a sink states what it is made of.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.message import Commit, Expected, Job, Link, Message, Register
from lineage_core.contract.region import Region
from lineage_core.linking.linker import TaskId
from tests.oracle.brute import Witnesses

KEY_SPREAD = 0x9E37_79B9_7F4A_7C15
WAYS = ("each", "each", "drop", "copy", "join", "all")
"""How a map task makes its outputs: one of each record, of some, two of some, of several, or of all of them."""
Flow = tuple[list[int], int]
"""Positions read and the one that was put out."""


@dataclass(frozen=True)
class Sizes:
    """The most that a job may have of each: what shrinks."""

    sources: int = 2
    partitions: int = 2
    rows: int = 4
    shuffles: int = 2
    keys: int = 5


@dataclass(frozen=True)
class Task:
    """A task, its commit and its blocks."""

    task: TaskId
    commit: Commit
    blocks: tuple[FlowBlock, ...]


@dataclass
class Chained:
    """One job. ``rows``: by space of the sink, what each row is made of; ``whole``: all rows of the sources."""

    app: str
    number: int
    sink: str = ""
    registered: list[Message] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    expected: list[Expected] = field(default_factory=list)
    rows: dict[str, list[Witnesses]] = field(default_factory=dict)
    whole: list[tuple[str, int]] = field(default_factory=list)
    nodes: int = 0

    def job(self) -> Job:
        """What the driver says when the action has returned."""
        expected = tuple(self.expected)
        return Job(app=self.app, job=self.number, action="save", sink=self.sink, expected=expected)


Records = dict[str, list[tuple[int, Witnesses]]]
"""By space: positions, and what lies there is made of."""


class Weaver:
    """Makes one job up. ``attempts`` counts task attempts over all jobs of an application."""

    def __init__(
        self, rng: random.Random, sizes: Sizes, app: str, number: int, attempts: Iterator[int]
    ) -> None:
        self.rng, self.sizes, self.attempts = rng, sizes, attempts
        self.job = Chained(app, number)
        self.stride = rng.choice((1, 2))

    def woven(self) -> Chained:
        """The job."""
        names, records = self._sources()
        for _ in range(self.rng.randint(0, self.sizes.shuffles)):
            if len(names) == 1 and self.rng.random() < 0.25:
                names, records = self._kept(names, records)
            names, records = self._shuffle(names, records)
        self._sink(names, records)
        return self.job

    def _node(self, kind: str, op: str, inputs: Sequence[str] = ()) -> str:
        name = str(100 * self.job.number + self.job.nodes)
        self.job.nodes += 1
        app = self.job.app
        self.job.registered.append(Register(app=app, node=name, kind=kind, op=op))
        self.job.registered += [Link(app=app, src=one, dest=name) for one in inputs]
        return name

    def _sources(self) -> tuple[list[str], Records]:
        names, records = [], {}
        for _ in range(self.rng.randint(1, self.sizes.sources)):
            names.append(self._node("source", "textFile"))
            for p in range(self.rng.randint(1, self.sizes.partitions)):
                space = f"{names[-1]}#{p}"
                rows = [self.stride * row for row in range(self.rng.randint(0, self.sizes.rows))]
                records[space] = [(row, frozenset([(space, row)])) for row in rows]
                self.job.whole += [(space, row) for row in rows]
        return names, records

    def _kept(self, names: list[str], records: Records) -> tuple[list[str], Records]:
        """Records are numbered anew where they are kept; the same tasks go on, in spaces of their own."""
        node = self._node("operator", "cache", names)
        kept: Records = {}
        for p, (space, there) in enumerate(records.items()):
            attempt = next(self.attempts)
            own = f"{node}#{p}.{attempt}"
            flows = [([position], n) for n, (position, _) in enumerate(there)]
            blocks = self._blocks(node, p, attempt, space, [(own, flows)], numbered=True)
            self._commit(TaskId(node, p, attempt), blocks)
            kept[own] = [(n, witnesses) for n, (_, witnesses) in enumerate(there)]
        self.job.expected.append(Expected(node=node, partitions=tuple(range(len(records)))))
        return [node], kept

    def _shuffle(self, names: list[str], records: Records) -> tuple[list[str], Records]:
        node, parts = self._node("shuffle", "combineByKey", names), self._parts()
        found: dict[str, dict[int, set[tuple[str, int]]]] = {
            f"{node}@{part}": {} for part in range(parts)
        }
        for p, (space, there) in enumerate(records.items()):
            attempt = next(self.attempts)
            flows: dict[str, list[Flow]] = {}
            by_key: dict[int, list[int]] = {}
            for inputs in self._grouped(len(there)):
                by_key.setdefault(self.rng.randrange(self.sizes.keys), []).extend(inputs)
            for key, inputs in by_key.items():
                out, position = f"{node}@{key % parts}", key * KEY_SPREAD % 2**64
                read = sorted(set(inputs))
                flows.setdefault(out, []).append(([there[at][0] for at in read], position))
                found[out].setdefault(position, set()).update(*(there[at][1] for at in read))
            sections = sorted(flows.items())
            self._commit(TaskId(node, p, attempt), self._blocks(node, p, attempt, space, sections))
        self.job.expected.append(Expected(node=node, partitions=tuple(range(len(records)))))
        read_next = {
            space: [(position, frozenset(rows)) for position, rows in sorted(there.items())]
            for space, there in found.items()
        }
        return [node], read_next

    def _parts(self) -> int:
        return self.rng.randint(1, self.sizes.partitions)

    def _grouped(self, records: int) -> list[list[int]]:
        """The records that each output is made of."""
        way, rng = self.rng.choice(WAYS), self.rng
        match way:
            case "drop":
                return [[n] for n in range(records) if rng.random() < 0.6]
            case "copy":
                return [[n] for n in range(records) for _ in range(rng.choice((1, 1, 2)))]
            case "join":
                cuts = sorted({0, records, *(rng.randint(0, records) for _ in range(2))})
                return [list(range(a, b)) for a, b in pairwise(cuts)]
            case "all":
                return [list(range(records))] * rng.randint(0, 2) if records else []
            case _:
                return [[n] for n in range(records)]

    def _sink(self, names: list[str], records: Records) -> None:
        node = self.job.sink = self._node("sink", "saveAsTextFile", names)
        for p, (space, there) in enumerate(records.items()):
            attempt, out = next(self.attempts), f"{node}#{p}"
            groups = self._grouped(len(there))
            flows = [([there[at][0] for at in group], n) for n, group in enumerate(groups)]
            numbered = groups == [[n] for n in range(len(there))]
            blocks = self._blocks(node, p, attempt, space, [(out, flows)], numbered=numbered)
            self._commit(TaskId(node, p, attempt), blocks)
            self.job.rows[out] = [
                frozenset().union(*(there[at][1] for at in group)) for group in groups
            ]
        self.job.expected.append(Expected(node=node, partitions=tuple(range(len(records)))))

    def _commit(self, task: TaskId, blocks: list[FlowBlock]) -> None:
        commit = Commit(
            app=self.job.app,
            node=task.node,
            partition=task.partition,
            attempt=task.attempt,
            file=f"{task.node}-{task.partition}-{task.attempt}.lmf",
            blocks=len(blocks),
            flows=sum(block.rows for block in blocks),
        )
        self.job.tasks.append(Task(task, commit, tuple(blocks)))

    def _blocks(
        self,
        node: str,
        p: int,
        attempt: int,
        space: str,
        sections: Sequence[tuple[str, list[Flow]]],
        *,
        numbered: bool = False,
    ) -> list[FlowBlock]:
        """The flows of a task in one block or two; ``numbered``: an output for each input, in order."""
        flat = [(out, flow) for out, flows in sections for flow in flows]
        if not flat:
            return []
        cut = self.rng.randint(1, len(flat)) if self.rng.random() < 0.3 else len(flat)
        parts = [part for part in (flat[:cut], flat[cut:]) if part]
        make = _shifted if numbered and self._is_dense(flat) and self.rng.random() < 0.5 else _rows
        return [
            make(BlockId(node, p, attempt, seq), space, part, self.job.app)
            for seq, part in enumerate(parts)
        ]

    def _is_dense(self, flat: list[tuple[str, Flow]]) -> bool:
        firsts = [inputs[0] for _, (inputs, _) in flat]
        return firsts == list(range(firsts[0], firsts[0] + len(firsts)))


def _rows(own: BlockId, space: str, part: list[tuple[str, Flow]], app: str) -> FlowBlock:
    groups = [(out, len(list(some))) for out, some in itertools.groupby(part, lambda one: one[0])]
    ends = list(itertools.accumulate(count for _, count in groups))
    regions = [Region.from_positions(inputs) for _, (inputs, _) in part]
    outs = np.array([position for _, (_, position) in part], np.uint64)
    one_run = regions[0] if len(regions) == 1 else None
    relation = Relation.ALL if one_run is not None and len(groups) == 1 else Relation.ROWS
    return FlowBlock(
        own,
        relation,
        space,
        tuple(
            Section(out, end - count, end) for (out, count), end in zip(groups, ends, strict=True)
        ),
        np.concatenate([region.first for region in regions]),
        outs,
        np.cumsum([0, *(region.runs for region in regions)], dtype=np.int64),
        np.concatenate([region.last for region in regions]),
        app=app,
    )


def _shifted(own: BlockId, space: str, part: list[tuple[str, Flow]], app: str) -> FlowBlock:
    """One flow: the k-th output comes from the k-th input."""
    out, (inputs, first) = part[0]
    many = len(part) - 1
    ends = (np.array([at], np.uint64) for at in (inputs[0], first, inputs[0] + many, first + many))
    in_first, out_first, in_last, out_last = ends
    return FlowBlock(
        own,
        Relation.IDENTITY,
        space,
        (Section(out, 0, 1),),
        in_first,
        out_first,
        None,
        in_last,
        out_last,
        app=app,
    )
