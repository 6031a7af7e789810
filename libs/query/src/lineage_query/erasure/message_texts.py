"""Texts of messages that may hold values of rows: arguments of a program, what errors and reasons say, and names of folders."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from urllib.parse import unquote

from lineage_core.contract.message import (
    Begin,
    Commit,
    DeadLetter,
    Fail,
    Message,
    Register,
    Stream,
    Unknown,
)
from lineage_store.recorded_files import FILE_MESSAGES, file_versions

TYPES = ("begin", "register", "commit", "fail", "unknown", "dead_letter", "stream", *FILE_MESSAGES)
"""Types of messages that have such texts."""


def texts_of(message: Message, columns: Collection[str]) -> Iterator[tuple[str, str]]:
    """What each text is, and the text.

    ``columns``: those, in small letters, whose values in names of folders are meant; none: all.
    """
    match message:
        case Begin():
            yield "the program's name", message.name
            for argument in message.argv:
                yield "an argument of the program", argument
        case Register():
            yield f"the name of {message.node}", f"{message.name} {message.alias or ''}"
            yield f"what {message.node} is", f"{message.op} {message.description}"
            yield f"why {message.node} is not exact", message.reason
            yield f"the path of {message.node}", _folder_values(message.path or "", columns)
        case Fail():
            yield f"an error at {message.node}", message.reason
        case Commit():
            yield f"an error at {message.node}", message.failed
            for reason in message.superset_reasons:
                yield f"why {message.node} is not exact", reason
        case DeadLetter():
            yield "why a record was set aside", message.reason
        case Stream():
            yield f"why the query {message.query} is not recorded", message.reason
            for path in (*message.reads, *message.beside):
                yield (
                    f"a folder that the query {message.query} reads",
                    _folder_values(path, columns),
                )
        case Unknown():
            yield "what could not be captured", f"{message.what} {message.reason}"
        case _:
            for node, path, _, _ in file_versions(message):
                yield f"the path of a file of {node}", _folder_values(path, columns)


def _folder_values(path: str, columns: Collection[str]) -> str:
    """The values in names of folders such as ``id=42``."""
    named = (part.partition("=") for part in path.split("/") if "=" in part)
    return " ".join(
        unquote(value)
        for column, _, value in named
        if not columns or unquote(column).lower() in columns
    )
