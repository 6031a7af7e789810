"""The files of a folder, or of a table in it, that have rows: on this machine or on object storage."""

from __future__ import annotations

from pathlib import Path

from lineage_core.recipe.names import ICEBERG
from lineage_query.rows.iceberg_log import check_data_below
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import kind_at, opened_log
from lineage_store.paths import RowsError, plain_path, split_scheme

_WITHOUT_ROWS = ("-deletes.parquet", ".puffin")
"""Files of Iceberg that name the places of deleted rows."""


def files_with_rows(reader: RowReader, path: str) -> list[str]:
    """The files below a folder (its canonical path), or the file of that path, also those that are in older versions of a table alone.

    Raises:
        RowsError: they can't be listed, or those of a table lie elsewhere.
    """
    files = reader.files_below(path)
    scheme, rest = split_scheme(path)
    if files == [path] or scheme not in {"", "file"} or kind_at(Path(rest)) != ICEBERG:
        return files
    try:
        with opened_log(reader, path) as log:
            check_data_below(log.files, log.folder)
    except RowsError as problem:
        raise RowsError(f"{plain_path(path)} is a table of Iceberg, and {problem}") from problem
    own = f"{path.rstrip('/')}/metadata/"
    return [file for file in files if not file.startswith(own) and not file.endswith(_WITHOUT_ROWS)]
