"""Texts of records of topics, with what stands in them as bytes."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

BYTES = ("key", "value")
"""Columns of a record that are bytes: Base64 in its text."""


def with_readable_record(text: str) -> str:
    """The text of a record with its key, value and headers as text. What is no UTF-8 in them is marked by U+FFFD.

    ``text``: JSON with a record's columns as Spark names them; others are given back.
    """
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(record, dict):
        return text
    readable = {
        name: _readable(value) if name in BYTES else value for name, value in record.items()
    }
    if isinstance(headers := record.get("headers"), list):
        readable["headers"] = [_readable_header(header) for header in headers]
    return json.dumps(readable, ensure_ascii=False)


def _readable_header(header: Any) -> Any:
    return (
        header | {"value": _readable(header.get("value"))} if isinstance(header, dict) else header
    )


def _readable(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return value
