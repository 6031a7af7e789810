"""Values that are bytes, in texts of rows: their text, where they have one.

Texts of rows are JSON, which has no bytes: Spark writes them as Base64, and the reader of Parquet as Python does (`b'Ann'`).
"""

from __future__ import annotations

import ast
import base64
import json
import re
from collections.abc import Iterator
from typing import Any

BYTES_OF_RECORD = ("key", "value")
"""Columns of a record of a topic that are bytes."""
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_OF_PYTHON = re.compile(r"""b'.*'|b".*\"""", re.DOTALL)


def text_in(value: str) -> Iterator[str]:
    """The text in a value of a row's text if it stands for bytes, or may: also a word such as `QW5u` does.

    What is no UTF-8 is marked by U+FFFD in bytes as Python writes them, and others have no text then.
    """
    yield from text_in_python(value)
    data = _of_base64(value)
    if data is not None:
        try:
            yield data.decode()
        except UnicodeDecodeError:
            return


def text_in_python(value: str) -> Iterator[str]:
    """The text in bytes as Python writes them, if the value is such."""
    data = _of_python(value)
    if data is not None:
        yield data.decode("utf-8", "replace")


def with_readable_record(text: str) -> str:
    """The text of a record of a topic with its key, value and headers as text. What is no UTF-8 in them is marked by U+FFFD.

    ``text``: JSON with a record's columns as Spark names them; others are given back.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict):
        return text
    readable = {
        name: _readable(value) if name in BYTES_OF_RECORD else value
        for name, value in record.items()
    }
    if isinstance(headers := record.get("headers"), list):
        readable["headers"] = [_readable_header(header) for header in headers]
    return json.dumps(readable, ensure_ascii=False)


def _of_base64(value: str) -> bytes | None:
    if value and len(value) % 4 == 0 and value.isascii() and _BASE64.fullmatch(value):
        return base64.b64decode(value)
    return None


def _of_python(value: str) -> bytes | None:
    if not _OF_PYTHON.fullmatch(value):
        return None
    try:
        data = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return data if isinstance(data, bytes) else None


def _readable_header(header: Any) -> Any:
    return (
        header | {"value": _readable(header.get("value"))} if isinstance(header, dict) else header
    )


def _readable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    data = _of_base64(value)
    data = _of_python(value) if data is None else data
    return value if data is None else data.decode("utf-8", "replace")
