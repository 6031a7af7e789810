"""Paths as people and engines write them, and the bytes behind them.

Local files are read directly, everything else through fsspec and its plugins (``hdfs://``,
``s3://``, ``memory://`` ...).
"""

from __future__ import annotations

import bz2
import errno
import gzip
import os
import re
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import IO, Any, cast
from urllib.parse import unquote

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget

READ_BYTES = 4 << 20
"""Bytes read at once when a file is read from end to end."""
LINKS_MAX = 40
"""Maximum number of links in a path that Linux follows."""
MTIME_TOLERANCE_S = 0.002
UNKNOWN_STATE = 0, -1.0
"""Size and time of modification of a file of which they are not known, though it is known that it was read or written."""
"""Hadoop keeps milliseconds, file systems nanoseconds."""

_VERSION_FIELDS = ("ETag", "etag", "generation", "VersionId", "version_id")
"""Names in fsspec's plugins of the token that an object store changes with each write."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)", re.DOTALL)
REMOTE_SCHEMES = frozenset(
    [
        "abfs",
        "abfss",
        "adl",
        "az",
        "dbfs",
        "gcs",
        "gs",
        "hdfs",
        "memory",
        "oci",
        "oss",
        "s3",
        "s3a",
        "webhdfs",
    ]
)
"""Schemes of stores that are read for files that are not on this machine."""
_COMPRESSED = (".gz", ".bz2", ".deflate", ".zst")
_UNREADABLE = (".snappy", ".lz4", ".lzo")


class RowsError(LineageError):
    """Rows that can't be read: the file is gone, not readable, or of an unknown kind."""


@dataclass(frozen=True, slots=True)
class FileState:
    """The current state of a file; ``mtime`` is None if the file system has none.

    ``change_token``: changes with the content, and no program can set it back: inode and time of
    change, or an entity tag. None if the file system has none. States are equal if nothing was written between.
    """

    size: int
    mtime: float | None
    change_token: str | None = None

    def is_still(self, size: int, mtime: float) -> bool:
        """Whether the file has the recorded size and modification time."""
        same_time = self.mtime is None or abs(self.mtime - mtime) <= MTIME_TOLERANCE_S
        return self.size == size and same_time


def is_at_or_below(path: str, folder: str) -> bool:
    """Whether a path is that of a folder (or file), or of something in it; both canonical."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def split_scheme(path: str) -> tuple[str, str]:
    """Scheme and rest: ``file:/a/b`` and ``/a/b`` are ("file", "/a/b")."""
    match = _SCHEME.fullmatch(path)
    if match is None:
        return "file", path
    scheme, rest = match[1].lower(), match[2]
    if scheme == "file":
        return scheme, "/" + rest.lstrip("/")
    return scheme, rest


def canonical(path: str, base: str | None = None) -> str:
    """One spelling for all that name the same file: absolute, no ``file:``, links followed.

    ``base`` is where relative paths start (default: the working directory). What holds a NUL is the name of no file, and
    stays unchanged: a path that one application recorded must not end queries of others.

    Raises:
        RowsError: it can't be the name of a file, or its links change while they are followed.
    """
    if "\0" in path:
        return path
    scheme, rest = split_scheme(path)
    if scheme != "file":
        head, _, tail = rest.lstrip("/").partition("/")
        return f"{scheme}://{head}/" + re.sub(r"/+", "/", tail).lstrip("/")
    try:
        absolute = os.path.join(base or os.getcwd(), os.path.expanduser(rest))
        if "%" in absolute and not os.path.exists(absolute):
            decoded = unquote(absolute)
            absolute = decoded if os.path.exists(decoded) else absolute
        return _real_path(absolute)
    except (OSError, ValueError) as error:
        raise RowsError(f"{path!r}: {error}") from error


def _real_path(path: str) -> str:
    """As :func:`os.path.realpath` of an absolute path, but nothing is looked for below a folder that is not there.

    A path that somebody recorded may have thousands of folders, and none of them may exist. Behind more links than the kernel
    follows there is no file: what is left of the path stays as it is.

    Raises:
        OSError, ValueError: it can't be the name of a file.
        BudgetError: the query has no time left.
    """
    os.fsencode(path)
    budget = current_budget()
    left = path.split("/")[::-1]
    real: list[str] = []
    links, missing = 0, 0
    while left:
        budget.check()
        part = left.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            del real[-1:]
            missing = max(0, missing - 1)
            continue
        real.append(part)
        target = None if missing or links >= LINKS_MAX else _link_target("/" + "/".join(real))
        if target == "":
            missing = 1
        elif target is None:
            missing += bool(missing)
        else:
            links += 1
            real = [] if target.startswith("/") else real[:-1]
            left += target.split("/")[::-1]
    return "/" + "/".join(real)


def _link_target(path: str) -> str | None:
    """Where a link leads; None: it is no link, empty: it is not there."""
    try:
        return os.readlink(path) if stat.S_ISLNK(os.lstat(path).st_mode) else None
    except OSError:
        return ""


class Spellings:
    """Canonical paths of many files for one answer: the links on the way to a folder are followed once."""

    def __init__(self) -> None:
        self._canonical_paths: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def of(self, path: str) -> str:
        """As :func:`canonical`."""
        if path not in self._canonical_paths:
            self._canonical_paths[path] = self._find(path)
        return self._canonical_paths[path]

    def _find(self, path: str) -> str:
        scheme, rest = split_scheme(path)
        head, _, name = rest.rpartition("/")
        if scheme != "file" or rest[:1] != "/" or "%" in rest or name in {"", ".", ".."}:
            return canonical(path)
        if head not in self._folders:
            self._folders[head] = canonical(head or "/")
        canonical_path = os.path.join(self._folders[head], name)
        return canonical(canonical_path) if os.path.islink(canonical_path) else canonical_path


def plain_path(path: str) -> str:
    """A path as people write it: without ``file:``."""
    scheme, rest = split_scheme(path)
    return rest if scheme == "file" else path


def shown_path(path: str, as_named: str | None) -> str:
    """A plain absolute path in the way the program named it: relative if it was given so."""
    relative = (
        as_named is not None
        and split_scheme(as_named) == ("file", as_named)
        and as_named[:1] != "/"
    )
    if relative and path.startswith("/"):
        near = os.path.relpath(path)
        return path if near.startswith("..") else near
    return path


def is_unknown_state(size: int, mtime: float) -> bool:
    """Whether size and time of modification stand for those that are not known."""
    return (size, mtime) == UNKNOWN_STATE


def file_time_text(mtime: float) -> str:
    """A time in milliseconds since 1970 for people; as it is where no calendar has it."""
    try:
        return datetime.fromtimestamp(int(mtime) / 1000, timezone.utc).isoformat(" ", "seconds")
    except (ValueError, OverflowError, OSError):
        return f"{mtime} ms since 1970"


def is_compressed(path: str) -> bool:
    """Whether Hadoop reads the file through a codec, which it chooses by the name's end.

    Raises:
        RowsError: by one that can't be read here.
    """
    if path.endswith(_UNREADABLE):
        raise RowsError(f"{path}: this compression can't be read here; only the row is known")
    return path.endswith(_COMPRESSED)


def current_file_state(path: str, *, links: bool = True) -> FileState | None:
    """The file's size and time of modification now; None when there is no such file.

    Args:
        path: of a file.
        links: as in :func:`open_file`.

    Raises:
        RowsError: they are not known.
    """
    scheme, rest = split_scheme(path)
    try:
        if scheme == "file":
            status = os.stat(rest) if links else _stat_without_links(rest)
            change_token = f"{status.st_ino}.{status.st_mtime_ns}.{status.st_ctime_ns}"
            return FileState(status.st_size, status.st_mtime, change_token)
        info = _file_system(path).info(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ImportError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            return None
        raise RowsError(f"{path}: {error}") from error
    when = next((info[k] for k in ("mtime", "LastModified", "last_modified") if info.get(k)), None)
    mtime = when.timestamp() if isinstance(when, datetime) else when
    version = next((str(info[key]) for key in _VERSION_FIELDS if info.get(key)), None)
    return FileState(int(info["size"]), None if mtime is None else float(mtime), version)


def files_below(path: str, *, hidden: bool = False) -> list[str]:
    """The files with rows below a folder (its canonical path), or the file of that path, in order.

    ``hidden``: those instead that Spark's readers leave out.

    Raises:
        RowsError: they can't be listed.
    """
    scheme, rest = split_scheme(path)
    try:
        if scheme == "file":
            paths = _local_files(rest)
        else:
            protocol = f"{scheme}://"
            remote_paths = [str(file_path) for file_path in _file_system(path).find(path)]
            paths = [
                canonical(protocol + file_path.removeprefix(protocol)) for file_path in remote_paths
            ]
    except FileNotFoundError:
        return []
    except (OSError, ImportError, ValueError) as error:
        raise RowsError(f"{path}: {error}") from error
    spellings = Spellings()
    files: list[str] = []
    for file_path in paths:
        current_budget().check()
        if is_hidden(file_path.removeprefix(path)) is hidden:
            files.append(spellings.of(file_path))
    return sorted(files)


def _local_files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    return [os.path.join(folder, name) for folder, _, names in walked(path) for name in names]


def walked(path: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """A folder of this machine and those below it, with the names of folders and files in each, as `os.walk`, whose list of folders may be cut.

    Raises:
        OSError: one can't be listed. Those below that are removed meanwhile are left out.
        BudgetError: it takes longer than the query may.
    """

    def refuse(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError) or error.filename == path:
            raise error

    for found in os.walk(path, onerror=refuse):
        # The folder may be a large one that a program only claims to have written.
        current_budget().check()
        yield found


def is_hidden(below: str) -> bool:
    """Whether Spark's readers leave a path out."""
    parts = [part for part in below.split("/") if part]
    return any(part[0] == "." or (part[0] == "_" and "=" not in part) for part in parts)


def open_file(path: str, *, links: bool = True) -> IO[bytes]:
    """Open a file of this machine to read it. Whoever may write there may put other things in its place.

    Args:
        path: of a file.
        links: whether links are followed. Without, ``path`` must be a canonical one: a link on the way was put there since
            it was looked at.

    Raises:
        OSError: it can't be opened, or is no file: opening a pipe would wait for who writes to it.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(path, flags) if links else _open_without_links(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file", path)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _open_without_links(path: str, flags: int) -> int:
    # Linux needs no right but to search in folders on the way.
    on_the_way = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    *folders, name = path.strip("/").split("/")
    at = os.open("/", on_the_way)
    try:
        for folder in folders:
            below = os.open(folder, on_the_way, dir_fd=at)
            os.close(at)
            at = below
        return os.open(name, flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _stat_without_links(path: str) -> os.stat_result:
    # Linux needs no right to the file itself.
    flags = getattr(os, "O_PATH", os.O_RDONLY | os.O_NONBLOCK) | os.O_CLOEXEC
    descriptor = _open_without_links(path, flags)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISLNK(status.st_mode):
            raise OSError(errno.ELOOP, "it is a link", path)
        return status
    finally:
        os.close(descriptor)


class Bytes:
    """The (decompressed) bytes of one file; ranges are best read in ascending order."""

    def __init__(self, path: str, *, packed: bool = False, links: bool = True) -> None:
        """Open the file; ``packed``: for its bytes as they lie there, ``links``: as in :func:`open_file`.

        Raises:
            RowsError: it can't be opened.
        """
        self.path = path
        self._links = links
        self._stream_only = not packed and is_compressed(path)
        self._raw, self._file = self._open()
        self._at = 0
        self._tail = b""

    def _open(self) -> tuple[IO[bytes], IO[bytes]]:
        try:
            scheme, rest = split_scheme(self.path)
            local = scheme == "file"
            raw = open_file(rest, links=self._links) if local else _remote(self.path)
        except (OSError, ImportError, ValueError) as error:
            raise RowsError(f"{self.path}: {error}") from error
        return raw, (_decompressed(self.path, raw) if self._stream_only else raw)

    @property
    def stream(self) -> IO[bytes]:
        """The file itself."""
        return self._file

    def read(self, offset: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``offset``; less at the end of the file.

        Raises:
            RowsError: the bytes can't be read.
            BudgetError: the question that they are read for takes too long.
        """
        current_budget().check()
        try:
            if not self._stream_only:
                self._file.seek(offset)
                return self._file.read(length)
            return self._read_forward(offset, length)
        except (OSError, EOFError, zlib.error) as error:
            raise RowsError(f"{self.path}: {error}") from error

    def _read_forward(self, offset: int, length: int) -> bytes:
        """Decompress forward; the latest bytes are cached, for ranges that overlap a little."""
        if offset < self._at - len(self._tail):
            self.close()
            (self._raw, self._file), self._at, self._tail = self._open(), 0, b""
        while self._at < offset:
            current_budget().check()
            self._tail = self._file.read(min(READ_BYTES, offset - self._at))
            if not self._tail:
                return b""
            self._at += len(self._tail)
        overlap = self._tail[len(self._tail) - (self._at - offset) :] if self._at > offset else b""
        missing_bytes = length - len(overlap)
        more = self._file.read(missing_bytes) if missing_bytes > 0 else b""
        self._at += len(more)
        if more or not overlap:
            self._tail = overlap + more
        return (overlap + more)[:length]

    def blocks(self) -> Iterator[bytes]:
        """The whole file in order."""
        at = 0
        while block := self.read(at, READ_BYTES):
            yield block
            at += len(block)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()


def _file_system(path: str) -> Any:
    import fsspec

    _check_scheme(path)
    return fsspec.core.url_to_fs(path)[0]


def _check_scheme(path: str) -> None:
    """See that a path is one of a store of files: lineage may name any address of the web, or of a plugin.

    Raises:
        ValueError: it is another.
    """
    scheme = split_scheme(path)[0]
    if scheme not in REMOTE_SCHEMES:
        raise ValueError(f"files of {scheme}: are not read here")


def _remote(path: str) -> IO[bytes]:
    import fsspec

    _check_scheme(path)
    return cast(IO[bytes], fsspec.open(path, "rb").open())


def _decompressed(path: str, raw: IO[bytes]) -> IO[bytes]:
    if path.endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw, mode="rb"))
    if path.endswith(".bz2"):
        return cast(IO[bytes], bz2.BZ2File(raw))
    if path.endswith(".zst"):
        import pyarrow

        return cast(IO[bytes], pyarrow.CompressedInputStream(cast(Any, raw), "zstd"))
    return cast(IO[bytes], _Inflated(raw))


class _Inflated:
    """Hadoop's ``.deflate``: bare zlib streams, one behind the other."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._inflate = zlib.decompressobj()
        self._is_within = False
        self._packed = self._ready = b""

    def read(self, length: int) -> bytes:
        while (missing_bytes := length - len(self._ready)) > 0:
            packed = self._packed or self._raw.read(READ_BYTES // 16)
            if not packed and self._is_within:
                raise EOFError("the file ends within its compressed data")
            if not packed:
                break
            if not self._is_within:
                self._inflate = zlib.decompressobj()
            # No more than is wanted: a byte of it may stand for a thousand.
            self._ready += self._inflate.decompress(packed, missing_bytes)
            self._packed = self._inflate.unused_data or self._inflate.unconsumed_tail
            self._is_within = not self._inflate.eof
        out, self._ready = self._ready[:length], self._ready[length:]
        return out

    def close(self) -> None:
        self._raw.close()
