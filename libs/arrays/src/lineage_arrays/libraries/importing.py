"""Modules of some packages, as soon as they are imported."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any


def below(module: str, package: str) -> bool:
    """Whether a module is a package, or lies below it."""
    return module == package or module.startswith(f"{package}.")


class Importing(MetaPathFinder):
    """Has a function called with each module of some packages after its code has run. It stands in ``sys.meta_path`` while there are packages."""

    def __init__(self, imported: Callable[[types.ModuleType], None]) -> None:
        self._imported = imported
        self._packages: tuple[str, ...] = ()

    def of(self, packages: Iterable[str]) -> None:
        """These packages from now on."""
        self._packages = tuple(packages)
        if self._packages and self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        elif not self._packages and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """As Python itself finds it."""
        if not any(below(fullname, package) for package in self._packages):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loading(spec.loader, self._imported)
        return spec


class _Loading(Loader):
    def __init__(self, loader: Any, imported: Callable[[types.ModuleType], None]) -> None:
        self._loader = loader
        self._imported = imported

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        """As the module's own loader."""
        module: types.ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Runs the module's code, which sees its own loader."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._imported(module)
