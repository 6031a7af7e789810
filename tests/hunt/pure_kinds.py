"""What needs no server: generated lineage through ingest, or through the linker while its state gets lost."""

from __future__ import annotations

import copy
import itertools
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from lineage_core.codec.edge_message import PackedEdge
from lineage_core.codec.packing import unpack_edge
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import DeadLetter, dump_message
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import judge
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_store.port import GraphStore
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.hunt.claims import Claim, Finding
from tests.hunt.hunting import Kind
from tests.hunt.simulated import Simulated, jobs
from tests.support.linker_job import record_batch_of, value_of
from tests.support.linker_memory import MemoryAppState, MemoryLinker, Received
from tests.support.spool_builder import Spool

NOW = 2001.0
STORE_APPS = 500
"""Applications of one store."""
_RowPairs: TypeAlias = tuple[npt.NDArray[np.uint32] | None, npt.NDArray[np.uint32] | None]


def held(store: GraphStore, job: Simulated, now: float = NOW) -> Finding:
    """What a store says of a job, against what its rows are made of."""
    verdict = judge(store.messages(job.app), store.counts(job.app), now=now)
    finding = Finding(complete=verdict.complete, note="; ".join(verdict.reasons)[:200])
    tracer = Tracer(store.graph(job.app))
    return finding.hold(_claims(tracer, job))


def _claims(tracer: Tracer, job: Simulated) -> Iterator[Claim]:
    for space, row, truth in job.truth():
        result = tracer.trace(Direction.BACKWARD, {space: Region.from_positions([row])})
        found = frozenset(
            (at, one)
            for node in result.found.values()
            for at, region in node.spaces.items()
            for first, last in region
            for one in range(first, last + 1)
        )
        yield Claim(f"{space}#{row}", truth, found, result.exact)


@dataclass(frozen=True)
class Ingested:
    """A job whose spool is ingested: ``order`` of its tasks, ``cuts``: after how many lines ingest is called."""

    job: Simulated
    order: tuple[int, ...]
    cuts: tuple[int, ...]

    @property
    def struck(self) -> Counter[str]:
        """Harm, by name: map tasks that ran twice."""
        return Counter({"a map task ran twice": sum(len(task.keys) - 1 for task in self.job.maps)})


@st.composite
def ingested(draw: st.DrawFn) -> Ingested:
    """Jobs with tasks in any order, ingested in several calls."""
    job = draw(jobs())
    tasks = len(list(job.tasks()))
    order = tuple(draw(st.permutations(range(tasks))))
    return Ingested(job, order, tuple(sorted(draw(st.sets(st.integers(0, tasks), max_size=2)))))


@contextmanager
def stores(folder: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Gives a store to write one more application into; a new one begins after some."""
    folder.mkdir(parents=True)
    current: list[SqliteStore] = []
    asked = itertools.count()

    def store() -> SqliteStore:
        number = next(asked)
        if number % STORE_APPS == 0:
            for full in current:
                full.close()
            current[:] = [SqliteStore(folder / f"{number}.db")]
        return current[0]

    try:
        yield store
    finally:
        for one in current:
            one.close()


@contextmanager
def ingesting(folder: Path) -> Iterator[Callable[[Ingested], Finding]]:
    """Tries jobs by ingest."""
    numbers = itertools.count()

    def run(one: Ingested) -> Finding:
        named = replace(one, job=replace(one.job, app=f"app-{next(numbers)}"))
        store, spool = next_store(), Spool(folder / "spool", named.job.app)
        try:
            _ingest(store, spool, named)
            return held(store, named.job).harmed_by(one.struck)
        finally:
            shutil.rmtree(spool.folder, ignore_errors=True)

    with stores(folder) as next_store:
        yield run


def _ingest(store: SqliteStore, spool: Spool, one: Ingested) -> None:
    tasks = list(one.job.tasks())
    spool.send(*one.job.head())
    for number, at in enumerate(one.order):
        if number in one.cuts:
            ingest(store, spool.folder)
        task, commit, blocks = tasks[at]
        spool.file(task.node, task.partition, task.attempt, blocks)
        spool.send(commit)
    spool.send(*one.job.tail())
    ingest(store, spool.folder)


@dataclass(frozen=True)
class Streamed:
    """A job through the linker. ``order``: of its records, some twice. ``losses``: what happens after how many.

    A loss: "flush" (the state is gone), "older" (it is as it was at the loss before, or gone), "again" (all records
    so far come once more), "killed" (the batch since the last loss was sent and is done again) or "slow" (another
    worker has all records so far once more, and has not sent anything of it in the end). ``expired``: from
    which to before which of the records that the linker sent the writer never saw, as their retention had passed.
    """

    job: Simulated
    order: tuple[int, ...]
    losses: tuple[tuple[int, str], ...]
    expired: tuple[int, int] = (0, 0)

    @property
    def struck(self) -> Counter[str]:
        """Harm, by name."""
        struck = Counter(LOSS_NAMES[how] for _, how in self.losses)
        struck["records came twice"] += len(self.order) > len(set(self.order))
        struck["retention passed"] += self.expired[0] < self.expired[1]
        return struck


LOSS_NAMES = {
    "flush": "state emptied (in memory)",
    "older": "state is an older one (in memory)",
    "again": "all records came again",
    "killed": "batch was done again",
    "slow": "another worker had not sent its batch",
}
LOSSES = tuple(LOSS_NAMES)


@st.composite
def streamed(draw: st.DrawFn) -> Streamed:
    """Jobs whose records come in some order while the linker's state is lost."""
    job = draw(jobs(twice=draw(st.booleans())))
    order = list(draw(orders(job)))
    many = len(order)
    order += draw(st.lists(st.sampled_from(order), max_size=2))
    places = draw(st.lists(st.integers(0, many), max_size=2))
    hows = draw(st.just(("flush", "slow")) | st.tuples(*2 * [st.sampled_from(LOSSES)]))
    losses = tuple(zip(sorted(places), hows, strict=False))
    first = draw(st.integers(0, many))
    expired = (first, first + draw(st.sampled_from((0, 0, 0, 1, 4))))
    return Streamed(job, tuple(order), losses, expired)


@st.composite
def orders(draw: st.DrawFn, job: Simulated) -> tuple[int, ...]:
    """Places of a job's records in :func:`values_of`: task by task in any order, and some elsewhere."""
    head = len([*job.head()]) + len([*job.tail()])
    sizes = [len(blocks) + 1 for _, _, blocks in job.tasks()]
    starts = list(itertools.accumulate([head, *sizes]))
    tasks = draw(st.permutations(range(len(sizes))))
    order = [*range(head), *(starts[n] + k for n in tasks for k in range(sizes[n]))]
    for _ in range(draw(st.sampled_from((0, 0, 1, 4)))):
        order.insert(
            draw(st.integers(0, len(order) - 1)), order.pop(draw(st.integers(0, len(order) - 1)))
        )
    return tuple(order)


def values_of(job: Simulated) -> list[bytes]:
    """All records of a job."""
    values = [value_of(message) for message in (*job.head(), *job.tail())]
    for task, commit, blocks in job.tasks():
        values += [record_batch_of(block, task) for block in blocks]
        values.append(dump_message(commit).encode())
    return values


class Expiring(Received):
    """What reaches a store when some records are gone before they are read."""

    def __init__(self, expired: tuple[int, int]) -> None:
        super().__init__()
        self.expired = expired
        self.noted: set[str] = set()
        """Applications that were known when the writer found that records are gone: it tells of each."""

    def value(self, value: bytes) -> None:
        first, stop = self.expired
        if first <= self.records < stop:
            self.noted.update(self.apps)
            self.records += 1
        else:
            super().value(value)


class LosingLinker(MemoryLinker):
    """A linker whose state may be lost, or come back as it was."""

    def __init__(self, expired: tuple[int, int]) -> None:
        super().__init__(received=Expiring(expired))
        self._older: dict[str, MemoryAppState] = {}

    def lose(self, how: str) -> None:
        """The state is gone, or is an older one."""
        before = copy.deepcopy(self.states)
        self.states.clear()
        if how == "older":
            self.states.update(self._older)
        self._older = before


def linked(one: Streamed) -> LosingLinker:
    """The linker after all records and losses."""
    linker, values = LosingLinker(one.expired), values_of(one.job)
    records = [values[at] for at in one.order]
    since = 0
    for place, how in (*one.losses, (len(records), "")):
        linker.batch(records[since:place])
        match how:
            case "flush" | "older":
                linker.lose(how)
            case "again":
                linker.batch(records[:place])
            case "killed":
                linker.batch(records[since:place])
            case "slow":
                linker.handled(records[:place])
        since = place
    return linker


@contextmanager
def streaming(folder: Path) -> Iterator[Callable[[Streamed], Finding]]:
    """Tries jobs through the linker in memory."""
    numbers = itertools.count()

    def run(one: Streamed) -> Finding:
        named = replace(one, job=replace(one.job, app=f"app-{next(numbers)}"))
        store = next_store()
        store_received(store, linked(named), named.job)
        try:
            return held(store, named.job).harmed_by(one.struck)
        except KeyError:
            unknown = Finding(complete=False, note="the store knows no such application")
            return unknown.harmed_by(one.struck)

    with stores(folder) as next_store:
        yield run


def store_received(store: GraphStore, linker: MemoryLinker, job: Simulated) -> None:
    """Store what the linker sent, as the writer does."""
    seen = linker.received.apps[job.app]
    blocks = {block.block_id: (block, task) for task, _, made in job.tasks() for block in made}
    visible = [blocks[one] for one in sorted(seen.visible) if one in seen.blocks]
    there = {block.block_id for block, _ in visible}
    edges = [
        EdgeBatch(edge.producer, edge.consumer, edge.pairs, *_rows(edge))
        for edge in seen.edges.values()
        if {edge.producer, edge.consumer} <= there
    ]
    letter = DeadLetter(app=job.app, place="edges/0/0", reason="removed")
    received = linker.received
    noted = isinstance(received, Expiring) and job.app in received.noted
    store.write(
        job.app,
        [*seen.messages, *[letter] * noted],
        [block for block, _ in visible],
        edges,
        tasks={block.block_id: task for block, task in visible},
        unmatched={block: count for block, count in seen.unmatched.items() if block in there},
        seals=list(seen.seals.values()),
    )


def _rows(edge: PackedEdge) -> _RowPairs:
    return (None, None) if edge.data is None else unpack_edge(edge.pairs, edge.data)


PURE_KINDS = (
    Kind("blocks", ingested, ingesting, batch=200),
    Kind("state", streamed, streaming, batch=200),
)
