"""Data sets of provenance triples in the table of a lake: imported, indexed, listed and removed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from lineage_core.environment.shown_address import shown_address
from lineage_store.errors import (
    DamagedError,
    StoreError,
    TriplesNotFoundError,
    TriplesWaitError,
)
from lineage_store.lake.address import LakeAddress, is_lake, read_lake_address
from lineage_store.lake.file_names import key_in
from lineage_store.lake.storage_errors import reason_of
from lineage_store.lake.table import LakeFile, LakeTable, ReplacedError, is_lake_there
from lineage_store.tiers.address import read_tiers
from lineage_store.triples.columns import TRIPLES, WAITING, Part
from lineage_store.triples.files import PartFile, PartWriter
from lineage_store.triples.indexing import Counts
from lineage_store.triples.json_reading import whole_text
from lineage_store.triples.leftovers import remove_leftovers
from lineage_store.triples.loading import is_of_items, read_rows_of
from lineage_store.triples.partitioning import SET_ITEMS
from lineage_store.triples.reading import GroupReader, KeptFiles
from lineage_store.triples.sources import NODE, TRIPLE, digest_of, read_rows
from lineage_store.triples.updating import update_index


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a source. ``rows``: of it; ``is_new``: whether the data set did not have it."""

    source: str
    rows: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set. ``stored_bytes``: of all its files; ``is_indexed``: whether nothing waits to be indexed.

    ``damaged``: what is wrong with what is known of its sources, which are not all counted then; empty: nothing. Without any of them
    its folder stands for its name.
    """

    name: str
    sources: int
    rows: int
    stored_bytes: int
    is_indexed: bool
    damaged: str = ""


class TripleStore:
    """The data sets beside a lake, in a table of their own: `LAKE.triples`. May be shared by threads.

    Args:
        url: ``lake:PLACE``, or a database with a lake behind it.
        create: whether to make the table if it is not there.

    Raises:
        StoreError: the address is of no lake, or there is no table.
    """

    def __init__(self, url: str, *, create: bool = False) -> None:
        tiers = read_tiers(url)
        lake = url if tiers is None else tiers.cold
        if not is_lake(lake):
            raise StoreError(
                f"triples are kept in a lake, and {shown_address(url)!r} is none; give lake:PLACE"
            )
        beside = read_lake_address(lake)
        if not beside.has_folder:
            # Beside it would be a bucket, or a server, of another name: perhaps of others.
            raise TriplesNotFoundError(
                f"triples are kept in a folder beside that of a lake, and {lake} has none; give {lake}/FOLDER"
            )
        address = LakeAddress(f"{beside.location}.triples")
        if not create and not is_lake_there(address):
            raise TriplesNotFoundError(
                f"there are no triples at {address.location}; `lineage --store {shown_address(url)} triples import FILE --as NAME` brings some"
            )
        self.table = LakeTable(address, create=create, form=TRIPLES)
        self._kept = KeptFiles(self.table)

    def files(self, name: str, *, newest: bool = True) -> list[PartFile]:
        """The files of a data set; none if there is no such data set.

        Raises:
            StoreError: the storage can't be read, or has files of another kind.
        """
        files = self.table.snapshot(newest=newest).files.get(_key(name), ())
        return [PartFile.of(file) for file in files]

    def add(self, name: str, triples: Sequence[Path], nodes: Sequence[Path] = ()) -> list[Imported]:
        """Add files to a data set, all in one commit; those with the bytes of one that it has are left out.

        Args:
            name: of the data set, which is made by its first import.
            triples: files with columns src, dst and op.
            nodes: files with columns item and node.

        Raises:
            StoreError: a file can't be read or has rows that are refused; the data set is as it was.
        """
        if not name:
            raise StoreError("a data set needs a name")
        held = self.files(name)
        known = {file.digest for file in held if file.part is Part.SOURCE}
        with self._read_of(name, held):
            kinds = {is_of_items(self.table, file) for file in held} - {None}
        imported = []
        with self._writing(name) as writer:
            for path, names, part in _parts(triples, nodes):
                # The same bytes as triples and as nodes are two sources.
                digest = f"{names[0]}-{digest_of(path)}"
                whole_text(str(path), "a file's name")
                is_new = digest not in known
                rows = 0
                if is_new:
                    for columns in read_rows(path, names):
                        kinds.add("item" in columns or "src_item" in columns)
                        if len(kinds) > 1:
                            raise StoreError(
                                f"{path}: items of {name} are integers or texts, and not both"
                            )
                        writer.write(part, columns, digest)
                        rows += len(columns[f"{names[-1]}_text"])
                    if f"{names[0]}-{digest_of(path)}" != digest:
                        raise StoreError(f"{path} changed while it was read; try again")
                    source = {"digest": [digest], "source": [str(path)], "data_set": [name]}
                    writer.write(Part.SOURCE, {**source, "rows": [rows]}, digest)
                imported.append(Imported(str(path), rows, is_new))
                known.add(digest)
        if writer.files:
            self.table.commit(writer.files)
        remove_leftovers(self.table)
        return imported

    @contextmanager
    def _read_of(
        self, name: str, files: Sequence[PartFile], is_whole: bool = False
    ) -> Iterator[None]:
        """Say of files that the body can't read what they are of, and the way out; as `damaged_index`."""
        try:
            yield
        except FileNotFoundError as error:
            if self.table.holds(file.file for file in files):
                damage = f"a file is missing: {reason_of(error)}"
                raise damaged_index(name, damage, is_whole) from error
            raise _changed(name) from error
        except DamagedError as error:
            raise damaged_index(name, error.damage, is_whole) from error

    @contextmanager
    def _writing(self, name: str) -> Iterator[PartWriter]:
        """What is written is deleted where the body fails. After it only a commit that changed nothing may delete it."""
        writer = PartWriter(self.table, _key(name))
        try:
            yield writer
        except BaseException:
            self.table.erase(writer.files)
            raise

    def index(
        self, name: str, *, set_items: int = SET_ITEMS, is_whole: bool = False
    ) -> Counts | None:
        """Index what waits; None if nothing does. What is indexed stays as it is, unless as much is added.

        Args:
            name: of the data set.
            set_items: components of more items are split into connected sets, if their nodes are known.
            is_whole: whether all of the index is made again, in memory.

        Raises:
            StoreError: there is no such data set, its items are of two types, or somebody else changed it meanwhile.
        """
        files = self._existing(name)
        if not is_whole and not any(file.part in WAITING for file in files):
            return None
        with self._read_of(name, files, is_whole), self._writing(name) as writer:
            update = update_index(self.table, files, writer, set_items, is_whole=is_whole)
        self.table.upgrade()
        self._replace(name, writer.files, [file.file for file in update.replaced])
        return update.counts

    def _replace(self, name: str, added: Sequence[LakeFile], removed: Sequence[LakeFile]) -> None:
        try:
            self.table.commit(added, removed)
        except ReplacedError as error:
            self.table.erase(added)
            raise _changed(name) from error
        self.table.erase(removed)

    def remove(self, name: str) -> None:
        """Remove a data set.

        Args:
            name: its name, or its folder, as that of one is listed whose name is lost.

        Raises:
            StoreError: there is no such data set, or somebody else changed it meanwhile.
        """
        files = [file.file for file in self.files(name)]
        # What is called like the folder of another one is not that.
        of_folder = self.table.snapshot(newest=True).files.get(key_in(name), ())
        removed = files or list(of_folder) or [file.file for file in self._existing(name)]
        self._replace(name, (), removed)
        remove_leftovers(self.table)

    def data_sets(self) -> list[DataSet]:
        """All data sets, by name.

        Raises:
            StoreError: the storage can't be read.
        """
        listed = []
        for files in self.table.snapshot(newest=True).files.values():
            parts = [PartFile.of(file) for file in files]
            sources = {file.digest: file for file in parts if file.part is Part.SOURCE}
            read = self._kept.opener.each(self._source, [*sources.values()])
            rows = [one for one in read if isinstance(one, pa.Table)]
            damage = [one for one in read if isinstance(one, str)]
            if len(rows) + len(damage) < len(sources):
                # Removed meanwhile.
                continue
            folder = files[0].path.partition("/")[0]
            listed.append(
                DataSet(
                    name=rows[0].column("data_set")[0].as_py() if rows else folder,
                    sources=len(sources),
                    rows=sum(one.column("rows")[0].as_py() for one in rows),
                    stored_bytes=sum(file.size for file in files),
                    is_indexed=not any(file.part in WAITING for file in parts),
                    damaged="; ".join(damage),
                )
            )
        return sorted(listed, key=lambda one: one.name)

    def _source(self, file: PartFile) -> pa.Table | str | None:
        """What is known of a source; or what is wrong with its file; None: it was removed meanwhile."""
        try:
            return read_rows_of(self.table, file)
        except DamagedError as error:
            return error.damage
        except FileNotFoundError:
            is_lost = self.table.holds([file.file])
            return f"{file.file.path} of the lake is missing" if is_lost else None

    def _existing(self, name: str) -> list[PartFile]:
        files = self.files(name)
        if not files:
            raise TriplesNotFoundError(
                f"there are no triples as {name!r}; `lineage triples list` lists them"
            )
        return files

    def indexed_files(self, name: str) -> list[PartFile]:
        """The files of a data set that is indexed.

        Raises:
            StoreError: there is no such data set, or something in it waits to be indexed.
        """
        files = self._existing(name)
        if any(file.part in WAITING for file in files):
            raise TriplesWaitError(f"triples of {name} wait; run `lineage triples index {name}`")
        return files

    def reader(self) -> GroupReader:
        """What reads row groups of this table."""
        return GroupReader(self._kept)


def _parts(
    triples: Sequence[Path], nodes: Sequence[Path]
) -> list[tuple[Path, tuple[str, ...], Part]]:
    return [
        *((path, TRIPLE, Part.WAITING) for path in triples),
        *((path, NODE, Part.WAITING_NODES) for path in nodes),
    ]


def damaged_index(name: str, damage: str, is_whole: bool = False) -> DamagedError:
    """The error about a file of an index that is damaged, with the way out.

    Args:
        name: of the data set.
        damage: which file, and what is wrong with it.
        is_whole: whether it was found as all of the index was to be made again.
    """
    again = (
        ""
        if is_whole
        else f"`lineage triples index {name} --whole` makes the index again of its triples and items, unless these are what is damaged: then "
    )
    return DamagedError(
        f"{name} is damaged: {damage}; {again}put the file back, of a copy, or remove the data set and import it again: `lineage triples rm {name}`"
    )


def _changed(name: str) -> StoreError:
    return StoreError(f"somebody else changed {name} meanwhile; try again")


def _key(name: str) -> str:
    return hashlib.blake2b(whole_text(name, "a data set").encode(), digest_size=16).hexdigest()
