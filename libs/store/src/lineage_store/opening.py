"""Which store a text like ``sqlite:///.lineage/lineage.db`` means, and what lies beside it."""

from __future__ import annotations

from pathlib import Path

from lineage_store.errors import StoreError
from lineage_store.sqlite import SqliteStore

DEFAULT_STORE = "sqlite:///.lineage/lineage.db"
SQLITE_PREFIX = "sqlite:///"


def store_path(url: str) -> Path:
    """The database file of an embedded store.

    Raises:
        StoreError: the text names another kind of store.
    """
    if not url.startswith(SQLITE_PREFIX) or url == SQLITE_PREFIX:
        raise StoreError(f"store {url!r} is not known; give sqlite:///PATH")
    return Path(url.removeprefix(SQLITE_PREFIX)).expanduser().absolute()


def open_store(url: str, *, create: bool = False) -> SqliteStore:
    """Open a store that is there, or with ``create`` a new one.

    Raises:
        StoreError: there is none, or it can't be opened.
    """
    path = store_path(url)
    if not create and not path.exists():
        raise StoreError(
            f"there is no lineage store at {path}; make one with `lineage run JOB`, "
            "or name yours by --store or LINEAGE_STORE"
        )
    return SqliteStore(path)


def spool_folder(url: str) -> Path:
    """Where blocks wait that are on their way into the store."""
    return store_path(url).parent / "spool"


def index_folder(url: str) -> Path:
    """Where indexes of text files are kept."""
    return store_path(url).parent / "index"
