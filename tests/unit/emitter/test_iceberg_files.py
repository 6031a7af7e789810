"""Ids of rows of Iceberg's data files, as capture records them and readers take them."""

from __future__ import annotations

import pytest

from lineage_core.errors import RecipeError
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import ICEBERG
from lineage_core.recipe.plan import Attribute, Range
from lineage_core.recipe.row_ids import ROW_IDS, FileRowIds, row_ids_of
from lineage_emitter.dataframes.iceberg_files import DataFiles

pytestmark = pytest.mark.unit


def test_files_are_in_order_with_the_ids_of_their_rows() -> None:
    found = DataFiles.of(
        "10 1700 4 3 2 /t/b c.parquet\n20 1800 0 4 1 /t/a.parquet\n5 9 - 2 1 /t/d\n"
    )
    assert found.files == (
        File("/t/a.parquet", 20, 1800), File("/t/b c.parquet", 10, 1700), File("/t/d", 5, 9),
    )  # fmt: skip
    assert found.options == {ROW_IDS: "0+4@1,4+3@2,-"}
    source = Source(ICEBERG, ("/t",), "{}", files=found.files, options=found.options)
    document = Recipe("4.1", {}, (source,), (Range((Attribute(0, "id", "bigint"),), 0, 1, 1),))
    (read,) = Recipe.from_json(document.to_json()).sources
    assert row_ids_of(read.options, read.files) == {
        "/t/a.parquet": FileRowIds(0, 4, 1),
        "/t/b c.parquet": FileRowIds(4, 3, 2),
    }


def test_tables_without_ids_are_recorded_as_before() -> None:
    found = DataFiles.of("10 1700 - 3 2 /t/b.parquet\n10 1700 - 3 - /t/c.parquet\n")
    assert len(found.files) == 2
    assert found.options == {}
    assert row_ids_of(found.options, found.files) == {}


@pytest.mark.parametrize("text", ["0+1@1", "0+1@1,x", "0+1@1,-1+2@1", "0+1@1,-,-", "0+1@1,"])
def test_ids_of_other_files_and_odd_ones_are_refused(text: str) -> None:
    files = (File("/a", 1, 1), File("/b", 1, 1))
    with pytest.raises(RecipeError):
        row_ids_of({ROW_IDS: text}, files)
