"""Where a lake is, and where applications wait that are on their way into it."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from lineage_core.environment.shown_address import shown_address
from lineage_core.recipe.names import DELTA_LOG
from lineage_store.errors import StoreError, StoreUnavailableError

LAKE_PREFIX = "lake:"
STAGING_VARIABLE = "LINEAGE_LAKE_STAGING"
DATABASE = "lineage.db"
REMOTE_SCHEMES = frozenset(
    ["abfs", "abfss", "adl", "az", "azure", "gs", "hdfs", "s3", "s3a", "viewfs"]
)
"""Of the storages whose commits the table format decides between writers; logins are in the environment.

It opens others, too, such as ``gcs://`` by another library with other logins: there, nobody has tried what a lake needs.
"""
CONTAINER_FIRST = frozenset(["abfs", "abfss"])
"""Of Azure's storage: CONTAINER@ACCOUNT."""
SAME_STORAGE = {"gcs": "gs", "s3n": "s3"}
"""How others call a storage that a lake may be on."""


@dataclass(frozen=True, slots=True)
class LakeAddress:
    """The folder of a lake: ``location`` is an absolute path, or the URL of a folder elsewhere."""

    location: str

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine."""
        return self.location.startswith("/")

    @property
    def has_folder(self) -> bool:
        """Whether it is a folder, and not all of a bucket, container or file system."""
        return self.is_local or bool(self.location.partition("://")[2].partition("/")[2])

    def __str__(self) -> str:
        return f"{LAKE_PREFIX}{self.location}"


def is_lake(url: str) -> bool:
    """Whether the text is the address of a lake."""
    return url.startswith(LAKE_PREFIX)


def read_lake_address(url: str) -> LakeAddress:
    """The lake that ``lake:/PATH``, ``lake:PATH`` or ``lake:s3://BUCKET/FOLDER`` names.

    Raises:
        StoreError: it names none.
    """
    rest = url.removeprefix(LAKE_PREFIX)
    if f",{LAKE_PREFIX}" in rest:
        raise StoreError(
            f"store {shown_address(url)!r} is not known; a lake stands behind one database, and not behind a lake"
        )
    if rest.startswith("//") and not rest.startswith("///"):
        raise StoreError(
            f"store {shown_address(url)!r} is not known; a folder is lake:/PATH, without a host"
        )
    scheme, colon, path = rest.partition("://")
    if colon and (scheme in REMOTE_SCHEMES or scheme in SAME_STORAGE):
        _check_remote(scheme, path)
    if colon and scheme in REMOTE_SCHEMES and path.strip("/"):
        return LakeAddress(rest.rstrip("/"))
    if colon and scheme in REMOTE_SCHEMES:
        raise StoreError(
            f"store {shown_address(url)!r} names no folder; give lake:{scheme}://BUCKET/FOLDER"
        )
    if colon and scheme in SAME_STORAGE:
        raise StoreError(
            f"store {shown_address(url)!r} is not known; give lake:{SAME_STORAGE[scheme]}://{path}"
        )
    if colon and scheme != "file":
        raise StoreError(
            f"store {shown_address(url)!r} is not known; give lake:PATH or lake:s3://BUCKET/FOLDER, or one of "
            + ", ".join(sorted(REMOTE_SCHEMES))
        )
    local = path if colon else rest
    if not local.strip("/"):
        raise StoreError(f"store {shown_address(url)!r} names no folder; give lake:PATH")
    return LakeAddress(
        str(
            Path("/" + local.lstrip("/") if local.startswith("//") else local)
            .expanduser()
            .absolute()
        )
    )


def _check_remote(scheme: str, path: str) -> None:
    """Refuse what the table format leaves out of a URL: the lake would be elsewhere than its address says.

    Raises:
        StoreError: there is such. It does not repeat the address, which may have a login.
    """
    named, at, host = path.partition("/")[0].rpartition("@")
    _, colon, port = host.rpartition("]")[2].partition(":")
    # Of Azure's storage the container stands before its account. A password may have a slash in it.
    if (at and (scheme not in CONTAINER_FIRST or ":" in named)) or (colon and not port.isdecimal()):
        raise StoreError(
            f"a store lake:{scheme}://... has a login in its address, which is not read there; logins come from the environment"
        )
    if "?" in path or "#" in path:
        raise StoreError(
            f"a store lake:{scheme}://... has '?' or '#' in its address: what follows is no part of a folder's name; "
            "leave it out, logins come from the environment"
        )


def log_folder(address: LakeAddress) -> tuple[int, int] | None:
    """Device and number of the folder with the log of a lake; None if it is not there, or the lake is elsewhere.

    Raises:
        StoreUnavailableError: the system does not tell.
    """
    if not address.is_local:
        return None
    try:
        status = os.stat(f"{address.location}/{DELTA_LOG}")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(f"can't read the lake {address.location}: {error}") from error
    return status.st_dev, status.st_ino


def staging_folder(address: LakeAddress) -> Path:
    """The folder of this machine where applications wait until they have ended, with the spool.

    It is named by ``LINEAGE_LAKE_STAGING``, or lies beside a lake of this machine, or else below ``.lineage``.
    """
    configured = os.environ.get(STAGING_VARIABLE, "")
    if configured:
        return Path(configured).expanduser().absolute()
    if address.is_local:
        return Path(f"{address.location}.staging")
    digest = hashlib.blake2b(address.location.encode(), digest_size=6).hexdigest()
    return Path(".lineage").absolute() / f"lake-{digest}"


def staging_file(url: str) -> Path:
    """The database of an embedded store where applications wait on their way into the lake.

    Raises:
        StoreError: the text names no lake.
    """
    return staging_folder(read_lake_address(url)) / DATABASE
