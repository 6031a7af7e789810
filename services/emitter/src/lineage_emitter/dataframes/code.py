"""The code of Python functions, taken from Spark's plan for recipes that are signed."""

from __future__ import annotations

import base64
import json
import os
import sys
from typing import Any

from lineage_core.errors import FunctionsKeyError
from lineage_core.recipe.document import Function
from lineage_core.recipe.functions import read_key
from lineage_core.recipe.imported import UNREADABLE_MODULE, fingerprints_of, modules_in
from lineage_emitter.dataframes.guarded_code import GuardedCode, guarded_code, is_guarded
from lineage_emitter.dataframes.plan_text import Tree
from lineage_emitter.pyspark_parts import PythonEvalType

FUNCTION_BYTES_MAX = 256 * 1024
"""Longest pickle that a recipe carries."""
FUNCTIONS_BYTES_MAX = 768 * 1024
"""All pickles of a recipe together: as Base64 they fit a recipe with much else."""

BY_ROW = {
    getattr(PythonEvalType, name, None)
    for name in (
        "SQL_BATCHED_UDF",
        "SQL_ARROW_BATCHED_UDF",
        "SQL_SCALAR_PANDAS_UDF",
        # Not in 3.5.
        "SQL_SCALAR_ARROW_UDF",
    )
}
"""Functions whose value at a row is made of that row alone."""

GETS_ROWS = {
    getattr(PythonEvalType, name): how
    for names, how in (
        (("SQL_SCALAR_PANDAS_ITER_UDF", "SQL_SCALAR_ARROW_ITER_UDF"), "an iterator of batches"),
        (("SQL_MAP_PANDAS_ITER_UDF", "SQL_MAP_ARROW_ITER_UDF"), "the batches of a partition"),
        (("SQL_GROUPED_MAP_PANDAS_ITER_UDF", "SQL_GROUPED_MAP_ARROW_ITER_UDF"), "an iterator of the batches of a group"),
        (("SQL_TABLE_UDF", "SQL_ARROW_TABLE_UDF"), "rows of a table"),
    )
    for name in names
    if hasattr(PythonEvalType, name)
}  # fmt: skip
"""What functions get in whose rows a failure can't be told, by Spark's number."""
OTHERWISE = "rows that can't be told for sure, or may not all be read"

PLAIN = "a Python function"
READS_BROADCAST = f"{PLAIN} that reads a broadcast variable"

ACCUMULATOR = b"_deserialize_accumulator"
"""In the pickle of a function that adds to an accumulator, which is of the job's program."""


class Functions:
    """Collects the functions of one recipe. ``key``: None, and no code is taken, for the reason ``why``."""

    def __init__(self, key: bytes | None, why: str = PLAIN) -> None:
        self.key = key
        self.collected: list[Function] = []
        self.kept_columns: set[int] = set()
        """Columns of structs that the rule for failing rows added: in recipes, the values in them."""
        self.flag_columns: set[int] = set()
        """Those that say which rows a function did not fail on: in recipes, all that are left."""
        self.flagged: set[int] = set()
        """Functions that have flags, by number."""
        self.unguarded: dict[str, str] = {}
        """Functions that set nothing aside where they fail, by name, with how they get rows."""
        self._why = why
        self._bytes = 0
        self._guarded: dict[int, GuardedCode] = {}

    @classmethod
    def for_active_capture(cls) -> Functions:
        """As the environment says."""
        try:
            return cls(read_key(os.environ))
        except FunctionsKeyError as problem:
            return cls(None, f"{PLAIN}; its code was not recorded: {problem}")

    def note(self, tree: Tree) -> int | str:
        """The place of a function among those recorded, or why its code is not."""
        if self.key is None:
            return self._why
        if not tree.fields["udfDeterministic"]:
            return f"{PLAIN} that is not deterministic"
        if tree.fields["evalType"] not in BY_ROW:
            return f"{PLAIN} over batches of rows"
        function = tree.java.func()
        if function.broadcastVars().size():
            return READS_BROADCAST
        size = function.command().length()
        if self._is_too_long(size):
            return _too_long(size)
        name, returns = str(tree.fields["name"]), _json(tree.fields["dataType"])
        kind = int(tree.fields["evalType"])
        return self._add(name, returns, kind, command_of(function))

    def note_unguarded(self, tree: Tree) -> None:
        """Take a function that is as the program made it."""
        kind = tree.fields.get("evalType")
        self.unguarded.setdefault(str(tree.fields["name"]), GETS_ROWS.get(kind, OTHERWISE))

    def is_guarded(self, tree: Tree) -> bool:
        """Whether the rule for failing rows changed a function."""
        return is_guarded(tree) or tree.fields["resultId"] in self.flagged

    def guarded(self, tree: Tree) -> GuardedCode:
        """What stands behind a function that the rule for failing rows changed."""
        number = tree.fields["resultId"]
        if number not in self._guarded:
            self._guarded[number] = guarded_code(command_of(tree.java.func()))
        return self._guarded[number]

    def note_guarded(self, tree: Tree) -> list[int | str]:
        """`note` of each function of such a chain."""
        code = self.guarded(tree)
        if self.key is None:
            return [self._why for _ in code.chain]
        if tree.java.func().broadcastVars().size():
            return [READS_BROADCAST for _ in code.chain]
        return [
            _too_long(len(command))
            if self._is_too_long(len(command))
            else self._add(name, _json(json.loads(returns)), int(tree.fields["evalType"]), command)
            for name, returns, command in code.chain
        ]

    def _is_too_long(self, size: int) -> bool:
        return size > FUNCTION_BYTES_MAX or self._bytes + size > FUNCTIONS_BYTES_MAX

    def _add(self, name: str, returns: str, kind: int, command: bytes) -> int | str:
        if ACCUMULATOR in command:
            return f"{PLAIN} that adds to an accumulator"
        modules = fingerprints_of(modules_in(command))
        strange = sorted(name for name, mark in modules.items() if mark == UNREADABLE_MODULE)
        if strange:
            return f"{PLAIN} that imports {strange[0]}, whose sources can't be read"
        function = Function(
            name=name,
            command=base64.b64encode(command).decode(),
            kind=kind,
            returns=returns,
            python=f"{sys.version_info.major}.{sys.version_info.minor}",
            modules=modules,
        )
        if '"udt"' in function.returns:
            return f"{PLAIN} that gives a type of the program's own"
        if function not in self.collected:
            self.collected.append(function)
            self._bytes += len(command)
        return self.collected.index(function)


def command_of(function: Any) -> bytes:
    """The code of a function (Java's) as PySpark pickled it, in one call."""
    listed = function.command().mkString(",").split(",")
    return bytes(int(number) & 0xFF for number in listed if number)


def _too_long(size: int) -> str:
    return f"{PLAIN} of {size:,} bytes, more than recipes carry"


def _json(kind: Any) -> str:
    return json.dumps(kind, separators=(",", ":"))
