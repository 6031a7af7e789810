"""Columns of files that are called as what Spark's readers say of a row's file: forged ones would name rows of other files."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_core.recipe.document import File, Source
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sources.views import view_of
from lineage_dataframes.trace import overwritten
from lineage_dataframes.trace.listed_rows import leading_where_it_did
from lineage_query.rows.reader import ForbiddenRowsError, RootedReader

pytestmark = pytest.mark.security


@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("name", ["_metadata", "_METADATA", "_File", "_pos"])
def test_columns_that_would_stand_for_a_rows_file_are_refused(
    spark_context: SparkContext, tmp_path: Path, form: str, name: str
) -> None:
    table, file = pa.table({name: ["x"], "other": ["y"]}), tmp_path / f"rows.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(table, file)
    else:
        pq.write_table(table, file)
    source = source_of(form, file, name)
    with pytest.raises(RefusedError, match=f"has a column '{name}'"):
        view_of(SparkSession(spark_context), source)
    plain = source_of(form, file, "other")
    assert len(view_of(SparkSession(spark_context), plain).collect()) == 1


def source_of(form: str, file: Path, name: str) -> Source:
    state = file.stat()
    column = {"name": name, "type": "string", "nullable": True, "metadata": {}}
    return Source(
        form,
        (str(file.parent),),
        json.dumps({"type": "struct", "fields": [column]}),
        files=(File(f"file:{file}", state.st_size, state.st_mtime_ns // 1_000_000),),
        options={"header": "true"} if form == "csv" else {},
    )


def test_new_files_of_a_source_are_looked_for_among_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    source = Source("text", (str(tmp_path),), "", files=(File(f"file:{tmp_path}/gone", 1, 1),))
    assert len(overwritten._new_files(source)) == 5
    monkeypatch.setattr(overwritten, "BELOW_MAX", 4)
    with pytest.raises(ChangedSourceError, match="more than 4 are below"):
        overwritten._new_files(source)


def test_a_link_that_is_changed_while_rows_are_listed_is_noticed(tmp_path: Path) -> None:
    for name in ("own", "hidden"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    link = tmp_path / "link"
    link.symlink_to("own")
    reader = RootedReader([str(tmp_path / "own"), str(link)])
    with leading_where_it_did(reader, f"{link}/file"):
        pass

    def read_while_it_is_changed() -> None:
        with leading_where_it_did(reader, f"{link}/file"):
            link.unlink()
            link.symlink_to("hidden")

    with pytest.raises(ChangedSourceError, match="led to another file"):
        read_while_it_is_changed()
    with pytest.raises(ForbiddenRowsError), leading_where_it_did(reader, f"{link}/file"):
        pytest.fail("rows are read")
