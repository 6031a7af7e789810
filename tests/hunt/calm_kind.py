"""Jobs that nothing happens to, many to an application: the volume of what has to be exact.

A program is one job of `chained`. It counts when its verdict and its claims were looked at: rows of its sink one by one,
all of them together, and where a row of a source went.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from lineage_core.contract.message import Begin, End, Totals
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import judge
from lineage_core.tracing.trace_result import Direction, TraceResult
from lineage_core.tracing.tracer import Tracer
from lineage_store.sqlite.ingest import ingest
from tests.hunt.chained import Chained, Sizes, Weaver
from tests.hunt.claims import Claim, Finding
from tests.hunt.hunting import Kind
from tests.hunt.pure_kinds import NOW, stores
from tests.oracle.brute import Witnesses
from tests.support.spool_builder import Spool

JOBS = 60
"""Jobs of one application: what a store does once for each costs more than a job."""
USUAL, LARGE = Sizes(), Sizes(3, 4, 8, 4, 12)
LARGE_OF = 8
"""One herd of so many is of large jobs."""


@dataclass(frozen=True)
class Herd:
    """Jobs of one application, each made up from a seed of its own."""

    seeds: tuple[int, ...]
    sizes: Sizes


def herds() -> st.SearchStrategy[Herd]:
    """Mostly many jobs of the usual sizes: what is found shrinks to one that is small."""
    seeds = st.integers(0, 2**48)
    many = st.lists(seeds, min_size=JOBS, max_size=JOBS)
    listed = st.one_of(st.lists(seeds, min_size=1, max_size=1), *[many] * LARGE_OF)
    return st.builds(Herd, listed.map(tuple), _sizes())


def _sizes() -> st.SearchStrategy[Sizes]:
    most = (USUAL.sources, USUAL.partitions, USUAL.rows, USUAL.shuffles, USUAL.keys)
    smaller = st.builds(Sizes, *(st.integers(1, one) for one in most))
    return st.one_of(smaller, *[st.just(USUAL)] * (LARGE_OF - 2), st.just(LARGE))


@contextmanager
def calm(folder: Path) -> Iterator[Callable[[Herd], Finding]]:
    """Tries herds by ingest."""
    numbers = itertools.count()

    def run(herd: Herd) -> Finding:
        app = f"app-{next(numbers)}"
        jobs = _jobs(herd, app)
        store, spool = next_store(), Spool(folder / "spool", app)
        try:
            _send(spool, jobs)
            ingest(store, spool.folder)
        finally:
            shutil.rmtree(spool.folder, ignore_errors=True)
        verdict = judge(store.messages(app), store.counts(app), now=NOW)
        finding = Finding(verdict.complete, note="; ".join(verdict.reasons)[:200])
        finding.programs = len(jobs)
        if not verdict.complete:
            finding.faults.append(f"nothing happened, and incomplete: {finding.note}")
        tracer = Tracer(store.graph(app))
        for job, seed in zip(jobs, herd.seeds, strict=True):
            finding.hold(_claims(tracer, job, random.Random(seed)))
        return finding

    with stores(folder) as next_store:
        yield run


def _jobs(herd: Herd, app: str) -> list[Chained]:
    attempts = itertools.count()
    return [
        Weaver(random.Random(seed), herd.sizes, app, number, attempts).woven()
        for number, seed in enumerate(herd.seeds)
    ]


def _send(spool: Spool, jobs: list[Chained]) -> None:
    """All of an application's messages and files; tasks of a job run in its order, jobs one by one."""
    spool.send(Begin(app=spool.app, name="job", started_at=1000.0))
    for job in jobs:
        spool.send(*job.registered)
        for done in job.tasks:
            spool.file(done.task.node, done.task.partition, done.task.attempt, done.blocks)
        spool.send(*(done.commit for done in job.tasks), job.job())
    totals = Totals(
        tasks=sum(len(job.tasks) for job in jobs),
        blocks=sum(len(done.blocks) for job in jobs for done in job.tasks),
        nodes=sum(job.nodes for job in jobs),
    )
    spool.send(End(app=spool.app, ended_at=2000.0, status="ok", totals=totals))


def _claims(tracer: Tracer, job: Chained, rng: random.Random) -> Iterator[Claim]:
    rows = {(space, n): made for space, part in job.rows.items() for n, made in enumerate(part)}
    if rows:
        at = rng.choice(sorted(rows))
        yield _claim(tracer, Direction.BACKWARD, [at], rows[at])
        every = frozenset().union(*rows.values())
        yield _claim(tracer, Direction.BACKWARD, list(rows), every)
    if job.whole:
        row = rng.choice(job.whole)
        went = frozenset(at for at, made in rows.items() if row in made)
        yield _claim(tracer, Direction.FORWARD, [row], went)


def _claim(
    tracer: Tracer, direction: Direction, start: list[tuple[str, int]], truth: Witnesses
) -> Claim:
    positions: dict[str, list[int]] = {}
    for space, position in start:
        positions.setdefault(space, []).append(position)
    regions = {space: Region.from_positions(some) for space, some in positions.items()}
    result = tracer.trace(direction, regions)
    return Claim(f"{direction.value} {start[:3]}", truth, found_by(result), result.exact)


def found_by(result: TraceResult) -> Witnesses:
    """The items that a trace found, one by one."""
    return frozenset(
        (space, one)
        for node in result.found.values()
        for space, region in node.spaces.items()
        for first, last in region
        for one in range(first, last + 1)
    )


CALM_KINDS = (Kind("calm", herds, calm, batch=25),)
