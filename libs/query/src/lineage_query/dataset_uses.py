"""Which runs used which datasets, kept so that runs can be added and removed one by one.

What a run used is related to datasets as :func:`lineage_query.jobs.find_datasets` relates it: to each dataset that a run named
and that its files lie in.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_query.jobs import NAME_BYTES, DatasetName, DatasetRun, datasets_containing

READ: Final = 1
WROTE: Final = 2
"""Bits of how a run used a dataset."""
_HASH_BYTES = 8
MOVED_MAX = 100
"""Folders that are put into a list in order, or taken from it, one by one: each moves all behind it."""
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
            sys.getsizeof(namespace) + sys.getsizeof(name) + NAME_BYTES
            for namespace, name in (*named, *folders)
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


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run that is to be added. ``new``: the datasets that it names first, each with the other runs that used it."""

    run: RunUses
    new: Mapping[DatasetName, Mapping[str, int]]

    @property
    def memory(self) -> int:
        """Bytes that it adds, about."""
        return self.run.memory + NAME_BYTES * sum(map(len, self.new.values()))


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

    def prepare(
        self,
        run: RunUses,
        files: Sequence[tuple[int, list[DatasetName]]],
        memory_max: int | None = None,
    ) -> PreparedRun:
        """What adding a run will change; nothing has changed yet, so others may read meanwhile.

        Args:
            run: not there yet; its ``uses`` are set.
            files: all of its files, by how it used them.
            memory_max: bytes that it may add; None: any.

        Raises:
            BudgetError: it takes more time than the query has, or more memory than it may.
        """
        unused: Mapping[str, int] = {}
        new = dict.fromkeys(
            (dataset for dataset in run.named if dataset not in self.by_dataset), unused
        )
        datasets: Collection[DatasetName] = ChainMap[DatasetName, object](new, self.by_dataset)  # type: ignore[arg-type]
        lengths: dict[str, Collection[int]] = dict(self._lengths)
        for namespace, name in new:
            current_budget().check()
            if len(name) not in lengths.get(namespace, ()):
                lengths[namespace] = {*lengths.get(namespace, ()), len(name)}
        run.uses = dict(run.named)
        for how, names in files:
            for dataset in datasets_containing(names, datasets, lengths):
                run.uses[dataset] = run.uses.get(dataset, 0) | how
        memory = run.memory
        for dataset in new:
            new[dataset] = self._runs_with_files_in(dataset)
            memory += NAME_BYTES * len(new[dataset])
            if memory_max is not None and memory > memory_max:
                raise TooMuchError("the run uses more than an index holds of one run")
        return PreparedRun(run, new)

    def add(self, app: str, prepared: PreparedRun) -> None:
        """Add a run as it was prepared; since then nothing has been added or removed."""
        run = prepared.run
        for dataset, users in prepared.new.items():
            self.by_dataset[dataset] = dict(users)
            self._count_length(*dataset, 1)
            for other, how in users.items():
                self.by_run[other].uses[dataset] = how
        for dataset in run.named:
            self.named_by.setdefault(dataset, set()).add(app)
        for dataset, how in run.uses.items():
            self.by_dataset[dataset][app] = how
        new_folders: dict[str, list[str]] = {}
        for folder, how in run.folders.items():
            if folder not in self._runs_in:
                self._runs_in[folder] = {}
                new_folders.setdefault(folder[0], []).append(folder[1])
            self._runs_in[folder][app] = how
        for namespace, names in new_folders.items():
            self._add_folders(self._folders.setdefault(namespace, []), names)
        self.by_run[app] = run
        self.memory += prepared.memory

    def remove(self, apps: Iterable[str]) -> None:
        """Remove runs, those that are there, with the datasets that they alone named."""
        emptied: dict[str, list[str]] = {}
        for app in apps:
            run = self.by_run.pop(app, None)
            if run is not None:
                self._remove_run(app, run, emptied)
        # Once for all of them: each time goes through all folders.
        for namespace, names in emptied.items():
            self._remove_folders(namespace, names)

    def _remove_run(self, app: str, run: RunUses, emptied: dict[str, list[str]]) -> None:
        """Remove a run. ``emptied``: gets the folders that have no files of runs any more, by namespace."""
        self.memory -= run.memory
        for dataset in run.uses:
            del self.by_dataset[dataset][app]
        for folder in run.folders:
            runs = self._runs_in[folder]
            del runs[app]
            if not runs:
                del self._runs_in[folder]
                emptied.setdefault(folder[0], []).append(folder[1])
        for dataset in run.named:
            namers = self.named_by[dataset]
            namers.remove(app)
            if not namers:
                self._remove_dataset(dataset)

    @staticmethod
    def _add_folders(folders: list[str], names: Sequence[str]) -> None:
        if len(names) > MOVED_MAX:
            folders.extend(names)
            folders.sort()
        else:
            for name in names:
                insort(folders, name)

    def _remove_folders(self, namespace: str, names: Sequence[str]) -> None:
        folders = self._folders[namespace]
        if len(names) > MOVED_MAX:
            folders[:] = [name for name in folders if (namespace, name) in self._runs_in]
        else:
            for name in names:
                del folders[bisect_left(folders, name)]

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
        """The runs that have files that are a dataset, or lie in it, and how they used them.

        Raises:
            BudgetError: it takes more time than the query has.
        """
        runs: dict[str, int] = {}
        for folder in self._folders_within(dataset):
            for app, how in self._runs_in[folder].items():
                current_budget().check()
                runs[app] = runs.get(app, 0) | how
        for app in self._runs_in.get(folder_of(dataset), ()):
            current_budget().check()
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
