"""Recipes that hold each node and each kind of expression."""

from __future__ import annotations

import json

from lineage_core.recipe.document import File, Function, Output, Recipe, Source
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Expand,
    Filter,
    Generate,
    Join,
    Limit,
    Literal,
    Node,
    OpaqueExpression,
    OpaqueNode,
    Over,
    Project,
    PythonCall,
    PythonRows,
    Range,
    Sample,
    Scan,
    Sort,
    SortKey,
    Subquery,
    Union,
    Values,
    Window,
    WindowFrame,
)

ID, CITY, AMOUNT = (
    Attribute(1, "id", "bigint"),
    Attribute(2, "city", "string"),
    Attribute(3, "amount", "double"),
)
TABLE = (ID, CITY, AMOUNT)
SCHEMA = json.dumps({"type": "struct", "fields": [
    {"name": one.name, "type": kind, "nullable": True, "metadata": {}}
    for one, kind in zip(TABLE, ("long", "string", {"type": "array", "elementType": "long"}), strict=True)
]})  # fmt: skip
FILE = File("file:/data/orders/part-0.parquet", 1_234, 1_700_000_000_000, 7)
SOURCES = (
    Source("parquet", ("file:/data/orders",), SCHEMA, options={"mergeSchema": "true"}, files=(FILE,)),
    Source("csv", ("file:/data/orders.csv",), SCHEMA, options={"header": "true", "sep": ";"}, files=(FILE,)),
    Source("iceberg", ("file:/data/ice",), SCHEMA, options={"metadata": "file:/data/ice/m.json", "latest": "true"},
           table="a.b", version="17"),
    Source("jdbc", (), SCHEMA, table="orders"),
)  # fmt: skip
SCAN = Scan(TABLE, 0, ("id", "city", "amount"))
TEXT = Literal("Oslo", "string")


def _recipe(*plan: Node, **given: object) -> Recipe:
    settings = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "Europe/Oslo"}
    output = Output(
        "files", path="file:/out", format="parquet", files=(FILE,), options={"sep": ","}
    )
    return Recipe(**{"spark": "4.1.4", "settings": settings, "sources": SOURCES, "plan": plan, "output": output,
                     "site": "job.py:12", **given})  # type: ignore[arg-type]  # fmt: skip


def _sum(kept: bool = False) -> Aggregate:
    total = Call(
        "max" if kept else "sum",
        (Column(3),),
        distinct=True,
        where=Call("is not null", (Column(1),)),
    )
    return Aggregate((CITY, Attribute(4, "total", "double")), 0, (Column(2),), (Column(2), total))


def _window() -> Window:
    order = (SortKey(Column(3), descending=True), SortKey(Column(1), nulls_last=True))
    frame = WindowFrame("rows", Literal("-1", "int"), Literal("0", "int"))
    summed = Over(Call("sum", (Column(3),)), (Column(2),), order, frame)
    ranked = Over(
        Call("row_number", ()), (Column(2),), order, WindowFrame("rows", None, Literal("0", "int"))
    )
    made = Attribute(5, "so far", "double"), Attribute(6, "place", "int")
    return Window((*TABLE, *made), 0, (summed, ranked))


CASES = Call(
    "case", (Call(">", (Column(3), Literal("3.5", "double"))), Call("upper", (Column(2),)), TEXT)
)
EXPRESSIONS = (
    CASES,
    Call("cast", (Column(1),), "decimal(7,2)"),
    Call("in", (Column(2), TEXT, Literal(None, "void"))),
    Call("like", (Column(2), Literal("O%", "string"), Literal("\\", "string"))),
    Call("field", (Call("named_struct", (TEXT, Column(1))), Literal("0", "int")), "Oslo"),
    Call("[]", (Call("array", (Column(1), Literal("2", "int"))), Literal("0", "int"))),
    Call("transform", (Call("array", (Column(1),)),
                       Call("lambda", (Call("lambda variable", (), "x"), Call("+", (Call("lambda variable", (), "x"), Column(1))))))),
    Call("not", (Call("<=>", (Column(2), Literal(None, "string"))),)),
    OpaqueExpression("f", "a Python function", (Column(1),), "string"),
    PythonCall("g", 0, (Column(1),), "string"),
)  # fmt: skip
PROJECT = Project(
    tuple(Attribute(10 + n, f"e{n}", "string") for n in range(len(EXPRESSIONS))), 0, EXPRESSIONS
)
FUNCTION = Function("g", "AAAA", 100, '"string"', "3.11", {"pandas": "pandas 2.0"})
SORTED = Sort(TABLE, 0, (SortKey(Column(3)),))
VALUES = Values(
    (ID, CITY),
    ((Literal("1", "bigint"), TEXT), (Literal(None, "bigint"), Literal("a'$b", "string"))),
)

RECIPES: tuple[Recipe, ...] = (
    _recipe(SCAN, PROJECT, functions=(FUNCTION,), signature="c2lnbmVk"),
    _recipe(
        SCAN, _sum(), Filter(_sum().columns, 1, Call("and", (Call(">", (Column(4), Subquery(1))), Literal("true", "boolean"))))
    ),
    _recipe(SCAN, _window(), Filter(_window().columns, 1, Call("=", (Column(6), Literal("1", "int"))))),
    _recipe(
        SCAN, VALUES, Join((*TABLE, ID, CITY), 0, 1, "inner", Call("=", (Column(1), Column(1)))),
        Join(TABLE, 0, 1, "semi", Call("=", (Column(2), Column(2)))),
        Join((*TABLE, Attribute(9, "there", "boolean")), 0, 1, "exists", Call("=", (Column(2), Column(2)))),
        Join((*TABLE, ID, CITY), 3, 1, "full", None),
    ),
    _recipe(SCAN, SORTED, Limit(TABLE, 1, 3, 1), _sum(kept=True), Sample(TABLE, 2), output=Output(action="take", limit=3)),
    _recipe(Range((ID,), 0, 10, 2), VALUES, Union((ID,), (0, 0)), Project((ID,), 1, (Column(1),)), Union((ID,), (2, 3))),
    _recipe(
        SCAN, Expand((ID, CITY), 0, ((Column(1), Column(2)), (Column(1), Literal(None, "string")))),
        Generate((ID, CITY, Attribute(8, "x", "bigint")), 1, Call("explode", (Call("array", (Column(1),)),)),
                 (Attribute(8, "x", "bigint"),), True),
    ),
    _recipe(SCAN, PythonRows((CITY,), (0,), "g", "made of many", (2,))),
    _recipe(SCAN, OpaqueNode((CITY,), "MapInPandas", "not known to recipes", (0,))),
    _recipe(
        Scan(TABLE, 3, ("id", "city", "amount")),
        Project((*TABLE, Attribute(7, "lineage_row", "bigint")), 0, (*map(Column, (1, 2, 3)), Call("xxhash64", (Column(1),)))),
        output=Output(action="DataFrame.rdd"),
    ),
)  # fmt: skip
"""With them a fuzzer meets every node, every expression and every field of a source."""
