"""Grants: which applications a caller may trace, and of which of these they may read the text of rows."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from lineage_query_api.auth import Principal
from lineage_query_api.rereading import Reread, read_toml

SETTING = "LINEAGE_API_GRANTS"
EVERYTHING = frozenset({"*"})
Caller = Annotated[str, Field(pattern=r"^(\*|(token|sub|role):.{1,500})$")]
Pattern = Annotated[str, Field(min_length=1, max_length=500)]


class _Grant(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    callers: Annotated[tuple[Caller, ...], Field(min_length=1)]
    applications: Annotated[tuple[Pattern, ...], Field(min_length=1)]
    rows: StrictBool = False


class _Grants(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    grant: tuple[_Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Granted:
    """Patterns of the names of applications that a caller may trace, and whose rows they may read."""

    traced: frozenset[str]
    read: frozenset[str]


class Grants:
    """What callers are granted by a file.

    Raises:
        SettingsError: the file can't be read or used.
    """

    def __init__(self, path: Path) -> None:
        self._file = Reread(SETTING, path, read_grants)

    def of(self, caller: Principal) -> Granted:
        """What a caller is granted; who is not named in the file is granted nothing.

        Raises:
            SettingsError: the file can't be read or used any more.
        """
        known = caller.identities | {"*"}
        own = [grant for grant in self._file.get() if known & set(grant.callers)]
        traced = frozenset(one for grant in own for one in grant.applications)
        read = frozenset(one for grant in own if grant.rows for one in grant.applications)
        return Granted(_simple(traced), _simple(read))


def fits(name: str, patterns: frozenset[str]) -> bool:
    """Whether the name of an application is among some patterns, as a shell has them."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def read_grants(path: Path) -> tuple[_Grant, ...]:
    """The grants of a file.

    Raises:
        SettingsError: the file can't be read or used.
    """
    return read_toml(SETTING, path, _Grants).grant


def _simple(patterns: frozenset[str]) -> frozenset[str]:
    return EVERYTHING if patterns & EVERYTHING else patterns
