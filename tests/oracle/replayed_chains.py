"""Chains of small jobs of DataFrames and RDDs over files, which can be run plainly over other sources, too.

All rows have the same three columns, so any job may read what any other wrote. Orders are total and sums are of whole numbers: what a chain gives depends on
its sources alone.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow.parquet
from hypothesis import strategies as st
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.support.job_runs import part_files

SCHEMA = "key string, amount bigint, note string"
COLUMNS = ("key", "amount", "note")
FORMATS = ("csv", "csv with header", "json", "parquet")
SOURCES = 2

Row: TypeAlias = "tuple[str, int | None, str]"
TextFile: TypeAlias = "Callable[[str, int], RDD[str]]"


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Numbers pick from the datasets that there are, the newest first, modulo how many."""

    engine: str
    """`frame`, or `lines`: an RDD of the lines of its first input; of a DataFrame where that has none."""
    inputs: tuple[int, ...]
    combine: str
    steps: tuple[str, ...]
    format: str
    is_one_file: bool


@dataclass(frozen=True, slots=True)
class Dataset:
    """A folder of files. ``of_lines``: an RDD wrote it. ``sources``: numbers of those that it was made of; ``by_lines``: of these, such as RDDs read on the way."""

    path: Path
    format: str
    of_lines: bool
    sources: frozenset[int]
    by_lines: frozenset[int]


def _totals(frame: DataFrame, having: str = "true") -> DataFrame:
    totals = frame.groupBy("key").agg(
        F.sum("amount").alias("amount"), F.max("note").alias("note"), F.count("*").alias("count")
    )
    return totals.where(having).select(*COLUMNS)


STEPS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "double": lambda frame: frame.withColumn("amount", F.col("amount") * 2 + 1),
    "upper": lambda frame: frame.withColumn("key", F.upper("key")),
    "mark": lambda frame: frame.withColumn("note", F.concat_ws("-", "note", "key")),
    "large": lambda frame: frame.where("amount > 1"),
    "noted": lambda frame: frame.where("note IS NOT NULL AND note != 'x'"),
    "explode": lambda frame: frame.withColumn("note", F.explode(F.split("note", "-"))),
    "distinct": lambda frame: frame.distinct(),
    "totals": _totals,
    "of key and note": lambda frame: (
        frame.groupBy("key", "note").agg(F.count("*").alias("amount")).select(*COLUMNS)
    ),
    "small groups": lambda frame: _totals(frame, "count < 3"),
    "large groups": lambda frame: _totals(frame, "amount > 2"),
    "all": lambda frame: frame.groupBy().agg(
        F.min("key").alias("key"), F.sum("amount").alias("amount"), F.max("note").alias("note")
    ),
    "first": lambda frame: frame.orderBy(*COLUMNS).limit(3),
    "last": lambda frame: frame.orderBy(F.desc("amount"), *COLUMNS).limit(2),
    "greatest": lambda frame: frame.join(
        frame.groupBy("key").agg(F.max("amount").alias("amount")), ["key", "amount"]
    ).select(*COLUMNS),
}


def _joined(left: DataFrame, right: DataFrame) -> DataFrame:
    other = right.select("key", F.col("amount").alias("other"), F.col("note").alias("remark"))
    values = (
        "key",
        (F.col("amount") + F.col("other")).alias("amount"),
        F.concat_ws("-", "note", "remark").alias("note"),
    )
    return left.join(other, "key").select(*values)


COMBINED: dict[str, Callable[[DataFrame, DataFrame], DataFrame]] = {
    "union": DataFrame.union,
    "join": _joined,
    "semi": lambda left, right: left.join(right.select("key"), "key", "left_semi"),
    "anti": lambda left, right: left.join(right.select("key"), "key", "left_anti"),
    "left": lambda left, right: left.join(
        right.select("key", F.col("amount").alias("other")), "key", "left"
    ).select("key", F.coalesce("other", "amount").alias("amount"), "note"),
}

LINE_STEPS: dict[str, Callable[[RDD[str]], RDD[str]]] = {
    "distinct": lambda lines: lines.distinct(2),
    "large": lambda lines: lines.filter(lambda line: "1" not in line),
    "first": lambda lines: lines.sortBy(lambda line: line, True, 2),  # type: ignore[type-var]
}


def jobs() -> st.SearchStrategy[Job]:
    """Drawn jobs."""
    return st.builds(
        Job,
        engine=st.sampled_from(["frame"] * 5 + ["lines"]),
        # The newest dataset is among them as a rule: else a chain would fall apart.
        inputs=st.tuples(st.sampled_from([0, 0, 0, 1]), st.integers(0, 4)).flatmap(
            lambda picks: st.sampled_from([picks[:1], picks])
        ),
        combine=st.sampled_from(sorted(COMBINED)),
        steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=3).map(tuple),
        format=st.sampled_from(FORMATS),
        is_one_file=st.booleans(),
    )


def source_rows() -> st.SearchStrategy[list[Row]]:
    """Rows of one source: few values, so that rows are equal, and keys and groups meet."""
    row = st.tuples(
        st.sampled_from(["a", "b", "c", "A"]),
        st.sampled_from([0, 1, 2, 3, None]),
        st.sampled_from(["x", "y-z", "", "p,q", 'say "x"', " w", "é"]),
    )
    return st.lists(row, min_size=3, max_size=8)


def lines_of(rows: Sequence[Row]) -> list[str]:
    """The lines of a source, as a program of another kind would write them."""
    written = io.StringIO()
    csv.writer(written, lineterminator="\n", escapechar="\\", doublequote=False).writerows(rows)
    return written.getvalue().splitlines(keepends=True)


def land(folder: Path, lines: Sequence[Sequence[str]]) -> list[Dataset]:
    """Write the sources."""
    datasets = []
    for number, of_source in enumerate(lines):
        path = folder / f"landed{number}"
        path.mkdir(parents=True)
        (path / "in.csv").write_text("".join(of_source), encoding="utf-8")
        datasets.append(Dataset(path, "csv", False, frozenset({number}), frozenset()))
    return datasets


def run_job(
    spark: SparkSession, text_file: TextFile, folder: Path, job: Job, datasets: list[Dataset]
) -> Dataset:
    """Run one job over the datasets that there are, and add what it wrote."""
    picks = dict.fromkeys(-1 - pick % len(datasets) for pick in job.inputs)
    inputs = [datasets[pick] for pick in picks]
    path = folder / f"out{len(datasets)}"
    steps = [LINE_STEPS[step] for step in job.steps if step in LINE_STEPS]
    of_lines = job.engine == "lines" and bool(steps) and inputs[0].format in {"csv", "json"}
    if of_lines:
        inputs = inputs[:1]
        lines = text_file(str(inputs[0].path), 2)
        reduce(lambda made, step: step(made), steps, lines).saveAsTextFile(str(path))
        written_as = inputs[0].format
    else:
        frames = [read(spark, dataset) for dataset in inputs]
        frame = reduce(COMBINED[job.combine], frames)
        frame = reduce(lambda made, step: STEPS[step](made), job.steps, frame)
        write(frame.coalesce(1) if job.is_one_file else frame, job.format, path)
        written_as = job.format
    sources = frozenset[int]().union(*(dataset.sources for dataset in inputs))
    by_lines = frozenset[int]().union(*(dataset.by_lines for dataset in inputs))
    made = Dataset(path, written_as, of_lines, sources, sources if of_lines else by_lines)
    datasets.append(made)
    return made


def read(spark: SparkSession, dataset: Dataset) -> DataFrame:
    """The rows of a dataset."""
    reader = spark.read.schema(SCHEMA).format(dataset.format.split(maxsplit=1)[0])
    return reader.option("header", "header" in dataset.format).load(str(dataset.path))


def write(frame: DataFrame, format: str, path: Path) -> None:
    """Write rows to a new folder."""
    writer = frame.write.format(format.split(maxsplit=1)[0])
    if "csv" in format:
        writer = writer.option("header", "header" in format)
    writer.save(str(path))


def places_of(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """The place and the bytes of each row, the latter as text."""
    for path in part_files(dataset.path):
        if dataset.format == "parquet":
            rows = pyarrow.parquet.read_table(path).to_pylist()
            yield from ((f"{path}#{n}", repr(row)) for n, row in enumerate(rows))
        else:
            first = 1 if "header" in dataset.format else 0
            lines = path.read_text(encoding="utf-8").splitlines()
            yield from ((f"{path}:{n}", line) for n, line in enumerate(lines, 1) if n > first)


def rows_of(dataset: Dataset) -> Counter[str]:
    """The bytes of all rows, as text."""
    return Counter(text for _, text in places_of(dataset))
