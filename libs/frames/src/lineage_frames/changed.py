"""Whether the files that a job read still are what they were."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe import DELTA, ICEBERG, File, Source
from lineage_frames.errors import ChangedSourceError, RefusedError
from lineage_frames.pyspark_parts import SPARK_ERRORS, active, reason_of
from lineage_store.paths import RowsError, split_scheme
from lineage_store.rows import RowReader

_READER = RowReader()
"""It keeps the checksums of files by what their file system says of them."""
_PATTERN = re.compile(r"[\\{}\[\]*?]")

IMMUTABLE = {
    DELTA: "VACUUM deletes files that just earlier versions of a table need",
    ICEBERG: "where snapshots expire, files that just they need are deleted",
}
"""Formats whose files are never written again, and why one may be gone: their times don't matter."""


@contextmanager
def reading_version(spark: SparkSession, version: str, needs: str) -> Iterator[None]:
    """A table is read in a version. ``needs``: what to say where Spark has no reader for it.

    Raises:
        RefusedError: it has none.
        ChangedSourceError: the version is gone.
    """
    try:
        # Readers of tables go by the settings and catalogs of the active session.
        with active(spark):
            yield
    except SPARK_ERRORS as problem:
        said = reason_of(problem)
        if "DATA_SOURCE_NOT_FOUND" in said:
            raise RefusedError(needs) from problem
        raise ChangedSourceError(f"{version} is gone: {said}") from problem


def check_unchanged(spark: SparkSession, source: Source) -> None:
    """See that every file has the content that the job read: by its checksum where one was taken, else by size and time.

    Raises:
        ChangedSourceError: one has not, or is gone. Its rows may stand elsewhere now.
    """
    elsewhere = check_here(source)
    if elsewhere:
        _check_remote(spark, source, elsewhere)


def check_here(source: Source) -> list[File]:
    """As :func:`check_unchanged`, of the files of this machine; gives the others.

    Raises:
        ChangedSourceError: as there.
    """
    elsewhere = []
    for file in source.files:
        path = local_path(file.path)
        if path is None:
            elsewhere.append(file)
        elif not path.exists():
            raise _gone(source, file)
        elif file.checksum and source.format not in IMMUTABLE:
            _compare_content(file, path)
        else:
            now = path.stat()
            _compare(source, file, now.st_size, now.st_mtime_ns // 1_000_000)
    return elsewhere


def _compare_content(file: File, path: Path) -> None:
    """A file that was only touched has not changed, and one whose size and time were set back has."""
    try:
        same = path.stat().st_size == file.size and _READER.checksum(str(path)) == file.checksum
    except (OSError, RowsError) as problem:
        raise ChangedSourceError(f"{file.path} can't be compared: {problem}") from problem
    if not same:
        raise ChangedSourceError(
            f"{file.path} was written since the job ran: it has another checksum"
        )


def local_path(path: str) -> Path | None:
    """The path of a file of this machine, of which Hadoop says ``file:/...``; None of any other."""
    scheme, rest = split_scheme(path)
    return Path(rest) if scheme == "file" else None


def literal_path(path: str) -> str:
    """A file's path for Spark to read, which takes some signs for patterns of names."""
    return _PATTERN.sub(r"\\\g<0>", path)


def _check_remote(spark: SparkSession, source: Source, files: list[File]) -> None:
    try:
        listed = spark.read.format("binaryFile").load([literal_path(file.path) for file in files])
        found = listed.select("path", "length", F.unix_millis("modificationTime")).collect()
    except SPARK_ERRORS as problem:
        raise ChangedSourceError(
            f"files of a source can't be read: {reason_of(problem)}"
        ) from problem
    there = {path: (size, mtime) for path, size, mtime in found}
    for file in files:
        if file.path not in there:
            raise _gone(source, file)
        _compare(source, file, *there[file.path])


def _gone(source: Source, file: File) -> ChangedSourceError:
    if source.format in IMMUTABLE:
        return ChangedSourceError(f"{file.path} is gone: {IMMUTABLE[source.format]}")
    return ChangedSourceError(f"{file.path} is gone")


def _compare(source: Source, file: File, size: int, mtime: int) -> None:
    if source.format in IMMUTABLE:
        mtime = file.mtime
    if (size, mtime) != (file.size, file.mtime):
        when = datetime.datetime.fromtimestamp(mtime / 1000, datetime.UTC).isoformat(" ", "seconds")
        told = "" if size != file.size else "; no checksum tells whether its content is the same"
        raise ChangedSourceError(f"{file.path} was written since the job ran, at {when}{told}")
