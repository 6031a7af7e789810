"""DataFrames: queries of everyday idioms over rows that have an id, traced by their recipes.

Each step keeps four columns: ``ids`` (of the rows of the tables that a row is made of), ``k``, ``v`` and ``s``. So
the ids of a row are its witnesses, whatever the query chose: the row that `dropDuplicates` kept, the first of equal
ones, the rows of a sample. ``shown`` False: the traced query leaves the ids out, and the rows that have the same
values state theirs together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyspark import SparkContext
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

from benchmarks.frames_oracle import recipe_of_frame
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.witnesses import Witnesses as Found
from lineage_dataframes.trace.backward import trace_backward
from tests.hunt.claims import Claim, Finding
from tests.hunt.hunting import Kind
from tests.hunt.spark_kinds import spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILES = 2
ROWS_TRACED = 3
OTHER = 1000
"""Ids of the second table begin here."""
WORDS = ("a", "b", "${name}", "it's", "")
Row: TypeAlias = tuple[str, int | None, str]
SQL = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass(frozen=True)
class Query:
    """Two tables of rows (k, v, s), and steps over the first: names in ``STEPS`` with a number."""

    left: tuple[Row, ...]
    right: tuple[Row, ...]
    steps: tuple[tuple[str, int], ...]
    shown: bool

    def __str__(self) -> str:
        steps = "".join(f".{name}({number})" for name, number in self.steps)
        end = "" if self.shown else ".drop('ids')"
        return f"t{steps}{end}; t={self.left}; u={self.right}"


def _tables() -> st.SearchStrategy[tuple[Row, ...]]:
    rows = st.tuples(st.sampled_from(WORDS), st.none() | st.integers(0, 3), st.sampled_from(WORDS))
    return st.lists(rows, min_size=2, max_size=7).map(tuple)


def queries() -> st.SearchStrategy[Query]:
    """Queries of one to three idioms."""
    steps = st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 3))
    listed = st.lists(steps, min_size=1, max_size=3).map(tuple)
    return st.builds(Query, _tables(), _tables(), listed, st.booleans())


# Idioms: each keeps the four columns --------------------------------------------------------------


def _unique(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.dropDuplicates(["k"] if n < 2 else ["k", "v"])


def _numbered(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    order = [f.col("v").desc()] if n < 2 else [f.col("v"), f.col("s")]
    number = f.row_number().over(Window.partitionBy("k").orderBy(*order))
    return left.withColumn("n", number).where("n = 1").drop("n")


def _grouped(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    value = (f.sum("v"), f.max("v"), f.first("v"), f.count("v"))[n]
    ids = f.sort_array(f.flatten(f.collect_list("ids"))).alias("ids")
    return left.groupBy("k").agg(ids, value.alias("v"), f.min("s").alias("s")).select(*COLUMNS)


def _joined(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    other = right.select(f.col("ids").alias("o"), f.col("k"), f.col("v").alias("w"))
    met = left.join(other, "k", ("inner", "left", "inner", "left")[n])
    ids = f.coalesce(f.concat("ids", "o"), f.col("ids")).alias("ids")
    return met.select(ids, "k", f.coalesce("w", "v").alias("v"), "s")


def _half(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.join(right.select("k"), "k", "left_anti").select(*COLUMNS)


def _filtered(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.where((f.col("v") >= n) | (f.col("s") == f.lit("${name}")))


def _literal(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    text = f.lit("${name}")
    if n < 2:
        return left.where(f.col("k") == text)
    return left.withColumn("s", f.when(f.col("k") == text, f.lit("same")).otherwise(text))


def _limited(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.orderBy("v").limit(n + 1) if n < 2 else left.limit(n)


def _sampled(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.sample(False, 0.6, seed=n)


def _united(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.unionByName(right if n < 2 else left.where("v > 0"))


def _without_nulls(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    return left.dropna(subset=["v"]) if n < 2 else left.fillna({"v": n})


def _exploded(left: DataFrame, right: DataFrame, n: int) -> DataFrame:
    values = f.explode(f.array(f.col("v"), f.lit(n)))
    return left.withColumn("v", values)


COLUMNS = ("ids", "k", "v", "s")
STEPS: dict[str, Callable[[DataFrame, DataFrame, int], DataFrame]] = {
    "dropDuplicates": _unique,
    "row_number": _numbered,
    "groupBy": _grouped,
    "join": _joined,
    "anti": _half,
    "where": _filtered,
    "literal": _literal,
    "limit": _limited,
    "sample": _sampled,
    "union": _united,
    "nulls": _without_nulls,
    "explode": _exploded,
}


class Tables:
    """The tables of a query as files, and the query over them."""

    def __init__(self, session: SparkSession, query: Query, home: Path) -> None:
        self.query, self.home = query, home
        self.sizes = {name: -(-len(rows) // FILES) for name, rows in self._rows()}
        for name, rows in self._rows():
            for n in range(FILES):
                part = range(n * self.sizes[name], min((n + 1) * self.sizes[name], len(rows)))
                _write(home / name / f"part-{n}.parquet", rows, part, OTHER * (name == "u"))
        left, right = (session.read.parquet(str(home / name)) for name in ("t", "u"))
        for step, number in query.steps:
            left = STEPS[step](left, right, number)
        self.whole = left
        self.traced = left if query.shown else left.drop("ids")

    def _rows(self) -> tuple[tuple[str, tuple[Row, ...]], ...]:
        return ("t", self.query.left), ("u", self.query.right)

    def item(self, number: int) -> tuple[str, int]:
        """The witness that an id names."""
        return ("u", number - OTHER) if number >= OTHER else ("t", number)

    def items(self, found: Found) -> frozenset[tuple[str, int]]:
        """Witnesses of a trace."""
        items = set()
        for (_, uri), ordinals in found.rows.items():
            path = Path(uri.removeprefix("file:"))
            before = int(path.stem.removeprefix("part-")) * self.sizes[path.parent.name]
            items |= {(path.parent.name, before + n) for n in ordinals.tolist()}
        return frozenset(items)


SCHEMA = pa.schema(
    [("ids", pa.list_(pa.int64())), ("k", pa.string()), ("v", pa.int64()), ("s", pa.string())]
)


def _write(path: Path, rows: tuple[Row, ...], part: range, first: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    named = [{"ids": [first + n], "k": rows[n][0], "v": rows[n][1], "s": rows[n][2]} for n in part]
    pq.write_table(pa.Table.from_pylist(named, schema=SCHEMA), path)


def held(session: SparkSession, query: Query, home: Path) -> Finding:
    """What the recipe's traces say of rows, against the ids that the query gave them."""
    tables = Tables(session, query, home)
    truth: dict[tuple[Any, ...], set[tuple[str, int]]] = {}
    for row in tables.whole.collect():
        values = tuple(row) if query.shown else tuple(row)[1:]
        key = tuple(tuple(one) if isinstance(one, list) else one for one in values)
        truth.setdefault(key, set()).update(tables.item(n) for n in row["ids"])
    finding = Finding(complete=True)
    if not truth:
        return finding
    recipe = recipe_of_frame(tables.traced)
    for row in tables.traced.collect()[:ROWS_TRACED]:
        key = tuple(tuple(one) if isinstance(one, list) else one for one in row)
        try:
            found = trace_backward(session, recipe, [tuple(row)])
        except RefusedError as problem:
            finding.note = f"refused: {problem}"[:200]
            continue
        if key in truth:
            claim = Claim(repr(key), frozenset(truth[key]), tables.items(found), found.exact)
            finding.hold([claim])
    return finding


def quick_session(sc: SparkContext) -> SparkSession:
    """A session of its own that is quick at tiny queries."""
    session = SparkSession(sc).newSession()
    for name, value in SQL.items():
        session.conf.set(name, value)
    return session


@contextmanager
def querying(folder: Path) -> Iterator[Callable[[Query], Finding]]:
    """Tries queries in one session."""
    folder.mkdir(parents=True)
    numbers = itertools.count()
    with spark(folder, "local[2]") as sc:
        session = quick_session(sc)
        yield lambda query: held(session, query, folder / str(next(numbers)))


FRAME_KINDS = (Kind("frames", queries, querying, batch=40),)
