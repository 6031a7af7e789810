"""What a caller sees of an application: its datasets by name, their rows, and the columns of these."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, partial
from itertools import chain
from urllib.parse import unquote

from lineage_core.contract.graph import RECIPE_NODE_KINDS
from lineage_core.contract.message import (
    Message,
    RecordFiles,
    RecordSplits,
    Register,
    SinkFiles,
    Splits,
)
from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.errors import LineageError
from lineage_core.recipe.document import Output, Recipe, Source
from lineage_core.recipe.names import JDBC, TABLE_NAME
from lineage_core.tracing.budget import current_budget
from lineage_query_api.column_names import CORRUPT, has_names
from lineage_query_api.copied_columns import copied_columns
from lineage_query_api.grants import DatasetRules, Mask, matches_any
from lineage_store.dataset_paths import unfiled_dataset
from lineage_store.paths import REMOTE_SCHEMES, RowsError, Spellings, plain_path, split_scheme

ABOUT_DATASETS = (
    "register",
    "splits",
    "record_splits",
    "sink_files",
    "record_files",
    "recipe",
)
"""Types of the messages that name datasets."""
CORRUPT_SETTING = "spark.sql.columnNameOfCorruptRecord"
"""The setting with that column's name if the option is not set."""
CORRUPT_NAME = "_corrupt_record"
"""The default name of that column."""
_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfss": "abfs", "wasbs": "wasb"}
"""Canonical schemes of stores with several."""
_SESSION_CATALOG = "spark_catalog."
_QUOTES = re.compile(r'[`"\[\]]')
_PATH_AS_TABLE = re.compile(r"\w+\.`([^`]+)`")
"""A path used as a table's name."""
_PATTERN_SIGN = re.compile(r"[*?\[]")
_SEVERAL = re.compile(r"[*?\[{,]")
"""Characters in a program's path that may refer to several datasets."""
_PLAIN_ID = re.compile(rf"[0-9]{{1,9}}(\.[0-9]{{1,9}})?(:{QUARANTINE})?")
PARTS_MAX = 64
"""Maximum number of parts of a table's name: each end of it may be the name in a rule."""


@dataclass(frozen=True, slots=True)
class DatasetVisibility:
    """What a caller sees of a dataset: whether it is visible, whether its rows are, and which columns are masked."""

    visible: bool = True
    rows: bool = True
    masked: tuple[str, ...] = ()

    @property
    def is_fully_visible(self) -> bool:
        """Whether no part of it is hidden."""
        return self.visible and self.rows and not self.masked

    def __and__(self, other: DatasetVisibility) -> DatasetVisibility:
        masked = tuple(dict.fromkeys((*self.masked, *other.masked)))
        return DatasetVisibility(self.visible and other.visible, self.rows and other.rows, masked)


HIDDEN = DatasetVisibility(visible=False, rows=False)
WITHHELD = DatasetVisibility(rows=False)


@dataclass(frozen=True, slots=True)
class Visibility:
    """What a caller may see of an application of some names.

    ``visible`` and ``read``: patterns of datasets for each name of the application; a dataset must fit those of all.
    """

    visible: tuple[frozenset[str], ...]
    read: tuple[frozenset[str], ...]
    hidden: frozenset[str]
    masks: tuple[Mask, ...]

    @classmethod
    def of(cls, rules: DatasetRules, names: Iterable[str]) -> Visibility:
        """The rules for an application with the given names."""
        per_name = [
            [grant for grant in rules.grants if matches_any(name, grant.applications)]
            for name in sorted(names)
        ]
        visible = tuple(frozenset().union(*(grant.datasets for grant in own)) for own in per_name)
        read = tuple(frozenset().union(*(grant.read for grant in own)) for own in per_name)
        return cls(visible, read, rules.hidden, rules.masks)

    def shown(
        self, names: Iterable[str], links: Spellings | None = None, among: Iterable[str] = ()
    ) -> DatasetVisibility:
        """The visibility of a dataset.

        Args:
            names: its names: one granted name suffices.
            links: the links already resolved for this query.
            among: names of datasets read or written together with it: they can hide it, but don't grant it.

        Raises:
            BudgetError: the query takes too long.
        """
        # The number of datasets and files of an application is not limited.
        current_budget().check()
        links = links or Spellings()
        own = [spellings(name, links) for name in names]
        spelled = frozenset[str]().union(*own, *(spellings(name, links) for name in among))
        if _any_denied(spelled, self.hidden, links) or not self._are_in(own, self.visible):
            return HIDDEN
        masked = tuple(
            dict.fromkeys(
                column
                for mask in self.masks
                if _any_denied(spelled, mask.datasets, links)
                for column in mask.columns
            )
        )
        if any(_has_folder_of(name, masked) for name in spelled):
            # The path reveals a value.
            return HIDDEN
        return DatasetVisibility(rows=self._are_in(own, self.read), masked=masked)

    @staticmethod
    def _are_in(own: Sequence[frozenset[str]], patterns: Sequence[frozenset[str]]) -> bool:
        granting = frozenset(name for some in own for name in some if not _leads_up(name))
        return bool(patterns) and all(_any_fits(granting, some) for some in patterns)


def spellings(name: str, links: Spellings) -> frozenset[str]:
    """All ways in which patterns may name a file, a folder or a table."""
    of_path = _PATH_AS_TABLE.fullmatch(name)
    path = name if of_path is None else of_path[1]
    scheme, rest = split_scheme(path)
    names = {name, plain_path(path), unquote(plain_path(path))}
    if scheme != "file" or rest.startswith("/"):
        names.add(links.of(path))
    if scheme == "file" and "/" in rest:
        names |= {posixpath.normpath(spelling) for spelling in tuple(names) if spelling}
    names.add(name.removeprefix(_SESSION_CATALOG))
    unfiled = unfiled_dataset(name)
    if unfiled is not None:
        names.add(f"{unfiled.address}/{'.'.join(unfiled.parts)}")
    return frozenset(spelling for spelling in names if spelling)


def is_named(column: str, masked: Iterable[str]) -> bool:
    """Whether a column matches one of some, as Spark compares names or as a shell pattern; a nested one counts as a whole."""
    folded = column.casefold()
    return any(
        pattern == folded or pattern.startswith(folded + ".") or fnmatchcase(folded, pattern)
        for pattern in map(str.casefold, masked)
    )


@dataclass(frozen=True)
class VisibleApplication:
    """What a caller sees of an application, as far as its messages name datasets.

    ``nodes``: by node that has a dataset. ``files``: by canonical path. ``sources``: how DataFrames read those of a
    ``frame-source``. ``kinds``: of all nodes. ``unclear``: some of its datasets can't be identified. ``final``: no more
    messages of it will arrive. ``of_databases``: it read tables of databases. ``copies``: the columns of outputs of DataFrames
    that its plans compute from masked ones.
    """

    visibility: Visibility
    nodes: dict[str, DatasetVisibility]
    files: dict[str, DatasetVisibility]
    sources: dict[str, tuple[Source, ...]]
    kinds: dict[str, str]
    unclear: bool
    final: bool
    of_databases: bool
    others: tuple[DatasetVisibility, ...] = field(default=())
    """Of datasets that no node has."""
    folders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of datasets, by canonical path of the folder or file that one of them names."""
    copies: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def is_fully_visible(self) -> bool:
        """Whether no part of the application is hidden."""
        return (
            self.final and not self.unclear and all(shown.is_fully_visible for shown in self._all())
        )

    @property
    def names(self) -> int:
        """How many nodes, files and folders it names."""
        return 1 + len(self.kinds) + len(self.files) + len(self.folders)

    @property
    def hides(self) -> bool:
        """Whether a dataset of it is hidden, or may be."""
        return self.unclear or not self.final or not all(shown.visible for shown in self._all())

    @property
    def masked(self) -> tuple[str, ...]:
        """The columns that are masked in some dataset of it."""
        return tuple(dict.fromkeys(column for shown in self._all() for column in shown.masked))

    @property
    def of_records(self) -> bool:
        """Whether all of its rows are records of RDDs."""
        return not RECIPE_NODE_KINDS & set(self.kinds.values())

    @property
    def of_frames(self) -> bool:
        """Whether all its rows are rows of DataFrames."""
        return set(self.kinds.values()) <= RECIPE_NODE_KINDS | {"unknown"}

    @property
    def traceable(self) -> bool:
        """Whether traces of it can be shown without the hidden parts."""
        if self.of_records:
            return not self.unclear
        # Names of rows of databases are values of theirs.
        return self.of_frames and not self.hides and not self.of_databases

    @property
    def ids_are_plain(self) -> bool:
        """Whether the nodes' ids are numbers: names chosen by a program may reveal what is hidden."""
        return all(_PLAIN_ID.fullmatch(node) for node in self.kinds)

    def of_node(self, node: str) -> DatasetVisibility:
        """The visibility of a node; an unknown node is hidden."""
        if node in self.nodes:
            return self.nodes[node]
        return DatasetVisibility() if node in self.kinds else HIDDEN

    def of_file(self, path: str) -> DatasetVisibility:
        """The visibility of a file, by its canonical path when it is read."""
        shown = self.files.get(path)
        if shown is not None:
            return shown
        # It belongs to no node: a log of a table, for example. Any other file was put in the place of one since.
        names = next((self.folders[above] for above in _above(path) if above in self.folders), None)
        if self.hides or names is None:
            return HIDDEN
        shown = self.visibility.shown([path, *names])
        if not shown.visible:
            return HIDDEN
        return shown if self.is_fully_visible else WITHHELD

    def _all(self) -> Iterable[DatasetVisibility]:
        return (*self.nodes.values(), *self.files.values(), *self.others)


def build_visible_application(
    messages: Iterable[Message], visibility: Visibility, *, final: bool
) -> VisibleApplication:
    """The visible part of an application, from its messages of :data:`ABOUT_DATASETS`.

    Raises:
        BudgetError: the query takes too long.
    """
    names: dict[str, list[str]] = {}
    files: dict[str, list[str]] = {}
    kinds: dict[str, str] = {}
    recipes: list[tuple[str, Recipe]] = []
    unclear = False
    for message in messages:
        if isinstance(message, Register):
            kinds[message.node] = message.kind
            names.setdefault(message.node, []).extend(filter(None, [message.path]))
        elif isinstance(message, Splits | RecordSplits):
            files.setdefault(message.node, []).extend(listed.path for listed in message.splits)
        elif isinstance(message, SinkFiles | RecordFiles):
            names.setdefault(message.node, []).append(message.path)
            files.setdefault(message.node, []).extend(listed.path for listed in message.files)
        elif isinstance(message, RecipeMessage):
            try:
                recipes.append((message.node, Recipe.from_json(message.recipe)))
            except LineageError:
                unclear = True
    nodes_by_name: dict[str, dict[str, None]] = {}
    for node, kind in kinds.items():
        for name in names.get(node, ()) if kind == "frame-source" else ():
            nodes_by_name.setdefault(name, {})[node] = None
    sources: dict[str, list[Source]] = {}
    datasets_of_recipes: dict[str, list[_Dataset]] = {}
    others: list[_Dataset] = []
    for writer, recipe in recipes:
        written = _Dataset.of_output(recipe.output)
        others.append(written)
        datasets_of_recipes.setdefault(writer, []).append(written)
        output = recipe.output
        as_source = Source(output.format or "", (), "", options=output.options)
        sources.setdefault(writer, []).append(_with_setting(as_source, recipe))
        for source in recipe.sources:
            dataset = _Dataset.of_source(source)
            others.append(dataset)
            unclear |= dataset.is_empty or _is_query(source)
            current_budget().check()
            called = (nodes_by_name.get(name or "", {}) for name in (source.name, source.table))
            for node in dict.fromkeys(chain.from_iterable(called)):
                # Very many sources may be called as very many nodes are.
                current_budget().check()
                datasets_of_recipes.setdefault(node, []).append(dataset)
                sources.setdefault(node, []).append(_with_setting(source, recipe))
    datasets: dict[str, list[_Dataset]] = {}
    for node in {**names, **files, **datasets_of_recipes}:
        recipe_datasets = [
            listed for listed in datasets_of_recipes.get(node, ()) if not listed.is_empty
        ]
        own = _Dataset.of_node(names.get(node, ()), files.get(node, ()), recipe_datasets)
        if not own.is_empty:
            datasets[node] = [*recipe_datasets, own]
    links = Spellings()
    by_path: dict[str, DatasetVisibility] = {}
    nodes: dict[str, DatasetVisibility] = {}
    folders: dict[str, tuple[str, ...]] = {}
    for node, node_datasets in datasets.items():
        nodes[node] = _all_of([listed.shown(visibility, links) for listed in node_datasets])
        for listed in node_datasets:
            for name in filter(_may_be_folder, (*listed.names, *listed.parts)):
                current_budget().check()
                folders.setdefault(links.of(name).rstrip("/") or "/", listed.names)
        for path in (path for listed in node_datasets for path in listed.files):
            current_budget().check()
            spelled = links.of(path)
            by_path[spelled] = by_path.get(spelled, nodes[node]) & nodes[node]
    for node, node_datasets in datasets.items():
        # A file that is hidden in one place is hidden at all its readers too.
        for path in (path for listed in node_datasets for path in listed.files):
            nodes[node] &= by_path[links.of(path)]
    visible_app = VisibleApplication(
        visibility,
        nodes,
        by_path,
        {node: tuple(of_node) for node, of_node in sources.items()},
        kinds,
        unclear,
        final,
        any(source.format == JDBC for _, recipe in recipes for source in recipe.sources),
        tuple(listed.shown(visibility, links) for listed in others if not listed.is_empty),
        folders,
    )
    masked = visible_app.masked
    return replace(
        visible_app, copies=_copies(recipes, masked, visibility, links) if masked else {}
    )


def _copies(
    recipes: Iterable[tuple[str, Recipe]],
    masked: Sequence[str],
    visibility: Visibility,
    links: Spellings,
) -> dict[str, tuple[str, ...]]:
    copies: dict[str, tuple[str, ...]] = {}
    for writer, recipe in recipes:
        unnamed = {
            number
            for number, source in enumerate(recipe.sources)
            if not has_names(_with_setting(source, recipe))
            and _Dataset.of_source(source).shown(visibility, links).masked
        }
        copied = copied_columns(recipe, partial(_is_masked, unnamed, masked))
        copies[writer] = tuple(dict.fromkeys((*copies.get(writer, ()), *copied)))
    return copies


def _is_masked(unnamed: Container[int], masked: Sequence[str], source: int, column: str) -> bool:
    return source in unnamed or is_named(column, masked)


@dataclass(frozen=True)
class _Dataset:
    """A dataset as messages name it, and its files.

    ``names``: of the whole dataset. ``parts``: of the datasets that it combines; none of them grants another.
    """

    names: tuple[str, ...]
    parts: tuple[str, ...]
    files: tuple[str, ...]

    @classmethod
    def of_source(cls, source: Source) -> _Dataset:
        table = tuple(filter(None, [source.table]))
        several = len(source.paths) > 1
        return cls(
            () if several else (*source.paths, *table),
            (*source.paths, *table) if several else (),
            tuple(file.path for file in source.files),
        )

    @classmethod
    def of_output(cls, output: Output) -> _Dataset:
        names = tuple(filter(None, [output.path, output.table]))
        return cls(names, (), tuple(file.path for file in output.files))

    @classmethod
    def of_node(
        cls, names: Sequence[str], files: Sequence[str], recipe_datasets: Sequence[_Dataset]
    ) -> _Dataset:
        """The dataset of a node with ``names``, ``files``, and the datasets in recipes."""
        all_names = tuple(
            dict.fromkeys(
                (*names, *(name for dataset in recipe_datasets for name in dataset.names))
            )
        )
        parts = tuple(part for dataset in recipe_datasets for part in dataset.parts)
        if parts:
            return cls((), (*all_names, *parts), tuple(files))
        # As readers of RDDs take several paths, and patterns of these.
        several = (
            () if recipe_datasets else tuple(name for name in all_names if _SEVERAL.search(name))
        )
        split = (part for name in several for part in (name, *name.split(",")))
        return cls(
            tuple(name for name in all_names if name not in several),
            tuple(part for part in split if part),
            tuple(files),
        )

    @property
    def is_empty(self) -> bool:
        return not (self.names or self.parts or self.files)

    def shown(self, visibility: Visibility, links: Spellings) -> DatasetVisibility:
        """The visibility of the whole dataset: each file is granted by its own name, or by a name of the dataset."""
        each = tuple(dict.fromkeys(self.files)) or self.parts
        if not each:
            return visibility.shown(self.names, links)
        return _all_of([visibility.shown((name, *self.names), links, self.parts) for name in each])


def _all_of(shown: Sequence[DatasetVisibility]) -> DatasetVisibility:
    combined = shown[0]
    for part in shown[1:]:
        combined &= part
    return combined


def _is_query(source: Source) -> bool:
    """Whether a source is a query of a database: which tables it reads is not known."""
    options = {name.lower(): value for name, value in source.options.items()}
    table = options.get("dbtable", "")
    return source.format == JDBC and TABLE_NAME.fullmatch(table) is None


def _with_setting(source: Source, recipe: Recipe) -> Source:
    """A source with the option that a setting replaces."""
    name = recipe.settings.get(CORRUPT_SETTING, CORRUPT_NAME)
    if name == CORRUPT_NAME or source.format not in {"csv", "json"}:
        return source
    return replace(source, options={CORRUPT: name, **source.options})


def _may_be_table(name: str) -> bool:
    return "/" not in name or name.startswith("jdbc:")


def _may_be_folder(name: str) -> bool:
    scheme, rest = split_scheme(name)
    return rest.startswith("/") and (scheme == "file" or scheme in REMOTE_SCHEMES)


def _above(path: str) -> Iterator[str]:
    """A path, and the folders that it lies in, the nearest first."""
    yield path
    while "/" in path.rstrip("/"):
        path = path.rstrip("/").rpartition("/")[0].rstrip("/")
        yield path or "/"


def _leads_up(name: str) -> bool:
    return ".." in unquote(name).split("/")


def _any_denied(names: Iterable[str], patterns: frozenset[str], links: Spellings) -> bool:
    """Whether a rule applies to one of some names: tables also by their last name, ignoring case.

    The folder of a pattern counts as it is written, and as the file that it leads to through links.

    Rules apply to whatever has more parts than a table's name can have.
    """
    spelled = frozenset(names)
    if any(_may_be_table(name) and name.count(".") >= PARTS_MAX for name in spelled):
        return bool(patterns)
    spelled |= frozenset(map(_with_canonical_scheme, spelled))
    patterns |= frozenset(map(_with_canonical_scheme, patterns))
    patterns |= frozenset(_with_canonical_folder(pattern, links) for pattern in patterns)
    tables = {end for name in spelled if _may_be_table(name) for end in _ends(name)}
    return _any_fits(spelled, patterns) or _any_fits(
        tables, frozenset(pattern.lower() for pattern in patterns)
    )


def _with_canonical_scheme(name: str) -> str:
    """A name with the canonical scheme of its store."""
    scheme, mark, rest = name.partition("://")
    return _SCHEMES.get(scheme.lower(), scheme) + mark + rest


def _with_canonical_folder(pattern: str, links: Spellings) -> str:
    """A pattern of local files below the folder that its first part without signs of patterns leads to."""
    path = pattern.removeprefix("file://") if pattern.startswith("file:///") else pattern
    if not path.startswith("/"):
        return pattern
    sign = _PATTERN_SIGN.search(path)
    end = len(path) if sign is None else path.rfind("/", 0, sign.start())
    try:
        return links.of(path[:end]) + path[end:] if end > 0 else pattern
    except RowsError:
        return pattern


def _ends(table: str) -> Iterable[str]:
    """``c.s.t``: itself, ``s.t`` and ``t``."""
    parts = _QUOTES.sub("", table.rpartition("/")[2]).lower().split(".")
    return (".".join(parts[first:]) for first in range(len(parts)))


def _any_fits(names: Iterable[str], patterns: frozenset[str]) -> bool:
    """Whether a name, or one of its parent folders, matches some patterns."""
    return any(
        fnmatchcase(name, pattern) or fnmatchcase(name, pattern.rstrip("/") + "/*")
        for name in names
        for pattern in patterns
    )


def _has_folder_of(path: str, columns: Sequence[str]) -> bool:
    """Whether a folder name in a path contains the value of one of some columns."""
    parts = (part.partition("=") for part in path.split("/"))
    return any(mark and is_named(unquote(name), columns) for name, mark, _ in parts)
