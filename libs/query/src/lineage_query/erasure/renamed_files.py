"""Files that may be others which are gone, under another name in the same folder: they have the size, and no captured job wrote them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lineage_core.tracing.budget import current_budget
from lineage_query.erasure.source_files import files_with_rows, passed_over_in
from lineage_query.rows.file_status import by_state
from lineage_query.rows.reader import RowReader
from lineage_store.paths import Spellings, canonical, plain_path, split_scheme
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, RecordedFile


def is_current(reader: RowReader, path: str, file: RecordedFile) -> bool:
    """Whether a file is as an application recorded it; raises RowsError where that can't be looked at."""
    return by_state(reader.state(path), file.version.size, file.version.mtime) == "same"


@dataclass
class RenamedFiles:
    """Looks for such files. Of use for one verification."""

    store: GraphStore
    reader: RowReader
    _of_size: dict[str, dict[int, list[str]]] = field(default_factory=dict)

    def of_output(self, path: str, app: str, folder: str) -> Iterator[str]:
        """Files of an output's folder that may be one which an application wrote.

        Raises:
            RowsError: the folder can't be listed.
        """
        if folder not in self._of_size:
            hidden = passed_over_in(self.reader, folder).hidden
            self._of_size[folder] = self._by_size((*files_with_rows(self.reader, folder), *hidden))
        recorded = self.store.recorded_files(FileQuery(path, Spellings())).items
        sizes = {file.version.size for file in recorded if file.wrote and file.app == app}
        yield from self._written_by_nobody(self._of_size[folder], sizes)

    def of_source(self, path: str) -> Iterator[str]:
        """Files beside one of this machine that applications read and which is gone; none of other storage.

        Raises:
            OSError: its folder can't be listed.
        """
        folder = os.path.dirname(plain_path(path))
        if split_scheme(path)[0] not in {"", "file"} or not os.path.isdir(folder):
            return
        recorded = self.store.recorded_files(FileQuery(path, Spellings())).items
        with os.scandir(folder) as entries:
            beside = [canonical(entry.path) for entry in entries if entry.is_file()]
        sizes = {file.version.size for file in recorded}
        yield from self._written_by_nobody(self._by_size(beside), sizes)

    def _by_size(self, files: Iterable[str]) -> dict[int, list[str]]:
        of_size: dict[int, list[str]] = {}
        for file in files:
            current_budget().check()
            state = self.reader.state(file)
            if state is not None:
                of_size.setdefault(state.size, []).append(file)
        return of_size

    def _written_by_nobody(
        self, of_size: dict[int, list[str]], sizes: Iterable[int]
    ) -> Iterator[str]:
        spellings = Spellings()
        for file in (file for size in sizes for file in of_size.get(size, ())):
            recorded = self.store.recorded_files(FileQuery(file, spellings)).items
            if not any(each.wrote and is_current(self.reader, file, each) for each in recorded):
                yield file
