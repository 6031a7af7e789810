"""An action on DataFrames fails, and the command says which rows it failed on; nothing takes it for an output."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_core.errors import RecipeError
from lineage_core.recipe.document import FAILED_VERSION, Failure
from lineage_core.recipe.functions import FUNCTIONS_KEY
from lineage_query.erasure.erased_texts import recipe_holds
from lineage_store.recipes import failed_recipes, read_recipe
from tests.support.job_runs import answered, lineage, run_captured, stored, verify, write_job

pytestmark = pytest.mark.e2e

KEY = "0f" * 32
JOB = """
import sys
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
table = spark.read.schema("city string, amount string").csv("in.csv")


def strict(text):
    if text == "two":
        raise LookupError("no such amount")
    return len(text)


totals = table.groupBy("city").agg(F.sum(F.col("amount").cast("int")).alias("total"))
lengths = table.select("city", F.udf(strict, "int")("amount").alias("length"))
table.write.parquet("cities")
for attempt in range(2):
    try:
        lengths.collect()
    except Exception:
        pass
try:
    spark.read.csv("in.csv").write.parquet("cities")
except Exception:
    pass
try:
    totals.show()
except Exception:
    pass
totals.write.mode("overwrite").parquet("out")
"""
ROWS = "Oslo,4\nRome,3\nOslo,two\nLima,9\n"


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failed")
    (folder / "in.csv").write_text(ROWS)
    write_job(folder, JOB)
    done = run_captured(folder, "job.py", env={FUNCTIONS_KEY: KEY})
    assert done.returncode == 1, done.stderr
    return folder


@pytest.fixture(autouse=True)
def session(spark_context: SparkContext) -> None:
    """Commands sift on the Spark that runs in this process."""
    SparkSession(spark_context).sql("select 1").collect()


def sifted(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = answered(folder, "sift", *arguments, "--json")
    assert result.exit_code == code, result.output
    outcome: dict[str, Any] = json.loads(result.stdout)
    return outcome


def test_failed_actions_leave_recipes_that_nothing_takes_for_outputs(failed: Path) -> None:
    with stored(failed) as access:
        (app,) = access.store.application_ids()
        graph = access.store.graph(app)
        recipes = failed_recipes(graph)
        for node in recipes:
            with pytest.raises(RecipeError, match=r"failed .* lineage sift"):
                read_recipe(graph, node)
            assert not graph.sink_files(node)
        texts = [graph.recipe(node) for node in recipes]
    # What Spark refuses before it reads a row is none of them.
    assert [recipe.output.action.rpartition(".")[2] for recipe in recipes.values()] == [
        "collect",
        "collect",
        "show",
        "parquet",
    ]
    of_function, _, shown, written = [recipe.output for recipe in recipes.values()]
    assert of_function.failure == Failure("LookupError", "", "no such amount")
    assert shown.limit == 20
    assert written.failure is not None
    assert (written.failure.type, written.failure.condition) == (
        "NumberFormatException",
        "CAST_INVALID_INPUT",
    )
    assert "'two'" in written.failure.message
    assert {recipe.version for recipe in recipes.values()} == {FAILED_VERSION}
    assert written.files == ()
    # What an error says may be of a person.
    assert recipe_holds(texts[-1] or "", [(("two",), ("oslo",))])
    verdict = verify(failed)
    assert verdict["answerable"]
    assert any(
        "the action failed: NumberFormatException" in reason for reason in verdict["reasons"]
    )
    for place in (f"{failed}/out", f"{failed}/out#0"):
        assert answered(failed, "back", place).exit_code == 2
    traced = answered(failed, "forward", f"{failed}/in.csv:3")
    assert f"into 1 row of {failed}/cities" in traced.output
    assert f"{failed}/out" not in traced.output


def test_the_command_names_the_row(failed: Path) -> None:
    outcome = sifted(failed, f"{failed}/out", "--fails-with", "CAST_INVALID_INPUT")
    assert [row["location"].rpartition("/")[2] for row in outcome["rows"]] == ["in.csv:3"]
    assert outcome["outcome"][0].startswith("NumberFormatException: [CAST_INVALID_INPUT]")
    assert (outcome["one_minimal"], outcome["witnesses"]) == (True, 4)
    assert outcome["runs"] <= 6


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--fails-with", "DIVIDE_BY_ZERO"), "4 actions"),
        (("nowhere", "--fails-with", "x"), "is called nowhere"),
        (("--fails-with", "x", "--where", "true"), "has none"),
        ((".", "--fails-with", "x", "--test", "a.py:b"), "one of both"),
    ],
)
def test_what_names_no_failed_action_is_refused(
    failed: Path, arguments: tuple[str, ...], reason: str
) -> None:
    result = answered(failed, "sift", *arguments)
    assert result.exit_code == 2
    assert reason in " ".join(result.stderr.replace("│", " ").split())


def test_an_action_that_read_some_rows_alone_is_refused(failed: Path) -> None:
    with stored(failed) as access:
        (app,) = access.store.application_ids()
        *_, shown, _ = failed_recipes(access.store.graph(app))
    result = answered(failed, "sift", shown, "--app", app, "--fails-with", "CAST_INVALID_INPUT")
    assert result.exit_code == 2
    assert "no more rows than it gives" in result.stderr


@pytest.mark.long
def test_a_function_runs_confined_where_its_key_is_there(failed: Path) -> None:
    with stored(failed) as access:
        (app,) = access.store.application_ids()
        node = next(iter(failed_recipes(access.store.graph(app))))
    refused = lineage(failed, "sift", node, "--app", app, "--fails-with", "LookupError")
    assert refused.returncode == 2
    assert FUNCTIONS_KEY in refused.stderr


@pytest.mark.long
def test_a_search_that_is_stopped_has_the_best_so_far(failed: Path) -> None:
    outcome = sifted(
        failed, f"{failed}/out", "--fails-with", "CAST_INVALID_INPUT", "--runs", "1", code=1
    )
    assert (outcome["one_minimal"], outcome["stopped"], len(outcome["rows"])) == (
        False,
        "1 runs",
        4,
    )
