"""Files that applications recorded, and how the applications that used one are found in a store of any size.

Each version of a file that a message names is a row of the store, under the hash of the file's name, its size and its
modification time. So who read or wrote one version of a file is found by one look-up, in whatever folder the file was
recorded. Rows say where to look; whether a row is of a file is decided by canonical paths. Links are followed when the query
is made, as they are then: a folder may have been moved meanwhile, with a link left in its place. One case is not found:
a single file that was moved, with a link of another name left in its place (``by_links`` looks for it among all rows).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple, Protocol
from urllib.parse import unquote

from xxhash import xxh3_64_intdigest

from lineage_core.contract.message import (
    Message,
    RecordFiles,
    RecordSplits,
    SinkFiles,
    Splits,
)
from lineage_core.tracing.budget import current_budget
from lineage_store.dataset_paths import is_no_file
from lineage_store.paths import (
    MTIME_TOLERANCE_S,
    RowsError,
    Spellings,
    file_time_text,
    is_unknown_state,
    split_scheme,
)
from lineage_store.records import FILES, SPLITS
from lineage_store.signed import BIAS

FILE_MESSAGES = (*SPLITS, *FILES)
"""Types of the messages that name files."""
ROWS_AT_FIRST = 1_000
"""Number of rows up to which a query reads them without having counted them."""
ROWS_MAX = 100_000
"""Maximum number of rows that one query reads."""
BYTES_MAX = 48 << 20
"""Maximum memory of the rows that one query reads."""
ROW_BYTES = 500
"""Memory of a row without its path."""
PATH_MAX = 8192
"""Maximum number of characters of a path: no file system has longer ones, and files of such paths are not recorded."""
CHECKSUM_MAX = 128
"""Number of characters up to which a checksum is recorded as it is; of a longer one its hash is."""
ANY_FOLDER = ""
"""Of a file whose folder does not tell where it is: it was named by a link, or by a path without a folder."""


class FileVersion(NamedTuple):
    """A file as a node read or wrote it; ``checksum`` is empty where none was taken, and size and time may not be known."""

    size: int
    mtime: float
    checksum: str = ""

    @property
    def is_unknown(self) -> bool:
        """Whether size and time are not known: it is the same as no version."""
        return is_unknown_state(self.size, self.mtime)

    def has_state_of(self, other: FileVersion) -> bool:
        """Whether size and time are the same."""
        is_same = self.size == other.size and abs(self.mtime - other.mtime) <= MTIME_TOLERANCE_S
        return is_same and not self.is_unknown

    def is_same(self, other: FileVersion) -> bool:
        """Whether both are the same version, as far as the recorded states show."""
        same_content = not (self.checksum and other.checksum) or self.checksum == other.checksum
        return same_content and self.has_state_of(other)

    def __str__(self) -> str:
        if self.is_unknown:
            return "a version of unknown size and time"
        return f"{self.size:,} bytes of {file_time_text(self.mtime * 1000)}"


@dataclass(frozen=True, slots=True)
class RecordedFile:
    """A version of a file that a node of an application read or wrote (``wrote``). ``path``: as the application named it."""

    app: str
    node: str
    path: str
    wrote: bool
    version: FileVersion


class FileRow(NamedTuple):
    """A version of a file as stores keep it.

    ``name``: hash of the file's name, a signed 64-bit integer. ``folder``: as the job wrote it, or `ANY_FOLDER`. ``file``:
    the name in the folder; the whole path where it is in `ANY_FOLDER`.
    """

    name: int
    folder: str
    file: str
    node: str
    wrote: bool
    size: int
    mtime: float
    checksum: str


@dataclass(frozen=True, slots=True)
class RecordedFiles:
    """Versions of a file. ``unread``: applications with more rows of that name than one query reads, and damaged ones."""

    items: Sequence[RecordedFile] = ()
    unread: tuple[str, ...] = ()

    def only(self, shows: Callable[[str], bool]) -> RecordedFiles:
        """Those of some applications alone."""
        return RecordedFiles(
            [file for file in self.items if shows(file.app)],
            tuple(app for app in self.unread if shows(app)),
        )


class StoredFile(NamedTuple):
    """A row of a store with its application, when that began, and the number of the message that named it."""

    app: str
    started_at: float
    number: int
    row: FileRow


@dataclass(frozen=True)
class FileQuery:
    """Which recorded versions of a file are looked up.

    ``spellings``: whose links are followed now. ``state``: versions of this size and time alone. ``app``: those of one
    application alone. ``by_links``: the file is looked for among all that were recorded, whatever their names: a link may
    have replaced one of them. ``checksum``: files of this checksum, wherever they are; the path does not count then.
    ``in_any_folder``: files of this name, wherever they are.
    """

    path: str
    spellings: Spellings
    state: FileVersion | None = None
    app: str | None = None
    by_links: bool = False
    checksum: str = ""
    in_any_folder: bool = False

    @cached_property
    def names(self) -> tuple[int, ...]:
        """Hashes of the file's names; none if it is looked for whatever its name is.

        Raises:
            RowsError: it can't be the name of a file.
        """
        if self.by_links or self.checksum:
            return ()
        canonical_path = self.spellings.of(self.path)
        return tuple(sorted({_hash(_name(self.path)), _hash(_name(canonical_path))}))

    @property
    def times(self) -> tuple[float, float]:
        """The first and last modification time of the state."""
        assert self.state is not None
        # A little more: rows are compared once more.
        return self.state.mtime - 2 * MTIME_TOLERANCE_S, self.state.mtime + 2 * MTIME_TOLERANCE_S

    def finds(self, app: str, row: FileRow) -> bool:
        """Whether a row of an application has what is looked up, except for its folder."""
        return (
            (self.by_links or bool(self.checksum) or row.name in self.names)
            and self.checksum in ("", row.checksum)
            and self.app in (None, app)
            and (self.state is None or self.state.has_state_of(FileVersion(row.size, row.mtime)))
        )


def file_versions(message: Message) -> Iterator[tuple[str, str, FileVersion, bool]]:
    """The versions of files that a message names: the node, the path as it wrote it, the version, and whether it wrote it."""
    if isinstance(message, Splits | RecordSplits):
        for split in message.splits:
            version = FileVersion(split.file_size, split.mtime, split.checksum)
            yield message.node, split.path, version, False
    elif isinstance(message, SinkFiles | RecordFiles):
        for file in message.files:
            yield message.node, file.path, FileVersion(file.size, file.mtime, file.checksum), True


def file_rows(message: Message) -> set[FileRow]:
    """Rows of the files that a message names; most messages name none."""
    keys_by_path: dict[str, list[tuple[int, str, str]]] = {}
    rows = set[FileRow]()
    for node, path, version, wrote in file_versions(message):
        if path not in keys_by_path:
            keys_by_path[path] = [] if len(path) > PATH_MAX else list(_keys_of(path))
        checksum = _bounded_checksum(version.checksum)
        rows.update(
            FileRow(*key, node, wrote, version.size, version.mtime, checksum)
            for key in keys_by_path[path]
        )
    return rows


def rows_of_message(
    app: str, started_at: float, number: int, message: Message
) -> Iterator[StoredFile]:
    """The rows of a message that is stored without."""
    return (StoredFile(app, started_at, number, row) for row in file_rows(message))


class FileRows(Protocol):
    """Reads rows of a store for one query; those that it does not look up may be among them."""

    def read(self, apps: Collection[str] | None, limit: int) -> Iterable[StoredFile]:
        """At most so many rows; ``apps``: of these applications alone."""

    def count(self) -> Mapping[str, tuple[int, int]]:
        """The number of rows of each application, and the characters of their paths."""

    def not_indexed(self) -> Iterable[StoredFile]:
        """Rows of the messages that an older program stored without."""

    def unread(self) -> Collection[str]:
        """Applications that are damaged, of those whose rows were read or counted: whether they have such rows is not known."""


def find_files(query: FileQuery, rows: FileRows) -> RecordedFiles:
    """Read the rows that a query looks up, and take those of the file.

    If there are more than one query reads, those of the applications with the fewest are read: an application that
    records very many versions of a file ends no query about others.
    """
    unread: list[str] = []
    stored = list(rows.read(None, ROWS_AT_FIRST + 1))
    if len(stored) > ROWS_AT_FIRST:
        stored = []
        counts = rows.count()
        apps = list[str]()
        number = memory = 0
        for app in sorted(counts, key=lambda app: (counts[app], app)):
            app_rows, characters = counts[app]
            number += app_rows
            # A character may take four bytes.
            memory += app_rows * ROW_BYTES + 4 * characters
            is_read = number <= ROWS_MAX and memory <= BYTES_MAX
            (apps if is_read else unread).append(app)
        stored = list(rows.read(apps, ROWS_MAX + 1))
        if len(stored) > ROWS_MAX:
            # More came after they were counted: whose rows are left out is not known.
            return RecordedFiles(unread=tuple(dict.fromkeys((*counts, *rows.unread()))))
    files = select_files(query, chain(stored, rows.not_indexed()))
    return RecordedFiles(files, tuple(dict.fromkeys((*unread, *rows.unread()))))


def select_files(query: FileQuery, rows: Iterable[StoredFile]) -> Sequence[RecordedFile]:
    """Those of the rows that are of the file: of the latest applications first, and of each in the order of its messages."""
    is_anywhere = bool(query.checksum) or query.in_any_folder
    is_at = (lambda _: True) if is_anywhere else _Matcher(query.path, query.spellings)
    matching: dict[RecordedFile, int] = {}
    started: dict[str, float] = {}
    for app, started_at, number, row in rows:
        current_budget().check()
        if not query.finds(app, row):
            continue
        path = row.file if row.folder == ANY_FOLDER else f"{row.folder}/{row.file}"
        if is_at(path) and is_no_file(path) == is_no_file(query.path):
            version = FileVersion(row.size, row.mtime, row.checksum)
            file = RecordedFile(app, row.node, path, row.wrote, version)
            matching[file] = min(number, matching.get(file, number))
            started[app] = started_at
    in_order = sorted(matching, key=lambda file: matching[file])
    in_order.sort(key=lambda file: (started[file.app], file.app), reverse=True)
    return in_order


class _Matcher:
    """Whether recorded paths name one file now. A file of the same name in another folder costs one call of the system."""

    def __init__(self, path: str, spellings: Spellings) -> None:
        self._spellings = spellings
        self._canonical_path = spellings.of(path)
        self._inode = _inode(self._canonical_path)
        self._known: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = self._matches(path)
        return self._known[path]

    def _matches(self, path: str) -> bool:
        if path == self._canonical_path:
            return True
        scheme, rest = split_scheme(path)
        is_plain = scheme == "file" and "%" not in rest and rest[:1] == "/"
        if is_plain and self._inode is not None and _inode(rest) != self._inode:
            return False
        try:
            return self._spellings.of(path) == self._canonical_path
        except RowsError:
            return False


def _inode(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _keys_of(path: str) -> Iterator[tuple[int, str, str]]:
    """Under which names a file is found: hash, folder and file of a row."""
    folder, slash, name = path.rpartition("/")
    if not slash or not folder or name in {"", ".", ".."}:
        # Its own name stands elsewhere, or it has no folder.
        folder, file = ANY_FOLDER, path
    else:
        file = name
    for spelled in {name, unquote(name)}:
        yield _hash(spelled), folder, file
    scheme, rest = split_scheme(path)
    if scheme == "file" and os.path.islink(rest):
        yield _hash(_name(os.path.realpath(rest))), ANY_FOLDER, path


def _bounded_checksum(checksum: str) -> str:
    if len(checksum) <= CHECKSUM_MAX:
        return checksum
    return f"blake2b:{hashlib.blake2b(checksum.encode(), digest_size=16).hexdigest()}"


def _name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def _hash(name: str) -> int:
    return xxh3_64_intdigest(name.encode(errors="surrogatepass")) - BIAS
