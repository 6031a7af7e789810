"""Applications that hold the materialised lineage of others' DataFrames, and whose they hold."""

from __future__ import annotations

from collections.abc import Collection

from lineage_store.port import GraphStore

SUFFIX = ".rows"
"""Of an application with materialised flows, behind the id of the application that wrote the outputs."""
NAME_ENDING = " (rows of DataFrames)"
"""Behind the name of that application."""


def stands_for(app: str) -> str | None:
    """The application whose outputs' flows an application holds.

    The id alone decides; `whose_rows` sees whether the store has that application, too.

    Args:
        app: an application's id.

    Returns:
        The id of the application that wrote the outputs; None where ``app`` is no materialised one.
    """
    base = app.removesuffix(SUFFIX)
    return base if base and base != app else None


def whose_rows(app: str, ids: Collection[str]) -> str | None:
    """The application whose lineage another one holds, if both are among ``ids``: it is queried instead.

    Args:
        app: an application's id.
        ids: those of a store.

    Returns:
        As `stands_for`; None also if that application no longer exists.
    """
    base = stands_for(app)
    return base if base in ids else None


def delete_application(store: GraphStore, app: str) -> list[str]:
    """Remove an application and its materialised lineage: another application may get its id, and would be taken for theirs.

    Args:
        store: which has it.
        app: its id.

    Returns:
        The ids of what was removed.
    """
    # The application itself last: until it is gone, whoever was interrupted can try again.
    rows = f"{app}{SUFFIX}"
    removed = [rows, app] if rows in store.application_ids() else [app]
    for name in removed:
        store.delete(name)
    return removed
