"""Checks expressions and statements: nothing of a record may stay anywhere when its turn is over.

The rules are of values' kinds (:class:`lineage_emitter.code.values.Kind`): only what was made in this
turn may be changed, only known calls are allowed, and functions of the program are checked the same
way. What is not known is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any, Final

from pyspark.sql import Row

from lineage_emitter.code.names import Missing, attribute_of, is_public, outer_value
from lineage_emitter.code.values import (
    EAGER,
    IMMUTABLE_RESULTS,
    LAZY,
    MUTATING,
    PASSING_ON,
    READING,
    TEXT_METHODS,
    WITH_CALLBACK,
    Kind,
    keeps_nothing,
    kind_of,
)

DEPTH_MAX: Final = 8
"""Functions that call each other so deep are examined."""


READ_WITH_ONE_ARGUMENT: Final = frozenset((max, min))
"""Calls that read their argument only where it is the only one."""


CheckFunction = Callable[[FunctionType, set[FunctionType], int], None]


class NotProvenError(Exception):
    """Something is not known to be harmless. ``line`` counts in the file."""

    def __init__(self, node: ast.AST, reason: str) -> None:
        super().__init__(reason)
        self.line = getattr(node, "lineno", 0)
        self.reason = reason


def names_of(generators: Iterable[ast.comprehension]) -> set[str]:
    """The names that the clauses of a comprehension assign: they are its own."""
    return {
        part.id
        for generator in generators
        for part in ast.walk(generator.target)
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    }


class Expressions:
    """Gives the kind of an expression, or refuses it.

    ``kinds``: of the names that the function assigns; ``modules``: those that it imports.
    ``proven``: functions that were checked, or are being checked (recursion keeps nothing more).
    """

    def __init__(
        self,
        function: FunctionType,
        proven: set[FunctionType],
        depth: int,
        check_function: CheckFunction,
    ) -> None:
        self.function = function
        self.check_function = check_function
        self.proven = proven
        self.depth = depth
        self.kinds: dict[str, Kind] = {}
        self.modules: dict[str, object] = {}
        self.own: set[str] = set()
        """All names that the function assigns anywhere: they hide those outside."""

    # -- values --------------------------------------------------------------------------------

    def kind(self, node: ast.expr) -> Kind:
        """The kind of an expression's value.

        Raises:
            NotProvenError: it is not known to keep nothing.
        """
        check = _CHECKS.get(type(node))
        if check is None:
            raise NotProvenError(node, f"{type(node).__name__} is not looked into")
        return check(self, node)

    def join(self, nodes: Iterable[ast.expr | None]) -> Kind:
        """The kind that holds for all of some expressions."""
        return max((self.kind(node) for node in nodes if node is not None), default=Kind.CONSTANT)

    def harmless(self, node: ast.expr) -> Kind:
        """The kind of a value that goes on to others: nothing that outlives its turn."""
        kind = self.kind(node)
        if kind > Kind.RECORD:
            raise NotProvenError(node, f"{ast.unparse(node)} outlives the record at work")
        return kind

    def element(self, kind: Kind) -> Kind:
        """The kind of what is in a value of a kind."""
        return {Kind.LOCAL: Kind.RECORD, Kind.FLAT: Kind.CONSTANT}.get(kind, kind)

    def _name(self, node: ast.Name) -> Kind:
        if node.id in self.kinds:
            return self.kinds[node.id]
        if node.id in self.own:
            raise NotProvenError(node, f"{node.id} may hold what an earlier record left there")
        return self._kind_outside(node, outer_value(self.function, node.id))

    def _is_own(self, name: str) -> bool:
        """Whether the function, or a comprehension in it, gives the name a meaning of its own."""
        return name in self.own or name in self.kinds

    def _kind_outside(self, node: ast.expr, value: object) -> Kind:
        if keeps_nothing(value):
            # Called by its methods (``list.append``) a type changes what it is given.
            return Kind.RECORD
        kind = kind_of(value) if value is not Missing else None
        if kind is None:
            raise NotProvenError(node, f"{ast.unparse(node)} is not a plain value")
        return kind

    def value_outside(self, node: ast.expr) -> object:
        """The object that a dotted name outside of the function stands for, or :class:`Missing`."""
        if isinstance(node, ast.Name):
            if node.id in self.modules:
                return self.modules[node.id]
            return Missing if self._is_own(node.id) else outer_value(self.function, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value_outside(node.value)
            return Missing if owner is Missing else attribute_of(owner, node.attr)
        return Missing

    def _attribute(self, node: ast.Attribute) -> Kind:
        outside = self.value_outside(node)
        if outside is not Missing:
            return self._kind_outside(node, outside)
        if not is_public(node.attr):
            raise NotProvenError(node, f".{node.attr} leads out of the value")
        kind = self.kind(node.value)
        if kind > Kind.RECORD:
            raise NotProvenError(node, f"{ast.unparse(node)} outlives the record at work")
        return self.element(kind)

    def _subscript(self, node: ast.Subscript) -> Kind:
        at, kind = self.kind(node.slice), self.kind(node.value)
        if kind is Kind.FLAT and (at is not Kind.CONSTANT or isinstance(node.slice, ast.Slice)):
            return Kind.LOCAL  # It may be a new list.
        return self.element(kind)

    def _display(self, node: ast.List | ast.Set | ast.Tuple) -> Kind:
        kind = self.join(node.elts)
        if isinstance(node, ast.Tuple):
            return Kind.DEEP if kind > Kind.RECORD else kind
        return Kind.DEEP if kind > Kind.RECORD else Kind.LOCAL

    def _dict(self, node: ast.Dict) -> Kind:
        return Kind.DEEP if self.join([*node.keys, *node.values]) > Kind.RECORD else Kind.LOCAL

    def _computed(self, node: ast.expr) -> Kind:
        """Operators: of plain values they give new values, of constants constants."""
        kind = self.join(
            child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
        )
        if kind > Kind.RECORD:
            # In a comparison it is only read.
            return Kind.LOCAL if isinstance(node, ast.Compare) else Kind.DEEP
        return Kind.LOCAL if kind else kind

    def _either(self, node: ast.BoolOp | ast.IfExp) -> Kind:
        parts = node.values if isinstance(node, ast.BoolOp) else [node.test, node.body, node.orelse]
        return self.join(parts)

    def _formatted(self, node: ast.JoinedStr | ast.FormattedValue) -> Kind:
        if isinstance(node, ast.FormattedValue):
            self.join([node.value, node.format_spec])
        else:
            self.join(node.values)
        return Kind.LOCAL

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp) -> Kind:
        parts = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        kind = self.within(node.generators, lambda: self.join(parts))
        return Kind.DEEP if kind > Kind.RECORD else Kind.LOCAL

    def within(
        self,
        generators: list[ast.comprehension],
        body: Callable[[], Kind],
        first: Kind | None = None,
    ) -> Kind:
        """The kind of a comprehension's body; its own names hide others, also before they are bound.

        ``first``: the kind of what the first clause gives, if it is known.
        """
        before, own = dict(self.kinds), set(self.own)
        if first is None:
            # It is read outside.
            first = self.element(self.iterable(generators[0].iter))
        try:
            for name in names_of(generators):
                self.kinds.pop(name, None)
                self.own.add(name)
            for number, generator in enumerate(generators):
                if generator.is_async:
                    raise NotProvenError(generator.target, "async is not looked into")
                kind = self.element(self.iterable(generator.iter)) if number else first
                self.bind(generator.target, kind)
                for condition in generator.ifs:
                    self.kind(condition)
            return body()
        finally:
            self.kinds, self.own = before, own

    # -- what is read at once ------------------------------------------------------------------

    def iterable(self, node: ast.expr) -> Kind:
        """The kind of an iterable that is read at once: it may be lazy."""
        if isinstance(node, ast.GeneratorExp):
            return max(Kind.LOCAL, self.within(node.generators, lambda: self.kind(node.elt)))
        if isinstance(node, ast.Call) and self.is_lazy(node):
            return self._kind_of_known_call(node, self.value_outside(node.func), is_read=True)
        return self.kind(node)

    def is_lazy(self, node: ast.Call) -> bool:
        """Whether a call is one of ``map`` or ``filter``."""
        target = self.value_outside(node.func)
        return target is map or target is filter

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Kind:
        target = self.value_outside(node.func)
        if target is not Missing:
            return self._call_outside(node, target)
        if isinstance(node.func, ast.Attribute):
            return self._method(node, node.func)
        raise NotProvenError(node, f"{ast.unparse(node.func)} is not known before it is called")

    def _call_outside(self, node: ast.Call, target: object) -> Kind:
        if keeps_nothing(target):
            return self._kind_of_known_call(node, target, is_read=False)
        if isinstance(target, FunctionType):
            self._arguments(node)
            self.prove(node, target)
            return Kind.RECORD
        if isinstance(node.func, ast.Attribute) and not isinstance(
            self.value_outside(node.func.value), ModuleType
        ):
            return self._method(node, node.func)
        raise NotProvenError(node, f"{ast.unparse(node.func)} may keep what it is given")

    def prove(self, node: ast.AST, function: FunctionType) -> None:
        """Refuse a function of the program that may keep what it is given."""
        if function in self.proven:
            return
        if self.depth >= DEPTH_MAX:
            raise NotProvenError(node, "functions call each other too deep")
        before = set(self.proven)
        self.proven.add(function)
        try:
            self.check_function(function, self.proven, self.depth + 1)
        except NotProvenError:
            # What leant on this function is not proven, either.
            self.proven.intersection_update(before)
            raise

    def _arguments(self, node: ast.Call) -> Kind:
        values = [*node.args, *(keyword.value for keyword in node.keywords)]
        starred = [value.value if isinstance(value, ast.Starred) else value for value in values]
        return max((self.harmless(value) for value in starred), default=Kind.CONSTANT)

    def _kind_of_known_call(self, node: ast.Call, target: Any, *, is_read: bool) -> Kind:
        if target in WITH_CALLBACK:
            return self._call_with_callback(node, target, is_read=is_read)
        kinds = [Kind.CONSTANT]
        for value in (*node.args, *(keyword.value for keyword in node.keywords)):
            part = value.value if isinstance(value, ast.Starred) else value
            is_read_at_once = self._is_read(node, target, value)
            kinds.append(self.iterable(part) if is_read_at_once else self.kind(part))
        return self._result(node, target, max(kinds))

    def _is_read(self, node: ast.Call, target: Any, value: ast.expr) -> bool:
        """Whether an argument has been read when the call returns. Others may be what it gives."""
        if target not in EAGER or not node.args or value is not node.args[0]:
            return False
        return len(node.args) == 1 or target not in READ_WITH_ONE_ARGUMENT

    def _holds_it(self, node: ast.Call, target: Any) -> bool:
        """Whether a call gives a container with its very arguments in it."""
        more = len(node.args) > 1 or bool(node.keywords)
        is_fromkeys = getattr(target, "__name__", "") == "fromkeys"
        return target in (Row, slice) or (more and (target is dict or is_fromkeys))

    def _result(self, node: ast.Call, target: Any, kind: Kind) -> Kind:
        if kind is Kind.FLAT and self._holds_it(node, target):
            return Kind.DEEP
        if kind is Kind.CONSTANT and target in IMMUTABLE_RESULTS:
            return Kind.CONSTANT
        if target not in PASSING_ON and kind <= Kind.FLAT:
            return Kind.LOCAL
        if target is next and kind > Kind.RECORD:
            raise NotProvenError(node, "an iterator outlives the record at work")
        return max(Kind.RECORD, kind)

    def _call_with_callback(self, node: ast.Call, target: Any, *, is_read: bool) -> Kind:
        values, callbacks = list(node.args), []
        if target in LAZY:
            callbacks, values = values[:1], values[1:]
        for keyword in node.keywords:
            (callbacks if keyword.arg == "key" else values).append(keyword.value)
        for callback in callbacks:
            self.callback(callback, at_once=is_read or target not in LAZY)
        kinds = [Kind.CONSTANT]
        for value in values:
            is_read_at_once = is_read if target in LAZY else self._is_read(node, target, value)
            kinds.append(self.iterable(value) if is_read_at_once else self.kind(value))
        kind = max(kinds)
        return self._result(node, target, kind)

    def callback(self, node: ast.expr, *, at_once: bool) -> None:
        """Refuse a function given to a call. ``at_once``: it is called before the call returns."""
        target = self.value_outside(node)
        if isinstance(target, FunctionType):
            self.prove(node, target)
        elif isinstance(node, ast.Lambda) and at_once:
            self._lambda(node)
        elif not (keeps_nothing(target) or (isinstance(node, ast.Constant) and node.value is None)):
            raise NotProvenError(node, f"{ast.unparse(node)} may keep what it is given")

    def _lambda(self, node: ast.Lambda) -> None:
        names = node.args
        if names.defaults or names.kw_defaults or names.kwonlyargs or names.kwarg:
            raise NotProvenError(node, "a lambda with defaults is not looked into")
        before = dict(self.kinds)
        own = [*names.posonlyargs, *names.args, *([names.vararg] if names.vararg else [])]
        self.kinds.update({name.arg: Kind.RECORD for name in own})
        try:
            self.harmless(node.body)
        finally:
            self.kinds = before

    def _method(self, node: ast.Call, method: ast.Attribute) -> Kind:
        name = method.attr
        if not is_public(name):
            raise NotProvenError(node, f".{name} leads out of the value")
        owner = self.kind(method.value)
        if owner > Kind.RECORD and name not in READING:
            raise NotProvenError(node, f"{ast.unparse(method)} may change what outlives a record")
        if owner is not Kind.LOCAL and name in MUTATING:
            raise NotProvenError(node, f"{ast.unparse(method)} may change the record itself")
        arguments = self._method_arguments(node, name)
        if owner > Kind.RECORD:
            return Kind.DEEP if owner is Kind.DEEP else max(Kind.LOCAL, arguments)
        return Kind.LOCAL if name in TEXT_METHODS else Kind.RECORD

    def _method_arguments(self, node: ast.Call, name: str) -> Kind:
        if name == "join" and len(node.args) == 1 and not node.keywords:
            self.iterable(node.args[0])
            return Kind.LOCAL
        if name == "sort" or any(keyword.arg is None for keyword in node.keywords):
            raise NotProvenError(node, f".{name} with these arguments is not looked into")
        return self._arguments(node)

    # -- names ---------------------------------------------------------------------------------

    def bind(self, target: ast.expr, kind: Kind) -> None:
        """Record that a value of a kind is assigned.

        Raises:
            NotProvenError: it would stay where others see it.
        """
        if isinstance(target, ast.Name):
            if target.id in self.modules:
                raise NotProvenError(target, f"{target.id} is a module, too")
            self.kinds[target.id] = max(kind, self.kinds.get(target.id, kind))
        elif isinstance(target, ast.Tuple | ast.List):
            for part in target.elts:
                starred = isinstance(part, ast.Starred)
                inner = part.value if isinstance(part, ast.Starred) else part
                self.bind(inner, max(Kind.LOCAL, kind) if starred else self.element(kind))
        elif isinstance(target, ast.Subscript):
            self.kind(target.slice)
            if self.kind(target.value) is not Kind.LOCAL or kind > Kind.RECORD:
                raise NotProvenError(
                    target, f"{ast.unparse(target)} may outlive the record at work"
                )
        else:
            raise NotProvenError(target, f"{ast.unparse(target)} outlives the record at work")


_Check = Callable[[Expressions, Any], Kind]
_CHECKS: Final[Mapping[type[ast.expr], _Check]] = {
    ast.Constant: lambda checks, node: Kind.CONSTANT,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Subscript: Expressions._subscript,
    ast.Slice: lambda checks, node: checks.join([node.lower, node.upper, node.step]),
    ast.List: Expressions._display,
    ast.Set: Expressions._display,
    ast.Tuple: Expressions._display,
    ast.Dict: Expressions._dict,
    ast.Starred: lambda checks, node: checks.element(checks.kind(node.value)),
    ast.BinOp: Expressions._computed,
    ast.UnaryOp: Expressions._computed,
    ast.Compare: Expressions._computed,
    ast.BoolOp: Expressions._either,
    ast.IfExp: Expressions._either,
    ast.JoinedStr: Expressions._formatted,
    ast.FormattedValue: Expressions._formatted,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.Call: Expressions._call,
}
