"""Functions of the user that settings name (``module:function``): found on the driver, run in workers."""

from __future__ import annotations

import importlib
import sysconfig
from collections.abc import Callable
from functools import lru_cache, reduce
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from lineage_emitter.errors import SettingsError


class ShippedFunction:
    """A function that travels with what is captured: workers need not have its module.

    Its module is pickled by value where it is the program's own; installed ones are imported.
    """

    def __init__(self, function: Callable[..., Any], module: ModuleType) -> None:
        by_value = not (module.__file__ or "").startswith(sysconfig.get_paths()["purelib"])
        if by_value:
            cloudpickle.register_pickle_by_value(module)
        try:
            self._pickled: bytes = cloudpickle.dumps(function)
        finally:
            if by_value:
                cloudpickle.unregister_pickle_by_value(module)

    def __call__(self, *arguments: Any) -> Any:
        return _loaded(self._pickled)(*arguments)


@lru_cache(maxsize=64)
def _loaded(pickled: bytes) -> Callable[..., Any]:
    function: Callable[..., Any] = cloudpickle.loads(pickled)
    return function


def load_hook(spec: str, setting: str) -> ShippedFunction:
    """The function that ``module:function`` names.

    Raises:
        SettingsError: there is none, or it can't be sent to workers.
    """
    module_name, _, path = spec.partition(":")
    if not module_name or not path:
        raise SettingsError(f"{setting} {spec!r}: give it as module:function")
    try:
        module = importlib.import_module(module_name)
        function = reduce(getattr, path.split("."), module)
    except Exception as problem:
        raise SettingsError(f"{setting} {spec!r} can't be loaded: {problem!r:.300}") from problem
    if not callable(function):
        raise SettingsError(f"{setting} {spec!r} is not a function")
    try:
        return ShippedFunction(function, module)
    except Exception as problem:
        raise SettingsError(
            f"{setting} {spec!r} can't be sent to workers: {problem!r:.300}"
        ) from problem
