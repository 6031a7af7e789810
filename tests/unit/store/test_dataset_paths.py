"""Paths that stand for datasets without files."""

from __future__ import annotations

import pytest

from lineage_openlineage.datasets import dataset_name
from lineage_store.dataset_paths import (
    UnfiledDataset,
    is_no_file,
    table_of_database,
    unfiled_dataset,
)

POSTGRES = "jdbc:postgresql://db:5432/shop"


@pytest.mark.parametrize(
    ("address", "table", "name"),
    [
        (POSTGRES, "public.Orders", ("postgres://db:5432", "shop.public.orders")),
        (POSTGRES, '"public"."a/b.c"', ("postgres://db:5432", "shop.public.a/b.c")),
        ("jdbc:sqlserver://db:1433", "[dbo].[orders]", ("mssql://db:1433", "dbo.orders")),
        ("jdbc:mysql://db/shop", "`orders`", ("mysql://db", "shop.orders")),
        ("jdbc:derby:memory:shop", "orders", ("derby:memory:shop", "orders")),
        ("jdbc:sqlite:/data/50%2F.db", "orders", ("sqlite:/data/50%2F.db", "orders")),
        # What may be a part of a password is not recorded: only the kind of the database is.
        ("jdbc:postgresql", "orders", ("postgresql", "orders")),
    ],
)
def test_a_table_is_named_as_openlineage_names_it(
    address: str, table: str, name: tuple[str, str]
) -> None:
    dataset = table_of_database(address, table)
    assert dataset is not None
    assert is_no_file(dataset.path)
    assert unfiled_dataset(dataset.path) == dataset
    assert dataset_name(dataset.path) == name


@pytest.mark.parametrize("text", ["(SELECT 1) q", "orders o JOIN places p", ".", "", "orders;x"])
def test_a_query_is_no_table(text: str) -> None:
    assert table_of_database(POSTGRES, text) is None


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("orders", "ORDERS", True),
        ("orders", "public.orders", True),
        ('"shop".public.orders', "public.orders", True),
        ("hr.orders", "public.orders", False),
        ("orders", "public", False),
    ],
)
def test_names_that_may_be_of_one_table(first: str, second: str, same: bool) -> None:
    one, other = table_of_database(POSTGRES, first), table_of_database(POSTGRES, second)
    assert one is not None
    assert other is not None
    assert one.may_be(other) == other.may_be(one) == same
    assert not one.may_be(UnfiledDataset("jdbc:mysql://db/shop", other.parts))


@pytest.mark.parametrize(
    "path",
    [
        "/data/x",
        "file:/data/x",
        "dataset:",
        "dataset:/",
        "dataset:/x",
        "dataset:/x//",
        "s3://dataset:/x/y",
    ],
)
def test_other_paths_stand_for_no_dataset(path: str) -> None:
    assert unfiled_dataset(path) is None


def test_what_others_wrote_is_read_as_it_is() -> None:
    hostile = "dataset:/\udcff%ff%00/%2e%2e/%2F"
    assert unfiled_dataset(hostile) == UnfiledDataset("\udcff\ufffd\0", ("..", "/"))
    assert UnfiledDataset("a\udcff", ("b",)).path == "dataset:/a%3F/b"
