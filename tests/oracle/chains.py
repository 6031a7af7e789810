"""Chains of jobs whose rows carry the numbers of the source rows that made them, so every answer is known.

A dataset is a folder of files; its rows have two columns of text, ``key`` and ``ids``: the numbers of the source rows, separated by
spaces. Jobs keep them, so what a chain wrote is its own brute-force provenance, whatever the program was.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lineage_emitter import LineageContext
from tests.oracle.chain_programs import (
    KEYS,
    RDD_OPERATORS,
    SCHEMA,
    Dataset,
    read_frame,
    read_rdd,
    rows_as_rdd,
    rows_of,
    run_frame,
    run_rdd,
)
from tests.support.job_runs import app_of

SOURCES = 2
ROWS = 5
"""Rows of each source."""

State: TypeAlias = "tuple[str, int]"
"""Path and time of a file."""


@dataclass(frozen=True, slots=True)
class Job:
    """One job: what it reads, does and writes. Numbers pick from the datasets that there are, modulo how many."""

    engine: str
    """`rdd`, `frame`, `rdd to frame` or `frame to rdd`."""
    inputs: tuple[int, ...]
    combine: str
    """How several inputs become one: `union` or `join`."""
    operators: tuple[str, ...]
    format: str
    """Of a DataFrame; RDDs write text."""
    target: str
    """`new`, or `append` and `overwrite` of a dataset that it does not read."""
    picked: int
    """Which dataset it appends to or overwrites."""
    renamed: bool = False
    """Whether its output is moved to another folder afterwards."""
    repeated: str = ""
    """How it runs a second time: `again` overwrites its output; `dated` reads its last output, too, and writes a new one, which
    takes the place of the last one if `in place`."""
    edited: bool = False
    """Whether a file that it reads, and that another job wrote, is edited before."""

    @property
    def writes_frame(self) -> bool:
        return self.engine in ("frame", "rdd to frame")


@dataclass(frozen=True, slots=True)
class Version:
    """A file as it was written: the rows of it, in order, and the files that its application read."""

    app: str
    path: str
    rows: tuple[frozenset[int], ...]
    mtime_ns: int
    inputs: tuple[State, ...]

    @property
    def state(self) -> State:
        return self.path, self.mtime_ns

    def ids_at(self, place: str) -> frozenset[int]:
        """The numbers of the row at a place."""
        return dict(places_of(self.path, self.rows))[place]

    @property
    def is_in_place(self) -> bool:
        """Whether the file still is where it was written, as it was written."""
        return Path(self.path).exists() and state_of(Path(self.path)) == self.state


@dataclass(slots=True)
class Chain:
    """What a chain left."""

    folder: Path
    sources: dict[str, int] = field(default_factory=dict)
    """Number of each source row, by its place."""
    datasets: list[Dataset] = field(default_factory=list)
    written: list[Version] = field(default_factory=list)
    """In order."""
    reads: dict[str, tuple[State, ...]] = field(default_factory=dict)
    """The files that each application read."""
    moved: dict[State, State] = field(default_factory=dict)
    """Where files were written that were moved."""
    edited: dict[State, tuple[frozenset[int], ...]] = field(default_factory=dict)
    """The rows of files that were edited, as nobody wrote them."""

    def is_there(self, app: str, place: str) -> bool:
        """Whether a row of an application's output is still where it was written, in the version that was written."""
        return any(
            version.app == app and version.path == path_of(place) and version.is_in_place
            for version in self.written
        )

    def read_sources(self) -> list[tuple[str, int]]:
        """Place and number of each source row that a job read."""
        paths = {path for states in self.reads.values() for path, _ in states}
        return [
            (place, number) for place, number in self.sources.items() if path_of(place) in paths
        ]

    def written_as(self, state: State) -> Version | None:
        """The version that a file is, wherever it was moved; None: of a source."""
        state = self.moved.get(state, state)
        return next((version for version in self.written if version.state == state), None)

    def rows_of(self, state: State) -> list[tuple[str, frozenset[int]]]:
        """Place and numbers of each row of a file."""
        version = self.written_as(state)
        if version is not None:
            return places_of(state[0], version.rows)
        edited = self.edited.get(self.moved.get(state, state))
        if edited is not None:
            return places_of(state[0], edited)
        return [(p, frozenset([n])) for p, n in self.sources.items() if path_of(p) == state[0]]

    def read_by(self, app: str, path: str) -> Version | None:
        """The version of a file that an application read."""
        (state,) = (state for state in self.reads[app] if state[0] == path)
        return self.written_as(state)

    def is_calm_before(self, version: Version) -> bool:
        """Whether nothing that a version was made of, or the version itself, was moved, edited or overwritten."""
        return version.is_in_place and all(
            not {state} & (self.moved.keys() | self.edited.keys())
            and (made is None or self.is_calm_before(made))
            for state, made in ((state, self.written_as(state)) for state in version.inputs)
        )

    def made_of(self, path: str) -> Iterator[Version]:
        """The versions that were made of a source, at any distance."""
        states: set[State] = set()
        for version in self.written:
            origins = {self.moved.get(state, state) for state in version.inputs}
            if origins & states or path in {origin for origin, _ in origins}:
                states.add(version.state)
                yield version

    def is_calm_after(self, path: str) -> bool:
        """Whether nothing that was made of a source was moved or overwritten."""
        return all(version.is_in_place for version in self.made_of(path))


def path_of(place: str) -> str:
    """The file of a place."""
    return re.sub(r"[:#][0-9]+$", "", place)


def places_of(path: str, rows: Sequence[frozenset[int]]) -> list[tuple[str, frozenset[int]]]:
    """Place and numbers of each row of a file."""
    if path.endswith((".parquet", ".orc")):
        return [(f"{path}#{at}", ids) for at, ids in enumerate(rows)]
    return [(f"{path}:{at}", ids) for at, ids in enumerate(rows, 1)]


def land_sources(folder: Path) -> Chain:
    """The files that no job wrote; the second has the keys of the first in another order."""
    chain = Chain(folder)
    for source in range(SOURCES):
        path = folder / f"landed{source}.csv"
        lines = []
        for row in range(ROWS):
            number = source * 100 + row
            lines.append(f"{KEYS[(row * (source + 1)) % len(KEYS)]},{number}\n")
            chain.sources[f"{path}:{row + 1}"] = number
        path.write_text("".join(lines))
        chain.datasets.append(Dataset(path, "csv"))
    return chain


def run_job(
    chain: Chain,
    job: Job,
    begin: Callable[[], AbstractContextManager[LineageContext]],
    spark: SparkSession,
) -> None:
    """Run a job, as often as it runs, and note what each application read and wrote."""
    picks = {pick % len(chain.datasets): None for pick in job.inputs}
    inputs = [chain.datasets[pick] for pick in picks]
    if job.edited:
        _edit(chain, [dataset for dataset in inputs if dataset not in chain.datasets[:SOURCES]])
    with begin() as lc:
        output = _target(chain, job, inputs)
        _run(chain, job, lc, spark, inputs, output)
        if job.renamed:
            _move(chain, output, output.path.with_name(f"{output.path.name}-moved"))
    if not job.repeated:
        return
    with begin() as lc:
        match job.repeated:
            case "again":
                shutil.rmtree(output.path)
                _run(chain, job, lc, spark, inputs, output)
            case "dated":
                _run(chain, job, lc, spark, [*inputs, output], _new(chain, output.format))
            case _:
                made = Dataset(output.path.with_name(f"{output.path.name}-next"), output.format)
                _run(chain, job, lc, spark, [*inputs, output], made)
                shutil.rmtree(output.path)
                _move(chain, made, output.path)


def _run(
    chain: Chain,
    job: Job,
    lc: LineageContext,
    spark: SparkSession,
    inputs: Sequence[Dataset],
    output: Dataset,
) -> None:
    app = app_of(lc)
    states = tuple(state_of(path) for dataset in inputs for path in dataset.files())
    chain.reads[app] = states
    if job.writes_frame:
        frames = (
            [read_frame(spark, dataset) for dataset in inputs]
            if job.engine == "frame"
            else [spark.createDataFrame(read_rdd(lc, spark, dataset), SCHEMA) for dataset in inputs]
        )
        frame = run_frame(frames, job.combine, job.operators)
        frame.write.mode("append").format(output.format).save(str(output.path))
    else:
        rdds = (
            [read_rdd(lc, spark, dataset) for dataset in inputs]
            if job.engine == "rdd"
            else [rows_as_rdd(lc, read_frame(spark, dataset)) for dataset in inputs]
        )
        rdd = run_rdd(rdds, job.combine, job.operators)
        rdd.map(",".join).saveAsTextFile(str(output.path))
    for path in output.files():
        name, mtime_ns = state = state_of(path)
        if chain.written_as(state) is None and chain.moved.get(state, state) not in chain.edited:
            rows = tuple(rows_of(path, output.format))
            chain.written.append(Version(app, name, rows, mtime_ns, states))


def state_of(path: Path) -> State:
    """Path and time of a file, as it is now."""
    return str(path), path.stat().st_mtime_ns


def _edit(chain: Chain, datasets: Sequence[Dataset]) -> None:
    """Repeat the last row of a file of text, as an editor would."""
    for dataset in datasets:
        for path in dataset.files():
            lines = path.read_text().splitlines(keepends=True) if dataset.is_text else []
            if lines:
                # Spark's file of checksums would refuse what is in it now.
                path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
                path.write_text("".join([*lines, lines[-1]]))
                chain.edited[state_of(path)] = tuple(rows_of(path, dataset.format))
                return


def _move(chain: Chain, dataset: Dataset, path: Path) -> None:
    origins = [(p.name, chain.moved.get(state_of(p), state_of(p))) for p in dataset.files()]
    dataset.path.rename(path)
    dataset.path = path
    chain.moved |= {state_of(path / name): origin for name, origin in origins}


def _target(chain: Chain, job: Job, inputs: Sequence[Dataset]) -> Dataset:
    """A job's output; what is overwritten is removed."""
    format = job.format if job.writes_frame else "csv"
    free = [dataset for dataset in chain.datasets[SOURCES:] if dataset not in inputs]
    if job.target != "new" and free:
        dataset = free[job.picked % len(free)]
        if job.target == "overwrite":
            shutil.rmtree(dataset.path)
            dataset.format = format
            return dataset
        if job.writes_frame and dataset.format == format:
            return dataset
    return _new(chain, format)


def _new(chain: Chain, format: str) -> Dataset:
    chain.datasets.append(Dataset(chain.folder / f"out{len(chain.datasets)}", format))
    return chain.datasets[-1]


def jobs() -> st.SearchStrategy[Job]:
    """Jobs of every engine."""
    pick = st.integers(0, 5)
    return st.builds(
        Job,
        engine=st.sampled_from(["rdd", "frame", "rdd to frame", "frame to rdd"]),
        inputs=st.lists(pick, min_size=1, max_size=2).map(tuple),
        combine=st.sampled_from(["union", "join"]),
        operators=st.lists(st.sampled_from(sorted(RDD_OPERATORS)), min_size=1, max_size=2).map(
            tuple
        ),
        format=st.sampled_from(["csv", "json", "parquet", "orc"]),
        target=st.sampled_from(["new", "new", "new", "append", "overwrite"]),
        picked=pick,
        renamed=st.sampled_from([False] * 9 + [True]),
        repeated=st.sampled_from([""] * 5 + ["again", "dated", "in place"]),
        edited=st.sampled_from([False] * 4 + [True]),
    )
