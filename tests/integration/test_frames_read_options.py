"""Options and settings by which Spark reads otherwise than a trace would: their rows have no recipe, with the reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_core.recipe.plan import OpaqueNode
from lineage_emitter.dataframes.plans import READ_OTHERWISE, recipe_of
from tests.support.versions import not_in_35

pytestmark = pytest.mark.integration


@pytest.fixture
def spark(spark_context: SparkContext) -> SparkSession:
    return SparkSession(spark_context).newSession()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "in.json").write_text('{"id": 1}\n{"id": 2}\n')
    return tmp_path


@pytest.mark.parametrize(
    ("option", "value", "schema"),
    [
        pytest.param("explodeEmbeddedArray", "true", "v variant", marks=not_in_35("type variant")),
        ("ignoredPathSegmentRegex", "x", "id int"),
        pytest.param("singleVariantColumn", "v", None, marks=not_in_35("type variant")),
    ],
)
def test_an_option_that_traces_do_not_have(
    spark: SparkSession, folder: Path, option: str, value: str, schema: str | None
) -> None:
    reader = spark.read.option(option, value)
    frame = (reader if schema is None else reader.schema(schema)).json(str(folder / "in.json"))
    (leaf,) = recipe_of(frame).plan
    assert isinstance(leaf, OpaqueNode)
    assert leaf.why.lower() == f"files read with the option {option}".lower()


@pytest.mark.parametrize("option", ["timeFormat", "enableDateTimeParsingFallback"])
def test_an_option_that_changes_values_is_noted(
    spark: SparkSession, folder: Path, option: str
) -> None:
    frame = spark.read.option(option, "true").schema("id int").json(str(folder / "in.json"))
    (source,) = recipe_of(frame).sources
    assert source.options == {option: "true"}


@pytest.mark.parametrize("name", READ_OTHERWISE)
def test_a_setting_that_traces_do_not_have(spark: SparkSession, folder: Path, name: str) -> None:
    frame = spark.read.schema("id int").json(str(folder / "in.json"))
    settings = {name: READ_OTHERWISE[name]}
    assert not isinstance(recipe_of(frame, settings=settings).plan[0], OpaqueNode)
    with pytest.raises(ValueError, match=name):
        recipe_of(frame, settings={name: "true"})
