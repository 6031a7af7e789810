"""What a recipe may make this process do: compute, over files that may be read.

A recipe comes from whoever ran a job, and becomes text of SQL statements here. So all that gets into them as
it is (functions' names, types, bare constants) must be what it says, and functions are those of a list.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote

from pyspark.sql.types import _parse_datatype_string

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.plan import (
    Call,
    Expression,
    Generate,
    Literal,
    OpaqueExpression,
    PythonCall,
    Scan,
    Values,
    expressions_of,
    subexpressions_of,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.function_names import ALLOWED_FUNCTIONS
from lineage_dataframes.sources.schemas import parse_schema_json
from lineage_dataframes.sources.views import VERSIONED_FORMATS
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS
from lineage_dataframes.spark.settings import replayed_settings
from lineage_query.rows.reader import ForbiddenRowsError, RowReader
from lineage_store.paths import canonical, plain_path

PATH_OPTIONS = {
    "path",
    "paths",
    "pathglobfilter",
    "recursivefilelookup",
    "modifiedbefore",
    "modifiedafter",
}
"""Options by which a reader reads other files than those that are named."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"(?:[A-Za-z0-9_<>(),: ]|`[^`]*`)*")
_PLAIN_TYPE = re.compile(r"[A-Za-z0-9_ ]*(\(\d+(, ?\d+)?\))?")
_NANOSECONDS = re.compile(r"\btimestamp_(?:ltz|ntz)\([789]\)", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+")
_GLOB_SIGNS = set("*?[]{}\\")
"""Signs by which a path names several."""


def check_recipe_allowed(recipe: Recipe, reader: RowReader) -> None:
    """See that a recipe does nothing but compute, over files that ``reader`` may read.

    Raises:
        RefusedError: it would do something else.
        ForbiddenRowsError: a file may not be read.
    """
    check_files_allowed(recipe, reader)
    check_text(recipe)


def check_text(recipe: Recipe) -> None:
    """See that all of a recipe that becomes text of statements, settings or options is what it says. Each trace does.

    Raises:
        RefusedError: it may be something else.
    """
    replayed_settings(recipe)
    for options in (*(source.options for source in recipe.sources), recipe.output.options):
        for name in options:
            if "." in name or name.lower() in PATH_OPTIONS:
                raise RefusedError(f"a source has an option of another kind: {name}")
    for source in recipe.sources:
        if source.files and not source.name:
            raise RefusedError("a source that has files has no name")
        _check_base(source)
    for source_number in sorted({node.source for node in recipe.plan if isinstance(node, Scan)}):
        _check_schema(
            recipe.sources[source_number].schema, recipe.sources[source_number].partitions
        )
    for part in _expressions(recipe):
        _check_expression(part)
    for kind in sorted(set(_types(recipe))):
        _check_type(kind)


def _check_base(source: Source) -> None:
    """See that the folder from which names of folders are columns is above a source's files: Spark asks whether it is there."""
    for name, base in source.options.items():
        if name.lower() != "basepath":
            continue
        _check_leads_down(base)
        folders = tuple({f"{folder.rstrip('/')}/" for folder in (base, canonical(base))})
        if not all(
            file.path.startswith(folders) or canonical(file.path).startswith(folders)
            for file in source.files
        ):
            raise RefusedError(f"{base} is not above the files of a source that names it: {name}")


def check_files_allowed(recipe: Recipe, reader: RowReader) -> None:
    """See that a recipe names no files but those that ``reader`` may read. It needs no Spark.

    Raises:
        RefusedError: a path names several files.
        ForbiddenRowsError: a file may not be read.
    """
    paths = [file.path for source in recipe.sources for file in source.files]
    paths += [file.path for file in recipe.output.files]
    for source in recipe.sources:
        # A table is read as a whole, by its log.
        if source.format in VERSIONED_FORMATS:
            paths += [*source.paths, *_metadata(source.options)]
    output = recipe.output
    if output.version is not None or (output.format in VERSIONED_FORMATS and output.files):
        paths += [path for path in (output.path, *_metadata(output.options)) if path is not None]
    for path in paths:
        _check_leads_down(path)
        if "%" in path:
            _check_names_one_file(path)
        check_may_read(path, reader)
        if _GLOB_SIGNS & set(path):
            raise RefusedError(f"{path} has signs by which Spark reads several files")


def check_may_read(path: str, reader: RowReader) -> None:
    """See that ``reader`` may read a file.

    Raises:
        ForbiddenRowsError: it may not.
    """
    if not reader.may_read(path):
        raise ForbiddenRowsError(f"{path}: rows of files there are not read by this server")


def _check_leads_down(path: str) -> None:
    """See that no part of a path leads up: Hadoop takes `..` away before it follows links, and may open another file."""
    if ".." in path.split("/"):
        raise RefusedError(f"{path} has `..`, which Spark reads otherwise than it is checked")


def _check_names_one_file(path: str) -> None:
    """See that a path is not the name of a file both as it is and without its `%` codes, as tables have their files in logs."""
    decoded = unquote(path)
    _check_leads_down(decoded)
    if canonical(decoded) != canonical(path) and os.path.lexists(plain_path(decoded)):
        raise RefusedError(f"{path} names a second file, {decoded}, which Spark may read")


def _metadata(options: Mapping[str, str]) -> list[str]:
    return [options["metadata"]] if "metadata" in options else []


def _expressions(recipe: Recipe) -> Iterator[Expression]:
    for node in recipe.plan:
        for expression in expressions_of(node):
            yield from subexpressions_of(expression)
        if isinstance(node, Values):
            yield from (literal for row in node.rows for literal in row)


def _check_expression(expression: Expression) -> None:
    if isinstance(expression, Call):
        if expression.fn not in ALLOWED_FUNCTIONS:
            raise RefusedError(f"the recipe calls {expression.fn!r}, which traces do not")
        if expression.fn == "lambda variable" and not _NAME.fullmatch(expression.type or ""):
            raise RefusedError(f"the recipe has a variable {expression.type!r}")
    if isinstance(expression, Literal) and not _is_plain_constant(expression):
        raise RefusedError(f"the recipe has a {expression.type} {expression.value!r}")


def _is_plain_constant(literal: Literal) -> bool:
    """Whether a constant that stands bare in a statement is one."""
    match literal.type:
        case "boolean":
            return literal.value in {None, "true", "false"}
        case "int":
            return literal.value is None or _NUMBER.fullmatch(literal.value) is not None
        case _:
            return True


def _types(recipe: Recipe) -> Iterator[str]:
    for node in recipe.plan:
        yield from (column.type for column in node.columns)
        if isinstance(node, Generate):
            yield from (column.type for column in node.made)
    for part in _expressions(recipe):
        if isinstance(part, Literal | OpaqueExpression | PythonCall):
            yield part.type
        elif isinstance(part, Call) and part.fn in {"cast", "try_cast"}:
            yield part.type or ""
        elif isinstance(part, Call) and part.fn == "from_json":
            yield _json_type(part)


def _json_type(call: Call) -> str:
    """The type that ``from_json`` gives: never as JSON, in which Spark takes names of classes."""
    schema = call.args[1] if len(call.args) > 1 else None
    if not isinstance(schema, Literal) or schema.value is None:
        raise RefusedError("the recipe has a from_json whose type is no constant")
    return schema.value


@lru_cache(1_000)
def _check_schema(text: str, partitions: str) -> None:
    """See that columns of a source are what Spark reads as such."""
    parse_schema_json(text, partitions)


@lru_cache(1_000)
def _check_type(kind: str) -> None:
    """See that a type's text is one: words alone do no harm, others must read as a type."""
    if _NANOSECONDS.search(kind):
        # What is compared and shown goes through types of microseconds.
        raise RefusedError(f"timestamps of nanoseconds are not traced: {kind}")
    if _PLAIN_TYPE.fullmatch(kind):
        return
    refused = RefusedError(f"the recipe has a type {kind!r}")
    if not _TYPE.fullmatch(kind):
        raise refused
    try:
        # DataType.fromDDL, which 3.5 does not have.
        _parse_datatype_string(kind)
    except SPARK_ERRORS as problem:
        raise refused from problem
