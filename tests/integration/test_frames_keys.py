"""Which rows have keys that an earlier query gave: as Python compares them."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lineage_dataframes.rewrite.keys import LITERAL_KEYS_MAX, VALUES_MAX, has_key
from lineage_dataframes.spark.pyspark_parts import from_arrow

pytestmark = pytest.mark.integration

DAY = datetime.date(2024, 1, 1)


def numbers(many: int) -> list[Any]:
    return list(range(-many // 2, many // 2))


def texts(many: int) -> list[Any]:
    return [f"it's {n}" for n in range(many - 1)] + [None]


def days(many: int) -> list[Any]:
    return [DAY + datetime.timedelta(days=n) for n in range(many)]


def amounts(many: int) -> list[Any]:
    return [Decimal(n) / 100 for n in range(many)]


def table_of(rows: list[tuple[Any, ...]], names: str) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table({name: list(column) for name, column in zip(names, columns, strict=True)})


KEYS: dict[str, list[tuple[Any, ...]]] = {
    "a column": [(one,) for one in numbers(60)],
    "texts and NULL": [(one,) for one in texts(60)],
    "more than stand in a query": [(one,) for one in numbers(VALUES_MAX + 20)],
    "each with each": list(product(texts(10), days(8))),
    "each with each but one": list(product(texts(10), days(8)))[1:],
    "pair by pair": list(zip(amounts(60), days(60), strict=True)),
    "twice": [*zip(numbers(48), days(48), strict=True)] * 2 * 24,
}


@pytest.mark.parametrize("name", KEYS)
def test_rows_with_keys(spark: SparkSession, name: str) -> None:
    keys = KEYS[name]
    assert len(keys) > LITERAL_KEYS_MAX
    every = [list(dict.fromkeys(column)) for column in zip(*keys, strict=True)]
    others = [(type(column[0]) is int and -999) or None for column in every]
    rows = [*product(*(column[:25] for column in every)), tuple(others), *keys]
    names = "xy"[: len(every)]
    from_arrow(spark, table_of(rows, names)).createOrReplaceTempView("rows")
    condition = has_key(spark, "keys_of_test", [f"r.{one}" for one in names], table_of(keys, names))
    found = spark.sql(f"SELECT * FROM rows AS r WHERE {condition}").collect()
    assert Counter(map(tuple, found)) == Counter(row for row in rows if row in set(keys))
