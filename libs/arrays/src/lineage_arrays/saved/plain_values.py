"""What answers about cells say by plain values: of a confined process, or of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lineage_arrays.claims import TraceClaims
from lineage_arrays.workflow import ArrayFile
from lineage_core.contract.collected import CollectedRows


def claims_of(plain: Mapping[str, Any]) -> TraceClaims:
    """The claims of a trace.

    Raises:
        KeyError, TypeError: it has none.
    """
    return TraceClaims(
        superset_reasons=tuple(plain["superset_reasons"]),
        incomplete_reasons=tuple(plain["incomplete_reasons"]),
        chosen_by=tuple(plain["chosen_by"]),
    )


def file_of(plain: Mapping[str, Any] | None) -> ArrayFile | None:
    """The file of an array; None where it is in none.

    Raises:
        KeyError, TypeError: it lacks something.
    """
    if plain is None:
        return None
    return ArrayFile(
        plain["path"], plain["size"], plain["mtime"], plain["checksum"], plain["member"]
    )


def rows_plain(rows: CollectedRows | None) -> list[Any] | None:
    """The rows that an array was made of, by plain values."""
    return None if rows is None else [rows.app, rows.node, list(rows.counts)]


def rows_of(plain: list[Any] | None) -> CollectedRows | None:
    """What :func:`rows_plain` gave.

    Raises:
        TypeError, ValueError: it is something else.
    """
    if plain is None:
        return None
    app, node, counts = plain
    return CollectedRows(app, node, tuple(counts))
