"""Groups of DataFrames that Python functions fail on are set aside with all their rows: against plain PySpark over the other groups."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lineage_dataframes.trace.backward import trace_backward
from lineage_emitter import LineageContext
from lineage_store.recipes import read_recipe
from lineage_store.url import open_store
from tests.e2e.test_quarantine_frames import lines_of, listed
from tests.support.job_runs import STORE, judged
from tests.support.versions import not_before_41

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]

FUNCTIONS = """
import pandas as pd
import pyarrow as pa

def summed(group):
    return pd.DataFrame({"s": [group["t"].map(int).sum()], "n": [len(group)]})

def with_key(key, group):
    return pd.DataFrame({"s": [sum(map(int, group["t"]))], "n": [0 if key[-1] is None else len(str(key[-1]))]})

def in_arrow(key, group):
    return pa.table({"s": [sum(map(int, group["t"].to_pylist()))], "n": [group.num_rows]})

def of_both(left, right):
    return summed(left)

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


KEYS: dict[str, tuple[tuple[str, ...], str]] = {
    "text": (("k",), "summed"),
    "several": (("i", "d", "k"), "with_key"),
    "double": (("f",), "summed"),
    "none": ((), "summed"),
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
        plain = grouped(*keys, function=function)(read.csv(str(kept)))
        expected[kind], left_out[kind] = Counter(map(tuple, plain.collect())), bad
    for kind in kinds:
        keys, function = KEYS[kind]
        with capture(quarantine=1_000) as lc:
            frame = grouped(*keys, function=function)(read.csv(str(source)))
            assert Counter(map(tuple, frame.collect())) == expected[kind], (kind, lines)
            # Once more: what is set aside again is the same.
            assert frame.count() == expected[kind].total()
            app = lc.app
        verdict = judged(folder, app)
        assert verdict.complete, verdict.reasons
        assert sum(verdict.set_aside.values()) == len(left_out[kind]), (kind, lines)
        found = listed(folder, app, "--limit", "1000")
        assert lines_of(found) == left_out[kind], (kind, lines)
        assert all(record["exact"] for record in found["records"]), found
        # What is left is made from no row that was set aside.
        with open_store(f"sqlite:///{folder / STORE}") as store:
            graph = store.graph(app)
            (node,) = [n.node for n in graph.nodes() if n.op == "DataFrame.collect"]
            recipe = read_recipe(graph, node)
        assert recipe is not None
        for row in list(expected[kind])[:1]:
            witnesses = trace_backward(spark, recipe, [dict(zip("sn", row, strict=True))])
            ordinals = {int(n) + 1 for of in witnesses.rows.values() for n in of}
            assert ordinals == set(range(1, len(lines) + 1)) - left_out[kind]
            assert witnesses.reasons


def test_groups_that_fail_are_set_aside_whole(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    check(capture, spark, tmp_path, drawn(1), "several")


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
    for kind in ("text", "several"):
        monkeypatch.setitem(KEYS, kind, (KEYS[kind][0], "in_arrow"))
    for seed in (20, 21):
        check(capture, spark, tmp_path, drawn(seed), "text", "several")


@pytest.mark.long
def test_where_no_group_is_set_aside_one_that_fails_ends_the_job(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,1.50,1,0.0,x\nb,,1,NaN,1\na,1.50,,0.0,2\n")
    read = spark.read.schema(SCHEMA).csv(str(source))
    summed, of_both = functions["summed"], functions["of_both"]
    timed = read.selectExpr("timestamp_micros(i) AS at", "t")
    frames: dict[str, Callable[[], DataFrame]] = {
        "more rows than allowed": lambda: grouped("k")(read),
        "a zero": lambda: grouped("f")(read),
        "a time": lambda: grouped("at")(timed),
        "a limit below": lambda: grouped("i")(read.limit(2)),
        "a limit above": lambda: grouped("i")(read).limit(3),
        "groups of two": lambda: read.groupBy("k").cogroup(read.groupBy("k")).applyInPandas(of_both, GIVES),
        "partitions": lambda: read.mapInPandas(functions["of_parts"], GIVES),
    }  # fmt: skip
    with capture(quarantine=1) as lc:
        for name, frame in frames.items():
            with pytest.raises(Exception, match="invalid literal"):
                raise AssertionError((name, frame().collect()))
        # By a whole number it is one row.
        assert grouped("i", "k")(read).orderBy("s").collect() == [(1, 1), (2, 1)]
        app = lc.app
    assert lines_of(listed(tmp_path, app)) == {1}
    with capture(), pytest.raises(Exception, match="invalid literal"):
        read.groupBy("k").applyInPandas(summed, GIVES).collect()
