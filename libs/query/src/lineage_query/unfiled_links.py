"""Who may have written what was read of datasets without files, and who may have read what was written: by name and time.

A table of a database has no versions: whoever may write to it can change any row at any time. So that a row was read that one
application wrote is never known, and a trace ends there; it is known which applications wrote to the table before it was read.
"""

from __future__ import annotations

from collections.abc import Iterator

from lineage_core.contract.times import time_text
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_openlineage.datasets import dataset_name
from lineage_query.answers import NotQueried
from lineage_query.jobs import full_dataset_name
from lineage_store.dataset_paths import unfiled_dataset
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FILE_MESSAGES, FileQuery, RecordedFile, file_versions

PATHS_MAX = 100
"""Maximum number of datasets of one node of which the users are looked up."""


class UnfiledLinks:
    """Applications that used the same tables of databases.

    Args:
        store: has the applications.
        direction: backward, who wrote what was read; forward, who read what was written.
        spellings: of the answer.
    """

    def __init__(self, store: GraphStore, direction: Direction, spellings: Spellings) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = spellings

    def users(self, app: str, node: str) -> Iterator[NotQueried]:
        """Who may have written what a node read, or have read what it wrote; those that did so last come first."""
        times: dict[str, float] = {}
        for message in self._store.messages(app, *FILE_MESSAGES):
            current_budget().check()
            for user, path, version, wrote in file_versions(message):
                is_own = user == node and wrote != self._is_backward
                if is_own and unfiled_dataset(path) is not None:
                    # Backward, the last read counts, and forward the first write.
                    known = times.setdefault(path, version.mtime)
                    times[path] = (max if self._is_backward else min)(known, version.mtime)
        for path, at in list(times.items())[:PATHS_MAX]:
            yield from self._users_of(app, node, path, at)

    def _users_of(self, app: str, node: str, path: str, at: float) -> Iterator[NotQueried]:
        dataset = unfiled_dataset(path)
        assert dataset is not None
        recorded = self._store.recorded_files(FileQuery(path, self._spellings, in_any_folder=True))
        ids = self._store.application_ids()
        verb = "wrote to" if self._is_backward else "read"
        for unread in recorded.unread:
            yield NotQueried(unread, f"whether it {verb} {_shown(path)} is not known")
        last: dict[str, RecordedFile] = {}
        for file in recorded.items:
            current_budget().check()
            other = unfiled_dataset(file.path)
            is_other = (file.app, file.node) != (app, node) and whose_rows(file.app, ids) is None
            if other is None or file.wrote != self._is_backward or not is_other:
                continue
            in_order = file.version.mtime <= at if self._is_backward else file.version.mtime >= at
            if in_order and dataset.may_be(other):
                known = last.setdefault(file.app, file)
                last[file.app] = max(known, file, key=lambda use: use.version.mtime)
        own_verb = "read" if self._is_backward else "wrote to"
        for file in sorted(last.values(), key=lambda use: use.version.mtime, reverse=True):
            yield NotQueried(
                file.app,
                f"it {verb} {_shown(file.path)} at {time_text(file.version.mtime)}, and {app} {own_verb} {_shown(path)} at "
                f"{time_text(at)}: whether these are the same rows is not known, as a database keeps no versions",
            )


def _shown(path: str) -> str:
    return full_dataset_name(*dataset_name(path))
