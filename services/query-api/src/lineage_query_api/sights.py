"""What a caller sees of an application: its datasets by name, their rows, and the columns of these."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import unquote

from lineage_core.errors import LineageError
from lineage_core.graph import NOTED
from lineage_core.message import (
    Message,
    RecordFiles,
    RecordSplits,
    Register,
    SinkFiles,
    Splits,
)
from lineage_core.message import Recipe as RecipeMessage
from lineage_core.recipe import JDBC, Recipe, Source
from lineage_query_api.grants import DatasetRules, Mask, fits
from lineage_store.paths import Spellings, plain_path, split_scheme

ABOUT_DATASETS = (
    "register",
    "splits",
    "record_splits",
    "sink_files",
    "record_files",
    "recipe",
)
"""Types of the messages that name datasets."""
CORRUPT = "columnnameofcorruptrecord"
"""Option of readers: the column that holds what could not be read, whole."""
_PLAIN_ID = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")
BY_NAME = frozenset({"parquet", "orc", "json", "delta", "iceberg"})
"""Formats that say themselves what their columns are called."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What is shown of a dataset: whether it is known, whether its rows are, and which columns of these are masked."""

    known: bool = True
    rows: bool = True
    masked: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing of it is hidden."""
        return self.known and self.rows and not self.masked

    def __and__(self, other: Shown) -> Shown:
        masked = tuple(dict.fromkeys((*self.masked, *other.masked)))
        return Shown(self.known and other.known, self.rows and other.rows, masked)


HIDDEN = Shown(known=False, rows=False)
WITHHELD = Shown(rows=False)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a caller may see of an application of some names.

    ``known`` and ``read``: patterns of datasets for each name of the application; a dataset must fit those of all.
    """

    known: tuple[frozenset[str], ...]
    read: tuple[frozenset[str], ...]
    hidden: frozenset[str]
    masks: tuple[Mask, ...]

    @classmethod
    def of(cls, rules: DatasetRules, names: Iterable[str]) -> Sight:
        """What rules say of an application of some names."""
        per_name = [
            [one for one in rules.grants if fits(name, one.applications)] for name in sorted(names)
        ]
        known = tuple(frozenset().union(*(one.datasets for one in own)) for own in per_name)
        read = tuple(frozenset().union(*(one.read for one in own)) for own in per_name)
        return cls(known, read, rules.hidden, rules.masks)

    def shown(self, names: Iterable[str], links: Spellings | None = None) -> Shown:
        """What is shown of a dataset that goes by some names. ``links``: which were followed just now."""
        links = links or Spellings()
        spelled = frozenset(one for name in names for one in spellings(name, links))
        if _any_fits(spelled, self.hidden) or not self._are_in(spelled, self.known):
            return HIDDEN
        masked = tuple(
            dict.fromkeys(
                column
                for mask in self.masks
                if _any_fits(spelled, mask.datasets)
                for column in mask.columns
            )
        )
        if any(_has_folder_of(name, masked) for name in spelled):
            # The path tells a value.
            return HIDDEN
        return Shown(rows=self._are_in(spelled, self.read), masked=masked)

    @staticmethod
    def _are_in(spelled: frozenset[str], patterns: Sequence[frozenset[str]]) -> bool:
        return bool(patterns) and all(_any_fits(spelled, some) for some in patterns)


def spellings(name: str, links: Spellings) -> frozenset[str]:
    """All ways in which patterns may name a file, a folder or a table."""
    scheme, rest = split_scheme(name)
    found = {name, plain_path(name), unquote(plain_path(name))}
    if scheme != "file" or rest.startswith("/"):
        found.add(links.of(name))
    if scheme == "file" and "/" in rest:
        found |= {posixpath.normpath(one) for one in tuple(found) if one}
    return frozenset(one for one in found if one)


def is_named(column: str, masked: Iterable[str]) -> bool:
    """Whether a column is among some, as Spark compares names; of a nested one all of the column is."""
    folded = column.casefold()
    return any(
        one.casefold() == folded or one.casefold().startswith(folded + ".") for one in masked
    )


@dataclass(frozen=True)
class Look:
    """What a caller sees of an application, as far as its messages name datasets.

    ``nodes``: by node that has a dataset. ``files``: by canonical path. ``sources``: how DataFrames read those of a
    ``frame-source``. ``kinds``: of all nodes. ``unclear``: some dataset of it can't be told. ``final``: no more of
    it is on its way. ``of_databases``: it read tables of databases.
    """

    sight: Sight
    nodes: dict[str, Shown]
    files: dict[str, Shown]
    sources: dict[str, tuple[Source, ...]]
    kinds: dict[str, str]
    unclear: bool
    final: bool
    of_databases: bool
    others: tuple[Shown, ...] = field(default=())
    """Of datasets that no node has."""

    @property
    def whole(self) -> bool:
        """Whether nothing of the application is hidden."""
        return self.final and not self.unclear and all(one.whole for one in self._all())

    @property
    def hides(self) -> bool:
        """Whether a dataset of it is hidden, or may be."""
        return self.unclear or not self.final or not all(one.known for one in self._all())

    @property
    def masked(self) -> tuple[str, ...]:
        """The columns that are masked in some dataset of it."""
        return tuple(dict.fromkeys(column for one in self._all() for column in one.masked))

    @property
    def of_records(self) -> bool:
        """Whether all of its rows are records of RDDs."""
        return not NOTED & set(self.kinds.values())

    @property
    def of_frames(self) -> bool:
        """Whether all of its rows are those of DataFrames."""
        return set(self.kinds.values()) <= NOTED | {"unknown"}

    @property
    def traceable(self) -> bool:
        """Whether traces of it can be shown without what is hidden."""
        if self.of_records:
            return not self.unclear
        # Names of rows of databases are values of theirs.
        return self.of_frames and not self.hides and not self.of_databases

    @property
    def ids_are_plain(self) -> bool:
        """Whether the nodes' ids are numbers: names that a program gives may tell of what is hidden."""
        return all(_PLAIN_ID.fullmatch(one) for one in self.kinds)

    def of_node(self, node: str) -> Shown:
        """What is shown of a node; of one that is not known nothing."""
        if node in self.nodes:
            return self.nodes[node]
        return Shown() if node in self.kinds else HIDDEN

    def of_file(self, path: str) -> Shown:
        """What is shown of a file, by its canonical path."""
        found = self.files.get(path)
        if found is None:
            # It is of no node: a log of a table, say.
            found = self.sight.shown([path])
            return HIDDEN if self.hides or not found.known else WITHHELD
        return found

    def _all(self) -> Iterable[Shown]:
        return (*self.nodes.values(), *self.files.values(), *self.others)


def look_at(messages: Iterable[Message], sight: Sight, *, final: bool) -> Look:
    """What is seen of an application whose messages of :data:`ABOUT_DATASETS` are given."""
    told = list(messages)
    names: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    recipes: list[Recipe] = []
    unclear = False
    for message in told:
        if isinstance(message, Register):
            kinds[message.node] = message.kind
            names.setdefault(message.node, []).extend(filter(None, [message.path]))
        elif isinstance(message, Splits | RecordSplits):
            files.setdefault(message.node, []).extend(one.path for one in message.splits)
        elif isinstance(message, SinkFiles | RecordFiles):
            names.setdefault(message.node, []).append(message.path)
            files.setdefault(message.node, []).extend(one.path for one in message.files)
        elif isinstance(message, RecipeMessage):
            try:
                recipes.append(Recipe.from_json(message.recipe))
            except LineageError:
                unclear = True
    sources: dict[str, tuple[Source, ...]] = {}
    others: list[tuple[list[str], list[str]]] = []
    for source in (source for recipe in recipes for source in recipe.sources):
        own = [*source.paths, *filter(None, [source.table])]
        read = [one.path for one in source.files]
        others.append((own, read))
        unclear |= not own and not read
        for node, kind in kinds.items():
            if kind == "frame-source" and not set(own[:1] + own[-1:]).isdisjoint(
                names.get(node, ())
            ):
                names[node] += own
                files.setdefault(node, []).extend(read)
                sources[node] = (*sources.get(node, ()), source)
    for output in (recipe.output for recipe in recipes):
        given = [*filter(None, [output.path, output.table])]
        if given or output.files:
            others.append((given, [one.path for one in output.files]))
    links = Spellings()
    by_path: dict[str, Shown] = {}
    nodes: dict[str, Shown] = {}
    has = [node for node in {**names, **files} if names.get(node) or files.get(node)]
    for node in has:
        nodes[node] = _dataset(sight, names.get(node, ()), files.get(node, ()), links)
        for path in files.get(node, ()):
            spelled = links.of(path)
            by_path[spelled] = by_path.get(spelled, nodes[node]) & nodes[node]
    for node in has:
        # Who reads a file that is hidden elsewhere does not show it either.
        for path in files.get(node, ()):
            nodes[node] &= by_path[links.of(path)]
    return Look(
        sight,
        nodes,
        by_path,
        sources,
        kinds,
        unclear,
        final,
        any(source.format == JDBC for recipe in recipes for source in recipe.sources),
        tuple(_dataset(sight, *one, links) for one in others),
    )


def _dataset(sight: Sight, names: Sequence[str], files: Sequence[str], links: Spellings) -> Shown:
    """A dataset as a whole, and each of its files by that name or its own."""
    distinct = list(dict.fromkeys(files))
    if not distinct:
        return sight.shown(names, links)
    found = sight.shown([*names, distinct[0]], links)
    for path in distinct[1:]:
        found &= sight.shown([*names, path], links)
    return found


def _any_fits(names: Iterable[str], patterns: frozenset[str]) -> bool:
    """Whether a name, or a folder that it lies in, is among some patterns."""
    return any(
        fnmatchcase(name, pattern) or fnmatchcase(name, pattern.rstrip("/") + "/*")
        for name in names
        for pattern in patterns
    )


def _has_folder_of(path: str, columns: Sequence[str]) -> bool:
    """Whether a folder in a path says the value of one of some columns."""
    parts = (part.partition("=") for part in path.split("/"))
    return any(mark and is_named(unquote(name), columns) for name, mark, _ in parts)
