"""Which runs used which datasets, kept so that runs can be added and removed one by one.

What a run used is related to datasets as :func:`lineage_query.jobs.find_datasets` relates it: to each dataset that a run named
and that its files lie in.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_query.jobs import NAME_BYTES, DatasetName, DatasetRun, datasets_containing

READ: Final = 1
WROTE: Final = 2
"""Bits of how a run used a dataset."""
_HASH_BYTES = 8
_Hashes: TypeAlias = npt.NDArray[np.int64]
"""Hashes of names, in order."""


@dataclass(slots=True)
class RunUses:
    """What one run used, as bits of `READ` and `WROTE`.

    ``named``: datasets that it named. ``folders``: those that its files lie in directly. ``files``: hashes of the names of files, by bit; Python
    hashes texts with a key of the process. ``own_memory``: bytes of these. ``uses``: all datasets that it used, its own and
    others'.
    """

    named: dict[DatasetName, int]
    folders: dict[DatasetName, int]
    files: dict[int, _Hashes]
    own_memory: int
    uses: dict[DatasetName, int] = field(default_factory=dict)

    @classmethod
    def of(cls, used: Sequence[tuple[DatasetRun, list[DatasetName]]]) -> RunUses:
        """What a run used. ``used``: from :func:`lineage_query.jobs.dataset_runs`."""
        named: dict[DatasetName, int] = {}
        folders: dict[DatasetName, int] = {}
        hashes: dict[int, set[int]] = {READ: set(), WROTE: set()}
        for run, files in used:
            how = WROTE if run.wrote else READ
            own = run.use.namespace, run.use.name
            named[own] = named.get(own, 0) | how
            hashes[how].update(map(hash, files))
            for folder in {folder_of(file) for file in files}:
                folders[folder] = folders.get(folder, 0) | how
        ordered = {how: np.array(sorted(some), np.int64) for how, some in hashes.items()}
        texts = sum(
            len(namespace) + len(name) + NAME_BYTES for namespace, name in (*named, *folders)
        )
        return cls(named, folders, ordered, texts + _HASH_BYTES * sum(map(len, hashes.values())))

    @property
    def memory(self) -> int:
        """Bytes that it takes, about."""
        return self.own_memory + NAME_BYTES * len(self.uses)

    def uses_of_file(self, name: DatasetName) -> int:
        """Whether a file is among those that it read or wrote."""
        wanted, bits = hash(name), 0
        for how, hashes in self.files.items():
            at = int(np.searchsorted(hashes, wanted))
            if at < len(hashes) and int(hashes[at]) == wanted:
                bits |= how
        return bits


class DatasetUses:
    """The datasets of runs, and the runs of datasets."""

    def __init__(self) -> None:
        self.by_run: dict[str, RunUses] = {}
        self.by_dataset: dict[DatasetName, dict[str, int]] = {}
        self.named_by: dict[DatasetName, set[str]] = {}
        """The runs that named a dataset: without any it is none."""
        self.memory = 0
        self._runs_in: dict[DatasetName, dict[str, int]] = {}
        """By folder the runs that have files directly in it."""
        self._folders: dict[str, list[str]] = {}
        """Names of these folders in order, by namespace."""
        self._lengths: dict[str, dict[int, int]] = {}
        """How many datasets have names of a length, by namespace."""

    def add(self, app: str, run: RunUses, files: Sequence[tuple[int, list[DatasetName]]]) -> None:
        """Add a run that is not there yet. ``files``: all of its files, by how it used them.

        Raises:
            BudgetError: it takes more time than the query has; nothing has changed then.
        """
        new = [dataset for dataset in run.named if dataset not in self.by_dataset]
        for dataset in new:
            self.by_dataset[dataset] = {}
            self._count_length(*dataset, 1)
        try:
            run.uses = dict(run.named)
            for how, names in files:
                for dataset in datasets_containing(names, self.by_dataset, self._lengths):
                    run.uses[dataset] = run.uses.get(dataset, 0) | how
        except BaseException:
            for dataset in new:
                del self.by_dataset[dataset]
                self._count_length(*dataset, -1)
            raise
        for dataset in new:
            for other, how in self._runs_with_files_in(dataset).items():
                self.by_dataset[dataset][other] = how
                self.by_run[other].uses[dataset] = how
                self.memory += NAME_BYTES
        for dataset in run.named:
            self.named_by.setdefault(dataset, set()).add(app)
        for dataset, how in run.uses.items():
            self.by_dataset[dataset][app] = how
        for folder, how in run.folders.items():
            if folder not in self._runs_in:
                self._runs_in[folder] = {}
                insort(self._folders.setdefault(folder[0], []), folder[1])
            self._runs_in[folder][app] = how
        self.by_run[app] = run
        self.memory += run.memory

    def remove(self, app: str) -> None:
        """Remove a run, if it is there, with the datasets that it alone named."""
        run = self.by_run.pop(app, None)
        if run is None:
            return
        self.memory -= run.memory
        for dataset in run.uses:
            del self.by_dataset[dataset][app]
        for folder in run.folders:
            runs = self._runs_in[folder]
            del runs[app]
            if not runs:
                del self._runs_in[folder]
                folders = self._folders[folder[0]]
                del folders[bisect_left(folders, folder[1])]
        for dataset in run.named:
            namers = self.named_by[dataset]
            namers.remove(app)
            if not namers:
                self._remove_dataset(dataset)

    def _remove_dataset(self, dataset: DatasetName) -> None:
        del self.named_by[dataset]
        self._count_length(*dataset, -1)
        for other in self.by_dataset.pop(dataset):
            del self.by_run[other].uses[dataset]
            self.memory -= NAME_BYTES

    def _count_length(self, namespace: str, name: str, by: int) -> None:
        lengths = self._lengths.setdefault(namespace, {})
        lengths[len(name)] = lengths.get(len(name), 0) + by
        if not lengths[len(name)]:
            del lengths[len(name)]

    def _runs_with_files_in(self, dataset: DatasetName) -> Mapping[str, int]:
        """The runs that have files that are a dataset, or lie in it, and how they used them."""
        runs: dict[str, int] = {}
        for folder in self._folders_within(dataset):
            for app, how in self._runs_in[folder].items():
                runs[app] = runs.get(app, 0) | how
        for app in self._runs_in.get(folder_of(dataset), ()):
            how = self.by_run[app].uses_of_file(dataset)
            if how:
                runs[app] = runs.get(app, 0) | how
        return runs

    def _folders_within(self, dataset: DatasetName) -> Iterator[DatasetName]:
        namespace, name = dataset
        folders = self._folders.get(namespace, [])
        if name == "/":
            yield from ((namespace, folder) for folder in folders)
            return
        if dataset in self._runs_in:
            yield dataset
        for at in range(bisect_left(folders, f"{name}/"), len(folders)):
            if not folders[at].startswith(f"{name}/"):
                return
            yield namespace, folders[at]


def folder_of(file: DatasetName) -> DatasetName:
    """The folder of a file; it has no name at the root."""
    namespace, name = file
    return namespace, name[: max(name.rfind("/"), 0)]
