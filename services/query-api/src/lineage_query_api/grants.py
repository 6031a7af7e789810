"""Grants: which applications and datasets a caller may see, and of which of these they may read rows and columns."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, model_validator

from lineage_query_api.auth import Principal
from lineage_query_api.reloaded_files import ReloadedFile, read_toml

SETTING = "LINEAGE_API_GRANTS"
ALL_PATTERNS = frozenset({"*"})
CallerPattern = Annotated[str, Field(pattern=r"^(\*|(token|sub|role):.{1,500})$")]
Pattern = Annotated[str, Field(min_length=1, max_length=500)]
Patterns = Annotated[tuple[Pattern, ...], Field(min_length=1)]
_ALL = ("*",)


class _Grant(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    callers: Annotated[tuple[CallerPattern, ...], Field(min_length=1)]
    applications: Patterns
    datasets: Patterns = _ALL
    rows: StrictBool = False
    row_datasets: Patterns | None = None

    @model_validator(mode="after")
    def _has_rows(self) -> _Grant:
        if self.row_datasets is not None and not self.rows:
            raise ValueError("row_datasets goes with rows = true")
        return self


class _Rule(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    callers: Annotated[tuple[CallerPattern, ...], Field(min_length=1)] = _ALL
    unless: tuple[CallerPattern, ...] = ()
    datasets: Patterns

    def holds_for(self, identities: frozenset[str]) -> bool:
        """Whether the rule applies to a caller with the given identities."""
        return bool(identities & set(self.callers)) and not identities & set(self.unless)


class _Hide(_Rule):
    pass


class _Mask(_Rule):
    columns: Patterns


class _Grants(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    grant: tuple[_Grant, ...] = ()
    hide: tuple[_Hide, ...] = ()
    mask: tuple[_Mask, ...] = ()


@dataclass(frozen=True, slots=True)
class Mask:
    """Columns of datasets whose values are not shown."""

    datasets: frozenset[str]
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DatasetGrant:
    """Datasets that a caller may see of some applications, and those of them whose rows they may read."""

    applications: frozenset[str]
    datasets: frozenset[str]
    read: frozenset[str]


@dataclass(frozen=True, slots=True)
class DatasetRules:
    """What a caller may see of the applications that they are granted."""

    grants: tuple[DatasetGrant, ...]
    hidden: frozenset[str]
    masks: tuple[Mask, ...]


@dataclass(frozen=True, slots=True)
class Granted:
    """Patterns of the names of applications that a caller may trace, and whose rows they may read.

    ``rules``: what of these they may see; None: all of it.
    """

    traced: frozenset[str]
    read: frozenset[str]
    rules: DatasetRules | None = None


class Grants:
    """What callers are granted by a file.

    Raises:
        SettingsError: the file can't be read or used.
    """

    def __init__(self, path: Path) -> None:
        self._file = ReloadedFile(SETTING, path, read_grants)

    def of(self, caller: Principal) -> Granted:
        """The grants of a caller; one that the file does not name has none.

        Raises:
            SettingsError: the file can't be read or used any more.
        """
        identities = caller.identities | {"*"}
        grants = self._file.get()
        own = [grant for grant in grants.grant if identities & set(grant.callers)]
        traced = frozenset(pattern for grant in own for pattern in grant.applications)
        read = frozenset(pattern for grant in own if grant.rows for pattern in grant.applications)
        return Granted(_normalized(traced), _normalized(read), _rules(grants, own, identities))


def matches_any(name: str, patterns: frozenset[str]) -> bool:
    """Whether the name of an application is among some patterns, as a shell has them."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def read_grants(path: Path) -> _Grants:
    """The grants of a file.

    Raises:
        SettingsError: the file can't be read or used.
    """
    return read_toml(SETTING, path, _Grants)


def _rules(grants: _Grants, own: list[_Grant], identities: frozenset[str]) -> DatasetRules | None:
    hidden = [grant for grant in grants.hide if grant.holds_for(identities)]
    masks = [grant for grant in grants.mask if grant.holds_for(identities)]
    narrow = any(
        not {"*"} & set(patterns)
        for grant in own
        for patterns in (grant.datasets, _ALL if grant.row_datasets is None else grant.row_datasets)
    )
    if not (hidden or masks or narrow):
        return None
    return DatasetRules(
        tuple(_dataset_grant(grant) for grant in own),
        frozenset(pattern for grant in hidden for pattern in grant.datasets),
        tuple(Mask(frozenset(grant.datasets), grant.columns) for grant in masks),
    )


def _dataset_grant(grant: _Grant) -> DatasetGrant:
    datasets = frozenset(grant.datasets)
    read = frozenset(grant.datasets if grant.row_datasets is None else grant.row_datasets)
    return DatasetGrant(
        frozenset(grant.applications), datasets, read if grant.rows else frozenset()
    )


def _normalized(patterns: frozenset[str]) -> frozenset[str]:
    return ALL_PATTERNS if patterns & ALL_PATTERNS else patterns
