"""Dataclasses to plain JSON values and back, by their annotations.

A field that stands at its default is left out. Where a field may hold one of several classes, the object
says which by ``is``. Reading checks every value against the annotation and knows no other fields.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

KIND = "is"


APART = "apart"
"""Metadata of a field that is no part of the document: it is neither written nor read."""


class PlainError(ValueError):
    """A value that does not fit its annotation; the message says where."""


def to_plain(value: Any, names: Mapping[type, str]) -> Any:
    """``value`` as dicts, lists and scalars. ``names``: the classes that say which they are."""
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = names.get(type(value))
        plain: dict[str, Any] = {} if kind is None else {KIND: kind}
        for name, default in _defaults(type(value)):
            held = getattr(value, name)
            if name == "version" or held != default:
                plain[name] = to_plain(held, names)
        return plain
    if isinstance(value, tuple):
        return [to_plain(one, names) for one in value]
    if isinstance(value, Mapping):
        return {key: to_plain(value[key], names) for key in sorted(value)}
    return value


def from_plain(annotation: Any, raw: Any, names: Mapping[type, str], where: str = "") -> Any:
    """The value that ``raw`` says, of the annotated type.

    Raises:
        PlainError: it does not fit.
    """
    origin, choices = typing.get_origin(annotation), typing.get_args(annotation)
    if dataclasses.is_dataclass(annotation):
        return _object(annotation, raw, names, where)
    if origin is tuple:
        if not isinstance(raw, list):
            raise PlainError(f"{where}: a list is wanted")
        return tuple(
            from_plain(choices[0], one, names, f"{where}[{n}]") for n, one in enumerate(raw)
        )
    if origin in (typing.Union, types.UnionType):
        return _one_of(choices, raw, names, where)
    if origin is typing.Literal:
        if raw not in choices:
            raise PlainError(f"{where}: {raw!r} is none of {', '.join(map(str, choices))}")
        return raw
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(raw, dict):
            raise PlainError(f"{where}: an object is wanted")
        return {
            key: from_plain(choices[1], one, names, f"{where}.{key}") for key, one in raw.items()
        }
    if type(raw) is not annotation:
        raise PlainError(f"{where}: {annotation.__name__} is wanted, not {type(raw).__name__}")
    return raw


def _one_of(choices: tuple[Any, ...], raw: Any, names: Mapping[type, str], where: str) -> Any:
    if raw is None and type(None) in choices:
        return None
    if isinstance(raw, dict):
        for choice in choices:
            if dataclasses.is_dataclass(choice) and names.get(typing.cast(type, choice)) == raw.get(
                KIND
            ):
                return _object(choice, raw, names, where)
        raise PlainError(f"{where}: {raw.get(KIND)!r} is not known here")
    for choice in choices:
        if choice is type(raw):
            return raw
    raise PlainError(f"{where}: {type(raw).__name__} does not belong here")


def _object(kind: Any, raw: Any, names: Mapping[type, str], where: str) -> Any:
    if not isinstance(raw, dict):
        raise PlainError(f"{where or kind.__name__}: an object is wanted")
    if kind in names and raw.get(KIND) != names[kind]:
        raise PlainError(f"{where}: {names[kind]!r} is wanted, not {raw.get(KIND)!r}")
    annotations = _annotations(kind)
    unknown = set(raw) - set(annotations) - ({KIND} if kind in names else set())
    if unknown:
        raise PlainError(f"{where or kind.__name__}: unknown {', '.join(sorted(unknown))}")
    held = {}
    for one in _written(kind):
        if one.name in raw:
            held[one.name] = from_plain(
                annotations[one.name], raw[one.name], names, f"{where}.{one.name}".lstrip(".")
            )
        elif _default(one) is dataclasses.MISSING:
            raise PlainError(f"{where or kind.__name__}: {one.name} is missing")
    return kind(**held)


def _default(one: dataclasses.Field[Any]) -> Any:
    if one.default_factory is not dataclasses.MISSING:
        return one.default_factory()
    return one.default


@functools.cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((one.name, _default(one)) for one in _written(kind))


def _written(kind: Any) -> list[dataclasses.Field[Any]]:
    return [one for one in dataclasses.fields(kind) if APART not in one.metadata]


@functools.cache
def _annotations(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {one.name: hints[one.name] for one in _written(kind)}
