"""Names in the modules of a library that are replaced while it is traced."""

from __future__ import annotations

import sys
import threading
import types
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.libraries.importing import Importing, below
from lineage_arrays.libraries.stand_ins import StandIns

_ABSENT = object()
_OWN_WAYS = ("numpy", "scipy", "lineage_arrays")
"""Packages that are traced by themselves, or trace."""


@contextmanager
def tracing(*packages: str) -> Iterator[None]:
    """Trace through the functions of libraries as they are.

    In the modules of these packages, names of ``numpy``, ``scipy`` and their functions, of ``isinstance``, and of the packages' own compiled functions stand for
    others meanwhile, which take traced arrays, and do to plain ones what they always do: other threads see no difference. A name that a function imports
    when it is called is not replaced: values leave the recording there, and traces say so.

    Args:
        packages: names of packages or modules, with all modules below them: ``"photutils"``, ``"astropy.stats"``. They are imported.

    Raises:
        ArrayLineageError: there is no such package, or it is NumPy, SciPy or this one.
    """
    for package in packages:
        if any(below(package, own) for own in _OWN_WAYS):
            raise ArrayLineageError(f"{package} is traced by itself: name packages that use it")
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            raise ArrayLineageError(f"{package} can't be imported: {error}") from error
    try:
        _REPLACEMENTS.enter(packages)
        yield
    finally:
        _REPLACEMENTS.leave(packages)


class _Replacements:
    """What stands in the place of names now, for all that trace: the last one to leave a package puts its names back."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._users: Counter[str] = Counter()
        self._before: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._stand_ins = StandIns()
        self._importing = Importing(self._imported)

    def enter(self, packages: tuple[str, ...]) -> None:
        with self._lock:
            self._users.update(packages)
            self._importing.of(self._users)
            for module in _modules(self._users):
                self._replace(module)

    def leave(self, packages: tuple[str, ...]) -> None:
        with self._lock:
            self._users.subtract(packages)
            self._users = +self._users
            self._importing.of(self._users)
            remaining = {module.__name__ for module in _modules(self._users)}
            for (name, attribute), (before, now) in list(self._before.items()):
                if name not in remaining:
                    del self._before[name, attribute]
                    _put_back(name, attribute, before, now)

    def _imported(self, module: types.ModuleType) -> None:
        with self._lock:
            if any(below(module.__name__, package) for package in self._users):
                self._replace(module)

    def _replace(self, module: types.ModuleType) -> None:
        names = vars(module)
        for name, value in [*names.items()]:
            before, now = self._stand_ins.of(value)
            if now is not None and (module.__name__, name) not in self._before:
                self._before[module.__name__, name] = (before, now)
                names[name] = now
        if "isinstance" not in names:
            self._before[module.__name__, "isinstance"] = (_ABSENT, self._stand_ins.is_instance)
            names["isinstance"] = self._stand_ins.is_instance


def _put_back(module: str, name: str, before: Any, now: Any) -> None:
    names = vars(sys.modules[module]) if module in sys.modules else {}
    if names.get(name) is not now:
        # The program has put something else there meanwhile.
        return
    if before is _ABSENT:
        del names[name]
    else:
        names[name] = before


def _modules(packages: Counter[str]) -> list[types.ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, types.ModuleType)
        and module.__name__ == name
        and any(below(name, package) for package in packages)
    ]


_REPLACEMENTS = _Replacements()
