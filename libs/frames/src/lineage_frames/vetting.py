"""What a recipe may make this process do: compute, over files that may be read.

A recipe comes from whoever ran a job, and becomes text of SQL statements here. So all that gets into them as
it is (functions' names, types, bare constants) must be what it says, and no function may call other code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyspark.sql.types import _parse_datatype_string

from lineage_core.recipe import Recipe
from lineage_core.recipe_plan import (
    Call,
    Expression,
    Generate,
    Literal,
    OpaqueExpression,
    PythonCall,
    Values,
    expressions_of,
    within,
)
from lineage_frames.errors import RefusedError
from lineage_frames.expressions import INFIX
from lineage_frames.pyspark_parts import SPARK_ERRORS
from lineage_frames.sources import VERSIONED
from lineage_store.rows import ForbiddenRowsError, RowReader

CALLING = {"reflect", "java_method", "try_reflect", "from_protobuf", "to_protobuf"}
"""Functions that run other code, or read files that they name."""

OTHERS = INFIX | {"not", "~", "is null", "is not null", "[]", "lambda variable"}
"""What stands for a function and has not the form of a name."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TYPE = re.compile(r"(?:[A-Za-z0-9_<>(),: ]|`[^`]*`)*")
_WORDS = re.compile(r"[A-Za-z0-9_ ]*(\(\d+(, ?\d+)?\))?")
_NUMBER = re.compile(r"-?\d+")
_PATTERN = set("*?[]{}\\")
"""Signs by which a path names several."""


def vet(recipe: Recipe, reader: RowReader) -> None:
    """See that a recipe does nothing but compute, over files that ``reader`` may read.

    Raises:
        RefusedError: it would do something else.
        ForbiddenRowsError: a file may not be read.
    """
    _vet_files(recipe, reader)
    for name in recipe.settings:
        if not name.startswith("spark.sql.") or name.startswith("spark.sql.catalog"):
            raise RefusedError(f"the recipe has a setting of another kind: {name}")
    for source in recipe.sources:
        named = [name for name in source.options if "." in name]
        if named:
            raise RefusedError(f"a source has an option of another kind: {named[0]}")
    for one in _expressions(recipe):
        _vet_expression(one)
    for kind in sorted(set(_types(recipe))):
        _vet_type(kind)


def _vet_files(recipe: Recipe, reader: RowReader) -> None:
    paths = [file.path for source in recipe.sources for file in source.files]
    paths += [file.path for file in recipe.output.files]
    for source in recipe.sources:
        # A table is read as a whole, by its log.
        if source.format in VERSIONED:
            paths += [*source.paths, *_metadata(source.options)]
    if recipe.output.version is not None and recipe.output.path is not None:
        paths += [recipe.output.path, *_metadata(recipe.output.options)]
    for path in paths:
        if not reader.may_read(path):
            raise ForbiddenRowsError(f"{path}: rows of files there are not read by this server")
        if _PATTERN & set(path):
            raise RefusedError(f"{path} has signs by which Spark reads several files")


def _metadata(options: Mapping[str, str]) -> list[str]:
    return [options["metadata"]] if "metadata" in options else []


def _expressions(recipe: Recipe) -> Iterator[Expression]:
    for node in recipe.plan:
        for expression in expressions_of(node):
            yield from within(expression)
        if isinstance(node, Values):
            yield from (literal for row in node.rows for literal in row)


def _vet_expression(one: Expression) -> None:
    if isinstance(one, Call):
        named = _NAME.fullmatch(one.fn) is not None and one.fn.lower() not in CALLING
        if not named and one.fn not in OTHERS:
            raise RefusedError(f"the recipe calls {one.fn!r}")
        if one.fn == "lambda variable" and not _NAME.fullmatch(one.type or ""):
            raise RefusedError(f"the recipe has a variable {one.type!r}")
        if one.fn == "field" and "`" in (one.type or ""):
            raise RefusedError(f"the recipe has a field {one.type!r}")
    if isinstance(one, Literal) and not _is_what_it_says(one):
        raise RefusedError(f"the recipe has a {one.type} {one.value!r}")


def _is_what_it_says(literal: Literal) -> bool:
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
    for one in _expressions(recipe):
        if isinstance(one, Literal | OpaqueExpression | PythonCall):
            yield one.type
        elif isinstance(one, Call) and one.fn in {"cast", "try_cast"}:
            yield one.type or ""


def _vet_type(kind: str) -> None:
    """See that a type's text is one: words alone do no harm, others must read as a type."""
    if _WORDS.fullmatch(kind):
        return
    refused = RefusedError(f"the recipe has a type {kind!r}")
    if not _TYPE.fullmatch(kind):
        raise refused
    try:
        # DataType.fromDDL, which 3.5 does not have.
        _parse_datatype_string(kind)
    except SPARK_ERRORS as problem:
        raise refused from problem
