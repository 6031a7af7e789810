"""Rows that are held in memory for many runs are those that the source gives, whichever are chosen."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_dataframes.errors import RowError
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, view_of
from lineage_dataframes.trace import held_rows
from lineage_dataframes.trace.held_rows import HeldRows, hold_rows
from lineage_dataframes.trace.session import session_with_settings

pytestmark = pytest.mark.integration

SCHEMA = "a string, n int, d decimal(9, 2), l array<int>"
LINES = '{header}x,1,2.50\r\n\n  \n"é, ""y""",,\nz,7\n,8,1.00,more\nw,9,3.25'


def sources(spark: SparkSession, folder: Path) -> Mapping[str, Source]:
    """Files of CSV with all that is no row, and of Parquet."""
    names = [folder / "a" / "1 [x].csv", folder / "a" / "2.csv", folder / "a" / "3.csv"]
    (folder / "a").mkdir()
    for name in names:
        name.write_bytes(LINES.format(header="a,n,d\n").encode())
    spark.createDataFrame([(f"t{n}", n, None, [n] * n) for n in range(7)], SCHEMA).coalesce(
        1
    ).write.parquet(str(folder / "b"))
    flat = StructType.fromDDL(SCHEMA.rpartition(",")[0]).json()
    packed = sorted((folder / "b").glob("*.parquet"))
    return {
        "csv": Source(
            "csv",
            (f"file:{folder}/a",),
            flat,
            options={"header": "true"},
            files=tuple(map(file_of, names)),
        ),
        "parquet": Source(
            "parquet",
            (f"file:{folder}/b",),
            StructType.fromDDL(SCHEMA).json(),
            files=tuple(map(file_of, packed)),
        ),
    }


def file_of(path: Path) -> File:
    status = path.stat()
    return File(f"file:{path}", status.st_size, status.st_mtime_ns // 1_000_000)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.parametrize(
    ("name", "is_extracted"),
    [("csv", True), pytest.param("csv", False, marks=pytest.mark.long), ("parquet", False)],
)
def test_chosen_rows_are_those_of_the_source(
    name: str,
    is_extracted: bool,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not is_extracted:
        monkeypatch.setattr(held_rows, "EXTRACTED_ROWS", 0)
    draw, source = random.Random(7), sources(spark, tmp_path)[name]
    session = session_with_settings(
        spark, Recipe(spark.version, {}, (source,), (), Output(kind="files")), [source]
    )
    complete = view_of(session, source)
    every = {(row[FILE_COLUMN], row[ROW_COLUMN]): tuple(row) for row in complete.collect()}
    assert len(every) == (15 if name == "csv" else 7)

    def by_file(places: list[tuple[str, int]]) -> dict[str, np.ndarray[Any, np.dtype[np.uint64]]]:
        paths = sorted({path for path, _ in places})
        return {
            path: np.array(sorted(n for p, n in places if p == path), np.uint64) for path in paths
        }

    kept = [place for n, place in enumerate(sorted(every)) if n % 5 != 3]
    held = hold_rows(session, source, complete, by_file(kept))
    assert held.count == len(kept)
    assert held.frame.rdd.getNumPartitions() == 1
    for size in (0, 1, len(kept) // 2, len(kept)):
        # What is not held is not chosen.
        chosen = [*draw.sample(kept, size), *(place for place in every if place not in kept)]
        places = set(chosen) & set(kept)
        assert rows_of(held.chosen(by_file(chosen))) == sorted((every[p] for p in places), key=repr)
        rest = set(kept) - places
        assert rows_of(held.chosen(by_file(chosen), others=True)) == sorted(
            (every[p] for p in rest), key=repr
        )
    measures = dict(zip(held.places(), zip(*held.measures(), strict=True), strict=True))
    for place, values in measures.items():
        text, number, *_ = every[place]
        assert values[0] == (len(text) if text is not None else pytest.approx(np.nan, nan_ok=True))
        assert values[1] == (number if number is not None else pytest.approx(np.nan, nan_ok=True))
    held.frame.unpersist()


def test_no_rows_and_rows_that_are_not_there(spark: SparkSession, tmp_path: Path) -> None:
    source = sources(spark, tmp_path)["csv"]
    session = session_with_settings(
        spark, Recipe(spark.version, {}, (source,), (), Output(kind="files")), [source]
    )
    complete = view_of(session, source)
    nothing: HeldRows = hold_rows(session, source, complete, {})
    assert nothing.chosen({}, others=True).collect() == []
    with pytest.raises(RowError, match="has no row 99"):
        hold_rows(session, source, complete, {source.files[1].path: np.array([0, 99], np.uint64)})
