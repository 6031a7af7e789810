"""Values in JSON as the query API sends them."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter


def json_value(kind: Any, value: object) -> Any:
    """A value of a type as JSON has it: times as text. ``kind``: the type, such as ``list[Job]``."""
    return TypeAdapter(kind).dump_python(value, mode="json")
