"""Whether the files that a job read still are what they were."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import File, Source
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sandbox.starting import check_reach, explain_problem
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, active_session, spark_reason
from lineage_query.rows.file_status import FileStatus
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError, canonical, file_time_text, plain_path, split_scheme

_READER = RowReader()
"""It keeps the checksums of files by what their file system says of them."""
_GLOB_SIGNS = re.compile(r"[\\{}\[\]*?]")

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
        with active_session(spark):
            yield
    except SPARK_ERRORS as problem:
        reason = explain_problem(problem, spark_reason(problem))
        if "DATA_SOURCE_NOT_FOUND" in reason:
            raise RefusedError(needs) from problem
        raise ChangedSourceError(f"{version} is gone: {reason}") from problem


def check_unchanged(spark: SparkSession, source: Source) -> None:
    """See that every file has the content that the job read: by its checksum where one was taken, else by size and time.

    Raises:
        ChangedSourceError: one has not, or is gone. Its rows may stand elsewhere now.
    """
    remote_files = check_local(source)
    if remote_files:
        _check_remote(spark, source, remote_files)


def check_local(source: Source) -> list[File]:
    """As :func:`check_unchanged`, of the files of this machine; gives the others.

    Raises:
        ChangedSourceError: as there.
    """
    changes, remote_files = local_changes(source, changes_max=1)
    for change in changes:
        raise ChangedSourceError(change.message)
    return remote_files


@dataclass(frozen=True)
class Change:
    """A file that is not any more what a job read or wrote. ``message``: what is known of it then and now."""

    file: File
    gone: bool
    message: str


def local_changes(
    source: Source, changes_max: int | None = None
) -> tuple[list[Change], list[File]]:
    """The files of this machine that are not what they were (the first ``changes_max`` of them), and those elsewhere."""
    return _changes(source.files, source.format, changes_max)


def local_file_status(files: Iterable[File], kind: str) -> FileStatus:
    """How the files of an output in a format stand now, as far as this machine knows."""
    changes, remote_files = _changes(files, kind)
    if changes:
        return "gone" if any(change.gone for change in changes) else "changed"
    return "unknown" if remote_files else "same"


def _changes(
    files: Iterable[File], kind: str, changes_max: int | None = None
) -> tuple[list[Change], list[File]]:
    changes: list[Change] = []
    remote_files: list[File] = []
    for file in files:
        path = local_path(file.path)
        if path is None:
            remote_files.append(file)
            continue
        change = _change_of(kind, file, path)
        if change is not None:
            changes.append(change)
        if len(changes) == changes_max:
            break
    return changes, remote_files


def _change_of(kind: str, file: File, path: Path) -> Change | None:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            # Spark would read whatever lies below a folder, and wait for who writes to a pipe.
            return Change(file, False, f"{plain_path(file.path)} is no file")
        if not file.checksum or kind in IMMUTABLE:
            return _change_by_state(kind, file, status.st_size, status.st_mtime_ns // 1_000_000)
        if status.st_size == file.size and _READER.checksum(str(path)) == file.checksum:
            # Of a file that was only touched just the time is another.
            return None
    except (FileNotFoundError, NotADirectoryError):
        return _gone_change(kind, file)
    except (OSError, RowsError) as problem:
        return Change(file, False, f"{plain_path(file.path)} can't be compared: {problem}")
    message = f"{_written_since_text(file, status.st_size, status.st_mtime_ns // 1_000_000)}; it has another checksum"
    return Change(file, False, message)


def may_be_held(folder: str | None, file: File) -> bool:
    """Whether rows of an output's file may be read in another file of its content: names of folders hold none of their values.

    ``folder``: of the output.
    """
    is_in_folder = folder is not None and canonical(file.path).rpartition("/")[0] == canonical(
        folder
    )
    return bool(file.checksum) and is_in_folder


def local_path(path: str) -> Path | None:
    """The path of a file of this machine, of which Hadoop says ``file:/...``; None of any other."""
    scheme, rest = split_scheme(path)
    return Path(rest) if scheme == "file" else None


def literal_path(path: str) -> str:
    """A file's path for Spark to read, which takes some signs for patterns of names."""
    return _GLOB_SIGNS.sub(r"\\\g<0>", path)


def _check_remote(spark: SparkSession, source: Source, files: list[File]) -> None:
    check_reach([replace(source, files=tuple(files))])
    try:
        frame = spark.read.format("binaryFile").load([literal_path(file.path) for file in files])
        rows = frame.select("path", "length", F.unix_millis("modificationTime")).collect()
    except SPARK_ERRORS as problem:
        raise ChangedSourceError(
            f"files of a source can't be read: {explain_problem(problem, spark_reason(problem))}"
        ) from problem
    states = {path: (size, mtime) for path, size, mtime in rows}
    for file in files:
        state = states.get(file.path)
        change = (
            _gone_change(source.format, file)
            if state is None
            else _change_by_state(source.format, file, *state)
        )
        if change is not None:
            raise ChangedSourceError(change.message)


def _gone_change(kind: str, file: File) -> Change:
    why = f": {IMMUTABLE[kind]}" if kind in IMMUTABLE else ""
    return Change(file, True, f"{plain_path(file.path)} is gone{why}")


def _change_by_state(kind: str, file: File, size: int, mtime: int) -> Change | None:
    if kind in IMMUTABLE:
        mtime = file.mtime
    if (size, mtime) == (file.size, file.mtime):
        return None
    remark = "" if size != file.size else "; no checksum tells whether its content is the same"
    return Change(file, False, f"{_written_since_text(file, size, mtime)}{remark}")


def _written_since_text(file: File, size: int, mtime: int) -> str:
    old_state = f"{file.size:,} bytes of {file_time_text(file.mtime)}"
    path, new_state = plain_path(file.path), f"{size:,} bytes of {file_time_text(mtime)}"
    return f"{path} was written since the job ran: then {old_state}, now {new_state}"
