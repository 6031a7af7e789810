"""Chains of jobs whose rows carry the numbers of the source rows that made them, so every answer is known.

A dataset is a folder of files; its rows have two columns of text, ``key`` and ``ids``: the numbers of the source rows, separated by
spaces. Jobs keep them, so what a chain wrote is its own brute-force provenance, whatever the program was.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow.orc
import pyarrow.parquet
from hypothesis import strategies as st
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_emitter import LineageContext

SCHEMA = "key string, ids string"
KEYS = "abcd"
SOURCES = 2
ROWS = 5
"""Rows of each source."""

Pair: TypeAlias = "tuple[str, str]"


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

    @property
    def writes_frame(self) -> bool:
        return self.engine in ("frame", "rdd to frame")


@dataclass(frozen=True, slots=True)
class Version:
    """A file as it was written or landed: the rows of it, in order."""

    app: str
    path: str
    rows: tuple[frozenset[int], ...]
    mtime_ns: int


@dataclass(slots=True)
class Dataset:
    """A folder, or a file that landed."""

    path: Path
    format: str

    def files(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        return sorted(p for p in self.path.iterdir() if p.name.startswith("part-"))


@dataclass(slots=True)
class Chain:
    """What a chain left: ``written`` versions in order, and those of them that a job ``read``."""

    sources: dict[str, int] = field(default_factory=dict)
    """Number of each source row, by its place."""
    datasets: list[Dataset] = field(default_factory=list)
    written: list[Version] = field(default_factory=list)
    read: set[tuple[str, int]] = field(default_factory=set)
    """Paths and times of files that jobs read."""
    disturbed: bool = False
    """Whether something that a job wrote or read was overwritten or moved."""

    def is_there(self, app: str, place: str) -> bool:
        """Whether a row of an application's output is still where it was written, in the version that was written."""
        path = Path(re.sub(r"[:#][0-9]+$", "", place))
        return any(
            version.app == app
            and version.path == str(path)
            and path.exists()
            and path.stat().st_mtime_ns == version.mtime_ns
            for version in self.written
        )

    def read_sources(self) -> list[tuple[str, int]]:
        """Place and number of each source row that a job read."""
        paths = {path for path, _ in self.read}
        return [
            (place, number)
            for place, number in self.sources.items()
            if place.rpartition(":")[0] in paths
        ]


def _ids(text: str) -> frozenset[int]:
    return frozenset(map(int, text.split()))


def rows_of(path: Path, format: str) -> list[frozenset[int]]:
    """The numbers of each row of a file, in its order."""
    match format:
        case "parquet":
            return [_ids(str(t)) for t in pyarrow.parquet.read_table(path)["ids"].to_pylist()]
        case "orc":
            return [_ids(str(t)) for t in pyarrow.orc.read_table(path)["ids"].to_pylist()]
        case "json":
            return [_ids(json.loads(line)["ids"]) for line in path.read_text().splitlines()]
        case _:
            return [_ids(line.split(",")[1]) for line in path.read_text().splitlines()]


def places_of(path: str, rows: Sequence[frozenset[int]]) -> list[tuple[str, frozenset[int]]]:
    """Place and numbers of each row of a file."""
    if path.endswith((".parquet", ".orc")):
        return [(f"{path}#{at}", ids) for at, ids in enumerate(rows)]
    return [(f"{path}:{at}", ids) for at, ids in enumerate(rows, 1)]


# -- programs ---------------------------------------------------------------------------------


def merged(left: str, right: str) -> str:
    """Numbers of both."""
    return " ".join(map(str, sorted(_ids(left) | _ids(right))))


def _split(line: str) -> Pair:
    key, ids = line.split(",")
    return key, ids


def _of_json(line: str) -> Pair:
    row = json.loads(line)
    return row["key"], row["ids"]


def _moved(key: str) -> str:
    return KEYS[(KEYS.index(key[0]) * 3 + 1) % len(KEYS)] + key[1:]


def _joined(pair: tuple[str, tuple[str, str]]) -> Pair:
    key, (left, right) = pair
    return key, merged(left, right)


RDD_OPERATORS: dict[str, Callable[[RDD[Pair]], RDD[Pair]]] = {
    "filter": lambda rdd: rdd.filter(lambda pair: not pair[0].startswith("a")),
    "rename keys": lambda rdd: rdd.map(lambda pair: (_moved(pair[0]), pair[1])),
    "reduce": lambda rdd: rdd.reduceByKey(merged, 2),
    "twice": lambda rdd: rdd.flatMap(lambda pair: [pair, (f"{pair[0]}'", pair[1])]),
    "shuffle": lambda rdd: rdd.repartition(2),
    "distinct": lambda rdd: rdd.distinct(2),
    "sort": lambda rdd: rdd.sortByKey(True, 2, lambda key: key),  # type: ignore[type-var]
}


def _of_all(frame: DataFrame) -> DataFrame:
    ids = F.array_distinct(F.flatten(F.collect_list(F.split("ids", " "))))
    return frame.groupBy("key").agg(F.array_join(F.array_sort(ids), " ").alias("ids"))


FRAME_OPERATORS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "filter": lambda frame: frame.where(~F.col("key").startswith("a")),
    "rename keys": lambda frame: frame.select(
        F.concat(
            F.translate(F.substring("key", 1, 1), KEYS, "".join(map(_moved, KEYS))),
            F.substring("key", 2, 9),
        ).alias("key"),
        "ids",
    ),
    "reduce": _of_all,
    "twice": lambda frame: frame.select(
        F.explode(F.array("key", F.concat("key", F.lit("'")))).alias("key"), "ids"
    ),
    "shuffle": lambda frame: frame.repartition(2, "key"),
    "distinct": lambda frame: frame.distinct(),
    "sort": lambda frame: frame.orderBy("key"),
}


def _join_rdds(left: RDD[Pair], right: RDD[Pair]) -> RDD[Pair]:
    return left.join(right, 2).map(_joined)


def _join_frames(left: DataFrame, right: DataFrame) -> DataFrame:
    other = right.withColumnRenamed("ids", "others")
    return left.join(other, "key").select("key", F.concat_ws(" ", "ids", "others").alias("ids"))


def _read_rdd(lc: LineageContext, spark: SparkSession, dataset: Dataset) -> RDD[Pair]:
    if dataset.format in ("parquet", "orc"):
        return _rows_as_rdd(lc, _read_frame(spark, dataset))
    lines = lc.textFile(str(dataset.path), 2)
    return lines.map(_of_json if dataset.format == "json" else _split)


def _rows_as_rdd(lc: LineageContext, frame: DataFrame) -> RDD[Pair]:
    return lc.rdd(frame).map(lambda row: (row.key, row.ids))


def _read_frame(spark: SparkSession, dataset: Dataset) -> DataFrame:
    return spark.read.schema(SCHEMA).format(dataset.format).load(str(dataset.path))


def _run_rdd(rdds: Sequence[RDD[Pair]], job: Job) -> RDD[Pair]:
    made = reduce(_join_rdds if job.combine == "join" else lambda a, b: a.union(b), rdds)
    for name in job.operators:
        made = RDD_OPERATORS[name](made)
    return made


def _run_frame(frames: Sequence[DataFrame], job: Job) -> DataFrame:
    how = _join_frames if job.combine == "join" else DataFrame.union
    made = reduce(how, frames)
    for name in job.operators:
        made = FRAME_OPERATORS[name](made)
    return made


# -- chains -----------------------------------------------------------------------------------


def land_sources(folder: Path) -> Chain:
    """The files that no job wrote; the second has the keys of the first in another order."""
    chain = Chain()
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


def run_job(chain: Chain, job: Job, lc: LineageContext, spark: SparkSession, app: str) -> None:
    """Run one job, and note what it read and wrote."""
    picks = {pick % len(chain.datasets): None for pick in job.inputs}
    inputs = [chain.datasets[pick] for pick in picks]
    for dataset in inputs:
        chain.read |= {(str(path), path.stat().st_mtime_ns) for path in dataset.files()}
    if job.engine in ("rdd", "frame to rdd"):
        rdds = (
            [_read_rdd(lc, spark, dataset) for dataset in inputs]
            if job.engine == "rdd"
            else [_rows_as_rdd(lc, _read_frame(spark, dataset)) for dataset in inputs]
        )
        output = _target(chain, job, inputs, "csv")
        _run_rdd(rdds, job).map(",".join).saveAsTextFile(str(output.path))
    else:
        frames = (
            [_read_frame(spark, dataset) for dataset in inputs]
            if job.engine == "frame"
            else [
                spark.createDataFrame(_read_rdd(lc, spark, dataset), SCHEMA) for dataset in inputs
            ]
        )
        output = _target(chain, job, inputs, job.format)
        made = _run_frame(frames, job)
        made.write.mode("append").format(output.format).save(str(output.path))
    seen = {(version.path, version.mtime_ns) for version in chain.written}
    for path in output.files():
        mtime_ns = path.stat().st_mtime_ns
        if (str(path), mtime_ns) not in seen:
            rows = tuple(rows_of(path, output.format))
            chain.written.append(Version(app, str(path), rows, mtime_ns))
    if job.renamed:
        moved = output.path.with_name(f"{output.path.name}-moved")
        output.path.rename(moved)
        output.path = moved
        chain.disturbed = True


def _target(chain: Chain, job: Job, inputs: Sequence[Dataset], format: str) -> Dataset:
    """A job's output; what is overwritten is removed."""
    folder = chain.datasets[0].path.parent
    free = [dataset for dataset in chain.datasets[SOURCES:] if dataset not in inputs]
    if job.target != "new" and free:
        dataset = free[job.picked % len(free)]
        if job.target == "overwrite":
            shutil.rmtree(dataset.path)
            chain.disturbed = True
            dataset.format = format
            return dataset
        if job.writes_frame and dataset.format == format:
            return dataset
    chain.datasets.append(Dataset(folder / f"out{len(chain.datasets)}", format))
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
    )
