"""Hears when a module is loaded, without loading it."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any


class _Watch(MetaPathFinder):
    """Calls ``loaded`` with the module when it has been loaded."""

    def __init__(self, module: str, on_load: Callable[[Any], None]) -> None:
        self._module = module
        self._on_load = on_load
        self._looking = False

    def end(self) -> None:
        """Hear no more."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._module or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def load_and_call(module: Any) -> None:
                execute(module)
                self._on_load(module)

            spec.loader.exec_module = load_and_call  # type: ignore[method-assign]
        return spec


def call_on_load(module: str, on_load: Callable[[Any], None]) -> Callable[[], None]:
    """Call ``on_load`` with a module once it is loaded; at once if it is loaded already.

    Returns:
        What ends the watch, if nothing was loaded until then.
    """
    if module in sys.modules:
        on_load(sys.modules[module])
        return lambda: None
    watch = _Watch(module, on_load)
    sys.meta_path.insert(0, watch)
    return watch.end
