"""Definite assignment: which names a turn of a loop has surely assigned before it uses them.

A name that a turn assigns, and may use before, carries something from one record to the next.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from lineage_emitter.code.expressions import NotProvenError, names_of

VariableNames = frozenset[str]
_WITH_NAMES = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def assigned_in(body: Iterable[ast.AST]) -> VariableNames:
    """All names that some statements assign, imports and exceptions included.

    Names of comprehensions and lambdas are their own.
    """
    names: set[str] = set()
    for node in body:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name is not None:
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        if not isinstance(node, _WITH_NAMES):
            names |= assigned_in(ast.iter_child_nodes(node))
    return frozenset(names)


def used_in(node: ast.AST, *, also_stored: bool = False) -> Iterator[ast.Name]:
    """The names that a statement or an expression uses, those of its comprehensions left out."""
    if isinstance(node, ast.Name):
        if also_stored or isinstance(node.ctx, ast.Load):
            yield node
    elif isinstance(node, ast.Lambda):
        own = {part.arg for part in ast.walk(node.args) if isinstance(part, ast.arg)}
        yield from (name for name in used_in(node.body) if name.id not in own)
    elif isinstance(node, _WITH_NAMES):
        yield from _used_in_comprehension(node)
    else:
        for child in ast.iter_child_nodes(node):
            yield from used_in(child, also_stored=also_stored)


def _used_in_comprehension(node: ast.expr) -> Iterator[ast.Name]:
    """The first iterable is read outside: a name of the same spelling there is another one."""
    generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
    yield from used_in(generators[0].iter)
    own = names_of(generators)
    inner: list[ast.AST] = [part for part in ast.iter_child_nodes(node) if part not in generators]
    for number, generator in enumerate(generators):
        inner += [generator.target, *generator.ifs, *([generator.iter] if number else [])]
    for part in inner:
        yield from (name for name in used_in(part) if name.id not in own)


class Turn:
    """Walks through one turn of a loop. ``watched``: the names that the turn assigns."""

    def __init__(self, watched: VariableNames) -> None:
        self.watched = watched

    def after(self, body: Iterable[ast.stmt], sure: VariableNames) -> VariableNames:
        """The names surely assigned after some statements; all of them where these never end.

        Raises:
            NotProvenError: a watched name may be used before it is assigned.
        """
        for statement in body:
            sure = self._after(statement, sure)
        return sure

    def _after(self, node: ast.stmt, sure: VariableNames) -> VariableNames:
        match node:
            case ast.If():
                self.check(node.test, sure)
                return self.after(node.body, sure) & self.after(node.orelse, sure)
            case ast.For():
                self.check(node.iter, sure)
                self.check(node.target, sure)
                self.after(node.body, sure | assigned_in([node.target]))
                self.after(node.orelse, sure)
                return sure
            case ast.While():
                self.check(node.test, sure)
                self.after(node.body, sure)
                self.after(node.orelse, sure)
                return sure
            case ast.Try():
                return self._after_try(node, sure)
            case ast.Continue() | ast.Break():
                return self.watched
            case ast.Return() | ast.Raise():
                self.check(node, sure)
                return self.watched
            case ast.AnnAssign(value=None):
                # It assigns nothing.
                return sure
            case ast.AugAssign():
                self.check(node.value, sure)
                self.check(node.target, sure, also_stored=True)
                return sure
            case _:
                self.check(node, sure)
                return sure | assigned_in([node])

    def _after_try(self, node: ast.Try, sure: VariableNames) -> VariableNames:
        ends = self.after(node.orelse, self.after(node.body, sure))
        for handler in node.handlers:
            named = frozenset([handler.name] if handler.name else [])
            if handler.type is not None:
                self.check(handler.type, sure)
            # Its name is deleted behind it.
            ends &= self.after(handler.body, sure | named) - named
        # What is in ``finally`` runs after any part of the rest.
        always = self.after(node.finalbody, sure)
        return ends | always

    def check(self, node: ast.AST, sure: VariableNames, *, also_stored: bool = False) -> None:
        """Refuse a use of a watched name that is not surely assigned."""
        for name in used_in(node, also_stored=also_stored):
            if name.id in self.watched and name.id not in sure:
                raise NotProvenError(name, f"{name.id} may hold what an earlier record left there")
