"""What only exports and events need, and may be missing: it is an extra of the package."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from lineage_store.exports.errors import ExportError


def needed(module: str, what: str, *, extra: str = "exports") -> Any:
    """A module of an ``extra`` of the package, for ``what``.

    Raises:
        ExportError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ExportError(
            f"{what} needs the package {package}, of the extra {extra} of lineage-store; `make setup` in a checkout "
            "installs all of them"
        ) from error
