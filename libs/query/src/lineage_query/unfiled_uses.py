"""What applications recorded of datasets without files: tables of databases, and topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from lineage_core.contract.message import RecordFiles, RecordSplits
from lineage_core.contract.offsets import OFFSETS, parse_offsets
from lineage_core.contract.times import time_text
from lineage_core.tracing.budget import current_budget
from lineage_openlineage.datasets import dataset_name
from lineage_query.jobs import full_dataset_name
from lineage_store.dataset_paths import UnfiledDataset, unfiled_dataset
from lineage_store.errors import UNREAD
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FILE_MESSAGES, FileQuery, file_versions


class UnfiledUse(NamedTuple):
    """That a node read or wrote (``wrote``) a dataset. ``at``: when it had read it, or began to write to it. ``version``: as it is recorded.

    ``ranges``: the offsets of a topic, by partition the first one and the one behind the last; None: they are not known.
    """

    app: str
    node: str
    path: str
    wrote: bool
    at: float
    version: str
    ranges: Mapping[int, tuple[int, int]] | None = None

    @property
    def text(self) -> str:
        """What an answer says of it."""
        ranges = "" if self.ranges is None else f" (offsets {self.version})"
        verb = "wrote to" if self.wrote else "read"
        return f"{verb} {shown_dataset(self.path)} at {time_text(self.at)}{ranges}"

    def has_offset(self, partition: int, offset: int) -> bool | None:
        """Whether an offset is among those that were read, or that were written by then; None: these are not known."""
        if self.ranges is None:
            return None
        first, end = self.ranges.get(partition, (0, 0))
        return first <= offset < end


class UnfiledUses:
    """Reads what applications recorded. Caches it for one query.

    Args:
        store: has the applications.
        spellings: of the answer.
    """

    def __init__(self, store: GraphStore, spellings: Spellings) -> None:
        self._store = store
        self._spellings = spellings
        self._by_app: dict[str, list[UnfiledUse]] = {}

    def of_app(self, app: str) -> list[UnfiledUse]:
        """All uses by an application; none where it was deleted meanwhile."""
        if app not in self._by_app:
            uses = list[UnfiledUse]()
            try:
                messages = self._store.messages(app, *FILE_MESSAGES)
            except KeyError:
                messages = []
            for message in messages:
                current_budget().check()
                if not isinstance(message, RecordFiles | RecordSplits):
                    continue
                text = message.version
                ranges = parse_offsets(text) if OFFSETS.fullmatch(text) else None
                for node, path, version, wrote in file_versions(message):
                    if unfiled_dataset(path) is not None:
                        uses.append(UnfiledUse(app, node, path, wrote, version.mtime, text, ranges))
            self._by_app[app] = uses
        return self._by_app[app]

    def named(
        self,
        dataset: UnfiledDataset,
        may_be: Callable[[UnfiledDataset], bool],
        unread: dict[str, None],
        *,
        wrote: bool,
    ) -> Iterator[UnfiledUse]:
        """Uses by any application of datasets that have the last part of a name.

        Args:
            dataset: has the name.
            may_be: says of others of this name whether they count.
            unread: gets the applications whose uses can't be read.
            wrote: whether they wrote it, or read it.
        """
        ids = self._store.application_ids()

        def counts(path: str) -> bool:
            named = unfiled_dataset(path)
            return named is not None and may_be(named)

        query = FileQuery(dataset.path, self._spellings, in_any_folder=True)
        recorded = self._store.recorded_files(query)
        unread.update(dict.fromkeys(recorded.unread))
        apps = dict.fromkeys(
            file.app
            for file in recorded.items
            if file.wrote == wrote and whose_rows(file.app, ids) is None and counts(file.path)
        )
        for app in apps:
            try:
                uses = self.of_app(app)
            except UNREAD:
                unread[app] = None
                continue
            for use in uses:
                current_budget().check()
                if use.wrote == wrote and counts(use.path):
                    yield use


def shown_dataset(path: str) -> str:
    """The name of a dataset, as lists show it."""
    return full_dataset_name(*dataset_name(path))
