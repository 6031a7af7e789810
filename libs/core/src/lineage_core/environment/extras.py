"""Modules that come with an extra of a package, and may be missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lineage_core.errors import LineageError


def needed(
    module: str, what: str, *, package: str, error: type[LineageError], extra: str = "exports"
) -> Any:
    """A module of an ``extra`` of one of our packages, for ``what``.

    Raises:
        LineageError: it is not installed; of the class ``error``.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        theirs = module.partition(".")[0]
        raise error(
            f"{what} needs the package {theirs}, of the extra {extra} of {package}; `make setup` in a checkout "
            "installs all of them"
        ) from problem
