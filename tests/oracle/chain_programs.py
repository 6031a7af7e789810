"""What the jobs of chains do to rows of a key and the numbers of the source rows that made them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow.orc
import pyarrow.parquet
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_emitter import LineageContext

SCHEMA = "key string, ids string"
KEYS = "abcd"

Pair: TypeAlias = "tuple[str, str]"


@dataclass(slots=True)
class Dataset:
    """A folder, or a file that landed."""

    path: Path
    format: str

    @property
    def is_text(self) -> bool:
        return self.format in {"csv", "json"}

    def files(self) -> list[Path]:
        if self.path.is_file():
            return [self.path]
        return sorted(p for p in self.path.iterdir() if p.name.startswith("part-"))


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


def read_rdd(lc: LineageContext, spark: SparkSession, dataset: Dataset) -> RDD[Pair]:
    """The rows of a dataset as an RDD."""
    if dataset.format in ("parquet", "orc"):
        return rows_as_rdd(lc, read_frame(spark, dataset))
    lines = lc.textFile(str(dataset.path), 2)
    return lines.map(_of_json if dataset.format == "json" else _split)


def rows_as_rdd(lc: LineageContext, frame: DataFrame) -> RDD[Pair]:
    """The rows of a DataFrame as an RDD."""
    return lc.rdd(frame).map(lambda row: (row.key, row.ids))


def read_frame(spark: SparkSession, dataset: Dataset) -> DataFrame:
    """The rows of a dataset as a DataFrame."""
    return spark.read.schema(SCHEMA).format(dataset.format).load(str(dataset.path))


def run_rdd(rdds: Sequence[RDD[Pair]], combine: str, operators: Sequence[str]) -> RDD[Pair]:
    """Combine RDDs by `union` or `join`, and apply operators in turn."""
    made = reduce(_join_rdds if combine == "join" else lambda a, b: a.union(b), rdds)
    for name in operators:
        made = RDD_OPERATORS[name](made)
    return made


def run_frame(frames: Sequence[DataFrame], combine: str, operators: Sequence[str]) -> DataFrame:
    """Combine DataFrames by `union` or `join`, and apply operators in turn."""
    made = reduce(_join_frames if combine == "join" else DataFrame.union, frames)
    for name in operators:
        made = FRAME_OPERATORS[name](made)
    return made
