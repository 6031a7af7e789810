"""Chains of jobs without Spark, whose rows are known: drawn programs run in Python, and their lineage is stored as capture stores it.

A dataset is a folder of files of lines ``key;tokens``. A token names a source row (``r17x``), so a row that shows tokens carries these
rows. Jobs that count or add up leave the tokens out; which rows went into a row is remembered here, whatever its text says.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.message import Link, Read, SinkFile, SinkFiles, Split, Splits
from lineage_store.checksums import sha256_of
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows as flow_block

KEYS = "abcd"
SOURCES = 2
TICK_S = 10.0
BEGAN_S = 1_700_000_000.0
Ids: TypeAlias = "frozenset[int]"


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file: ``ids`` of source rows that went into it, ``made_of`` the rows of its job's inputs."""

    key: str
    ids: Ids
    shows: bool
    made_of: tuple[tuple[int, int, int], ...] = ()
    """Input, file and line (from 0) of each row that it was made of."""

    @property
    def text(self) -> str:
        """Its line."""
        return (
            f"{self.key};{' '.join(map(token, sorted(self.ids))) if self.shows else len(self.ids)}"
        )


def token(number: int) -> str:
    """What names a source row in texts."""
    return f"r{number}x"


@dataclass(slots=True)
class Dataset:
    """A folder, or a source file: its files as they are now, and by which application they were written."""

    path: Path
    files: dict[Path, list[Row]] = field(default_factory=dict)
    apps: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One job: inputs (numbers of datasets, modulo how many there are), how they are combined, and what becomes of its output."""

    inputs: tuple[int, ...]
    operator: str
    files: int
    target: str
    """`new`, `append` or `overwrite`."""
    picked: int
    lands_again: bool
    """Whether a source gets another row before this job."""


Made: TypeAlias = "list[Row]"
Given: TypeAlias = "list[list[tuple[Row, tuple[int, int, int]]]]"


def _one(row: Row, at: tuple[int, int, int], key: str = "") -> Row:
    return Row(key or row.key, row.ids, row.shows, (at,))


def _grouped(given: Given, *, shows: bool) -> Made:
    groups: dict[str, list[tuple[Row, tuple[int, int, int]]]] = {}
    for rows in given:
        for row, at in rows:
            groups.setdefault(row.key, []).append((row, at))
    return [
        Row(
            key,
            frozenset().union(*(row.ids for row, _ in rows)),
            shows and all(row.shows for row, _ in rows),
            tuple(at for _, at in rows),
        )
        for key, rows in groups.items()
    ]


def _union(given: Given) -> Made:
    return [_one(row, at) for rows in given for row, at in rows]


def _filtered(given: Given) -> Made:
    return [_one(row, at) for rows in given for row, at in rows if not row.key.startswith("a")]


def _twice(given: Given) -> Made:
    return [
        _one(row, at, key) for rows in given for row, at in rows for key in (row.key, row.key + "z")
    ]


def _joined(given: Given) -> Made:
    left, right = given[0], given[-1] if len(given) > 1 else given[0]
    return [
        Row(row.key, row.ids | other.ids, row.shows and other.shows, (at, other_at))
        for row, at in left
        for other, other_at in right
        if row.key == other.key
    ][:200]


OPERATORS: dict[str, Callable[[Given], Made]] = {
    "copy": _union,
    "filter": _filtered,
    "twice": _twice,
    "join": _joined,
    "group": lambda given: _grouped(given, shows=True),
    "count": lambda given: _grouped(given, shows=False),
}


@dataclass(slots=True)
class World:
    """A folder of datasets and a store of what jobs did with them."""

    folder: Path
    store: SqliteStore
    datasets: list[Dataset] = field(default_factory=list)
    disturbed: bool = False
    texts: bool = False
    """Whether the texts of rows that jobs write are stored with the lineage."""
    checksums: bool = False
    """Whether checksums are noted of the files that jobs write."""
    touched: set[str] = field(default_factory=set)
    """Paths of outputs that were given another time after all jobs."""
    landed: int = 0
    _clock: float = BEGAN_S
    _jobs: int = 0

    def land(self, rows: int, generator: random.Random) -> None:
        """The sources, which no job wrote."""
        for number in range(SOURCES):
            path = self.folder / f"landed{number}.txt"
            made = [self._source_row(generator) for _ in range(rows)]
            self._write(path, made)
            self.datasets.append(Dataset(path, {path: made}))

    def _source_row(self, generator: random.Random) -> Row:
        self.landed += 1
        return Row(generator.choice(KEYS), frozenset({self.landed}), shows=True)

    def _write(self, path: Path, rows: Sequence[Row]) -> os.stat_result:
        path.write_text("".join(f"{row.text}\n" for row in rows), encoding="ascii")
        self._clock += TICK_S
        os.utime(path, (self._clock, self._clock))
        return path.stat()

    def run(self, job: Job, generator: random.Random) -> None:
        """Run a job, and store its lineage."""
        if job.lands_again:
            dataset = self.datasets[job.picked % SOURCES]
            (path,) = dataset.files
            dataset.files[path] = [*dataset.files[path], self._source_row(generator)]
            self._write(path, dataset.files[path])
            self.disturbed = True
        picks = dict.fromkeys(pick % len(self.datasets) for pick in job.inputs)
        inputs = [self.datasets[pick] for pick in picks]
        self._jobs += 1
        app = f"app-{self._jobs:03d}"
        spool = Spool(self.folder / "spool", app)
        self._clock += TICK_S
        spool.begin(self._clock, f"job {self._jobs}")
        given = [self._read(spool, app, number, dataset) for number, dataset in enumerate(inputs)]
        made = OPERATORS[job.operator](given)
        self._store_output(spool, app, job, inputs, made)
        ingest(self.store, spool.folder)

    def _read(
        self, spool: Spool, app: str, number: int, dataset: Dataset
    ) -> list[tuple[Row, tuple[int, int, int]]]:
        spool.node(
            str(number), "source", "textFile", path=str(dataset.path), partitions=len(dataset.files)
        )
        splits = []
        for partition, path in enumerate(dataset.files):
            status = path.stat()
            splits.append(
                Split(
                    partition=partition,
                    path=f"file:{path}",
                    start=0,
                    length=status.st_size,
                    file_size=status.st_size,
                    mtime=status.st_mtime,
                    checksum=sha256_of([path.read_bytes()]) if self.checksums else "",
                )
            )
        spool.send(Splits(app=app, node=str(number), splits=tuple(splits)))
        return [
            (row, (number, partition, line))
            for partition, rows in enumerate(dataset.files.values())
            for line, row in enumerate(rows)
        ]

    def _store_output(
        self, spool: Spool, app: str, job: Job, inputs: Sequence[Dataset], made: Made
    ) -> None:
        target = self._target(job, inputs)
        spool.node("9", "sink", "saveAsTextFile", path=str(target.path), partitions=job.files)
        spool.send(*(Link(app=app, src=str(number), dest="9") for number in range(len(inputs))))
        sinks, blocks, flows = [], 0, 0
        for partition in range(job.files):
            rows = made[partition :: job.files]
            path = target.path / f"part-{self._jobs:03d}-{partition:05d}"
            status = self._write(path, rows)
            target.files[path], target.apps[path] = rows, app
            own: list[FlowBlock] = []
            for space in sorted({at[:2] for row in rows for at in row.made_of}):
                pairs = [
                    (sorted({line for *of, line in row.made_of if tuple(of) == space}), at)
                    for at, row in enumerate(rows)
                ]
                pairs = [pair for pair in pairs if pair[0]]
                block_id = BlockId("9", partition, partition, len(own))
                number, file = space
                block = flow_block(block_id, f"{number}#{file}", f"9#{partition}", pairs, app)
                values = [rows[at].text for _, at in pairs] if self.texts else None
                own.append(replace(block, values=values))
                flows += len(pairs)
            reads = tuple(
                Read(space=f"{number}#{file}", rows=len(of_file), exhausted=True)
                for number, dataset in enumerate(inputs)
                for file, of_file in enumerate(dataset.files.values())
                if partition == 0
            )
            spool.task("9", partition, partition, own, rows=len(rows), reads=reads)
            blocks += len(own)
            sinks.append(
                SinkFile(
                    partition=partition,
                    path=f"file:{path}",
                    size=status.st_size,
                    mtime=status.st_mtime,
                    rows=len(rows),
                    checksum=sha256_of([path.read_bytes()]) if self.checksums else "",
                )
            )
        spool.job("9", n9=job.files)
        spool.send(SinkFiles(app=app, node="9", path=str(target.path), files=tuple(sinks)))
        spool.end(blocks=blocks, tasks=job.files)

    def _target(self, job: Job, inputs: Sequence[Dataset]) -> Dataset:
        free = [dataset for dataset in self.datasets[SOURCES:] if dataset not in inputs]
        if job.target != "new" and free:
            target = free[job.picked % len(free)]
            if job.target == "overwrite":
                for path in target.files:
                    path.unlink()
                target.files.clear()
                target.apps.clear()
                self.disturbed = True
            return target
        target = Dataset(self.folder / f"out{len(self.datasets)}")
        target.path.mkdir()
        self.datasets.append(target)
        return target

    def outputs(self) -> list[tuple[str, Row]]:
        """Place and row of all that lies in outputs now: what a scan by brute force finds."""
        return [
            (f"{path}:{line}", row)
            for dataset in self.datasets[SOURCES:]
            for path, rows in dataset.files.items()
            for line, row in enumerate(rows, 1)
        ]

    def source_rows(self) -> list[tuple[Path, int, Row]]:
        """File, line and row of what lies in sources now."""
        return [
            (path, line, row)
            for dataset in self.datasets[:SOURCES]
            for path, rows in dataset.files.items()
            for line, row in enumerate(rows, 1)
        ]


def world_of_four_rows(
    folder: Path, store: SqliteStore, *operators: str, texts: bool = True, checksums: bool = False
) -> World:
    """A source of four rows, r1x to r4x, and a job for each operator over it."""
    world = World(folder, store, texts=texts, checksums=checksums)
    world.land(0, random.Random(0))
    rows = [Row(key, frozenset({at + 1}), shows=True) for at, key in enumerate("aabc")]
    path = world.datasets[0].path
    world.datasets[0].files[path] = rows
    world._write(path, rows)
    for operator in operators:
        world.run(Job((0,), operator, 1, "new", 0, lands_again=False), random.Random(0))
    return world
