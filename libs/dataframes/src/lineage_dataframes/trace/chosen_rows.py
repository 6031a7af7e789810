"""Some rows of sources, by their places, and rows of outputs that are written as the job wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Recipe
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import from_arrow

WRITTEN_FORMATS = frozenset({"parquet", "orc", "csv", "json", "text"})
"""Formats in which rows are written as the job's were; others are written as Parquet."""
OrdinalsByFile: TypeAlias = "Mapping[str, NDArray[np.uint64]]"
"""Rows of a source: by file, their ordinals."""


def matching_rows(
    session: SparkSession, rows: DataFrame, chosen: OrdinalsByFile, how: str
) -> DataFrame:
    """Rows of a source at some places.

    Args:
        session: of the rows.
        rows: with `FILE_COLUMN` and `ROW_COLUMN`.
        chosen: the places.
        how: ``leftsemi``, or ``leftanti`` for all rows but these.

    Returns:
        The rows, with the same columns.
    """
    paths = [path for path, ordinals in chosen.items() for _ in range(len(ordinals))]
    numbers = np.concatenate([np.empty(0, np.uint64), *chosen.values()]).astype(np.int64)
    keys = pa.table({"its_file": pa.array(paths, pa.string()), "its_row": pa.array(numbers)})
    is_chosen = (F.col(FILE_COLUMN) == F.col("its_file")) & (F.col(ROW_COLUMN) == F.col("its_row"))
    return rows.join(F.broadcast(from_arrow(session, keys)), is_chosen, how)


def write_rows(frame: DataFrame, recipe: Recipe, folder: Path) -> None:
    """Write rows of an output, with columns ``v0`` and so on, into a folder that Spark makes, as the job wrote them."""
    output = recipe.output
    kind = output.format if output.format in WRITTEN_FORMATS else "parquet"
    options = dict(output.options) if kind == output.format else {}
    named = [
        f"v{n} AS {literals.quoted_name(column.name)}" for n, column in enumerate(recipe.columns)
    ]
    frame.selectExpr(*named).write.format(kind).options(**options).save(f"file:{folder}")
