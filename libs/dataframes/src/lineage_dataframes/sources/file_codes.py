"""Numbers that stand for files in queries, as paths are long and rows many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.plan import Scan
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.views import FILE_COLUMN, files_of
from lineage_dataframes.spark.pyspark_parts import from_arrow

OUTPUT_FILES = -1
"""The place of an output's files among those of the recipe's sources."""


@dataclass(frozen=True)
class FileCodes:
    """``terms``: by source, what gives the number of a row's file. ``paths``: the files by their numbers."""

    terms: Mapping[int, str]
    paths: Mapping[int, Mapping[int, str]]

    def named(
        self, source: int, column: pa.ChunkedArray[Any]
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The files that rows are of, and the place of each row's in these; int64[n]."""
        codes = pc.unique(column)
        places = pc.index_in(column, value_set=codes).to_numpy().astype(np.int64)
        return [self.paths[source][code] for code in codes.to_numpy().tolist()], places


def file_codes(session: SparkSession, recipe: Recipe, output: Source | None = None) -> FileCodes:
    """Numbers for the files of all sources that a plan reads, and of its output.

    Raises:
        RefusedError: two files have one number.
    """
    sources = {
        node.source: recipe.sources[node.source] for node in recipe.plan if isinstance(node, Scan)
    }
    if output is not None:
        sources[OUTPUT_FILES] = output
    files = {source_number: files_of(source) for source_number, source in sources.items()}
    shared_paths = sorted({path for paths in files.values() if len(paths) > 1 for path in paths})
    hashes: dict[str, int] = {}
    if shared_paths:
        frame = from_arrow(session, pa.table({"path": shared_paths}))
        rows = frame.selectExpr("path", "xxhash64(path) AS code").collect()
        hashes = {row.path: row.code for row in rows}
    if len(set(hashes.values())) != len(shared_paths):
        raise RefusedError("two files have paths of the same 64-bit hash")
    return FileCodes(
        {
            source_number: "0" if len(paths) == 1 else f"xxhash64({FILE_COLUMN})"
            for source_number, paths in files.items()
        },
        {
            source_number: {0: paths[0]}
            if len(paths) == 1
            else {hashes[path]: path for path in paths}
            for source_number, paths in files.items()
        },
    )
