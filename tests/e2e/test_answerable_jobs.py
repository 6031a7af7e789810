"""A lineage that was received and can't answer is told from one that can, before anybody asks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from lineage.main import app as command
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.answerable import refusals
from lineage_dataframes.trace.backward import trace_backward
from lineage_emitter import LineageContext
from lineage_store.url import open_store
from tests.support.job_runs import STORE

pytestmark = [pytest.mark.e2e, pytest.mark.long]

Capture = Callable[..., LineageContext]


def frames(spark: SparkSession, folder: Path) -> dict[str, tuple[DataFrame, str]]:
    """By name, DataFrames and the operator that refuses their traces, or nothing."""
    path = f"{folder}/in"
    spark.range(20).selectExpr("id % 4 AS k", "id AS v").write.parquet(path)
    rows = spark.read.parquet(path)
    cleaned = F.udf(lambda k: k * 2, "bigint")("k")

    def doubled(parts: Any) -> Any:
        yield from parts

    others = rows.filter("v > 3 AND rand(3) < 0.9").select("k")
    return {
        "plain": (rows.groupBy("k").sum("v"), ""),
        "chosen above": (rows.filter("rand(3) < 0.9"), ""),
        "chosen below": (rows.filter("rand(3) < 0.9").groupBy("k").sum("v"), "filter"),
        "keyed": (rows.groupBy(cleaned.alias("c")).count(), ""),
        "keyed below": (
            rows.groupBy(cleaned.alias("c")).count().groupBy("count").agg(F.sum("c")),
            "aggregate",
        ),
        "sampled": (rows.sample(0.99, seed=1).groupBy("k").count(), "sample"),
        "by partition": (rows.mapInPandas(doubled, "k bigint, v bigint"), ""),
        "counted": (rows.mapInPandas(doubled, "k bigint, v bigint").groupBy("k").count(), "python"),
        "matched": (rows.join(others, "k", "left_semi"), "filter"),
    }


def verify(folder: Path, app: str, *options: str) -> tuple[int, dict[str, Any]]:
    store = f"sqlite:///{folder / STORE}"
    done = CliRunner().invoke(command, ["verify", app, "--json", "--store", store, *options])
    return done.exit_code, json.loads(done.stdout)


def test_what_recipes_tell_is_what_traces_do(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    made = frames(spark, tmp_path)
    given: dict[str, list[Any]] = {}
    with capture() as context:
        for name, (frame, _) in made.items():
            given[name] = frame.collect()
        app = context.app
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        graph = store.graph(app)
        nodes = [node.node for node in graph.nodes() if node.kind in ("frame", "unknown")]
        texts = [text for node in nodes if (text := graph.recipe(node)) is not None]
    for name, text in zip(made, texts, strict=True):
        recipe, operator = Recipe.from_json(text), made[name][1]
        refused = refusals(recipe)
        assert [one.partition(" ")[0] for one, _ in refused] == [operator] * bool(operator), name
        if operator:
            with pytest.raises(RefusedError) as problem:
                trace_backward(spark, recipe, [given[name][0]])
            assert str(problem.value) == refused[0][1]
        else:
            assert trace_backward(spark, recipe, [given[name][0]]).count
    code, verdict = verify(tmp_path, app)
    assert (code, verdict["received"], verdict["answerable"]) == (1, True, False)
    assert [one["operator"] for one in verdict["refusals"]] == [
        refused for _, operator in made.values() if operator for refused in [_full(operator)]
    ]
    assert verify(tmp_path, app, "--received-only")[0] == 0


def _full(operator: str) -> str:
    return "python rows" if operator == "python" else operator


def test_a_probe_finds_what_only_rows_tell(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(6).selectExpr("id % 2 AS k", "1 AS same", "id AS v")
    rows.write.parquet(f"{tmp_path}/in")
    with capture() as context:
        read = spark.read.parquet(f"{tmp_path}/in")
        read.groupBy("k").sum("v").write.parquet(f"{tmp_path}/out")
        read.groupBy("k").max("v").collect()
        app = context.app
    code, verdict = verify(tmp_path, app, "--probe", "--probe-rows", "1")
    assert (code, verdict["answerable"], verdict["refusals"]) == (0, True, [])
    rows.write.mode("overwrite").parquet(f"{tmp_path}/in")
    assert verify(tmp_path, app)[0] == 0
    code, verdict = verify(tmp_path, app, "--probe", "--probe-rows", "1")
    assert (code, verdict["received"], verdict["answerable"]) == (1, True, False)
    assert len(verdict["refusals"]) == 2
