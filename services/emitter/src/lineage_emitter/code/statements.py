"""Checks the statements of a function, on top of :mod:`lineage_emitter.code.expressions`."""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, Final

from lineage_emitter.code.expressions import Expressions, NotProvenError
from lineage_emitter.code.source import FunctionNode, syntax_of
from lineage_emitter.code.values import Kind, kind_of

IMPORTED: Final = frozenset(
    [
        "ast",
        "base64",
        "binascii",
        "datetime",
        "decimal",
        "fractions",
        "hashlib",
        "html",
        "json",
        "math",
        "re",
        "struct",
        "unicodedata",
        "urllib.parse",
        "uuid",
        "zlib",
    ]
)
"""Modules that a function may import."""
_PASSES_MAX: Final = 32


class Statements(Expressions):
    """Checks statements one after another and keeps the kinds of the names that they assign."""

    def block(self, body: Iterable[ast.stmt]) -> None:
        """Check statements.

        Raises:
            NotProvenError: one may keep a record, or use what an earlier one left.
        """
        for statement in body:
            check = _CHECKS.get(type(statement))
            if check is None:
                raise NotProvenError(statement, f"{type(statement).__name__} is not looked into")
            check(self, statement)

    def until_stable(self, body: list[ast.stmt]) -> None:
        """Check statements that run again and again: a name's kind holds for all assignments."""
        for _ in range(_PASSES_MAX):
            before = dict(self.kinds)
            self.block(body)
            if self.kinds == before:
                return
        raise NotProvenError(body[0], "kinds of names do not settle")

    def _assign(self, node: ast.Assign) -> None:
        kind = self.kind(node.value)
        for target in node.targets:
            self.bind(target, kind)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.bind(node.target, self.kind(node.value))

    def _augmented(self, node: ast.AugAssign) -> None:
        """``+=`` changes a list in place."""
        added = self.harmless(node.value)
        if isinstance(node.target, ast.Name):
            kind = self._name(ast.copy_location(ast.Name(node.target.id), node.target))
            if kind > Kind.LOCAL:
                raise NotProvenError(node, f"{node.target.id} may be the record itself")
            self.bind(node.target, max(Kind.LOCAL, kind) if added else kind)
        elif (
            isinstance(node.value, ast.Constant)
            and type(node.value.value) in (int, float)
            and not isinstance(node.op, ast.Mult)  # of a list in place
        ):
            self.bind(node.target, Kind.LOCAL)
        else:
            raise NotProvenError(node, f"{ast.unparse(node.target)} may be a part of the record")

    def _expression(self, node: ast.Expr) -> None:
        value = node.value
        if isinstance(value, ast.Yield):
            if value.value is not None:
                self.harmless(value.value)
        elif isinstance(value, ast.YieldFrom):
            if self.iterable(value.value) > Kind.RECORD:
                raise NotProvenError(
                    node, f"{ast.unparse(value.value)} outlives the record at work"
                )
        else:
            self.kind(value)

    def _return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.harmless(node.value)

    def _if(self, node: ast.If) -> None:
        self.kind(node.test)
        self.block(node.body)
        self.block(node.orelse)

    def _for(self, node: ast.For) -> None:
        self.bind(node.target, self.element(self.iterable(node.iter)))
        self.until_stable([*node.body, *node.orelse] or [ast.Pass()])

    def _while(self, node: ast.While) -> None:
        self.kind(node.test)
        self.until_stable([*node.body, *node.orelse])
        self.kind(node.test)

    def _try(self, node: ast.Try) -> None:
        self.block(node.body)
        for handler in node.handlers:
            self._exception_class(handler.type)
            if handler.name is not None:
                self.bind(ast.Name(handler.name, ast.Store(), lineno=handler.lineno), Kind.RECORD)
            self.block(handler.body)
        self.block(node.orelse)
        self.block(node.finalbody)

    def _exception_class(self, node: ast.expr | None) -> None:
        """A class of Python's own: a class of the program may answer what it likes."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node] if node is not None else []
        for part in parts:
            exception_class = self.value_outside(part)
            if not (
                isinstance(exception_class, type)
                and getattr(builtins, exception_class.__name__, None) is exception_class
            ):
                raise NotProvenError(
                    part, f"{ast.unparse(part)} is not an exception of Python's own"
                )

    def _raise(self, node: ast.Raise) -> None:
        if isinstance(node.exc, ast.Call):
            self._exception_class(node.exc.func)
            self._arguments(node.exc)
        else:
            self._exception_class(node.exc)
        if node.cause is not None and not isinstance(node.cause, ast.Name | ast.Constant):
            raise NotProvenError(node, "the cause of an exception is not looked into")

    def _assert(self, node: ast.Assert) -> None:
        self.join([node.test, node.msg])

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            if alias.name not in IMPORTED:
                raise NotProvenError(node, f"module {alias.name} is not looked into")
            importlib.import_module(alias.name)
            self._imported(node, alias.asname or name, importlib.import_module(name))

    def _import_from(self, node: ast.ImportFrom) -> None:
        if node.level or node.module not in IMPORTED:
            raise NotProvenError(node, f"module {node.module} is not looked into")
        module = importlib.import_module(node.module)
        for alias in node.names:
            if alias.name == "*" or not hasattr(module, alias.name):
                raise NotProvenError(node, f"{alias.name} is not looked into")
            self._imported(node, alias.asname or alias.name, getattr(module, alias.name))

    def _imported(self, node: ast.stmt, name: str, module: object) -> None:
        if name in self.kinds:
            raise NotProvenError(node, f"{name} is assigned, too")
        self.modules[name] = module


def begin(
    function: FunctionType, node: FunctionNode, proven: set[FunctionType], depth: int
) -> Statements:
    """Checks for one function, with all names that it assigns and those that it imports."""
    checks = Statements(function, proven, depth, check_function)
    checks.own.update(function.__code__.co_varnames, function.__code__.co_cellvars)
    return checks


def check_function(function: FunctionType, proven: set[FunctionType], depth: int) -> None:
    """Check a function of the program that is called with parts of a record.

    Raises:
        NotProvenError: it may keep what it is given, or its source is not to be had.
    """
    node = syntax_of(function)
    if node is None:
        raise NotProvenError(ast.Pass(), f"the source of {function.__qualname__} was not found")
    checks = begin(function, node, proven, depth)
    check_defaults(function, node)
    code = function.__code__
    parameters = code.co_argcount + code.co_kwonlyargcount
    parameters += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    checks.kinds = dict.fromkeys(code.co_varnames[:parameters], Kind.RECORD)
    if isinstance(node, ast.Lambda):
        checks.harmless(node.body)
    else:
        checks.until_stable(node.body)


def check_defaults(function: FunctionType, node: FunctionNode) -> None:
    """A default is made once and lives on: only constants keep nothing."""
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for default in defaults:
        if kind_of(default) is not Kind.CONSTANT:
            raise NotProvenError(node, f"a default of {function.__qualname__} lives on")


def _nothing(checks: Statements, node: ast.stmt) -> None:
    """Nothing to check."""


_Check = Callable[[Statements, Any], None]
_CHECKS: Final[Mapping[type[ast.stmt], _Check]] = {
    ast.Assign: Statements._assign,
    ast.AnnAssign: Statements._annotated,
    ast.AugAssign: Statements._augmented,
    ast.Expr: Statements._expression,
    ast.Return: Statements._return,
    ast.If: Statements._if,
    ast.For: Statements._for,
    ast.While: Statements._while,
    ast.Try: Statements._try,
    ast.Raise: Statements._raise,
    ast.Assert: Statements._assert,
    ast.Import: Statements._import,
    ast.ImportFrom: Statements._import_from,
    ast.Pass: _nothing,
    ast.Break: _nothing,
    ast.Continue: _nothing,
}
