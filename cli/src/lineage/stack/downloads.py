"""Jars of servers that come from Maven artifacts, fetched once for a machine's user.

What is fetched is written in infra/native/NAME/pom.xml, versions pinned. A set of jars lives in the
cache under a name with the hash of its pom, and appears there whole or not at all.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lineage.stack.errors import DownloadError
from lineage.stack.programs import java, maven

DOWNLOAD_LIMIT_S = 900
TAIL_LINES = 12


def cache_folder() -> Path:
    """Where jars are kept: LINEAGE_CACHE, or lineage/ in the user's cache folder."""
    named = os.environ.get("LINEAGE_CACHE")
    if named:
        return Path(named).absolute()
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "lineage"


def jars(name: str, say: Callable[[str], None] = lambda _: None) -> Path:
    """The folder with the jars of a server (a folder under infra/native): see `jars_of`."""
    return jars_of(pom_file(name), say)


def jars_of(pom: Path, say: Callable[[str], None] = lambda _: None) -> Path:
    """The folder with the jars that a pom names, fetched first where they are missing.

    Several processes may call this at once: one downloads, the others wait.

    Args:
        pom: NAME/pom.xml; NAME is what the jars are called.
        say: called when a download starts.

    Raises:
        MissingProgramError: there is no Maven.
        DownloadError: Maven could not fetch them.
    """
    name = pom.parent.name
    digest = hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    folder = cache_folder() / f"{name}-{digest}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.parent / f"{name}.lock"):
        if not folder.is_dir():
            say(f"fetching {name} (once) into {folder}")
            _fetch(pom, folder)
    return folder


def pom_file(name: str) -> Path:
    """The pom of a server; `native` is a link to infra/native here, a folder in an installed package."""
    return Path(__file__).with_name("native") / name / "pom.xml"


def _fetch(pom: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=folder.name, dir=folder.parent) as draft:
        # Maven writes beside the pom: a copy keeps the original's folder clean.
        copy = Path(draft) / "pom.xml"
        shutil.copyfile(pom, copy)
        lib = Path(draft) / "lib"
        _run_maven(copy, lib)
        lib.rename(folder)


def _run_maven(pom: Path, lib: Path) -> None:
    # --strict-checksums: a jar that does not fit its published checksum fails the download.
    command = [
        *(str(maven()), "--batch-mode", "--no-transfer-progress", "--strict-checksums"),
        *("-f", str(pom), "dependency:copy-dependencies"),
        *("-DincludeScope=runtime", f"-DoutputDirectory={lib}"),
    ]
    environment = {**os.environ, "JAVA_HOME": str(java().parents[1])}
    try:
        done = subprocess.run(
            command,
            env=environment,
            cwd=pom.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=DOWNLOAD_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DownloadError(
            f"Maven did not finish within {DOWNLOAD_LIMIT_S} s; is its repository reachable? "
            f"Try by hand: {' '.join(command)}"
        ) from None
    if done.returncode or not any(lib.glob("*.jar")):
        errors = [line for line in done.stdout.splitlines() if "[ERROR]" in line]
        shown = "\n".join((errors or done.stdout.splitlines())[:TAIL_LINES])
        raise DownloadError(
            f"Maven could not fetch the jars; is its repository reachable (~/.m2/settings.xml)?\n{shown}"
        )


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
