"""What a name that a function does not assign stands for: closure, module, builtins."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any, cast

from lineage_emitter.code.values import keeps_nothing

_PRIVATE = ("__", "gi_", "cr_", "ag_", "f_", "tb_", "co_")
"""Attributes that lead out of a value: to its class, its frame, its code."""


class Missing:
    """A name, or an attribute, that stands for nothing yet."""


def outer_value(function: FunctionType, name: str) -> object:
    """What ``name`` stands for outside of ``function`` now; :class:`Missing` if nothing."""
    free = function.__code__.co_freevars
    if name in free and function.__closure__ is not None:
        try:
            value: object = function.__closure__[free.index(name)].cell_contents
        except ValueError:
            return Missing
        return value
    if name in function.__globals__:
        value = function.__globals__[name]
        return value
    # A program may give its functions others than Python's.
    builtin_values: dict[str, object] = cast(Any, function).__builtins__
    return builtin_values.get(name, Missing)


def attribute_of(value: object, name: str) -> object:
    """An attribute of a module, or of a known class; :class:`Missing` otherwise."""
    if not is_public(name):
        return Missing
    if isinstance(value, ModuleType):
        return vars(value).get(name, Missing)
    return (
        getattr(value, name, Missing)
        if isinstance(value, type) and keeps_nothing(value)
        else Missing
    )


def is_public(name: str) -> bool:
    """Whether an attribute of this name is a part of the value, and no way out of it."""
    return not name.startswith(_PRIVATE)
