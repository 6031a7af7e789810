"""Addresses of two stores that are queried as one: ``HOT,lake:COLD``."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_core.environment.shown_address import shown_address
from lineage_store.errors import StoreError
from lineage_store.lake.address import LAKE_PREFIX, is_lake

SEPARATOR = f",{LAKE_PREFIX}"


@dataclass(frozen=True, slots=True)
class TierAddresses:
    """``hot``: the database that is written; ``cold``: the lake that applications are archived to."""

    hot: str
    cold: str

    def __str__(self) -> str:
        return f"{self.hot},{self.cold}"


def read_tiers(url: str) -> TierAddresses | None:
    """The two stores that ``HOT,lake:COLD`` names; None where the text names one store.

    Raises:
        StoreError: the first is no database.
    """
    hot, separator, cold = url.rpartition(SEPARATOR)
    if not separator:
        return None
    if is_lake(hot) or not hot or read_tiers(hot) is not None:
        raise StoreError(
            f"store {shown_address(url)!r} is not known; a lake stands behind one database: give sqlite:///PATH,lake:PATH or neo4j://HOST:PORT,lake:PATH"
        )
    return TierAddresses(hot, f"{LAKE_PREFIX}{cold}")


def hot_part(url: str) -> str:
    """The store that is written: the database of two stores that are queried as one, else the store itself.

    Raises:
        StoreError: a lake stands behind something else than a database.
    """
    tiers = read_tiers(url)
    return url if tiers is None else tiers.hot
