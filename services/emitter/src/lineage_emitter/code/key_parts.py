"""What the equality and the hash of a program's own class compare, where that is sure.

A key of such a class has the position of these parts: equal keys have equal parts. It is sure where the
class leaves it to ``dataclasses``, where it is an enumeration, and where ``__eq__`` compares attributes
one by one and ``__hash__`` hashes some of them. Attributes have to be the instance's own, and pickle
has to carry them as they are.
"""

from __future__ import annotations

import ast
import copyreg
import dataclasses
import enum
import inspect
from functools import lru_cache
from types import FunctionType, MemberDescriptorType
from typing import Any, Final

from lineage_emitter.code.names import outer_value
from lineage_emitter.code.source import syntax_of

Fields = tuple[str, ...]

_GENERATED: Final = "<string>"
"""The file of what ``dataclasses`` makes."""
_PICKLING: Final = [
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
]


def parts_of(key: object) -> tuple[object, ...] | None:
    """The values that a key's equality and hash compare.

    Args:
        key: of a class that is none of Python's own.

    Returns:
        The values, or None where they are not sure.
    """
    kind: Any = type(key)
    if isinstance(key, enum.Enum):
        return (kind.__qualname__, key._name_) if _is_plain_enum(kind) else None
    fields = hash_fields(kind)
    if fields is None:
        return None
    try:
        return tuple(getattr(key, name) for name in fields)
    except AttributeError:
        return None


@lru_cache(maxsize=1024)
def _is_plain_enum(kind: Any) -> bool:
    equality: object = kind.__eq__
    hashing: object = kind.__hash__
    return equality is object.__eq__ and hashing is enum.Enum.__hash__


@lru_cache(maxsize=1024)
def hash_fields(kind: type) -> Fields | None:
    """Names of the attributes that the hash of a class is made of, all of them compared by its equality."""
    own = [base for base in kind.__mro__ if base is not object]
    if type(kind) is not type or any(base.__module__ == "builtins" for base in own):
        return None
    if _intercepts(kind):
        return None
    compared, hashed = _compared_fields(kind), _hashed_fields(kind)
    if not hashed or compared is None or not set(hashed) <= set(compared):
        return None
    return hashed if all(_is_instance_attribute(kind, name) for name in compared) else None


def _intercepts(kind: type) -> bool:
    """Whether attributes or pickling are not Python's own."""
    getting: object = kind.__getattribute__
    if kind in copyreg.dispatch_table or hasattr(kind, "__getattr__"):
        return True
    if getting is not object.__getattribute__ or not _sets_plainly(kind):
        return True
    for name in _PICKLING:
        method = getattr(kind, name, None)
        of_dataclasses = getattr(method, "__module__", "") == "dataclasses"
        if method is not getattr(object, name, None) and not of_dataclasses:
            return True
    return False


def _sets_plainly(kind: type) -> bool:
    """Whether attributes are what was assigned: pickle assigns those in slots.

    A frozen dataclass with a ``__setattr__`` of its own is an error of ``dataclasses``.
    """
    setting = [base for base in kind.__mro__ if base is not object and "__setattr__" in vars(base)]
    parameters = [vars(base).get("__dataclass_params__") for base in setting]
    return all(
        getattr(dataclass_parameters, "frozen", False) for dataclass_parameters in parameters
    )


def _is_instance_attribute(kind: type, name: str) -> bool:
    attribute = inspect.getattr_static(kind, name, None)
    return isinstance(attribute, MemberDescriptorType) or not hasattr(type(attribute), "__get__")


# -- what is compared ------------------------------------------------------------------------------


def _compared_fields(kind: type) -> Fields | None:
    method = kind.__eq__
    if not isinstance(method, FunctionType):
        return None
    if method.__code__.co_filename == _GENERATED:
        fields = tuple(field.name for field in _fields(kind) if field.compare)
        return fields if _is_same_code(method, _generated_like(kind).__eq__) else None
    return _compared_by(method)


def _hashed_fields(kind: type) -> Fields | None:
    method: Any = kind.__hash__
    if not isinstance(method, FunctionType):
        return None
    if method.__code__.co_filename == _GENERATED:
        fields = tuple(
            field.name
            for field in _fields(kind)
            if (field.compare if field.hash is None else field.hash)
        )
        return fields if _is_same_code(method, _generated_like(kind).__hash__) else None
    return _hashed_by(method)


def _generated_like(kind: type) -> Any:
    """A class with the same fields, for which ``dataclasses`` makes equality and hash.

    What a program that has no file defines by hand seems to come from the same ``<string>``.
    """
    fields = [
        (part.name, object, dataclasses.field(default=None, compare=part.compare, hash=part.hash))
        for part in _fields(kind)
    ]
    return dataclasses.make_dataclass("Like", fields, unsafe_hash=True)


def _is_same_code(first: Any, second: Any) -> bool:
    if not (isinstance(first, FunctionType) and isinstance(second, FunctionType)):
        return False
    a, b = first.__code__, second.__code__
    return (a.co_code, a.co_consts, a.co_names) == (b.co_code, b.co_consts, b.co_names)


def _fields(kind: type) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _body_of(method: FunctionType, parameters: int) -> tuple[list[ast.stmt], list[str]] | None:
    """The statements of a method (without its docstring) and the names of its parameters."""
    node = syntax_of(method)
    if not isinstance(node, ast.FunctionDef) or node.decorator_list:
        return None
    names = [argument.arg for argument in node.args.args]
    plain = not (node.args.vararg or node.args.kwarg or node.args.kwonlyargs or node.args.defaults)
    if not plain or node.args.posonlyargs or len(names) != parameters:
        return None
    if any(isinstance(part, ast.NamedExpr) for part in ast.walk(node)):
        return None  # It may give a parameter another meaning.
    body = node.body
    if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        body = body[1:]
    return body, names


def _hashed_by(method: FunctionType) -> Fields | None:
    """Fields of ``return hash(self.a)`` and ``return hash((self.a, self.b))``."""
    hash_body = _body_of(method, 1)
    if hash_body is None or len(hash_body[0]) != 1 or not isinstance(hash_body[0][0], ast.Return):
        return None
    value, (this,) = hash_body[0][0].value, hash_body[1]
    if not isinstance(value, ast.Call) or value.keywords or len(value.args) != 1:
        return None
    is_hash = isinstance(value.func, ast.Name) and outer_value(method, value.func.id) is hash
    return _attributes(value.args[0], this) if is_hash else None


def _attributes(node: ast.expr, of: str) -> Fields | None:
    """Names of ``of.a``, or of a tuple of such."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    names = [_attribute(part, of) for part in parts]
    return None if None in names else tuple(name for name in names if name is not None)


def _attribute(node: ast.expr, of: str) -> str | None:
    is_of = (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == of
    )
    return node.attr if is_of and isinstance(node, ast.Attribute) else None


def _compared_by(method: FunctionType) -> Fields | None:
    """Fields that have to be equal where ``__eq__`` gives something true."""
    comparison_body = _body_of(method, 2)
    if comparison_body is None:
        return None
    body, (this, other) = comparison_body
    *guards, last = body
    if not isinstance(last, ast.Return) or last.value is None:
        return None
    if not all(_is_refusal(method, guard) for guard in guards):
        return None
    return _equal_where_true(last.value, this, other)


def _is_refusal(method: FunctionType, node: ast.stmt) -> bool:
    """``if ...: return NotImplemented`` or ``False``: nothing equal is decided there."""
    if not isinstance(node, ast.If) or node.orelse or len(node.body) != 1:
        return False
    then = node.body[0]
    if not isinstance(then, ast.Return):
        return False
    gives = then.value
    is_false = isinstance(gives, ast.Constant) and gives.value is False
    return is_false or (
        isinstance(gives, ast.Name) and outer_value(method, gives.id) is NotImplemented
    )


def _equal_where_true(node: ast.expr, this: str, other: str) -> Fields:
    """Of ``a and b`` the fields of both; of ``self.x == other.x`` (or tuples of such) these."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        return tuple(name for part in node.values for name in _equal_where_true(part, this, other))
    if isinstance(node, ast.Compare) and [type(op) for op in node.ops] == [ast.Eq]:
        first_attributes, second_attributes = (
            _attributes(node.left, this),
            _attributes(node.comparators[0], other),
        )
        if first_attributes is not None and first_attributes == second_attributes:
            return first_attributes
    return ()
