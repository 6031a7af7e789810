"""Catalyst expressions to a recipe's.

What has no line in `functions` and no rule here becomes opaque, with the expressions that it was computed
from, so that a trace knows what it can't compute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

from lineage_core.recipe.plan import (
    Call,
    Column,
    Expression,
    Literal,
    OpaqueExpression,
    Over,
    PythonCall,
    SortKey,
    Subquery,
    WindowFrame,
)
from lineage_emitter.dataframes.code import PLAIN, Functions
from lineage_emitter.dataframes.functions import (
    AGGREGATES,
    ALWAYS_TRUE,
    COLLECTIONS,
    FUNCTIONS,
    GENERATORS,
    HIGHER_ORDER,
    LENIENT,
    ONE_ROW_AGGREGATES,
    OPERATORS,
    ORDER_DEPENDENT,
    SAME_IF_EQUAL,
    TRANSPARENT,
    WINDOW_FUNCTIONS,
)
from lineage_emitter.dataframes.guarded_code import name_of, sets_groups_aside
from lineage_emitter.dataframes.plan_text import Tree
from lineage_emitter.dataframes.types import ddl

TRUE = Literal("true", "boolean")

PLAIN_LITERALS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "char",
    "varchar", "date", "timestamp", "void",
)  # fmt: skip
"""Types whose constants Spark prints so that they read back as the same value."""

DAY_MICROS = 86_400_000_000
_UNIT_MICROS = {"hours": 3_600_000_000, "minutes": 60_000_000, "seconds": 1_000_000}
_CLOCK_PART = re.compile(r"(-?\d{1,9}(?:\.\d{1,6})?) (hours|minutes|seconds)", re.ASCII)
_CLOCK_INTERVAL = re.compile(rf"{_CLOCK_PART.pattern}( {_CLOCK_PART.pattern}){{0,2}}", re.ASCII)
STATES = {
    "lineage.state": "state",
    "lineage.state.groups": "state of groups",
    "lineage.state.keys": "state of keys",
    "lineage.state.run": "earlier run",
}
"""The names under which ``StreamState.java`` gives conditions that a state was, and those that recipes have for them."""
RANDOM = {"Rand", "Randn", "Uuid", "Shuffle", "RandStr", "Uniform"}
USER_RAISED = "USER_RAISED_EXCEPTION"
CONSTANT_MESSAGE = re.compile(r"keys: \[errorMessage\], values: \[(.*)\]", re.DOTALL)
"""How Spark writes the map of a constant message."""
POSITIONAL_FUNCTIONS = {
    "MonotonicallyIncreasingID", "SparkPartitionID", "InputFileName", "InputFileBlockStart",
    "InputFileBlockLength",
}  # fmt: skip

ZONE_NAME = re.compile(r"(?:[^'z]|'[^']*')*z")
"""The beginning of a pattern of times up to a zone's name (``CET``), which no text in quotes is."""

Subplan = Callable[[Tree, Tree], int]
"""Records a subquery's plan (given with the node that holds it) and says its place in the recipe."""


class Expressions:
    """Converts the expressions of one node. ``types``: of columns by number. ``subplan``: see `Subplan`.

    ``functions``: takes the code of Python functions.
    """

    def __init__(
        self, types: dict[int, str], subplan: Callable[[Tree], int], functions: Functions
    ) -> None:
        self._types = types
        self._subplan = subplan
        self._functions = functions
        self.one_row_group_columns: set[int] = set()
        """Columns of which a group has one value that is not NULL: the first is any of them."""

    def all(self, trees: list[Tree]) -> tuple[Expression, ...]:
        return tuple(self.one(tree) for tree in trees)

    def one(self, tree: Tree) -> Expression:
        """The expression that ``tree`` is."""
        kind = tree.kind
        if kind in TRANSPARENT:
            return self.one(tree.children[0])
        if kind in ALWAYS_TRUE:
            return TRUE
        special = getattr(self, f"_{kind}", None)
        if special is not None:
            expression: Expression = special(tree)
            return expression
        name = (
            LENIENT.get(kind)
            if _is_lenient(tree)
            else (
                OPERATORS.get(kind)
                or FUNCTIONS.get(kind)
                or HIGHER_ORDER.get(kind)
                or GENERATORS.get(kind)
            )
        )
        if name is None:
            return self._opaque(tree)
        return Call(name, self.all(list(tree.children)))

    def sort_key(self, tree: Tree) -> SortKey:
        """An ORDER BY's term."""
        return SortKey(
            self.one(tree.children[0]),
            descending="Descending" in str(tree.fields["direction"]),
            nulls_last="NullsLast" in str(tree.fields["nullOrdering"]),
        )

    def _opaque(self, tree: Tree, why: str = "") -> Expression:
        if not why:
            if tree.kind in RANDOM:
                why = "random"
            elif tree.kind in POSITIONAL_FUNCTIONS:
                why = "depends on how Spark cut the data into partitions"
            else:
                why = "not known to recipes"
        name = str(tree.fields.get("name") or tree.kind)
        return OpaqueExpression(
            name, why, self.all(list(tree.children)), ddl(tree.fields.get("dataType", ""))
        )

    def _PythonUDF(self, tree: Tree) -> Expression:
        if self._functions.is_guarded(tree):
            return self._guarded(tree)
        self._functions.note_unguarded(tree)
        code = self._functions.note(tree)
        if isinstance(code, str):
            return self._opaque(tree, code)
        name, kind = str(tree.fields["name"]), ddl(tree.fields["dataType"])
        return PythonCall(name, code, self.all(list(tree.children)), kind)

    def _PythonUDAF(self, tree: Tree) -> Expression:
        arguments = self.all(list(tree.children))
        if not sets_groups_aside(tree):
            self._functions.note_unguarded(tree)
        return OpaqueExpression(name_of(tree), PLAIN, arguments, ddl(tree.fields["dataType"]))

    def _guarded(self, tree: Tree) -> Expression:
        """The functions as the program made them: the rows that they fail on are left out below."""
        arguments = self.all(list(tree.children))
        chain = self._functions.guarded(tree).chain
        for (name, returns, _), code in zip(chain, self._functions.note_guarded(tree), strict=True):
            kind = ddl(json.loads(returns))
            value: Expression = (
                OpaqueExpression(name, code, arguments, kind)
                if isinstance(code, str)
                else PythonCall(name, code, arguments, kind)
            )
            arguments = (value,)
        return arguments[0]

    def _IsNotNull(self, tree: Tree) -> Expression:
        (of,) = tree.children
        if of.fields.get("exprId") in self._functions.kept_columns:
            return TRUE
        return Call("is not null", (self.one(of),))

    def _ScalaUDF(self, tree: Tree) -> Expression:
        name = STATES.get(tree.fields.get("udfName") or "")
        if name is None:
            return self._opaque(tree)
        why = "not kept: what a stream holds from batch to batch"
        return OpaqueExpression(name, why, (), "boolean")

    def _TimestampAddInterval(self, tree: Tree) -> Expression:
        """A time some hours before or behind another. A day has other hours where clocks change."""
        start, interval = tree.children
        micros = _micros_of(interval)
        is_time = self._types.get(start.fields.get("exprId", -1)) == "timestamp"
        if not is_time or micros is None or abs(micros) >= DAY_MICROS:
            return self._opaque(tree)
        moved = Call("+", (Call("unix_micros", (self.one(start),)), Literal(str(micros), "bigint")))
        return Call("timestamp_micros", (moved,))

    _TimeAdd = _TimestampAddInterval
    """Its name before Spark 4.1."""

    def _AttributeReference(self, tree: Tree) -> Expression:
        if tree.fields["exprId"] in self._functions.flag_columns:
            return TRUE
        return Column(tree.fields["exprId"])

    def _StaticInvoke(self, tree: Tree) -> Expression:
        if tree.fields.get("functionName") != "readSidePadding":
            return self._opaque(tree)
        # CHAR(n): a text is filled up with blanks, a longer one stays.
        text, least = self.all(list(tree.children))
        length = Call("greatest", (Call("char_length", (text,)), least))
        return Call("rpad", (text, length, Literal(" ", "string")))

    def _NamedLambdaVariable(self, tree: Tree) -> Expression:
        return Call("lambda variable", (), type=f"v{tree.fields['exprId']}")

    def _LambdaFunction(self, tree: Tree) -> Expression:
        body, *variables = tree.children
        return Call("lambda", (*self.all(variables), self.one(body)))

    def _Literal(self, tree: Tree) -> Expression:
        kind = ddl(tree.fields["dataType"])
        value = tree.fields.get("value")
        if "elements" in tree.fields:
            return self._array(tree, kind)
        if value is None:
            return Literal(None, kind)
        if not kind.startswith(PLAIN_LITERALS):
            return OpaqueExpression("literal", f"a constant of type {kind}", (), kind)
        return Literal(str(value), kind)

    def _array(self, tree: Tree, kind: str) -> Expression:
        """A constant array, by its elements."""
        inner = ddl(tree.fields["dataType"]["elementType"])
        if not inner.startswith(PLAIN_LITERALS):
            return OpaqueExpression("literal", f"a constant of type {kind}", (), kind)
        listed = tuple(
            Literal(None if element is None else str(element), inner)
            for element in tree.fields["elements"]
        )
        return Call("cast", (Call("array", listed),), type=kind)

    def _AtLeastNNonNulls(self, tree: Tree) -> Expression:
        """What ``dropna`` becomes: so many values are neither NULL nor NaN."""
        least, present_terms = int(tree.fields["n"]), list[Expression]()
        for value, kind in zip(self.all(list(tree.children)), tree.fields["types"], strict=True):
            is_present: Expression = Call("is not null", (value,))
            if kind in {"double", "float"}:
                is_present = Call("and", (is_present, Call("not", (Call("isnan", (value,)),))))
            present_terms.append(is_present)
        if least == len(present_terms):
            return Call("and", tuple(present_terms))
        one_literal, zero_literal = Literal("1", "int"), Literal("0", "int")
        counted = Call(
            "+",
            tuple(
                Call("if", (is_present, one_literal, zero_literal)) for is_present in present_terms
            ),
        )
        return Call(">=", (counted, Literal(str(least), "int")))

    def _JsonToStructs(self, tree: Tree) -> Expression:
        schema = Literal(ddl(tree.fields["schema"]), "string")
        listed = [
            Literal(text, "string")
            for pair in sorted(tree.fields["options"].items())
            for text in pair
        ]
        options = (Call("map", tuple(listed)),) if listed else ()
        return Call("from_json", (*self.all(list(tree.children)), schema, *options))

    def _PreciseTimestampConversion(self, tree: Tree) -> Expression:
        """Between a time and its microseconds: what ``window()`` is made of."""
        ways = {("timestamp", "long"): "unix_micros", ("long", "timestamp"): "timestamp_micros"}
        way = ways.get((str(tree.fields["fromType"]), str(tree.fields["toType"])))
        return self._opaque(tree) if way is None else Call(way, self.all(list(tree.children)))

    def _Cast(self, tree: Tree) -> Expression:
        child = tree.children[0]
        average = _average_in_unscaled(child)
        if average is not None:
            return self.one(average)
        name = "try_cast" if _is_lenient(tree) else "cast"
        return Call(name, (self.one(child),), type=ddl(tree.fields["dataType"]))

    def _MakeDecimal(self, tree: Tree) -> Expression:
        """``MakeDecimal(sum(UnscaledValue(x)))`` is what the optimiser makes of ``sum(x)``."""
        aggregate = _unscaled_in(tree.children[0], "Sum")
        return self._opaque(tree) if aggregate is None else self.one(aggregate)

    def _Like(self, tree: Tree) -> Expression:
        escape = Literal(tree.fields["escapeChar"], "string")
        return Call("like", (*self.all(list(tree.children)), escape))

    def _Size(self, tree: Tree) -> Expression:
        """Of NULL it is -1 where the session says so, but not in what Spark makes other functions of."""
        (of,) = self.all(list(tree.children))
        if tree.fields["legacySizeOfNull"]:
            return Call("size", (of,))
        is_present = Call("is not null", (of,))
        return Call("if", (is_present, Call("size", (of,)), Literal(None, "int")))

    def _RaiseError(self, tree: Tree) -> Expression:
        """An assertion of the program. Its message is alone in Spark 3.5; later it is in a map, a constant one where the message is constant."""
        *condition, message = tree.children
        if not condition:
            return Call("raise_error", (self.one(message),))
        is_of_program = condition[0].fields.get("value") == USER_RAISED
        if is_of_program and message.kind == "CreateMap" and len(message.children) == 2:
            return Call("raise_error", (self.one(message.children[1]),))
        constant = CONSTANT_MESSAGE.fullmatch(str(message.fields.get("value")))
        if not is_of_program or constant is None:
            return self._opaque(tree)
        return Call("raise_error", (Literal(constant[1], "string"),))

    def _by_pattern(self, tree: Tree) -> Expression:
        """Of times as texts. Java names a zone by its tables or its offset, even in one process."""
        pattern = tree.children[1]
        if pattern.kind != "Literal":
            return self._opaque(tree, "its pattern is no constant")
        if ZONE_NAME.match(str(pattern.fields.get("value"))):
            return self._opaque(tree, "the name of a time zone, which Java gives now so, now so")
        return Call(FUNCTIONS[tree.kind], self.all(list(tree.children)))

    _DateFormatClass = _FromUnixTime = _UnixTimestamp = _ToUnixTimestamp = _by_pattern

    def _YearOfWeek(self, tree: Tree) -> Expression:
        """No function has this name."""
        return Call("date_part", (Literal("YEAROFWEEK", "string"), *self.all(list(tree.children))))

    def _StringTrim(self, tree: Tree) -> Expression:
        return Call("btrim", self.all(list(tree.children)))

    def _StringTrimLeft(self, tree: Tree) -> Expression:
        return Call("ltrim", self.all(list(reversed(tree.children))))

    def _StringTrimRight(self, tree: Tree) -> Expression:
        return Call("rtrim", self.all(list(reversed(tree.children))))

    def _InSet(self, tree: Tree) -> Expression:
        """A long IN. Its values have Spark's internal form."""
        value = self.one(tree.children[0])
        kind = ddl(tree.fields["dataType"])
        held = tree.fields["hset"]
        literals = [
            Literal(_internal(text, kind), kind)
            for text in sorted(one for one in held if one is not None)
        ]
        if not kind.startswith(PLAIN_LITERALS) or any(one.value is None for one in literals):
            return self._opaque(tree, f"values of type {kind}")
        if None in held:
            literals.append(Literal(None, kind))
        return Call("in", (value, *literals))

    def _GetStructField(self, tree: Tree) -> Expression:
        column = tree.children[0].fields.get("exprId")
        if column in self._functions.kept_columns:
            return Column(column)
        ordinal = Literal(str(tree.fields["ordinal"]), "int")
        name = tree.fields["name"]
        return Call("field", (self.one(tree.children[0]), ordinal), type=str(name))

    def _ReplicateRows(self, tree: Tree) -> Expression:
        """A row as often as its first value says: what EXCEPT ALL and INTERSECT ALL become."""
        times, *values = self.all(list(tree.children))
        row = Call("struct", tuple(values))
        return Call("inline", (Call("array_repeat", (row, Call("cast", (times,), type="int"))),))

    def _ScalarSubquery(self, tree: Tree) -> Expression:
        if tree.fields.get("outerAttrs"):
            return self._opaque(tree, "a correlated subquery that Spark left in place")
        return Subquery(self._subplan(tree))

    def _AggregateExpression(self, tree: Tree) -> Expression:
        function = tree.children[0]
        where = self.one(tree.children[1]) if len(tree.children) > 1 else None
        if function.kind == "First" and where is not None and function.fields["ignoreNulls"]:
            of = self.one(function.children[0])
            if isinstance(of, Column) and of.id in self.one_row_group_columns:
                return Call("max", (of,), where=where)
        if function.kind in ORDER_DEPENDENT:
            expression = self._opaque(function, "depends on the order of rows")
            is_any_row = where is None and function.fields.get("ignoreNulls") is False
            if (
                function.kind in ONE_ROW_AGGREGATES
                and is_any_row
                and isinstance(expression, OpaqueExpression)
            ):
                return replace(expression, name=ONE_ROW_AGGREGATES[function.kind])
            return expression
        name = (LENIENT if _is_lenient(function) else AGGREGATES).get(function.kind)
        if name is None:
            return self._opaque(function)
        if function.fields.get("reverse") is True:
            return self._opaque(function, "not known to recipes in descending order")
        distinct = bool(tree.fields["isDistinct"])
        return Call(name, self.all(list(function.children)), distinct=distinct, where=where)

    def _SortArray(self, tree: Tree) -> Expression:
        """What a group collects has no order but this one."""
        array, *order = tree.children
        collected = self._collected(array) or self.one(array)
        return Call("sort_array", (collected, *self.all(order)))

    def _collected(self, tree: Tree) -> Call | None:
        if tree.kind != "AggregateExpression" or tree.children[0].kind not in COLLECTIONS:
            return None
        function = tree.children[0]
        (of,) = function.children
        kind = self._types.get(of.fields.get("exprId", -1), "")
        if kind not in SAME_IF_EQUAL or function.fields.get("ignoreNulls") is False:
            return None
        where = self.one(tree.children[1]) if len(tree.children) > 1 else None
        distinct = bool(tree.fields["isDistinct"])
        return Call(COLLECTIONS[function.kind], (self.one(of),), distinct=distinct, where=where)

    def _WindowExpression(self, tree: Tree) -> Expression:
        function, window = tree.children
        partitions, orders = len(window.fields["partitionSpec"]), len(window.fields["orderSpec"])
        partition = self.all(list(window.children[:partitions]))
        order = tuple(
            self.sort_key(child) for child in window.children[partitions : partitions + orders]
        )
        called = self._windowed(function)
        frame = None
        if function.kind in {"AggregateExpression", "NthValue"}:
            frame = self._frame(window.children[-1])
        return Over(called, partition, order, frame)

    def _windowed(self, function: Tree) -> Call | OpaqueExpression:
        if function.kind == "AggregateExpression":
            expression = self.one(function)
            if isinstance(expression, Call | OpaqueExpression):
                return expression
        name = WINDOW_FUNCTIONS.get(function.kind)
        if name is None:
            expression = self._opaque(function)
            assert isinstance(expression, OpaqueExpression)
            return expression
        ranks = name.endswith("rank") or name in {"row_number", "cume_dist"}
        args = () if ranks else self.all(list(function.children))
        return Call(name, args, ignore_nulls=bool(function.fields.get("ignoreNulls")))

    def _frame(self, tree: Tree) -> WindowFrame | None:
        if tree.kind != "SpecifiedWindowFrame":
            return None
        lower, upper = (self._bound(child) for child in tree.children)
        rows = "RowFrame" in str(tree.fields["frameType"])
        return WindowFrame("rows" if rows else "range", lower, upper)

    def _bound(self, tree: Tree) -> Expression | None:
        if tree.kind.startswith("Unbounded"):
            return None
        return Literal("0", "int") if tree.kind == "CurrentRow" else self.one(tree)


def _is_lenient(tree: Tree) -> bool:
    """Whether what is an error otherwise is NULL."""
    mode = tree.fields.get("evalMode") or (tree.fields.get("evalContext") or {}).get("evalMode")
    return mode == "TRY"


def _internal(text: str, kind: str) -> str | None:
    """The text of a value in Spark's internal form, as a literal has it; None where there is no rule."""
    if kind == "date":
        import datetime

        return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=int(text)))
    return None if kind.startswith("timestamp") else text


def _unscaled_in(tree: Tree, function: str) -> Tree | None:
    """``tree`` (an aggregate over unscaled decimals, in a window or not) over the decimals themselves."""
    if tree.kind == "WindowExpression":
        within = _unscaled_in(tree.children[0], function)
        return None if within is None else _with_first(tree, within)
    if tree.kind != "AggregateExpression" or tree.children[0].kind != function:
        return None
    called = tree.children[0]
    if called.children[0].kind != "UnscaledValue":
        return None
    return _with_first(tree, _with_first(called, called.children[0].children[0]))


def _average_in_unscaled(tree: Tree) -> Tree | None:
    """``avg(x)`` of what the optimiser makes of it: ``avg(UnscaledValue(x)) / 10^scale`` in doubles."""
    if tree.kind != "Divide" or tree.children[1].kind != "Literal":
        return None
    return _unscaled_in(tree.children[0], "Average")


def _with_first(tree: Tree, child: Tree) -> Tree:
    return Tree(tree.kind, tree.fields, (child, *tree.children[1:]), tree.held)


def _micros_of(tree: Tree) -> int | None:
    """The microseconds of a constant interval of days and shorter; None: it is none."""
    kind = str(tree.fields.get("dataType", ""))
    if tree.kind == "Literal" and kind == "interval":
        return _micros_of_clock(str(tree.fields.get("value")))
    is_interval = tree.kind == "Literal" and kind.startswith(
        ("interval day", "interval hour", "interval minute", "interval second")
    )
    value = tree.fields.get("value") if is_interval else None
    return None if value is None else int(value)


def _micros_of_clock(text: str) -> int | None:
    """The microseconds of an interval as Spark writes it (``1 hours 30 minutes``); None: it has days or months, or is none."""
    if not _CLOCK_INTERVAL.fullmatch(text):
        return None
    parts = _CLOCK_PART.findall(text)
    return int(sum(Decimal(number) * _UNIT_MICROS[unit] for number, unit in parts))
