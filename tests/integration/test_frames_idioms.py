"""Everyday idioms (`tests.support.frame_idioms`), traced for some rows that they give (the profile ``deep``: all), against the truth that the rows tell themselves.

Whatever is said, *exact* must be the truth and *superset* must hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession

from benchmarks.frames_oracle import recipe_of_frame, same_value
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import trace_forward
from lineage_dataframes.trace.rows import find_in_output, output_of
from tests.oracle.budget import examples
from tests.support.drawn import drawn
from tests.support.frame_idioms import (
    EXACT,
    IDIOMS,
    NAMES,
    PLACES,
    REFUSED,
    SALES,
    SUPERSET,
    Given,
    Idiom,
    Truth,
)
from tests.support.frame_tables import placed_rows, written

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def given(spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Given:
    folder = tmp_path_factory.mktemp("idioms")
    tables: dict[str, tuple[Sequence[str], Sequence[tuple[Any, ...]]]] = {
        "sales": (NAMES, SALES),
        "places": (["id", "town", "land"], PLACES),
    }
    for name, (names, rows) in tables.items():
        columns = map(list, zip(*rows, strict=True))
        table = pa.table(dict(zip(names, columns, strict=True)))
        pq.write_table(table, folder / f"{name}.parquet")
    spark = SparkSession(spark_context).newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    sales, places = (spark.read.parquet(str(folder / f"{name}.parquet")) for name in tables)
    return Given(spark, sales, places)


def found_in(rows: Iterable[tuple[tuple[int | None, str], Any]]) -> Truth:
    return {(Path(uri).stem, one) for (_, uri), ordinals in rows for one in ordinals.tolist()}


def class_of(one: Idiom, given: Given, recipe: Recipe, row: Row) -> str:
    """How the trace of a row comes out.

    Raises:
        AssertionError: it is not what it says.
    """
    try:
        found = trace_backward(given.spark, recipe, [tuple(row)], is_in_output=True)
    except RefusedError as problem:
        return f"{REFUSED}: {problem}"
    rows, truth = found_in(found.rows.items()), one.truth(row)
    said = f"{row} is of {sorted(truth)}, traced to {sorted(rows)}: {found.reasons}"
    assert truth <= rows, said
    if found.exact and truth:
        assert rows == truth, said
    return EXACT if found.exact else SUPERSET


@pytest.mark.parametrize("name", drawn([one.name for one in IDIOMS], 5))
def test_an_idiom(name: str, given: Given) -> None:
    (one,) = (each for each in IDIOMS if each.name == name)
    frame = one.frame(given)
    rows = list({str(row): row for row in frame.collect()}.values())
    recipe = recipe_of_frame(frame)
    assert rows
    # Those at both ends: what ties or is missing lies there in most of them.
    rows = [*rows[: examples(1)], *rows[examples(1) :][-1:]]
    with ThreadPoolExecutor(4) as pool:
        classes = set(pool.map(lambda row: class_of(one, given, recipe, row), rows))
    assert classes <= set(one.classes)


FORWARD = {
    "udf", "explode", "full join", "scalar subquery", "groupBy a udf and a column", "dropDuplicates after a udf", "first",
    "row_number = 1 with ties", "mapInPandas",
}  # fmt: skip
"""Of these rows are traced forward, too (the profile ``deep``: of all)."""


@pytest.mark.parametrize(
    "name", drawn([one.name for one in IDIOMS if one.name in FORWARD or examples(1) > 1], 5)
)
def test_forward_of_an_idiom(name: str, given: Given, tmp_path: Path) -> None:
    """What is shown of the rows that a sale went into is what the output's files hold at the places that are named."""
    (one,) = (each for each in IDIOMS if each.name == name)
    frame, spark = one.frame(given), given.spark
    recipe = written(frame, tmp_path / "out")
    rows = placed_rows(spark, tmp_path / "out")
    held = {(row[-2].replace("file:///", "file:/"), row[-1]): tuple(row)[:-2] for row in rows}
    named = {at: Row(**dict(zip(frame.columns, row, strict=True))) for at, row in held.items()}
    (path,) = {
        file.path
        for source in recipe.sources
        for file in source.files
        if file.path.endswith("/sales.parquet")
    }
    for sale in (0, 4):
        try:
            found = trace_forward(spark, recipe, {path: [sale]})
        except RefusedError:
            assert set(one.classes) != {EXACT}
            continue
        standing = find_in_output(spark, recipe, output_of(spark, recipe), found.rows)
        # A row that the job may have left out is in no file.
        assert found.reasons or not standing.missing
        wanted = {at for at, row in named.items() if ("sales", sale) in one.truth(row)}
        assert wanted <= set(standing.places), (found, standing, held)
        for at in standing.places:
            assert any(may_be(held[at], row) for row in found.rows), (found, held[at])
        if found.exact and not standing.wider and all(map(one.truth, named.values())):
            assert wanted == set(standing.places), (found, standing, held)


def may_be(held: tuple[Any, ...], row: tuple[Any, ...]) -> bool:
    """Whether a row of a file is one that was computed anew, which says nothing that the file does not hold."""
    return all(
        new is UNKNOWN or same_value(of_file(value), of_arrow(new))
        for value, new in zip(held, row, strict=True)
    )


def of_file(value: Any) -> Any:
    """A value that Spark gave as `of_arrow` has it."""
    if isinstance(value, dict):
        return [[one, of_file(held)] for one, held in value.items()]
    if isinstance(value, list | tuple):
        return [of_file(one) for one in value]
    return value.astimezone() if isinstance(value, datetime) else value


def of_arrow(value: Any) -> Any:
    """A value that Arrow gave: structs and maps as lists."""
    if isinstance(value, dict):
        return [of_arrow(one) for one in value.values()]
    if isinstance(value, list | tuple):
        return [of_arrow(one) for one in value]
    return value
