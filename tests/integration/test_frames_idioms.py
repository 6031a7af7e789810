"""Everyday idioms (`tests.frame_idioms`), traced for some rows that they give (the profile ``deep``: all), against the truth that the rows tell themselves.

Whatever is said, *exact* must be the truth and *superset* must hold it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import Row, SparkSession

from benchmarks.frames_oracle import carried
from lineage_core.recipe import Recipe
from lineage_frames.errors import RefusedError
from lineage_frames.tracing import trace_back
from tests.frame_idioms import (
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
from tests.oracle.budget import examples

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
        found = trace_back(given.spark, recipe, [tuple(row)], there=True)
    except RefusedError as problem:
        return f"{REFUSED}: {problem}"
    rows, truth = found_in(found.rows.items()), one.truth(row)
    said = f"{row} is of {sorted(truth)}, traced to {sorted(rows)}: {found.reasons}"
    assert truth <= rows, said
    if found.exact and truth:
        assert rows == truth, said
    return EXACT if found.exact else SUPERSET


@pytest.mark.parametrize("name", [one.name for one in IDIOMS])
def test_an_idiom(name: str, given: Given) -> None:
    (one,) = (each for each in IDIOMS if each.name == name)
    frame = one.frame(given)
    rows = list({str(row): row for row in frame.collect()}.values())
    recipe = carried(frame)
    assert rows
    # Those at both ends: what ties or is missing lies there in most of them.
    rows = [*rows[: examples(1)], *rows[examples(1) :][-1:]]
    with ThreadPoolExecutor(4) as pool:
        classes = set(pool.map(lambda row: class_of(one, given, recipe, row), rows))
    assert classes <= set(one.classes)
