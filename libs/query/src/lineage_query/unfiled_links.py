"""Who may have written what was read of datasets without files, and who may have read what was written: by name, time and offsets.

A table of a database has no versions: whoever may write to it can change any row at any time. So that a row was read that one
application wrote is never known, and a trace ends there; it is known which applications wrote to the table before it was read.
That a record of a topic is a row that one wrote is not known, either; which offsets were read, and among which the written ones are, may be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from lineage_core.contract.message import RecordFiles, RecordSplits
from lineage_core.contract.offsets import OFFSETS, parse_offsets
from lineage_core.contract.times import time_text
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_openlineage.datasets import dataset_name
from lineage_query.answers import NotQueried
from lineage_query.jobs import full_dataset_name
from lineage_store.dataset_paths import unfiled_dataset
from lineage_store.errors import UNREAD
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FILE_MESSAGES, FileQuery, RecordedFiles, file_versions

USES_MAX = 100
"""Maximum number of uses of one node that are compared with those of others."""


class _Use(NamedTuple):
    """That a node read or wrote (``wrote``) a dataset. ``at``: when it had read it, or began to write to it. ``version``: as it is recorded."""

    app: str
    node: str
    path: str
    wrote: bool
    at: float
    version: str

    @property
    def text(self) -> str:
        ranges = f" (offsets {self.version})" if OFFSETS.fullmatch(self.version) else ""
        verb = "wrote to" if self.wrote else "read"
        return f"{verb} {_shown(self.path)} at {time_text(self.at)}{ranges}"


class UnfiledLinks:
    """Applications that used the same tables of databases and topics.

    Args:
        store: has the applications.
        direction: backward, who wrote what was read; forward, who read what was written.
        spellings: of the answer.
    """

    def __init__(self, store: GraphStore, direction: Direction, spellings: Spellings) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = spellings
        self._uses: dict[str, list[_Use]] = {}

    def users(self, app: str, node: str) -> Iterator[NotQueried]:
        """Who may have written what a node read, or have read what it wrote; those that did so last come first."""
        own = [
            use for use in self._uses_of(app) if use.node == node and use.wrote != self._is_backward
        ]
        last: dict[str, tuple[_Use, _Use]] = {}
        for use in own[:USES_MAX]:
            unread = dict[str, None]()
            for other in self._others(use, unread):
                known = last.get(other.app)
                if known is None or known[1].at < other.at:
                    last[other.app] = use, other
            yield from self._unread(use, unread)
        for use, other in sorted(last.values(), key=lambda uses: uses[1].at, reverse=True):
            reason = f"it {other.text}, and {app} {use.text}: whether these are the same rows is not known"
            yield NotQueried(other.app, reason)

    def _unread(self, use: _Use, unread: dict[str, None]) -> Iterator[NotQueried]:
        verb = "wrote to" if self._is_backward else "read"
        for app in dict.fromkeys(self._recorded(use.path).unread) | unread:
            yield NotQueried(app, f"whether it {verb} {_shown(use.path)} is not known")

    def _others(self, use: _Use, unread: dict[str, None]) -> Iterator[_Use]:
        """Uses of others, in the order of time that leads from one to the other, of what may be the same rows.

        ``unread``: gets the applications whose uses of it can't be read.
        """
        dataset = unfiled_dataset(use.path)
        assert dataset is not None
        ids = self._store.application_ids()
        apps = dict.fromkeys(
            file.app
            for file in self._recorded(use.path).items
            if file.wrote == self._is_backward
            and whose_rows(file.app, ids) is None
            and (named := unfiled_dataset(file.path)) is not None
            and dataset.may_be(named)
        )
        for app in apps:
            try:
                others = self._uses_of(app)
            except UNREAD:
                unread[app] = None
                continue
            for other in others:
                current_budget().check()
                named = unfiled_dataset(other.path)
                if other.wrote != self._is_backward or named is None or not dataset.may_be(named):
                    continue
                read, written = (use, other) if self._is_backward else (other, use)
                is_own = (use.app, use.node) == (other.app, other.node)
                if not is_own and written.at <= read.at and _may_overlap(read, written):
                    yield other

    def _recorded(self, path: str) -> RecordedFiles:
        return self._store.recorded_files(FileQuery(path, self._spellings, in_any_folder=True))

    def _uses_of(self, app: str) -> list[_Use]:
        """What an application recorded of datasets without files."""
        if app not in self._uses:
            uses = list[_Use]()
            try:
                messages = self._store.messages(app, *FILE_MESSAGES)
            except KeyError:
                # It was deleted meanwhile.
                messages = []
            for message in messages:
                current_budget().check()
                if not isinstance(message, RecordFiles | RecordSplits):
                    continue
                for node, path, version, wrote in file_versions(message):
                    if unfiled_dataset(path) is not None:
                        uses.append(_Use(app, node, path, wrote, version.mtime, message.version))
            self._uses[app] = uses
        return self._uses[app]


def _may_overlap(read: _Use, written: _Use) -> bool:
    """Whether some offset was both read and written, as far as the ranges are known."""
    if not (OFFSETS.fullmatch(read.version) and OFFSETS.fullmatch(written.version)):
        return True
    ranges = parse_offsets(read.version)
    return any(
        first < ranges[partition][1] and ranges[partition][0] < end
        for partition, (first, end) in parse_offsets(written.version).items()
        if partition in ranges
    )


def _shown(path: str) -> str:
    return full_dataset_name(*dataset_name(path))
