"""Programs that go from lines of a file through Spark, arrays and Spark again to a report, and which lines each row of it depends on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_arrays import Recording
from lineage_arrays.saved import store_recording
from lineage_emitter import LineageContext
from tests.support.versions import IN_35

SCHEMA = "key int, x double, y double"
Line = tuple[int, float, float]


def fitted(table: Any) -> Any:
    """Fit a line to the first rows, and predict for all."""
    x, y = table[:3, 0], table[:3, 1]
    from_mean = x - np.mean(x)
    slope = np.sum(from_mean * (y - np.mean(y))) / np.sum(from_mean * from_mean)
    return np.mean(y) + slope * (table[:, 0] - np.mean(x))


MODELS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "fitted": fitted,
        "each row": lambda table: table[:, 0] * table[:, 1] + table[:, 1],
        "those before": lambda table: np.cumsum(table[:, 1]),
        "neighbours": lambda table: np.convolve(table[:, 1], [0.25, 0.5, 0.25], mode="same"),
        "centred": lambda table: table[:, 1] - np.mean(table[:, 1]),
        "reversed": lambda table: np.roll(table[::-1, 1], 1),
    }
)


def _grouped(spark: SparkSession, lc: LineageContext, path: str) -> Any:
    frame = spark.read.csv(path, schema=SCHEMA)
    return frame.groupBy("key").agg(F.sum("x").alias("sx"), F.avg("y").alias("my"))


def _each_line(spark: SparkSession, lc: LineageContext, path: str) -> DataFrame:
    return spark.read.csv(path, schema=SCHEMA).where("key % 2 = 0").select("x", "y")


def _by_key(spark: SparkSession, lc: LineageContext, path: str) -> Any:
    parsed = lc.textFile(path, 3).map(lambda line: line.split(","))
    pairs = parsed.map(lambda cells: (int(cells[0]), (float(cells[1]), float(cells[2]))))
    sums = pairs.reduceByKey(lambda one, other: (one[0] + other[0], one[1] + other[1]), 3)
    return sums.values()


def _written(spark: SparkSession, lc: LineageContext, path: str) -> Path:
    """A file of rows in place of rows that are collected."""
    out = Path(path).parent / "features"
    made = _grouped(spark, lc, path).withColumn("key", F.col("key").cast("double"))
    made.coalesce(1).write.parquet(str(out))
    return next(out.glob("part-*.parquet"))


FEATURES: Mapping[str, Callable[[SparkSession, LineageContext, str], Any]] = MappingProxyType(
    {"grouped": _grouped, "each line": _each_line, "by key": _by_key, "written": _written}
)
REPORTS = ("rows", "records", "total")
COLUMNS = ["sx", "my"]


def _by_index(recording: Recording, frame: DataFrame) -> Any:
    """Steps in pandas choose the rows, and the array's are taken by its index."""
    pandas = frame.toPandas()
    table = recording.rows_of("features", pandas, COLUMNS)
    last = pandas.columns[-1]
    return table[pandas.sort_values(last, ascending=False)[1:].index.to_numpy()]


def _some_rows(recording: Recording, frame: DataFrame) -> Any:
    rows = sorted(frame.collect(), key=lambda row: -row["sx"])
    return recording.rows_of("features", rows[1:], COLUMNS)


OF_FRAMES: Mapping[str, Callable[[Recording, DataFrame], Any]] = MappingProxyType(
    {
        "toPandas": lambda recording, frame: recording.rows_of(
            "features", frame.toPandas(), COLUMNS
        ),
        "pandas by index": _by_index,
        "collect": lambda recording, frame: recording.rows_of("features", frame.collect(), COLUMNS),
        "some rows": _some_rows,
        "take": lambda recording, frame: recording.rows_of(
            "features", frame.orderBy("sx").take(3), COLUMNS
        ),
        "tail": lambda recording, frame: recording.rows_of("features", frame.tail(3), COLUMNS),
    }
    | (
        {}
        if IN_35
        else {
            "toArrow": lambda recording, frame: recording.rows_of(
                "features", frame.toArrow(), COLUMNS
            )
        }
    )
)
"""Arrays of what actions on DataFrames gave."""
OF_RDDS: Mapping[str, Callable[[Recording, Any], Any]] = MappingProxyType(
    {
        "collect": lambda recording, rdd: recording.rows_of("features", rdd.collect()),
        "some records": lambda recording, rdd: recording.rows_of("features", rdd.collect()[:0:-1]),
        "takeOrdered": lambda recording, rdd: recording.rows_of("features", rdd.takeOrdered(3)),
        "top": lambda recording, rdd: recording.rows_of("features", rdd.top(4)[1:]),
        "takeSample": lambda recording, rdd: recording.rows_of(
            "features", rdd.takeSample(False, 4, 7)
        ),
    }
)
"""Arrays of what actions on RDDs gave."""


@dataclass
class Pipeline:
    """What a program is made of: names of `FEATURES`, `MODELS` and `REPORTS`."""

    lines: Sequence[Line]
    features: str
    model: str
    report: str
    given: str = ""
    """By which of `OF_FRAMES` or `OF_RDDS` the rows become an array; empty: by `Recording.rows_of` of the collection itself."""
    in_memory: bool = False
    """The array becomes a DataFrame by ``createDataFrame``, not by `Recording.frame`."""
    scores: str = ""
    """The file of the array."""
    order: list[float] = field(default_factory=list)
    """What tells the rows of the array apart, in their order: of the run."""

    def run(self, spark: SparkSession, lc: LineageContext, folder: Path, url: str) -> None:
        """Run it over ``folder/in.csv``, into ``folder/report``."""
        text = "".join(f"{key},{x},{y}\n" for key, x, y in self.lines)
        (folder / "in.csv").write_text(text)
        recording = Recording()
        made = FEATURES[self.features](spark, lc, str(folder / "in.csv"))
        if isinstance(made, Path):
            table = recording.load(made)[:, 1:]
        else:
            table = self._table(recording, lc, made)
        self.order = table.current[:, 0].tolist()
        scores: Any = np.stack([table[:, 0], MODELS[self.model](table)], axis=1)
        names = ["tag", "score"]
        if self.in_memory:
            frame = spark.createDataFrame(scores, names)
        else:
            frame = recording.frame(spark, folder / "scores.parquet", scores, names)
        self.scores = recording.flow.outputs[-1].name
        store_recording(recording, "model", url)
        out = str(folder / "report")
        if self.report == "records":
            lc.rdd(frame).map(lambda row: f"{row[0]},{row[1]}").saveAsTextFile(out)
        elif self.report == "total":
            frame.agg(F.sum("tag"), F.sum("score")).write.csv(out)
        else:
            frame.where("tag is not null").write.csv(out)

    def _table(self, recording: Recording, lc: LineageContext, made: Any) -> Any:
        if not isinstance(made, DataFrame):
            given = OF_RDDS.get(self.given)
            return given(recording, made) if given else recording.rows_of("features", made)
        if self.given:
            named = made if "sx" in made.columns else made.toDF(*COLUMNS)
            return OF_FRAMES[self.given](recording, named)
        columns = COLUMNS if self.features == "grouped" else None
        return recording.rows_of("features", lc.rdd(made), columns)

    def plain(self, lines: Sequence[Line], groups: Sequence[Sequence[int]]) -> Any:
        """The rows of the report, without Spark: ``groups`` are the lines that make each row of the array."""
        rows = [
            (
                sum(lines[at][1] for at in group),
                sum(lines[at][2] for at in group)
                / (len(group) if self.features in {"grouped", "written"} else 1),
            )
            for group in groups
        ]
        table = np.array(rows)
        scores: Any = np.stack([table[:, 0], MODELS[self.model](table)], axis=1)
        return scores.sum(axis=0)[None] if self.report == "total" else scores

    def groups(self) -> list[list[int]]:
        """The lines that made each row of the array, in the order of the run."""
        by_key: dict[int, list[int]] = {}
        for at, (key, _, _) in enumerate(self.lines):
            if self.features != "each line" or key % 2 == 0:
                by_key.setdefault(at if self.features == "each line" else key, []).append(at)
        sums = {key: sum(self.lines[at][1] for at in group) for key, group in by_key.items()}
        return [by_key[min(sums, key=lambda key: abs(sums[key] - tag))] for tag in self.order]

    def depends(self) -> tuple[Any, list[set[int]]]:
        """The rows of the report, and the lines (from 1) whose change changes each."""
        groups = self.groups()
        before = self.plain(self.lines, groups)
        made_of: list[set[int]] = [set() for _ in before]
        for at, (key, x, y) in enumerate(self.lines):
            for other in ((key, x + 0.377, y), (key, x, y + 0.291), (key, x * 1.7, y * 0.3)):
                changed = [*self.lines[:at], other, *self.lines[at + 1 :]]
                after = self.plain(changed, groups)
                for row in np.flatnonzero(np.abs(after - before).max(axis=1) > 1e-9):
                    made_of[row].add(at + 1)
        return before, made_of
