"""Proves that a function over a partition makes each output from the record that it read last.

Two forms are analysed: a generator with one loop over the partition, and a function that returns a
generator expression, ``map`` or ``filter`` over it. Between two turns of the loop nothing but the
loop itself may live: no name that a turn assigns is used before it is assigned, nothing that outlives
a turn is changed, and all that is called is known to keep nothing. The proof holds for *plain* records
(:func:`lineage_emitter.code.values.is_plain`), whose methods are Python's own.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FunctionType
from typing import Final, TypeGuard

from lineage_emitter.code.assigned import Turn, assigned_in, used_in
from lineage_emitter.code.expressions import NotProvenError
from lineage_emitter.code.gathered import check_gathered, yields
from lineage_emitter.code.source import FunctionNode, syntax_of
from lineage_emitter.code.statements import Statements, begin, check_defaults
from lineage_emitter.code.values import Kind

_DISPLAYS: Final = (ast.List, ast.Set, ast.Dict, ast.Tuple)
_REASON_CHARS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether each output is made from the record read last, and where not, why (with the line).

    ``not_apart``: why, called on each record by itself, it may do something else than on all of a partition; empty: it does the same.
    """

    holds: bool
    reason: str = ""
    not_apart: str = ""


def from_record_read_last(function: object, index: int = 0) -> Proof:
    """Look into a function over a partition.

    Args:
        function: what ``mapPartitions`` is given.
        index: how many parameters stand before the records (1 for ``mapPartitionsWithIndex``).

    Returns:
        The proof; it does not hold where anything is unknown.
    """
    if not isinstance(function, FunctionType):
        return Proof(False, "only plain functions are looked into")
    node = syntax_of(function)
    if node is None:
        return Proof(False, "its source was not found, or has changed")
    partition = _Partition(function, node, index)
    try:
        partition.check()
    except (NotProvenError, RecursionError) as problem:
        return Proof(False, _in_words(problem))
    try:
        partition.check_apart()
    except (NotProvenError, RecursionError) as problem:
        return Proof(True, not_apart=_in_words(problem))
    return Proof(True)


def _in_words(problem: NotProvenError | RecursionError) -> str:
    line = getattr(problem, "line", 0)
    at = f"line {line}: " if line else ""
    return f"{at}{problem}"[:_REASON_CHARS_MAX]


class _Partition:
    """One function over a partition, while it is analysed."""

    def __init__(self, function: FunctionType, node: FunctionNode, index: int) -> None:
        self.node = node
        self.function = function
        self.index = index
        self.checks: Statements = begin(function, node, set(), 0)
        self.records = ""

    def check(self) -> None:
        """Refuse the function where an output may be made from other records."""
        self._parameters()
        body = self._body()
        at = next((n for n, part in enumerate(body) if self._uses_records(part)), None)
        if at is None:
            raise NotProvenError(self.node, "the records are not read in a loop")
        before, loop, after = body[:at], body[at], body[at + 1 :]
        uses = [name for part in body for name in ast.walk(part) if self._is_records(name)]
        if len(uses) != 1:
            raise NotProvenError(loop, f"{self.records} is used more than once")
        self._before(before)
        if isinstance(loop, ast.For):
            self._loop(loop)
            self._check_after_loop(after)
        elif isinstance(loop, ast.Return) and loop.value is not None and not yields(body):
            self._lazy(loop.value)
        else:
            raise NotProvenError(loop, "the records are not read in a loop")

    def check_apart(self) -> None:
        """Refuse a function, which :meth:`check` did not, that may do something else where it gets each record by itself, and its outputs are gathered."""
        body = self._body()
        at = next(n for n, part in enumerate(body) if self._uses_records(part))
        for part in (part for statement in body[:at] for part in ast.walk(statement)):
            if isinstance(part, ast.Return):
                raise NotProvenError(part, "it may end before it reads a record")
        loop = body[at]
        if isinstance(loop, ast.For):
            for statement in (*loop.orelse, *body[at + 1 :]):
                if not _does_nothing(statement):
                    raise NotProvenError(statement, "what stands behind the loop runs once")
            check_gathered(loop.body)
        for function in self.checks.proven:
            node = syntax_of(function)
            if isinstance(node, ast.FunctionDef):
                check_gathered(node.body)

    def _parameters(self) -> None:
        arguments = self.node.args
        code = self.function.__code__
        if arguments.vararg or arguments.kwarg or code.co_argcount <= self.index:
            raise NotProvenError(self.node, "its parameters are not looked into")
        defaults = self.function.__defaults__ or ()
        if code.co_argcount + code.co_kwonlyargcount - self.index - 1 > len(defaults) + len(
            self.function.__kwdefaults__ or {}
        ):
            raise NotProvenError(self.node, "its parameters are not looked into")
        check_defaults(self.function, self.node)
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        self.records = names[self.index]
        self.checks.kinds = dict.fromkeys(names, Kind.CONSTANT)
        del self.checks.kinds[self.records]

    def _body(self) -> list[ast.stmt]:
        if isinstance(self.node, ast.Lambda):
            return [ast.copy_location(ast.Return(self.node.body), self.node.body)]
        return self.node.body

    def _is_records(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self.records

    def _uses_records(self, node: ast.AST) -> bool:
        return any(map(self._is_records, ast.walk(node)))

    def _before(self, body: list[ast.stmt]) -> None:
        """What is made before the loop lives through it: constants, and containers of constants."""
        if yields(body):
            raise NotProvenError(body[0], "outputs before the first record are not looked into")
        containers: set[str] = set()
        for statement in body:
            self.checks.block([statement])
            if isinstance(statement, ast.Assign) and self._is_lasting(statement.value):
                containers.update(part.id for part in statement.targets if _is_name(part))
        kinds = self.checks.kinds
        for name in assigned_in(body):
            kind = kinds.get(name)
            if kind is Kind.CONSTANT:
                continue
            if kind is not Kind.RECORD and name in containers and _times_named(name, body) == 1:
                kinds[name] = max(Kind.FLAT, kinds[name])
            else:
                # A use of it is refused: it may be an iterator, which a turn would leave further on.
                kinds.pop(name, None)

    def _is_lasting(self, value: ast.expr) -> bool:
        """A list, set or dict of constants, or what outer names lead to: it may be read in the loop."""
        if isinstance(value, _DISPLAYS):
            parts = [part for part in ast.iter_child_nodes(value) if isinstance(part, ast.expr)]
            return self.checks.join(parts) is Kind.CONSTANT
        while isinstance(value, ast.Attribute | ast.Subscript):
            if isinstance(value, ast.Subscript) and not isinstance(value.slice, ast.Constant):
                return False
            value = value.value
        return isinstance(value, ast.Name) and value.id not in self.checks.own

    def _loop(self, loop: ast.For) -> None:
        if not self._is_records(loop.iter):
            raise NotProvenError(loop, f"{self.records} is read by something else than the loop")
        if yields(loop.orelse):
            raise NotProvenError(loop, "outputs behind the last record are not looked into")
        watched = assigned_in([loop.target, *loop.body])
        for name in watched:
            self.checks.kinds.pop(name, None)
        turn = Turn(watched)
        turn.after(loop.body, assigned_in([loop.target]))
        self.checks.bind(loop.target, Kind.RECORD)
        self.checks.until_stable(loop.body)
        self.checks.block(loop.orelse)

    def _check_after_loop(self, body: list[ast.stmt]) -> None:
        if yields(body):
            raise NotProvenError(body[0], "outputs behind the last record are not looked into")
        if not _is_generator(self.function):
            raise NotProvenError(self.node, "it gives no outputs one by one")
        self.checks.block(body)

    def _lazy(self, value: ast.expr) -> None:
        """A generator expression, ``map`` or ``filter`` over the records."""
        if isinstance(value, ast.GeneratorExp) and self._is_records(value.generators[0].iter):
            if self._binds(value):
                raise NotProvenError(value, f"{self.records} is the name of something else, too")
            elements = value.elt
            self.checks.within(
                value.generators, lambda: self.checks.harmless(elements), first=Kind.RECORD
            )
            return
        if (
            isinstance(value, ast.Call)
            and not value.keywords
            and len(value.args) == 2
            and self.checks.is_lazy(value)
            and self._is_records(value.args[1])
        ):
            # Each call is over before the next record is read.
            self.checks.callback(value.args[0], at_once=True)
            return
        raise NotProvenError(value, f"{ast.unparse(value)} may read records ahead")

    def _binds(self, value: ast.GeneratorExp) -> bool:
        return any(self._is_records(part) for part in used_in(value.elt))


def _is_generator(function: FunctionType) -> bool:
    return bool(function.__code__.co_flags & 0x20)


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return | ast.Expr):
        return statement.value is None or isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass)


def _is_name(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name)


def _times_named(name: str, body: list[ast.stmt]) -> int:
    """How often some statements give a name a meaning."""
    parts = [part for statement in body for part in ast.walk(statement)]
    stored = [part for part in parts if _is_name_stored(part, name)]
    caught = [part for part in parts if isinstance(part, ast.ExceptHandler) and part.name == name]
    return len(stored) + len(caught)


def _is_name_stored(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
