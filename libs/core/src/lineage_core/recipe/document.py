"""Recipes: what a DataFrame or SQL job did, as a document from which a trace can be computed any day.

A recipe is recorded when the job runs and costs it next to nothing: the optimised plan (`lineage_core.recipe.plan`), the sources as
they were, the output, and the settings that change what the same plan means. It holds no rows but for those of
small local tables, and no program but for Python functions where the job requests it. ``docs/reference/recipes.md`` defines the format.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal as OneOf

from lineage_core.errors import RecipeError, VersionError
from lineage_core.plain import NOT_IN_DOCUMENT, PlainError, from_plain, to_plain
from lineage_core.recipe.names import ROW_NAME, TO_RDD
from lineage_core.recipe.plan import (
    EXPRESSIONS,
    NODES,
    Attribute,
    Node,
    OpaqueExpression,
    OpaqueNode,
    PythonCall,
    PythonRows,
    Subquery,
    expressions_of,
    has_matching_columns,
    input_nodes_of,
    subexpressions_of,
)

RECIPE_VERSION = 2
"""Version of the document as it is written. 2 added Python functions: ``python``, ``python rows``, ``functions``."""
STREAM_VERSION = 3
"""Version of the document of a micro-batch, which added ``batch``: readers of before refuse it."""
FAILED_VERSION = 4
"""Version of the document of an action that failed, which added ``failure``: readers of before refuse it."""
READABLE_VERSIONS = (1, RECIPE_VERSION, STREAM_VERSION, FAILED_VERSION)
"""Versions that readers accept."""
ERASED = '{"version":2,"erased":true}'
"""In the place of a recipe that held values of a person."""


@dataclass(frozen=True)
class File:
    """A file as it was: ``size`` in bytes, ``mtime`` in milliseconds since 1970, ``rows`` where known.

    ``checksum``: of the whole file, or empty. It stands in the graph beside the recipe, not in the document.
    """

    path: str
    size: int
    mtime: int
    rows: int | None = None
    checksum: str = field(default="", metadata={NOT_IN_DOCUMENT: True})


@dataclass(frozen=True)
class Source:
    """Where rows came from.

    ``format``: parquet, orc, csv, json, text, or another that a trace may refuse. ``schema``: the columns
    within the files, as Spark's JSON text; ``partitions``: those of the folders' names. ``options`` are the
    reader's that change what is read, never credentials. ``table`` and ``version``: of a catalog's table.
    """

    format: str
    paths: tuple[str, ...]
    schema: str
    partitions: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    files: tuple[File, ...] = ()
    table: str | None = None
    version: str | None = None

    @property
    def name(self) -> str | None:
        """What it is called: its (first) path, or its table."""
        return next(iter(self.paths), self.table)

    def columns(self) -> list[tuple[str, str]]:
        """Names and types of the columns, those of folders' names last; a nested type is just its kind.

        Raises:
            RecipeError: the schema can't be read.
        """
        try:
            fields = [
                field
                for schema in (self.schema, self.partitions)
                if schema
                for field in json.loads(schema)["fields"]
            ]
            kinds = [field["type"] for field in fields]
            names = [kind if isinstance(kind, str) else str(kind["type"]) for kind in kinds]
            return [(str(f["name"]), name) for f, name in zip(fields, names, strict=True)]
        except (ValueError, KeyError, TypeError, RecursionError) as problem:
            raise RecipeError(f"a source's schema can't be read: {problem}") from problem


@dataclass(frozen=True)
class Function:
    """The code of a Python function as Spark has it. Only a trace that holds the key of its signature runs it.

    ``command``: what PySpark pickled, as Base64. ``kind``: PySpark's number for how it is called.
    ``returns``: its type, as Spark's JSON text. ``python``: the version that pickled it, as ``3.11``.
    ``modules``: what it imports, by name, and a mark of each that is another when the module is.
    """

    name: str
    command: str
    kind: int
    returns: str
    python: str
    modules: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """What an action failed of.

    ``type``: of the error, that of a Python function where one raised it. ``condition``: Spark's name of the error (``CAST_INVALID_INPUT``), or
    empty. ``message``: how what it says begins; empty where values of rows are not kept.
    """

    type: str
    condition: str = ""
    message: str = ""

    @property
    def text(self) -> str:
        """The error in one line."""
        named = f"{self.type} [{self.condition}]" if self.condition else self.type
        return f"{named}: {self.message}" if self.message else named


@dataclass(frozen=True)
class Output:
    """Where the rows went: to ``path``, to ``table``, or to the driver.

    ``action``: the method that was called. ``limit``: how many rows it gave at most, where it gave just
    some (``take``). ``options``: the writer's options needed to read a file again, never credentials.
    ``version``: of a table with versions, the one that the write made. ``commits``: of a table of Delta Lake, the first and the last
    version of which one is the write's, where others were made meanwhile and nothing says which. ``failure``: of an action that failed,
    and so gave no rows that anybody may take for its output.
    """

    kind: OneOf["driver", "files", "table"] = "driver"
    path: str | None = None
    table: str | None = None
    format: str | None = None
    mode: str | None = None
    files: tuple[File, ...] = ()
    action: str = ""
    limit: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    commits: tuple[int, ...] = ()
    failure: Failure | None = None


@dataclass(frozen=True)
class StreamBatch:
    """The micro-batch of a streaming query whose rows a recipe is of.

    ``query``: the query's id, which its restarts keep; with ``number`` it names the batch, however often it runs. ``run``: the id of the
    run. ``watermark``: the event time behind which rows are late, as Spark has it; empty: none. ``late``: how many rows
    were dropped as late; None: not known.
    """

    query: str
    run: str
    number: int
    watermark: str = ""
    late: int | None = None

    @property
    def text(self) -> str:
        """What it is, for people."""
        text = f"batch {self.number} of the streaming query {self.query}, run {self.run}"
        if self.watermark:
            text += f", watermark {self.watermark}"
        return f"{text}, {self.late} late rows dropped" if self.late else text


@dataclass(frozen=True)
class Recipe:
    """``plan``: inputs before their users; the last node's rows are the output. ``settings``: Spark's.

    ``functions``: code of Python functions, where the job had a key to sign it with; ``signature`` is over all
    else in the recipe (`lineage_core.recipe.functions`). ``batch``: of a streaming query.
    """

    spark: str
    settings: Mapping[str, str]
    sources: tuple[Source, ...]
    plan: tuple[Node, ...]
    output: Output = field(default_factory=Output)
    site: str = ""
    functions: tuple[Function, ...] = ()
    signature: str = ""
    version: int = RECIPE_VERSION
    batch: StreamBatch | None = None

    @property
    def columns(self) -> tuple[Attribute, ...]:
        """The output's columns."""
        return self.plan[-1].columns

    @property
    def names_rows(self) -> bool:
        """Whether the last column names the rows (`ROW_NAME`)."""
        return self.output.action == TO_RDD and self.columns[-1].name == ROW_NAME

    def of_batch(self, batch: StreamBatch) -> Recipe:
        """The same recipe, of a micro-batch; sign it afterwards."""
        return replace(self, batch=batch, version=STREAM_VERSION)

    def of_failure(self) -> Recipe:
        """The same recipe, of an action that failed; sign it afterwards."""
        return replace(self, version=FAILED_VERSION)

    def reads(self) -> tuple[Source, ...]:
        """The sources that the plan reads."""
        return self.sources

    def opaque(self) -> list[str]:
        """What the recipe can't express, in words; a trace may have to stop there."""
        texts = [f"{n.name}: {n.why}" for n in self.plan if isinstance(n, OpaqueNode | PythonRows)]
        for node in self.plan:
            for expression in expressions_of(node):
                texts += [
                    f"{part.name}: {part.why}"
                    for part in subexpressions_of(expression)
                    if isinstance(part, OpaqueExpression)
                ]
        return list(dict.fromkeys(texts))

    def to_json(self) -> str:
        """The recipe as text: one line of JSON, the same for equal recipes."""
        return json.dumps(to_plain(self, _NAMES), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Recipe:
        """Read a recipe.

        Raises:
            RecipeError: it is no recipe, or its plan has references to missing parts.
            VersionError: a version that this reader does not support.
        """
        try:
            raw = json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise RecipeError(f"no JSON: {problem}") from problem
        if not isinstance(raw, dict):
            raise RecipeError("a recipe is an object")
        if raw.get("erased") is True:
            raise RecipeError("it was erased, as it held values of a person")
        if raw.get("version", RECIPE_VERSION) not in READABLE_VERSIONS:
            raise VersionError(
                f"recipes of version {raw['version']!r} are not known", where="version"
            )
        try:
            recipe: Recipe = from_plain(cls, raw, _NAMES)
        except (PlainError, RecursionError) as problem:
            raise RecipeError(str(problem)) from problem
        recipe.check()
        return recipe

    def check(self) -> None:
        """See that the plan hangs together.

        Raises:
            RecipeError: it is empty, or a node names a later node, or a source or function that is not there, or
            has another number of columns than values.
        """
        if not self.plan:
            raise RecipeError("the plan has no node", where="plan")
        for index, node in enumerate(self.plan):
            input_nodes = [*input_nodes_of(node)]
            for expression in expressions_of(node):
                subquery_nodes = [
                    entry.node
                    for entry in subexpressions_of(expression)
                    if isinstance(entry, Subquery)
                ]
                input_nodes += subquery_nodes
                if any(
                    0 <= entry < index and not self.plan[entry].columns for entry in subquery_nodes
                ):
                    raise RecipeError("a subquery has no column", where=f"plan[{index}]")
            if any(not 0 <= entry < index for entry in input_nodes):
                raise RecipeError("a node must stand after those it names", where=f"plan[{index}]")
            if not has_matching_columns(self.plan, node):
                raise RecipeError("another number of columns than values", where=f"plan[{index}]")
            expressions = [
                entry
                for expression in expressions_of(node)
                for entry in subexpressions_of(expression)
            ]
            code_indexes = [entry.code for entry in expressions if isinstance(entry, PythonCall)]
            if any(not 0 <= entry < len(self.functions) for entry in code_indexes):
                raise RecipeError("there is no such function", where=f"plan[{index}]")
            source = getattr(node, "source", None)
            if source is not None and not 0 <= source < len(self.sources):
                raise RecipeError(f"there is no source {source}", where=f"plan[{index}]")


_NAMES = {kind: name for names in (NODES, EXPRESSIONS) for name, kind in names.items()}
