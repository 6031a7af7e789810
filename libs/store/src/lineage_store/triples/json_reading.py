"""JSON of others: bounded, each key once, and refused with the line and the reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from lineage_store.errors import StoreError

SHOWN: Final = 80
"""Characters of what is refused that a message shows."""


def parsed(text: bytes, where: str, first_line: int = 1) -> Any:
    """A JSON document.

    Args:
        text: in UTF-8.
        where: the file, for messages.
        first_line: the line that it begins in.

    Raises:
        StoreError: it is none, or an object has a key twice.
    """
    try:
        return json.loads(text.decode("utf-8"), object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise StoreError(f"{where}: line {line:,}, column {error.colno:,}: {error.msg}") from error
    except UnicodeDecodeError as error:
        line = first_line + text.count(b"\n", 0, error.start)
        raise StoreError(f"{where}: line {line:,} is not UTF-8") from error
    except RecursionError as error:
        raise StoreError(f"{where}: line {first_line:,}: it is nested too deeply") from error
    except ValueError as error:
        # A key that is there twice, or a number of more digits than Python reads.
        raise StoreError(f"{where}: from line {first_line:,}: {error}") from error


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {shown(counts.most_common(1)[0][0])} is there twice")
    return made


def shown(value: object) -> str:
    """A value in a message."""
    return f"{value!r:.{SHOWN}}"


def text_of(value: object, key: str, where: str) -> str:
    """The text at a key of an object.

    Raises:
        StoreError: the value is no object, or has no text there that is not empty and can be written.
    """
    text = object_of(value, where).get(key)
    if not isinstance(text, str) or not text:
        raise StoreError(f"{where}: it has no {key}")
    return whole_text(text, where)


def whole_text(text: str, where: str) -> str:
    """A text that can be written.

    Raises:
        StoreError: it has half a character, as JSON may give by its escapes.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreError(f"{where}: {shown(text)} has half a character") from error
    return text


def object_of(value: object, where: str) -> dict[str, Any]:
    """A value that has to be an object.

    Raises:
        StoreError: it is none.
    """
    if not isinstance(value, dict):
        raise StoreError(f"{where}: {shown(value)} is no object")
    return value


def list_of(value: object, where: str) -> Iterable[Any]:
    """A value that has to be a list; nothing is an empty one.

    Raises:
        StoreError: it is something else.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise StoreError(f"{where}: {shown(value)} is no list")
    return value
