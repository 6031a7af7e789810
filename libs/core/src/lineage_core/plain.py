"""Dataclasses to plain JSON values and back, by their annotations.

A field with its default value is left out. Where a field may hold one of several classes, the object
names its class in ``is``. Reading checks every value against the annotation and rejects other fields.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any

KIND_KEY = "is"


NOT_IN_DOCUMENT = "apart"
"""Metadata of a field that is no part of the document: it is neither written nor read."""


class PlainError(ValueError):
    """A value that does not fit its annotation; the message has the place."""


def to_plain(value: Any, names: Mapping[type, str]) -> Any:
    """``value`` as dicts, lists and scalars. ``names``: the names of classes that are written in ``is``."""
    if value is None or isinstance(value, str | int | float):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = names.get(type(value))
        plain: dict[str, Any] = {} if kind is None else {KIND_KEY: kind}
        for name, default in _defaults(type(value)):
            field_value = getattr(value, name)
            if name == "version" or field_value != default:
                plain[name] = to_plain(field_value, names)
        return plain
    if isinstance(value, tuple):
        return [to_plain(item, names) for item in value]
    if isinstance(value, Mapping):
        return {key: to_plain(value[key], names) for key in sorted(value)}
    return value


def from_plain(annotation: Any, raw: Any, names: Mapping[type, str], where: str = "") -> Any:
    """The value of the annotated type that ``raw`` represents.

    Raises:
        PlainError: it does not fit.
    """
    origin, choices = typing.get_origin(annotation), typing.get_args(annotation)
    if dataclasses.is_dataclass(annotation):
        return _from_object(annotation, raw, names, where)
    if origin is tuple:
        if not isinstance(raw, list):
            raise PlainError(f"{where}: must be a list")
        return tuple(
            from_plain(choices[0], item, names, f"{where}[{n}]") for n, item in enumerate(raw)
        )
    if origin in (typing.Union, types.UnionType):
        return _from_union(choices, raw, names, where)
    if origin is typing.Literal:
        if raw not in choices:
            raise PlainError(f"{where}: {raw!r} is none of {', '.join(map(str, choices))}")
        return raw
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(raw, dict):
            raise PlainError(f"{where}: must be an object")
        return {
            key: from_plain(choices[1], item, names, f"{where}.{key}") for key, item in raw.items()
        }
    if type(raw) is not annotation:
        raise PlainError(f"{where}: {annotation.__name__} is wanted, not {type(raw).__name__}")
    return raw


def _from_union(choices: tuple[Any, ...], raw: Any, names: Mapping[type, str], where: str) -> Any:
    if raw is None and type(None) in choices:
        return None
    if isinstance(raw, dict):
        for choice in choices:
            if dataclasses.is_dataclass(choice) and names.get(typing.cast(type, choice)) == raw.get(
                KIND_KEY
            ):
                return _from_object(choice, raw, names, where)
        raise PlainError(f"{where}: {raw.get(KIND_KEY)!r} is not known here")
    for choice in choices:
        if choice is type(raw):
            return raw
    raise PlainError(f"{where}: {type(raw).__name__} does not belong here")


def _from_object(kind: Any, raw: Any, names: Mapping[type, str], where: str) -> Any:
    if not isinstance(raw, dict):
        raise PlainError(f"{where or kind.__name__}: must be an object")
    if kind in names and raw.get(KIND_KEY) != names[kind]:
        raise PlainError(f"{where}: {names[kind]!r} is wanted, not {raw.get(KIND_KEY)!r}")
    annotations = _annotations(kind)
    unknown = set(raw) - set(annotations) - ({KIND_KEY} if kind in names else set())
    if unknown:
        raise PlainError(f"{where or kind.__name__}: unknown {', '.join(sorted(unknown))}")
    values = {}
    for field in _document_fields(kind):
        if field.name in raw:
            values[field.name] = from_plain(
                annotations[field.name], raw[field.name], names, f"{where}.{field.name}".lstrip(".")
            )
        elif _default(field) is dataclasses.MISSING:
            raise PlainError(f"{where or kind.__name__}: {field.name} is missing")
    return kind(**values)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@functools.cache
def _defaults(kind: Any) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, _default(field)) for field in _document_fields(kind))


def _document_fields(kind: Any) -> list[dataclasses.Field[Any]]:
    return [field for field in dataclasses.fields(kind) if NOT_IN_DOCUMENT not in field.metadata]


@functools.cache
def _annotations(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in _document_fields(kind)}
