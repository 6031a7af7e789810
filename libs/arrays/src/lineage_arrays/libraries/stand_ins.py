"""What the modules of a library get in the place of modules and functions that don't take traced arrays."""

from __future__ import annotations

import sys
import types
from importlib import import_module
from importlib.machinery import ExtensionFileLoader
from importlib.util import find_spec
from typing import Any

import numpy as np

from lineage_arrays.libraries import numpy_names
from lineage_arrays.libraries.black_boxes import black_box
from lineage_arrays.scipy_functions.calling import TracedModule
from lineage_arrays.scipy_functions.table import TABLES


class StandIns:
    """By a module or a function what takes traced arrays in its place."""

    is_instance = staticmethod(numpy_names.is_instance)

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Any]] = {}
        """By identity: the value, which is kept so that no other one gets its place in memory, and what stands for it."""
        self._own: dict[int, Any] = {}
        """By the identity of a stand-in what it stands for."""

    def of(self, value: Any) -> tuple[Any, Any]:
        """A value as it is, also where it is a stand-in already, and what stands for it; None: it stays."""
        if not self._known:
            self._learn()
        own = self._own.get(id(value), value)
        known = self._known.get(id(own))
        if known is None and is_compiled(own):
            known = self._add(own, black_box(own))
        return (value, None) if known is None else known

    def _learn(self) -> None:
        """NumPy and SciPy: not before a library is traced, as SciPy takes long to import."""
        self._add(np, numpy_names.NUMPY)
        for function, keeping in numpy_names.REPLACED.items():
            self._add(function, keeping)
        if find_spec("scipy") is None:
            return
        modules = {}
        for name, table in TABLES.items():
            module = import_module(f"scipy.{name}")
            traced = TracedModule(f"scipy.{name}", table)
            functions = {part: traced.attribute(part) for part in traced.public}
            for part, function in functions.items():
                if getattr(module, part) is not function:
                    self._add(getattr(module, part), function)
            modules[name] = numpy_names.StandIn(module, functions)
            self._add(module, modules[name])
        scipy = import_module("scipy")
        self._add(scipy, numpy_names.StandIn(scipy, modules))

    def _add(self, value: Any, stand_in: Any) -> tuple[Any, Any]:
        self._own[id(stand_in)] = value
        return self._known.setdefault(id(value), (value, stand_in))


def is_compiled(value: Any) -> bool:
    """Whether a value is a function of a compiled module of a library, which takes arrays by their memory."""
    if not callable(value) or isinstance(value, type | types.FunctionType | np.ufunc):
        return False
    name = getattr(value, "__module__", None)
    if not isinstance(name, str) or name.partition(".")[0] in ("numpy", "scipy", "lineage_arrays"):
        return False
    loader = getattr(getattr(sys.modules.get(name), "__spec__", None), "loader", None)
    return isinstance(loader, ExtensionFileLoader)
