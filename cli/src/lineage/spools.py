"""Folders beside a store: the spool, and rows that are kept."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lineage_core.environment.private_files import folder_named
from lineage_store.url import rows_folder, spool_of


def has_spool(url: str, app: str) -> bool:
    """Whether an application has something in the spool; its id may be any text."""
    return os.path.isdir(folder_named(spool_of(url), app))


def remove_spool(url: str, app: str) -> None:
    """Remove what an application left in the spool."""
    _remove(spool_of(url), app)


def remove_files(url: str, app: str) -> None:
    """Remove what an application left in the spool, and the rows that it kept, without which its DataFrames are not traced."""
    for root in (spool_of(url), rows_of(url)):
        _remove(root, app)


def _remove(root: Path, app: str) -> None:
    folder = folder_named(root, app)
    if os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)


def rows_of(url: str) -> Path:
    """The folder for rows of RDDs that is named, or else the one beside the store."""
    named = os.environ.get("LINEAGE_ROWS_FOLDER", "")
    return Path(named.removeprefix("file://")) if named else rows_folder(url)
