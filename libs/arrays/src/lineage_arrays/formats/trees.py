"""Arrays of Zarr: folders of chunks, which a checksum over all their files binds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np

from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.formats.decoding import Decoded
from lineage_core.environment.extras import needed
from lineage_core.tracing.budget import current_budget
from lineage_store.checksums import sha256_of
from lineage_store.paths import open_file, walked

FILES_MAX = 1_000_000
"""Files of an array, at most."""
METADATA_BYTES_MAX = 4 << 20
READ_BYTES = 1 << 20
CODECS = frozenset({
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "fixedscaleoffset", "fletcher32",
    "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "quantize", "sharding_indexed", "shuffle", "transpose", "zlib", "zstd",
})  # fmt: skip
"""Codecs that are applied. Others may run what a file says (``pickle``)."""


class TreeFile(NamedTuple):
    """A file below a folder: its path in it, and its state. No program can set ``changed_ns`` back."""

    name: str
    size: int
    mtime: float
    mtime_ns: int
    changed_ns: int
    inode: int

    @classmethod
    def of(cls, name: str, status: os.stat_result) -> TreeFile:
        """The file of a state."""
        return cls(
            name,
            status.st_size,
            status.st_mtime,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_ino,
        )


def tree_files(path: str) -> tuple[TreeFile, ...]:
    """What lies below a folder now, in order.

    Raises:
        OSError: it can't be read, or has a link to a folder.
        ArrayLineageError: it has too many files.
        BudgetError: the question that it is read for takes too long.
    """
    files: list[TreeFile] = []
    for folder, folders, names in walked(path):
        for name in folders:
            if os.path.islink(os.path.join(folder, name)):
                raise OSError(f"{os.path.join(folder, name)} is a link to a folder, whose files no checksum binds")  # fmt: skip
        for name in names:
            full = os.path.join(folder, name)
            files.append(TreeFile.of(os.path.relpath(full, path), os.stat(full)))
        if len(files) > FILES_MAX:
            raise ArrayLineageError(f"{path} has more than {FILES_MAX:,} files")
    return tuple(sorted(files))


def tree_checksum(path: str) -> str:
    """The checksum of the files of a folder: of their paths in it, and of the checksum of each.

    Raises:
        OSError, ArrayLineageError, BudgetError: as :func:`tree_files`.
    """
    return checksum_over(
        (file.name, file_checksum(os.path.join(path, file.name))) for file in tree_files(path)
    )


def checksum_over(files: Iterable[tuple[str, str]]) -> str:
    """The checksum of a folder by the names and checksums of its files, in order of names."""
    return sha256_of(
        f"{name}\0{checksum}\0".encode(errors="surrogateescape") for name, checksum in files
    )


def file_checksum(path: str) -> str:
    """The checksum of a file's bytes.

    Raises:
        OSError: it can't be read.
        BudgetError: the question that it is read for takes too long.
    """
    with open_file(path) as file:
        return sha256_of(_parts(file))


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while part := file.read(READ_BYTES):
        current_budget().check()
        yield part


def decoded_tree(path: str) -> Decoded:
    """The array of a folder.

    Raises:
        OSError: it can't be read.
        ArrayLineageError: it is no array of Zarr, or zarr is missing.
        UntracedError: its cells are no values, or it has a codec that is not known.
    """

    def metadata(name: str) -> bytes | None:
        full = os.path.join(path, name)
        if not os.path.exists(full):
            return None
        with open_file(full) as file:
            return file.read(METADATA_BYTES_MAX)

    _check_metadata(path, metadata)
    return _read_by_zarr(path, lambda zarr: zarr.storage.LocalStore(path, read_only=True))


def decoded_files(path: str, files: Mapping[str, bytes | memoryview]) -> Decoded:
    """The array of a folder whose files are in memory; opens no file.

    Args:
        path: of the folder, for errors.
        files: the files by their paths in it.

    Raises:
        ArrayLineageError, UntracedError: as :func:`decoded_tree`.
    """

    def metadata(name: str) -> bytes | None:
        return bytes(files[name][:METADATA_BYTES_MAX]) if name in files else None

    def store(zarr: Any) -> Any:
        buffer = zarr.core.buffer.default_buffer_prototype().buffer
        return zarr.storage.MemoryStore(
            {name: buffer.from_bytes(content) for name, content in files.items()}, read_only=True
        )

    _check_metadata(path, metadata)
    return _read_by_zarr(path, store)


def _read_by_zarr(path: str, store_of: Callable[[Any], Any]) -> Decoded:
    zarr = needed("zarr", "Zarr", error=ArrayLineageError)
    try:
        array = zarr.open_array(store_of(zarr), mode="r")
        return Decoded(np.asarray(array[...]), "")
    except (ValueError, KeyError, TypeError, RuntimeError, FileNotFoundError) as error:
        raise ArrayLineageError(f"{path} can't be read: {error}") from error


def _check_metadata(path: str, read: Callable[[str], bytes | None]) -> None:
    """See what an array's metadata names before a library follows it."""
    metadata: Any = None
    for name in ("zarr.json", ".zarray"):
        content = read(name)
        if content is None:
            continue
        if metadata is not None:
            raise ArrayLineageError(f"{path} is an array in two versions of Zarr")
        try:
            metadata = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise ArrayLineageError(f"{path}/{name} can't be read: {error}") from error
    if not isinstance(metadata, dict) or metadata.get("node_type", "array") != "array":
        raise ArrayLineageError(f"{path} is no array of Zarr: name one, as in cube.zarr/flux")
    if metadata.get("storage_transformers"):
        raise UntracedError(f"{path} has its chunks elsewhere", "load the array itself")
    unknown = sorted(set(_codecs(metadata)) - CODECS)
    if unknown:
        raise UntracedError(
            f"{path} has codecs that are not applied here: {', '.join(unknown)}",
            "read it by zarr, and name it by recording.source",
        )


def _codecs(part: Any) -> Iterator[str]:
    """The names of all codecs that metadata mentions, nested ones too."""
    for key in ("codecs", "index_codecs", "filters", "compressor"):
        named = part.get(key) if isinstance(part, dict) else None
        for codec in named if isinstance(named, list) else [named] if named else []:
            is_known = isinstance(codec, dict)
            name = str(codec.get("name", codec.get("id", ""))) if is_known else str(codec)
            yield name.removeprefix("numcodecs.")
            if is_known:
                yield from _codecs(codec.get("configuration", {}))
