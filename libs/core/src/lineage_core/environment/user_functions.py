"""Functions of the user that a command takes as ``FILE.py:function``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from lineage_core.errors import FunctionError


def load_function(text: str, option: str) -> tuple[Callable[..., Any], ModuleType]:
    """The function that ``FILE.py:function`` names, and its module, which is run to have it.

    Args:
        text: file and function.
        option: of the command, for errors.

    Raises:
        FunctionError: there is none, or its file can't be run.
    """
    name, colon, function_name = text.rpartition(":")
    path = Path(name)
    if not colon or not path.is_file():
        raise FunctionError(f"{option} takes FILE.py:function, and {name or text} is no file")
    module_name = f"lineage_{option.strip('-')}_function"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise FunctionError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        raise FunctionError(f"{path}: {type(problem).__name__}: {problem}") from problem
    function = getattr(module, function_name, None)
    if not callable(function):
        raise FunctionError(f"{path} has no function {function_name}")
    return function, module
