"""Text of a job that Spark could take for a variable of its own is that text in a trace, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.frames_oracle import recipe_of_frame
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.file_changes import literal_path
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import trace_forward

pytestmark = pytest.mark.integration

NAME = "${city}"
CORRUPT = "${spark.sql.columnNameOfCorruptRecord}"
LINES = "id,place,city\n0,${city},Oslo\n1,${n},Rome\n2,-,Oslo\n"


@pytest.fixture
def user(spark: SparkSession) -> SparkSession:
    """A session of the user's own, which has what the text could stand for, and is the active one."""
    spark.conf.set("city", "Oslo' or '' = '")
    spark.conf.set("spark.sql.variable.substitute", "true")
    spark.sql("select 1").collect()
    return spark


@pytest.fixture
def rows(user: SparkSession, tmp_path: Path) -> DataFrame:
    folder = tmp_path / "${city} of ${n}"
    folder.mkdir()
    (folder / "a${n}.csv").write_text(LINES)
    (folder / "b.csv").write_text("id,place,city\n3,x,Lima\n")
    read = user.read.option("nullValue", "${n}").option("header", True)
    return read.schema("id int, place string, city string").csv(literal_path(str(folder)))


def ids(found: Witnesses) -> list[int]:
    return sorted(
        row + 3 * path.endswith("b.csv")
        for (_, path), listed in found.rows.items()
        for row in listed.tolist()
    )


def test_text_in_braces_is_text(user: SparkSession, rows: DataFrame) -> None:
    literal = rows.where(F.col("place") == NAME).select("id", F.lit(NAME).alias("what"))
    assert [tuple(row) for row in literal.collect()] == [(0, NAME)]
    found = trace_backward(user, recipe_of_frame(literal), [(0, NAME)])
    assert (ids(found), found.exact) == ([0], True)
    counted = rows.groupBy(F.when(F.col("place") == F.lit(NAME), 1).alias(NAME)).count()
    found = trace_backward(user, recipe_of_frame(counted), [(None, 3)])
    assert (ids(found), found.exact) == ([1, 2, 3], True)
    named = rows.select(F.col("city").alias(NAME), F.struct(F.col("id").alias(CORRUPT)).alias("s"))
    named = named.groupBy(f"`{NAME}`").agg(F.max(f"s.`{CORRUPT}`").alias("`${n}`"))
    found = trace_backward(user, recipe_of_frame(named), [("Oslo", 2)])
    assert (ids(found), found.exact) == ([0, 2], True)
    recipe = recipe_of_frame(named)
    assert ids(trace_backward(user, recipe, where=f"`{NAME}` = 'Oslo'")) == [0, 2]
    assert ids(trace_backward(user, recipe, values=[(NAME, "Oslo"), ("`${n}`", "2")])) == [0, 2]
    assert not trace_backward(user, recipe_of_frame(literal), values=[("what", NAME)]).reasons
    path = next(file.path for file in recipe.sources[0].files if file.path.endswith("a${n}.csv"))
    assert trace_forward(user, recipe, {path: [1]}).rows == (("Rome", 1),)
    nothing = rows.where(F.col("place").isNull()).select("id")
    assert ids(trace_backward(user, recipe_of_frame(nothing), [(1,)])) == [1]
    # The user's own session is as it was.
    assert user.sql("select '${city}' as city").columns == ["city"]
    assert user.conf.get("spark.sql.variable.substitute") == "true"


def test_a_column_of_corrupt_records_may_have_any_name(user: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("1\nx\n")
    name = "' or ${city} `--"
    user.conf.set("spark.sql.columnNameOfCorruptRecord", name)
    read = user.read.schema(f"n int, `{name.replace('`', '``')}` string")
    broken = read.csv(str(tmp_path / "in.csv")).where(F.col(f"`{name.replace('`', '``')}`") == "x")
    found = trace_backward(user, recipe_of_frame(broken), [(None, "x")])
    assert (ids(found), found.exact) == ([1], True)
    user.conf.set("spark.sql.columnNameOfCorruptRecord", "${env:HOME}")
    recipe: Recipe = recipe_of_frame(user.read.schema("n int").csv(str(tmp_path / "in.csv")))
    with pytest.raises(RefusedError, match=r"columnNameOfCorruptRecord stands for another"):
        trace_backward(user, recipe, [(1,)])
