"""``scipy.signal`` for traced arrays."""

from __future__ import annotations

from typing import Any

from lineage_arrays.scipy_functions.calling import TracedModule
from lineage_arrays.scipy_functions.table import TABLES

_MODULE = TracedModule("scipy.signal", TABLES["signal"])


def __getattr__(name: str) -> Any:
    return _MODULE.attribute(name)


def __dir__() -> list[str]:
    return _MODULE.public
