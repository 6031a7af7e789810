"""Files that applications read and that had the content of a source: it was moved since, or they read a copy of it."""

from __future__ import annotations

from collections.abc import Iterator

from lineage_query.rows.reader import RowReader
from lineage_store.paths import Spellings, split_scheme
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFiles


def files_like(
    store: GraphStore, reader: RowReader, path: str, spellings: Spellings
) -> Iterator[tuple[str, RecordedFiles]]:
    """Files, wherever they are, that applications recorded with the checksum of a file, or with its name, size and time.

    Args:
        store: has the applications.
        reader: reads the file.
        path: of the file, canonical.
        spellings: whose links are followed now.

    Returns:
        By what they are alike, and the files; the file itself is among them.

    Raises:
        RowsError: the file can't be read.
        StoreUnavailableError: the store does not answer.
    """
    state = reader.state(path)
    if state is None:
        return
    # Capture takes checksums of files of its machine alone.
    if split_scheme(path)[0] in {"", "file"}:
        query = FileQuery(path, spellings, checksum=reader.checksum(path))
        yield "checksum", store.recorded_files(query)
    if state.mtime is not None:
        version = FileVersion(state.size, state.mtime)
        query = FileQuery(path, spellings, state=version, in_any_folder=True)
        yield "name, size and time", store.recorded_files(query)
