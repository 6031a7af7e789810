"""Python functions of a recipe, in the session of a trace: run where the key allows it, unknown elsewhere.

The pickles are handed to Spark as they are; Python workers of the trace's Spark unpickle them, and nothing else does.
"""

from __future__ import annotations

import base64
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from pyspark.sql import SparkSession

from lineage_core.recipe.document import Function, Recipe
from lineage_core.recipe.functions import FUNCTIONS_KEY, has_valid_signature, parse_key, read_key
from lineage_core.recipe.imported import MISSING_MODULE, fingerprints_of
from lineage_core.recipe.plan import OpaqueExpression, PythonCall
from lineage_dataframes.errors import NotComputedError, RefusedError
from lineage_dataframes.rewrite.expressions import function_name
from lineage_dataframes.sandbox.names import LIBRARIES
from lineage_dataframes.spark.pyspark_parts import is_connected, python_function

PlanPart = TypeVar("PlanPart")

ROW_BY_ROW = 100
"""PySpark's number for functions that get neither Arrow's nor pandas' columns."""
ARROW_LIBRARIES = frozenset({"pandas", "pyarrow"})
NO_CODE = ""
"""The key of who runs no code, whatever the environment holds."""


@dataclass(frozen=True)
class Runnable:
    """``recipe``: calls only functions that may be run; the others are opaque in it. ``why`` they are not run."""

    recipe: Recipe
    why: tuple[str, ...] = ()

    @contextmanager
    def explained(self) -> Iterator[None]:
        """A refusal in the body says, too, which code was not run."""
        try:
            yield
        except RefusedError as problem:
            if not self.why:
                raise
            # What Spark says may hold values: who answers goes by the kind.
            kind = NotComputedError if isinstance(problem, NotComputedError) else RefusedError
            raise kind(f"{problem} ({'; '.join(self.why)})") from problem

    def widened(self, reasons: tuple[str, ...]) -> tuple[str, ...]:
        """Reasons why an answer may be too wide, with which code was not run where there are any."""
        return (*reasons, *self.why) if reasons else ()


def runnable(spark: SparkSession, recipe: Recipe, key: str | None) -> Runnable:
    """What of the recipe's code may be run. ``key``: None for what the environment gives, `NO_CODE` for none.

    Raises:
        FunctionsKeyError: the key can't be used.
    """
    return runnable_in(recipe, key, spark.version, is_connected=is_connected(spark))


def runnable_in(
    recipe: Recipe, key: str | None, spark: str, *, is_connected: bool = False
) -> Runnable:
    """`runnable` in a Spark of version ``spark`` that need not be there.

    Raises:
        FunctionsKeyError: the key can't be used.
    """
    if not recipe.functions:
        return Runnable(recipe)
    key_bytes = read_key(os.environ) if key is None else parse_key(key) if key else None
    refused = _recipe_refusal(recipe, key_bytes, spark, is_connected=is_connected)
    refusals = {
        function_number: refused or _function_refusal(function)
        for function_number, function in enumerate(recipe.functions)
    }

    def change(part: Any) -> Any:
        if isinstance(part, PythonCall) and refusals[part.code]:
            return OpaqueExpression(part.name, "a Python function", part.args, part.type)
        return part

    reasons = dict.fromkeys(
        f"code of {function.name} is not run: {refusals[function_number]}"
        for function_number, function in enumerate(recipe.functions)
        if refusals[function_number]
    )
    return Runnable(
        dataclasses.replace(recipe, plan=_map_parts(recipe.plan, change)), tuple(reasons)
    )


def register(session: SparkSession, recipe: Recipe) -> None:
    """Make the functions that `runnable` left in a recipe known to the session's SQL."""
    called = set[int]()

    def note(part: Any) -> Any:
        if isinstance(part, PythonCall):
            called.add(part.code)
        return part

    _map_parts(recipe.plan, note)
    for function_number in sorted(called):
        _register_function(
            session, function_name(function_number), recipe.functions[function_number]
        )


def _recipe_refusal(recipe: Recipe, key: bytes | None, spark: str, *, is_connected: bool) -> str:
    if key is None:
        return f"no key was given ({FUNCTIONS_KEY})"
    if not recipe.signature:
        return "it is not signed"
    if not has_valid_signature(recipe, key):
        return "its signature does not fit the key"
    if is_connected:
        return "sessions of Spark Connect run none of a recipe"
    if recipe.spark != spark:
        return f"it was run by Spark {recipe.spark}, and this is {spark}"
    return ""


def _function_refusal(function: Function) -> str:
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    if function.python != python:
        return f"it was run by Python {function.python}, and this is {python}"
    now = fingerprints_of(function.modules)
    for name, mark in function.modules.items():
        if now.get(name) == MISSING_MODULE:
            return f"it imports {name}, which is not found: set PYTHONPATH as the job had it"
        if now.get(name) != mark:
            return f"it imports {name}, which is not what it was when the job ran"
    return ""


def _register_function(session: SparkSession, name: str, function: Function) -> None:
    context: Any = session.sparkContext
    jvm: Any = context._jvm
    # What the functions import was searched for here; where workers run here, this Python is theirs.
    runs_locally = str(context.master).startswith("local")
    code = jvm.SimplePythonFunction(
        bytearray(base64.b64decode(function.command)),
        {**context.environment, **_libraries_of(function)},
        context._python_includes,
        sys.executable if runs_locally else context.pythonExec,
        context.pythonVer,
        [],
        context._javaAccumulator,
    )
    spark: Any = session._jsparkSession
    returns = spark.parseDataType(function.returns)
    udf = python_function(session, name, code, returns, function.kind)
    spark.udf().registerPython(name, udf)


def _libraries_of(function: Function) -> dict[str, str]:
    """The variable by which the daemon of a confined Spark loads what workers would load for each of their tasks."""
    uses_arrow = function.kind != ROW_BY_ROW or not ARROW_LIBRARIES.isdisjoint(function.modules)
    return {LIBRARIES: ",".join(sorted(ARROW_LIBRARIES))} if uses_arrow else {}


def _map_parts(part: PlanPart, change: Callable[[Any], Any]) -> PlanPart:
    """``part`` (nodes, expressions, tuples of them) with all that it holds changed, inner things first."""
    result: Any = part
    if isinstance(part, tuple):
        result = tuple(_map_parts(item, change) for item in part)
    elif dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {
            member.name: _map_parts(getattr(part, member.name), change)
            for member in dataclasses.fields(part)
        }
        result = change(dataclasses.replace(part, **fields))
    changed: PlanPart = result
    return changed
