"""Whether the files that a job read still are what they were."""

from __future__ import annotations

import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe import File, Source
from lineage_frames.errors import ChangedSourceError


def check_unchanged(spark: SparkSession, source: Source) -> None:
    """See that every file has the size and time that the recipe noted.

    Raises:
        ChangedSourceError: one does not, or is gone. Its rows may stand elsewhere now.
    """
    elsewhere = []
    for file in source.files:
        path = local_path(file.path)
        if path is None:
            elsewhere.append(file)
        elif not path.exists():
            raise ChangedSourceError(f"{file.path} is gone")
        else:
            now = path.stat()
            _compare(file, now.st_size, now.st_mtime_ns // 1_000_000)
    if elsewhere:
        _check_remote(spark, elsewhere)


def local_path(uri: str) -> Path | None:
    """The path of a file of this machine; None of any other."""
    parts = urlsplit(uri)
    if parts.scheme not in {"", "file"} or parts.netloc:
        return None
    return Path(unquote(parts.path) if parts.scheme else uri)


def _check_remote(spark: SparkSession, files: list[File]) -> None:
    try:
        listed = spark.read.format("binaryFile").load([file.path for file in files])
        found = listed.select("path", "length", F.unix_millis("modificationTime")).collect()
    except PySparkException as problem:
        raise ChangedSourceError(f"files of a source can't be read: {problem}") from problem
    there = {path: (size, mtime) for path, size, mtime in found}
    for file in files:
        if file.path not in there:
            raise ChangedSourceError(f"{file.path} is gone")
        _compare(file, *there[file.path])


def _compare(file: File, size: int, mtime: int) -> None:
    if (size, mtime) != (file.size, file.mtime):
        when = datetime.datetime.fromtimestamp(mtime / 1000, datetime.UTC).isoformat(" ", "seconds")
        raise ChangedSourceError(f"{file.path} was written since the job ran, at {when}")
