"""Groups of DataFrames that Python functions fail on are set aside with all their rows: against plain PySpark over the other groups."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_dataframes.trace.backward import trace_backward
from lineage_emitter import LineageContext
from lineage_store.recipes import read_recipe
from lineage_store.url import open_store
from tests.e2e.test_quarantine_frames import lines_of, listed
from tests.support.job_runs import STORE, judged
from tests.support.versions import not_before_41

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
of_pyspark: Any = F

FUNCTIONS = """
from collections.abc import Iterator
import pandas as pd
import pyarrow as pa

def summed(group):
    return pd.DataFrame({"s": [group["t"].map(int).sum()], "n": [len(group)]})

def with_key(key, group):
    return pd.DataFrame({"s": [sum(map(int, group["t"]))], "n": [0 if key[-1] is None else len(str(key[-1]))]})

def in_arrow(key, group):
    return pa.table({"s": [sum(map(int, group["t"].to_pylist()))], "n": [group.num_rows]})

def of_both(left, right):
    return pd.concat([summed(left), summed(right)])

def with_key_of_both(key, left, right):
    return pd.concat([with_key(key, left), with_key(key, right)])

def arrow_of_both(key, left, right):
    return pa.concat_tables([in_arrow(key, left), in_arrow(key, right)])

def total(texts: pd.Series) -> float:
    return texts.map(int).sum()

def size(texts: pd.Series) -> float:
    return len(texts)

def total_of_array(texts: pa.Array) -> float:
    return sum(map(int, texts.to_pylist()))

def size_of_array(texts: pa.Array) -> float:
    return len(texts)

def parsed(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for texts in batches:
        yield texts.map(int)

def of_parts(parts):
    for part in parts:
        yield summed(part)
"""
functions: dict[str, Any] = {"__name__": "job"}
# Of a program that is no module: their code travels.
exec(FUNCTIONS, functions)
SCHEMA = "k string, d decimal(5,2), i int, f double, t string"
GIVES = "s long, n long"


def grouped(*keys: str, function: str = "summed") -> Callable[[DataFrame], DataFrame]:
    def of(frame: DataFrame) -> DataFrame:
        groups: Any = frame.groupBy(*keys)
        method = groups.applyInArrow if function == "in_arrow" else groups.applyInPandas
        result: DataFrame = method(functions[function], GIVES)
        return result

    return of


def cogrouped(*keys: str, function: str) -> Callable[[DataFrame], DataFrame]:
    """Pairs of groups of one key of rows with small texts and of all others."""

    def of(frame: DataFrame) -> DataFrame:
        sides = [frame.where(f"t {than} '2'").groupBy(*keys) for than in ("<", ">=")]
        pairs: Any = sides[0].cogroup(sides[1])
        method = pairs.applyInArrow if function == "arrow_of_both" else pairs.applyInPandas
        result: DataFrame = method(functions[function], GIVES)
        return result

    return of


def aggregated(*keys: str, function: str) -> Callable[[DataFrame], DataFrame]:
    made = of_pyspark.arrow_udf if function == "total_of_array" else of_pyspark.pandas_udf
    total = made(functions[function], "long")
    size = made(functions[function.replace("total", "size")], "long")

    def of(frame: DataFrame) -> DataFrame:
        # What is computed of a value sees none of a group that fails.
        no_value = F.raise_error(F.lit("a group without a value"))
        doubled = F.coalesce(total("t") + total("t"), no_value).cast("long")
        return frame.groupBy(*keys).agg(size("t").alias("n"), doubled.alias("s")).select("s", "n")

    return of


def made(keys: tuple[str, ...], function: str) -> Callable[[DataFrame], DataFrame]:
    if function.endswith("_both"):
        return cogrouped(*keys, function=function)
    if function.startswith("total"):
        return aggregated(*keys, function=function)
    return grouped(*keys, function=function)


KEYS: dict[str, tuple[tuple[str, ...], str]] = {
    "text": (("k",), "summed"),
    "several": (("i", "d", "k"), "with_key"),
    "double": (("f",), "summed"),
    "none": ((), "summed"),
    "pairs": (("i", "k"), "of_both"),
    "keyed pairs": (("d",), "with_key_of_both"),
    "aggregates": (("i", "k"), "total"),
    "aggregates by double": (("f",), "total"),
}
IN_ARROW = {
    "text": (("k",), "in_arrow"),
    "several": (("i", "d", "k"), "in_arrow"),
    "pairs": (("k", "i"), "arrow_of_both"),
    "aggregates": (("k", "d"), "total_of_array"),
}


def drawn(seed: int) -> list[str]:
    draw = random.Random(seed)
    return [
        ",".join([
            draw.choice(["a", "b'", "", "cd"]),
            draw.choice(["1.50", "-0.25", ""]),
            draw.choice(["1", "9007199", ""]),
            draw.choice(["0.1", "-1e300", "7"]),
            draw.choice(["x", *map(str, range(40))]),
        ])
        for _ in range(draw.randrange(8, 40))
    ]  # fmt: skip


def failing(lines: list[str], keys: tuple[str, ...]) -> set[int]:
    """The lines of groups in which a text is no number."""
    cells = [dict(zip("kdift", line.split(","), strict=True)) for line in lines]
    bad = {tuple(row[key] for key in keys) for row in cells if row["t"] == "x"}
    return {n for n, row in enumerate(cells, 1) if tuple(row[key] for key in keys) in bad}


def check(
    capture: Capture, spark: SparkSession, folder: Path, lines: list[str], *kinds: str
) -> None:
    read = spark.read.schema(SCHEMA)
    source = folder / "lines.csv"
    source.write_text("".join(f"{line}\n" for line in lines))
    expected, left_out = {}, {}
    for kind in kinds:
        keys, function = KEYS[kind]
        bad = failing(lines, keys)
        kept = folder / f"{kind}.csv"
        kept.write_text("".join(f"{line}\n" for n, line in enumerate(lines, 1) if n not in bad))
        plain = made(keys, function)(read.csv(str(kept)))
        expected[kind], left_out[kind] = Counter(map(tuple, plain.collect())), bad
    for kind in kinds:
        keys, function = KEYS[kind]
        with capture(quarantine=1_000) as lc:
            frame = made(keys, function)(read.csv(str(source)))
            assert Counter(map(tuple, frame.collect())) == expected[kind], (kind, lines)
            # Once more: what is set aside again is the same.
            assert Counter(map(tuple, frame.collect())) == expected[kind]
            app = lc.app
        verdict = judged(folder, app)
        assert verdict.complete, verdict.reasons
        assert sum(verdict.set_aside.values()) == len(left_out[kind]), (kind, lines)
        found = listed(folder, app, "--limit", "1000")
        groups = [group for record in found["records"] for group in record["sources"]]
        shown = lines_of(found)
        assert shown <= left_out[kind], (kind, lines)
        # Of a group ten rows are listed.
        assert shown == left_out[kind] or max(group["count"] for group in groups) > 10, kind
        assert all(record["exact"] for record in found["records"]), found
        # What is left is made from no row that was set aside.
        with open_store(f"sqlite:///{folder / STORE}") as store:
            graph = store.graph(app)
            node, *_ = [n.node for n in graph.nodes() if n.op == "DataFrame.collect"]
            recipe = read_recipe(graph, node)
        assert recipe is not None
        for row in list(expected[kind])[:1]:
            witnesses = trace_backward(spark, recipe, [dict(zip("sn", row, strict=True))])
            ordinals = {int(n) + 1 for of in witnesses.rows.values() for n in of}
            assert ordinals == set(range(1, len(lines) + 1)) - left_out[kind]
            # Where one group is left its rows are all there are.
            assert witnesses.reasons or len(expected[kind]) == 1


def test_groups_that_fail_are_set_aside_whole(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    check(capture, spark, tmp_path, drawn(1), "several", "pairs", "aggregates")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_more_groups_that_fail(
    capture: Capture, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check(capture, spark, tmp_path, drawn(seed), *KEYS)


@pytest.mark.long
@not_before_41("functions of groups by Arrow that are set aside")
def test_groups_in_arrow(
    capture: Capture, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, of in IN_ARROW.items():
        monkeypatch.setitem(KEYS, kind, of)
    for seed in (20, 21):
        check(capture, spark, tmp_path, drawn(seed), *IN_ARROW)


@pytest.mark.long
def test_a_function_that_fails_on_a_group_of_one_frame_alone(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    bad, good = tmp_path / "bad.csv", tmp_path / "good.csv"
    bad.write_text("a,1.50,1,0.0,x\nb,,1,NaN,1\n")
    good.write_text("a,1.50,1,0.0,4\nb,,1,NaN,1\n")
    read = spark.read.schema(SCHEMA)
    # One column, which holds one function: a group has other rows in either frame.
    total = of_pyspark.pandas_udf(functions["total"], "long")("t").alias("s")
    with capture(quarantine=10) as lc:
        rows = [
            read.csv(str(path)).groupBy("k").agg(total).orderBy("k").collect()
            for path in (bad, good)
        ]
        app = lc.app
    assert rows == [[("b", 1)], [("a", 4), ("b", 1)]]
    verdict = judged(tmp_path, app)
    assert verdict.complete, verdict.reasons
    assert sum(verdict.set_aside.values()) == 1
    assert lines_of(listed(tmp_path, app)) == {1}
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        graph = store.graph(app)
        nodes = [node.node for node in graph.nodes() if node.op == "DataFrame.collect"]
        recipes = [read_recipe(graph, node) for node in nodes]
    for recipe, lines in zip(recipes, ([1], [0, 1]), strict=True):
        assert recipe is not None
        witnesses = trace_backward(spark, recipe)
        assert sorted(n for of in witnesses.rows.values() for n in of) == lines


@pytest.mark.long
def test_where_no_group_is_set_aside_one_that_fails_ends_the_job(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,1.50,1,0.0,x\nb,,1,NaN,1\na,1.50,,0.0,2\n")
    read = spark.read.schema(SCHEMA).csv(str(source))
    summed = functions["summed"]
    timed = read.selectExpr("timestamp_micros(i) AS at", "t")
    total = of_pyspark.pandas_udf(functions["total"], "long")
    iterated = of_pyspark.pandas_udf(functions["parsed"], "long")
    frames: dict[str, Callable[[], DataFrame]] = {
        "more rows than allowed": lambda: grouped("k")(read),
        "a zero": lambda: grouped("f")(read),
        "a time": lambda: grouped("at")(timed),
        "a limit below": lambda: grouped("i")(read.limit(2)),
        "a limit above": lambda: grouped("i")(read).limit(3),
        "more rows of pairs": lambda: cogrouped("k", function="of_both")(read),
        "more rows of aggregates": lambda: aggregated("k", function="total")(read),
        "an aggregate of a zero": lambda: aggregated("f", function="total")(read),
        "an aggregate without a key": lambda: read.agg(total("t")),
        "an iterator": lambda: read.select(iterated("t")),
        "partitions": lambda: read.mapInPandas(functions["of_parts"], GIVES),
    }  # fmt: skip
    with capture(quarantine=1) as lc:
        for name, frame in frames.items():
            with pytest.raises(Exception, match="invalid literal"):
                raise AssertionError((name, frame().collect()))
        # By a whole number it is one row.
        for function in ("summed", "of_both", "total"):
            rows = made(("i", "k"), function)(read).where("n > 0").orderBy("s").collect()
            assert [row.n for row in rows] == [1, 1], function
        app = lc.app
    found = listed(tmp_path, app)
    assert lines_of(found) == {1}
    assert len(found["records"]) == 3
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        reasons = [node.reason for node in store.graph(app).nodes() if node.kind == "unknown"]
    assert len(reasons) == len(frames), reasons
    none = "the action failed: ValueError; LINEAGE_QUARANTINE sets nothing aside where"
    assert reasons[-2:] == [
        f"{none} parsed gets an iterator of batches",
        f"{none} of_parts gets the batches of a partition",
    ]
    with capture(), pytest.raises(Exception, match="invalid literal"):
        read.groupBy("k").applyInPandas(summed, GIVES).collect()
