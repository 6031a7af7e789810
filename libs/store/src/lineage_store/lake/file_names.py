"""Names of a lake's files: they say which application they are of, also to those who can read nothing else of it."""

from __future__ import annotations

import re
import uuid
from typing import Final

from lineage_store.lake.columns import APP, application_key

SUFFIX: Final = ".parquet"
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}")
"""Ids that are names of files as they are."""
_ENDS: Final = re.compile(r"\.parquet(\.tmp\.[0-9]+)?\Z")
"""The second while a file is written to HDFS."""
_OWN: Final = re.compile(r"[/.][0-9a-f]{32}-([0-9a-f]{32})\.parquet\Z")
"""How a name ends: what no other file has, and the digest of the footer."""


def folder_of(key: str) -> str:
    """The folder of an application's files."""
    return f"{APP}={key}"


def key_in(path: str) -> str:
    """The key of the application in whose folder a file is, or whose folder it is; empty: it is in none."""
    folder, _, _ = path.partition("/")
    name, _, key = folder.partition("=")
    return key if name == APP else ""


def is_of_lake(path: str) -> bool:
    """Whether a file may be one that a lake wrote, or began to write. Others may have laid theirs beside them."""
    return key_in(path) != "" and _ENDS.search(path) is not None


def new_path(key: str, app: str, footer: str) -> str:
    """The path of a file that is not there yet.

    Args:
        key: of the application.
        app: its id; empty: it is not known.
        footer: digest of the file's footer.
    """
    named = f"{app}." if _PLAIN.fullmatch(app) else ""
    return f"{folder_of(key)}/{named}{uuid.uuid4().hex}-{footer}{SUFFIX}"


def footer_digest_in(path: str) -> str:
    """The digest of the footer that a file was written with; empty: its name is of a version before, and does not say."""
    found = _OWN.search(path)
    return found[1] if found else ""


def name_in(path: str) -> str | None:
    """The id of the application that a file says that it is of; None: it does not say."""
    app, dot, _ = path.rpartition("/")[2].removesuffix(SUFFIX).rpartition(".")
    return app if dot and application_key(app) == key_in(path) else None
