"""An archive of the classes that Spark loads (class data sharing): with it Java takes far less time to start.

It lies in the user's cache, for this user alone, and is of one Java and one Spark. Java looks whether it fits, and does
without where it does not.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark

from lineage_core.environment.private_files import ensure_private_folder
from lineage_dataframes.sandbox.policy import java_home
from lineage_store.url import cache_folder

OPTIONS = "SPARK_SUBMIT_OPTS"
"""The variable with options of the JVM that a Spark of Python's is."""
JAVA_OPTION_VARIABLES = (OPTIONS, "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
QUIET = "-Xlog:disable -XX:+DisplayVMOutputToStderr"
"""What Java says of itself is not for standard output, which may be JSON."""
_SHARING = re.compile(r"-Xshare|SharedArchiveFile|ArchiveClassesAtExit|SharedClassListFile")
_VERSION = re.compile(r'^JAVA_VERSION="(\d+)', re.MULTILINE)
JAVA_VERSION_MIN = 17
"""Versions of Java that are known to write and read such an archive."""


@contextmanager
def class_archive(*, archived: bool, confined: Path | None = None) -> Iterator[None]:
    """A Java that is started in the body reads the archive; with ``archived`` it writes one where there is none.

    ``confined``: the folder that it may write to, where it is confined. What it leaves there is for others such alone.
    """
    before = os.environ.get(OPTIONS)
    added = _java_options(archived=archived, confined=confined)
    if added:
        os.environ[OPTIONS] = f"{before} {added}" if before else added
    try:
        yield
    finally:
        if added and before is None:
            del os.environ[OPTIONS]
        elif added and before is not None:
            os.environ[OPTIONS] = before


def _java_options(*, archived: bool, confined: Path | None) -> str:
    """Options of Java; none where whoever runs it has said how it is to share classes, or nothing can be kept."""
    if any(_SHARING.search(os.environ.get(name, "")) for name in JAVA_OPTION_VARIABLES):
        return ""
    file = archive_file(confined=confined is not None)
    # A path with blanks would be two options.
    if file is None or re.search(r"[\s\"'\\]", f"{file}{confined or ''}"):
        return ""
    with suppress(OSError):
        if file.exists():
            # It is code: nobody else may have written it, not even who shares the cache.
            ours = _is_ours(file) and _is_ours(file.parent)
            return f"-XX:SharedArchiveFile={file} {QUIET}" if ours else ""
        if archived and _is_ours(ensure_private_folder(file.parent, ours=True)):
            _remove_stale_drafts(file.parent)
            return f"-XX:ArchiveClassesAtExit={_draft_file(file, confined)} {QUIET}"
    return ""


def _is_ours(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _draft_file(file: Path, confined: Path | None) -> Path:
    return (confined or file.parent) / f"{file.name}.{os.getpid()}"


def _remove_stale_drafts(folder: Path) -> None:
    """Remove what Java wrote for processes that did not live to take it for the archive."""
    for draft in folder.glob("*.jsa.*"):
        with suppress(ValueError):
            try:
                os.kill(int(draft.suffix[1:]), 0)
            except ProcessLookupError:
                draft.unlink(missing_ok=True)


def store_archive(confined: Path | None = None) -> None:
    """Take what this process's Java wrote as it ended for the archive. ``confined``: see `class_archive`."""
    file = archive_file(confined=confined is not None)
    if file is None:
        return
    written, draft = _draft_file(file, confined), _draft_file(file, None)
    with suppress(OSError):
        if written != draft:
            # The folder may be of another file system.
            shutil.move(written, draft)
        if not stat.S_ISREG(draft.lstat().st_mode):
            # Who runs in a confined Java may have put a link there.
            draft.unlink()
            return
        draft.chmod(0o600)
        draft.replace(file)


def archive_file(*, confined: bool = False) -> Path | None:
    """Where the archive of this Java and this Spark is, or is to be; None where Java is not known to have any."""
    home = java_home()
    try:
        release = Path(home, "release").read_text(encoding="utf-8")
        state = Path(home, "bin", "java").stat()
    except (OSError, UnicodeDecodeError):
        return None
    version = _VERSION.search(release)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        return None
    spark = str(Path(pyspark.__file__).parent)
    parts = [home, release, str(state.st_mtime_ns), spark, pyspark.__version__]
    parts.append(os.environ.get("SPARK_HOME", ""))
    if confined:
        parts.append("confined")
    name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_folder() / "java" / f"{name}.jsa"
