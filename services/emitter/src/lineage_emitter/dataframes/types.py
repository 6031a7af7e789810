"""Spark's types as DDL text."""

from __future__ import annotations

from typing import Any

_NAMES = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "null": "void",
}  # fmt: skip


def ddl(raw: Any) -> str:
    """A type in Spark's JSON form as DDL text that reads back as the same type."""
    if isinstance(raw, str):
        return _NAMES.get(raw, raw)
    kind = raw["type"]
    if kind == "struct":
        fields = ", ".join(
            f"{quoted(field['name'])}: {ddl(field['type'])}" for field in raw["fields"]
        )
        return f"struct<{fields}>"
    if kind == "array":
        return f"array<{ddl(raw['elementType'])}>"
    if kind == "map":
        return f"map<{ddl(raw['keyType'])}, {ddl(raw['valueType'])}>"
    if kind == "udt":
        return ddl(raw["sqlType"])
    return str(kind)


def quoted(name: str) -> str:
    """A name as Spark SQL reads it, whatever its letters."""
    return "`" + name.replace("`", "``") + "`"
