"""What queries give of all rows at once, on disk until it is read: in an Arrow file, or where there is much in Parquet files.

Spark's own write of a few rows takes longer than most queries that give them, so few rows come to this process.
How many a query gives is not known before it ran: each partition sends no more than may come, and where
as many come or more, Spark runs it again and writes the rows itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from lineage_core.recipe.document import Source
from lineage_dataframes.sources.views import RUNNING_NUMBER
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow

COLLECTED_BYTES_MAX = 1 << 26
"""Bytes of rows that may come to this process, about."""

READ_BYTES_MAX = 1 << 30
"""Bytes of sources' files: queries that read more give too many rows."""

VALUE_BYTES_BY_TYPE = {"string": 32, "binary": 32}
"""Bytes of a value, about, where they are more than `VALUE_BYTES`."""

VALUE_BYTES = 8


@dataclass(frozen=True)
class Result:
    """The rows of a query. ``types``: its columns' types, as Spark names them. ``path``: of a file, or of a folder of files."""

    path: Path
    types: Mapping[str, str]

    def tables(self, columns: list[str] | None = None) -> Iterator[pa.Table]:
        """The rows, those of a file after those of another; of some columns."""
        if self.path.is_dir():
            for path in sorted(self.path.glob("*.parquet")):
                yield pq.read_table(path, columns=columns)
            return
        with pa.memory_map(str(self.path)) as file:
            table = pa.ipc.open_file(file).read_all()
            yield table if columns is None else table.select(columns)


def run_to_disk(frame: DataFrame, path: Path, sources: Iterable[Source]) -> Result:
    """Run a query that reads ``sources``; its rows are in ``path`` then."""
    types = {field.name: field.dataType.simpleString() for field in frame.schema}
    result = Result(path, types)
    source_bytes = sum(file.size for source in sources for file in source.files)
    if source_bytes <= READ_BYTES_MAX and all(map(literals.comparable, types.values())):
        rows_max = COLLECTED_BYTES_MAX // sum(
            VALUE_BYTES_BY_TYPE.get(kind, VALUE_BYTES) for kind in types.values()
        )
        table = to_arrow(frame.where(f"{RUNNING_NUMBER} <= {rows_max}"))
        if table.num_rows <= rows_max:
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            return result
    frame_writer = frame.write.option("compression", "uncompressed")
    for name, kind in types.items():
        if kind == "bigint":
            # Hashes and places hardly repeat: a dictionary of them is work in vain.
            frame_writer = frame_writer.option(f"parquet.enable.dictionary#{name}", "false")
    frame_writer.parquet(str(path))
    return result
