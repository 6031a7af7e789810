"""Jobs without Spark: what capture sends of a shuffle whose map tasks may run twice, and what each row is made of.

Source rows have keys; an attempt at a map task may give them other ones. Each reduce task reads one attempt of each
map task, and its rows state the source rows whose keys it read. Thousands of such jobs are tried in a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Expected,
    Job,
    Link,
    Message,
    Register,
    Totals,
)
from lineage_core.contract.region import Region
from lineage_core.linking.linker import TaskId
from tests.oracle.brute import Witnesses
from tests.support.linker_job import keyed

SOURCE, KEPT, SHUFFLE, SINK = "1", "4", "2", "3"
KEY_SPREAD = 0x9E37_79B9_7F4A_7C15
STRIDE = 2
"""Between the positions of two rows: single ones, which no run joins."""
SECOND = 100
"""Added to the number of a map task's first attempt."""


@dataclass(frozen=True)
class MapTask:
    """The keys that the rows of a source partition get, by attempt (one or two)."""

    keys: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Simulated:
    """A job. ``read[r][p]``: which attempt of map task ``p`` reduce task ``r`` read. ``kept``: rows are cached.

    ``named``: reduce tasks say which attempts they read, as capture does where it knows.
    """

    maps: tuple[MapTask, ...]
    read: tuple[tuple[int, ...], ...]
    kept: bool = False
    named: bool = False
    app: str = "app-1"

    @property
    def reduces(self) -> int:
        return len(self.read)

    def rows(self, reduce: int) -> list[tuple[int, Witnesses]]:
        """(key, source rows) of each row that a reduce task put out, in order."""
        found: dict[int, set[tuple[str, int]]] = {}
        for p, task in enumerate(self.maps):
            for row, key in enumerate(task.keys[self.read[reduce][p]]):
                if key % self.reduces == reduce:
                    found.setdefault(key, set()).add((f"{SOURCE}#{p}", STRIDE * row))
        return [(key, frozenset(rows)) for key, rows in sorted(found.items())]

    def truth(self) -> Iterator[tuple[str, int, Witnesses]]:
        """Space, position and witnesses of each row of the sink."""
        for reduce in range(self.reduces):
            for row, (_, witnesses) in enumerate(self.rows(reduce)):
                yield f"{SINK}#{reduce}", row, witnesses

    def head(self) -> Iterator[Message]:
        """What the driver sends first."""
        app = self.app
        yield Begin(app=app, name="job", started_at=1000.0)
        nodes = [(SOURCE, "source", "textFile"), (SHUFFLE, "shuffle", "reduceByKey")]
        nodes += [(KEPT, "operator", "cache")] if self.kept else []
        for node, kind, op in [*nodes, (SINK, "sink", "saveAsTextFile")]:
            yield Register(app=app, node=node, kind=kind, op=op, inputs=int(node != SOURCE))
        path = [SOURCE, *([KEPT] if self.kept else []), SHUFFLE, SINK]
        for src, dest in pairwise(path):
            yield Link(app=app, src=src, dest=dest)

    def tail(self) -> Iterator[Message]:
        """What the driver sends last."""
        parts = ((SHUFFLE, len(self.maps)), (SINK, self.reduces))
        expected = tuple(
            Expected(node=node, partitions=tuple(range(count))) for node, count in parts
        )
        yield Job(app=self.app, job=0, action="save", sink=SINK, expected=expected)
        tasks = list(self.tasks())
        blocks = sum(len(blocks) for _, _, blocks in tasks)
        totals = Totals(tasks=len(tasks), blocks=blocks, nodes=4 if self.kept else 3)
        yield End(app=self.app, ended_at=2000.0, status="ok", totals=totals)

    def tasks(self) -> Iterator[tuple[TaskId, Commit, list[FlowBlock]]]:
        """Each committed attempt at a task, with its blocks."""
        for p, task in enumerate(self.maps):
            for number, keys in enumerate(task.keys):
                attempt = p + number * SECOND
                blocks = list(self._map_blocks(p, attempt, keys))
                yield self._committed(TaskId(SHUFFLE, p, attempt), blocks, repr(keys))
        for reduce in range(self.reduces):
            attempt = 50 + reduce
            blocks = [self._sink_block(reduce, attempt)]
            yield self._committed(TaskId(SINK, reduce, attempt), blocks, str(reduce))

    def _committed(
        self, task: TaskId, blocks: list[FlowBlock], digest: str
    ) -> tuple[TaskId, Commit, list[FlowBlock]]:
        commit = Commit(
            app=self.app,
            node=task.node,
            partition=task.partition,
            attempt=task.attempt,
            file=f"{task.node}-{task.partition}-{task.attempt}.lmf",
            blocks=len(blocks),
            flows=sum(block.rows for block in blocks),
            digest=digest,
            attempts_named=self.named and task.node == SHUFFLE,
        )
        return task, commit, blocks

    def _map_blocks(self, p: int, attempt: int, keys: Sequence[int]) -> Iterator[FlowBlock]:
        rows = range(0, STRIDE * len(keys), STRIDE)
        at = f"{SOURCE}#{p}"
        if self.kept:
            here = f"{KEPT}#{p}.{attempt}"
            own = BlockId(KEPT, p, attempt, 0)
            yield keyed(self.app, own, at, [(here, rows)], [[row] for row in rows])
            at = here
        by_key = {
            key: [row for row in rows if keys[row // STRIDE] == key] for key in sorted(set(keys))
        }
        outs = [
            [key for key in by_key if key % self.reduces == reduce]
            for reduce in range(self.reduces)
        ]
        sections = [
            (f"{SHUFFLE}@{reduce}", [_position(key) for key in mine])
            for reduce, mine in enumerate(outs)
        ]
        inputs = [by_key[key] for mine in outs for key in mine]
        yield keyed(self.app, BlockId(SHUFFLE, p, attempt, 0), at, sections, inputs)

    def _sink_block(self, reduce: int, attempt: int) -> FlowBlock:
        keys = [key for key, _ in self.rows(reduce)]
        inputs = [[_position(key)] for key in keys]
        own = BlockId(SINK, reduce, attempt, 0)
        out = [(f"{SINK}#{reduce}", range(len(keys)))]
        block = keyed(self.app, own, f"{SHUFFLE}@{reduce}", out, inputs)
        attempts = {p + number * SECOND for p, number in enumerate(self.read[reduce])}
        return (
            replace(block, attempts_read=Region.from_positions(sorted(attempts)))
            if self.named
            else block
        )


def _position(key: int) -> int:
    return key * KEY_SPREAD % 2**64


@st.composite
def jobs(draw: st.DrawFn, maps_max: int = 6, *, twice: bool = True) -> Simulated:
    """Jobs; ``twice``: some map tasks may have two attempts, whose keys may differ."""
    maps = []
    for _ in range(draw(st.integers(1, maps_max) | st.just(maps_max))):
        rows = draw(st.integers(1, 3))
        keys = st.tuples(*[st.integers(0, 2)] * rows)
        again = twice and draw(st.booleans())
        maps.append(MapTask((draw(keys), draw(keys)) if again else (draw(keys),)))
    last = [len(task.keys) - 1 for task in maps]
    read = [
        tuple(draw(st.integers(0, most)) for most in last) for _ in range(draw(st.integers(1, 3)))
    ]
    return Simulated(tuple(maps), tuple(read), kept=draw(st.booleans()), named=draw(st.booleans()))
