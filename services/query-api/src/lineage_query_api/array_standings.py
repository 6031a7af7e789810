"""Arrays of recordings as answers have them: with how their files stand now."""

from __future__ import annotations

from typing import Any

from lineage_query.rows.file_status import FileStatus
from lineage_query.rows.reader import RowReader
from lineage_query_api.array_models import ArrayModel
from lineage_store.paths import RowsError


def array_model(reader: RowReader, plain: dict[str, Any]) -> ArrayModel:
    """An array as it was recorded, and how its file stands now."""
    file = plain["file"]
    if file is not None:
        standing = standing_of(reader, file["path"], file["size"], file["mtime"])
        plain = plain | {"file": file | {"standing": standing}}
    return ArrayModel.model_validate(plain)


def standing_of(reader: RowReader, path: str, size: int, mtime: float) -> FileStatus:
    """How a file stands, as far as size and time say it."""
    try:
        state = reader.state(path)
        if state is None:
            return "gone"
        if reader.is_folder(path):
            return "unknown"
    except RowsError:
        return "unknown"
    if state.size != size:
        return "changed"
    return "same" if state.is_still(size, mtime) else "unknown"
