"""The terms by which rows are grouped, as they can be compared with values that an earlier query gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lineage_core.recipe.plan import Aggregate, Column, Expression
from lineage_dataframes.rewrite.expressions import SqlWriter, columns_in, opaque_in
from lineage_dataframes.rewrite.named_query import NamedQuery
from lineage_dataframes.spark.literals import quoted_name

COARSE_GROUPS = "rows are grouped by what can't be computed anew"


def cannot_recompute(expression: Expression, below: NamedQuery) -> bool:
    """Whether it can't be computed anew."""
    return opaque_in(expression) is not None or bool(columns_in(expression) & below.unknown)


def recomputable_keys(node: Aggregate, below: NamedQuery) -> tuple[Expression, ...]:
    """The keys that can be computed anew: groups by these alone are unions of the job's."""
    return tuple(key for key in node.keys if not cannot_recompute(key, below))


def key_terms(writer: SqlWriter, keys: Sequence[Expression], below: NamedQuery) -> list[str]:
    """The keys as terms of types that can be compared: of a struct, its fields."""
    types = {column.id: column.type for column in below.columns}
    terms: list[str] = []
    for key in keys:
        kind = types.get(key.id, "") if isinstance(key, Column) else ""
        terms += _flat_terms(writer.of(key), kind)
    return terms


def _flat_terms(term: str, kind: str) -> Iterator[str]:
    if not kind.startswith("struct<`"):
        yield term
        return
    yield f"({term} IS NULL)"
    for name, inner in struct_fields(kind):
        yield from _flat_terms(f"{term}.{quoted_name(name)}", inner)


def struct_fields(kind: str) -> list[tuple[str, str]]:
    """Names and types of the fields of a struct, from its DDL text."""
    fields, position, inner = list[tuple[str, str]](), 0, kind[len("struct<") : -1]
    while position < len(inner):
        name, position = _read_name(inner, position)
        # The name is followed by a colon and a blank.
        begin, depth, quotes = position + 2, 0, False
        position = begin
        while position < len(inner) and (quotes or depth or inner[position] != ","):
            quotes ^= inner[position] == "`"
            depth += 0 if quotes else (inner[position] in "<(") - (inner[position] in ">)")
            position += 1
        fields.append((name, inner[begin:position]))
        position += 2
    return fields


def _read_name(text: str, position: int) -> tuple[str, int]:
    """A name between backquotes at a place, and where it ends."""
    end = position + 1
    while text[end] != "`" or text[end : end + 2] == "``":
        end += 2 if text[end] == "`" else 1
    return text[position + 1 : end].replace("``", "`"), end + 1
