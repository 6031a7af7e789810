"""Which store a text like ``sqlite:///.lineage/lineage.db`` means, and what lies beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_core.environment.shown_address import shown_address
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.lake.address import (
    LAKE_PREFIX,
    is_lake,
    read_lake_address,
    staging_file,
)
from lineage_store.tiers.address import TierAddresses, hot_part, read_tiers

if TYPE_CHECKING:
    from lineage_store.lake.store import LakeStore
    from lineage_store.port import ErasableStore
    from lineage_store.sqlite.store import SqliteStore
    from lineage_store.tiers.store import HotTier, TieredStore

DEFAULT_STORE = "sqlite:///.lineage/lineage.db"
SQLITE_PREFIX = "sqlite:///"
NEO4J_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
FORMS = (
    "sqlite:///PATH, lake:PATH, lake:s3://BUCKET/FOLDER or neo4j://HOST:PORT (neo4j+s:// for TLS), "
    "and a lake behind a database as STORE,lake:PATH"
)


def is_embedded(url: str) -> bool:
    """Whether a store is a file of this machine; of two that are queried as one, the first.

    Raises:
        StoreError: the text names no store.
    """
    url = hot_part(url)
    if url.startswith(SQLITE_PREFIX) and url != SQLITE_PREFIX:
        return True
    if is_lake(url):
        read_lake_address(url)
        return False
    scheme, _, rest = url.partition("://")
    if scheme in NEO4J_SCHEMES and rest:
        return False
    raise StoreError(f"store {shown_address(url)!r} is not known; give {FORMS}")


def store_path(url: str) -> Path:
    """The database file of an embedded store; of two that are queried as one, of the first.

    Raises:
        StoreError: the text names another kind of store.
    """
    if not is_embedded(url):
        raise StoreError(f"{shown_address(url)} is no file; for this, give sqlite:///PATH")
    return Path(hot_part(url).removeprefix(SQLITE_PREFIX)).expanduser().absolute()


def captured_into(url: str) -> str:
    """The embedded store that capture fills: the store itself, or of a lake the one where applications wait until they have ended.

    Raises:
        StoreError: nothing is captured into such a store without a server.
    """
    return f"{SQLITE_PREFIX}{staging_file(url) if is_lake(url) else store_path(url)}"


def has_store(url: str) -> bool:
    """Whether a store without a server is there.

    Raises:
        StoreError: the text names another kind of store.
    """
    if is_lake(url):
        from lineage_store.lake.table import is_lake_there

        return is_lake_there(read_lake_address(url))
    return store_path(url).exists()


def absolute_store(url: str) -> str:
    """A store by a name that means the same in every folder.

    Raises:
        StoreError: the text names no store.
    """
    tiers = read_tiers(url)
    if tiers is not None:
        return str(TierAddresses(absolute_store(tiers.hot), absolute_store(tiers.cold)))
    if is_lake(url):
        return str(read_lake_address(url))
    return f"{SQLITE_PREFIX}{store_path(url)}" if is_embedded(url) else url


def open_store(url: str, *, create: bool = False) -> ErasableStore:
    """Open an existing store, or with ``create`` a new one.

    A database of Neo4j is made a lineage store when it is first opened.

    Raises:
        StoreError: there is no store, or it can't be opened.
    """
    tiers = read_tiers(url)
    if tiers is not None:
        return open_tiers(tiers, create=create)
    return open_lake(url, create=create) if is_lake(url) else _open_database(url, create=create)


def open_tiers(tiers: TierAddresses, *, create: bool = False) -> TieredStore:
    """Open an existing database, or with ``create`` a new one, with the lake behind it, which is opened when it is needed.

    Raises:
        StoreError: there is no database, or it can't be opened.
    """
    from lineage_store.tiers.store import TieredStore

    hot = _open_database(tiers.hot, create=create)
    return TieredStore(hot, lambda: open_existing_lake(tiers), tiers)


def open_existing_lake(tiers: TierAddresses) -> LakeStore:
    """Open the lake behind a database.

    It is never made here: a lake whose disk is not mounted would seem to be empty.

    Raises:
        StoreUnavailableError: it is not there.
        StoreError: it can't be opened.
    """
    if not has_store(tiers.cold):
        raise StoreUnavailableError(
            f"there is no lake at {tiers.cold.removeprefix(LAKE_PREFIX)}, so what is archived is missing: is its disk mounted? "
            f"`lineage --store {shown_address(tiers.hot)} archive --older-than AGE --to {tiers.cold}` makes a new one"
        )
    return open_lake(tiers.cold)


def _open_database(url: str, *, create: bool) -> HotTier:
    if is_embedded(url):
        return open_embedded(url, create=create)
    # The driver takes a fifth of a second to import.
    from lineage_store.neo4j.connection import read_address
    from lineage_store.neo4j.store import Neo4jStore

    return Neo4jStore(read_address(url))


def open_lake(url: str, *, create: bool = False) -> LakeStore:
    """Open an existing lake, or with ``create`` a new one.

    Raises:
        StoreError: there is no lake, it can't be opened, or the text names another kind of store.
    """
    # The table format takes a tenth of a second to import.
    from lineage_store.lake.store import LakeStore

    if not is_lake(url):
        raise StoreError(
            f"{shown_address(url)} is no lake; for this, give lake:PATH or lake:s3://BUCKET/FOLDER"
        )
    return LakeStore(read_lake_address(url), create=create)


def open_embedded(url: str, *, create: bool = False) -> SqliteStore:
    """Open an existing embedded store, or with ``create`` a new one.

    Raises:
        StoreError: there is no store, it can't be opened, or the text names another kind of store.
    """
    from lineage_store.sqlite.store import SqliteStore

    path = store_path(url)
    if not create and not path.exists():
        raise StoreError(
            f"there is no lineage store at {path}; make one with `lineage run JOB`, "
            "or name yours by --store or LINEAGE_STORE"
        )
    return SqliteStore(path)


def spool_folder(url: str) -> Path:
    """Where blocks wait that are on their way into the store."""
    if is_lake(url):
        url = captured_into(url)
    elif not is_embedded(url):
        url = DEFAULT_STORE
    return store_path(url).parent / "spool"


def spool_of(url: str, spool: str = "") -> Path:
    """The spool that is named, or else the one beside the store."""
    named = spool or os.environ.get("LINEAGE_SPOOL", "")
    return Path(named.removeprefix("file://")) if named else spool_folder(url)


def rows_folder(url: str) -> Path:
    """The folder for rows of RDDs from which DataFrames are made."""
    return spool_folder(url).parent / "rows"


def index_folder(url: str) -> Path:
    """The folder for indexes of text files: beside an embedded store, else in the user's cache."""
    if is_embedded(url):
        return store_path(url).parent / "index"
    return cache_folder() / "index"


def cache_folder() -> Path:
    """The folder of this user for data that can be computed again."""
    configured = os.environ.get("LINEAGE_CACHE", "")
    if configured:
        return Path(configured).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lineage"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", str(Path.home()))) / "lineage" / "Cache"
    return Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache") / "lineage"
