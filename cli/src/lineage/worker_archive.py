"""The archive of packages for Spark's Python workers."""

from __future__ import annotations

import gzip
import platform
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from lineage_core.errors import LineageError

PACKAGES = (
    "lineage",
    "lineage_core",
    "lineage_dataframes",
    "lineage_emitter",
    "lineage_kafka",
    "lineage_openlineage",
    "lineage_query",
    "lineage_store",
)
"""Of ours: those that tasks load, and those that a module of the job may import on a worker."""
REQUIRED = (
    "annotated-types",
    "pydantic",
    "pydantic-core",
    "pydantic-settings",
    "python-dotenv",
    *(("tomli",) if sys.version_info < (3, 11) else ()),
    "typing-extensions",
    "typing-inspection",
    "xxhash",
)
"""Distributions that they need; a test holds the list to what these distributions require in turn."""
LARGE = ("numpy", "pyarrow")
"""Distributions that they need and that most clusters have."""
OPTIONAL = ("confluent-kafka",)
"""Distributions that are packed with the large ones where they are installed: tasks send to Kafka by them."""
SUFFIX = ".tar.gz"


def default_name() -> str:
    """What an archive is called that fits this Python on this platform."""
    python = f"py{sys.version_info[0]}{sys.version_info[1]}"
    return f"lineage-workers-{python}-{platform.system().lower()}-{platform.machine()}{SUFFIX}"


def write_archive(archive: Path, *, full: bool) -> int:
    """Write the archive; ``full``: with the large distributions and the optional ones.

    Returns:
        Its size in bytes.

    Raises:
        LineageError: it has another suffix, or what is to be packed is not installed.
    """
    if not archive.name.endswith(SUFFIX):
        raise LineageError(
            f"{archive}: the name must end in {SUFFIX}, by which Spark knows how to unpack it"
        )
    files = dict(_files_of_packages())
    for name in (*REQUIRED, *LARGE) if full else REQUIRED:
        files.update(_files_of(_installed(name)))
    for name in OPTIONAL if full else ():
        try:
            files.update(_files_of(distribution(name)))
        except PackageNotFoundError:
            continue
    return _write(archive, files)


def _write(archive: Path, files: dict[str, Path]) -> int:
    """Write files by their names in the archive; the same files give the same bytes.

    Returns:
        The archive's size in bytes.
    """
    unfinished = archive.with_name(f"{archive.name}.part")
    try:
        with (
            unfinished.open("wb") as raw,
            gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as tar,
        ):
            for name in sorted(files):
                # Contents, not links: what a link of this machine leads to is not on the workers.
                path = files[name].resolve()
                tar.add(path, name, recursive=False, filter=_without_owner)
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)
    return archive.stat().st_size


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


def _files_of_packages() -> Iterator[tuple[str, Path]]:
    """Files of our packages, by their names in the archive."""
    for package in PACKAGES:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise LineageError(f"the package {package} is not installed: reinstall the wheel")
        for home in map(Path, spec.submodule_search_locations):
            for path in home.rglob("*"):
                if path.is_file() and "__pycache__" not in path.parts:
                    yield f"{package}/{path.relative_to(home).as_posix()}", path


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise LineageError(f"{name} is not installed: reinstall the wheel") from None


def _files_of(installed: Distribution) -> Iterator[tuple[str, Path]]:
    """Files of a distribution that can be imported, by their names in the archive."""
    if not installed.files:
        raise LineageError(
            f"{installed.name} does not list its files, as packages of an operating system do not: "
            "install it by pip, in an environment of its own"
        )
    for file in installed.files:
        # What lies beside the packages, such as commands, is not imported.
        if file.is_absolute() or {"..", "__pycache__"} & set(file.parts):
            continue
        path = Path(str(file.locate()))
        if path.is_file():
            yield file.as_posix(), path
