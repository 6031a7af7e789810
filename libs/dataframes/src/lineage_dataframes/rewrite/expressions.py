"""A recipe's expressions as Spark SQL text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Call,
    Column,
    Expression,
    Join,
    Literal,
    OpaqueExpression,
    Over,
    PythonCall,
    SortKey,
    Subquery,
    WindowFrame,
    subexpressions_of,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.spark.literals import quoted_name, recipe_constant

INFIX = {
    "+", "-", "*", "/", "%", "div", "=", "<=>", "<", "<=", ">", ">=", "and", "or", "&", "|", "^", "rlike",
}  # fmt: skip


def function_name(code: int) -> str:
    """What a Python function of the recipe is called in a trace's session."""
    return f"lineage_function_{code}"


class SqlWriter:
    """Writes expressions. ``columns``: the text of columns that are not their usual names."""

    def __init__(
        self,
        subquery: Callable[[int], str],
        columns: Mapping[int, str] | None = None,
    ) -> None:
        self._subquery = subquery
        self._columns = columns or {}

    def of(self, expression: Expression) -> str:
        """The expression as text.

        Raises:
            RefusedError: it is opaque.
        """
        match expression:
            case Column():
                return self._columns.get(expression.id, f"c{expression.id}")
            case Literal():
                return recipe_constant(expression)
            case Call():
                return self._call(expression)
            case Over():
                return self._over(expression)
            case Subquery():
                return self._subquery(expression.node)
            case PythonCall():
                args = ", ".join(self.of(argument) for argument in expression.args)
                return f"{function_name(expression.code)}({args})"
            case OpaqueExpression():
                raise RefusedError(f"{expression.name}: {expression.why}")

    def sort_key(self, key: SortKey) -> str:
        """A term of an ORDER BY."""
        direction = "DESC" if key.descending else "ASC"
        return f"{self.of(key.of)} {direction} NULLS {'LAST' if key.nulls_last else 'FIRST'}"

    def _call(self, call: Call) -> str:
        if call.fn == "field":
            # Not by its arguments' text: a struct in a struct in a struct would be written twice each.
            return self._field(call)
        fn, args = call.fn, [self.of(argument) for argument in call.args]
        match fn:
            case _ if fn in INFIX:
                return f"({f' {fn} '.join(args)})"
            case "not" | "~":
                return f"({fn} {args[0]})"
            case "is null" | "is not null":
                return f"({args[0]} {fn})"
            case "in":
                return f"({args[0]} IN ({', '.join(args[1:])}))" if args[1:] else "false"
            case "like":
                return f"({args[0]} LIKE {args[1]} ESCAPE {args[2]})"
            case "[]":
                return f"({args[0]}[{args[1]}])"
            case "cast" | "try_cast":
                return f"{fn}({args[0]} AS {call.type})"
            case "case":
                pairs = zip(args[::2], args[1::2], strict=False)
                whens = " ".join(f"WHEN {when} THEN {then}" for when, then in pairs)
                return f"(CASE {whens}{f' ELSE {args[-1]}' if len(args) % 2 else ''} END)"
            case "lambda variable":
                return str(call.type)
            case "lambda":
                *names, body = args
                return f"{names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'} -> {body}"
            case _:
                where = "" if call.where is None else f" FILTER (WHERE {self.of(call.where)})"
                return f"{fn}({'DISTINCT ' if call.distinct else ''}{', '.join(args)}){where}"

    def _field(self, call: Call) -> str:
        """A struct's field by its place: through its values in order, for names may repeat."""
        struct, index = call.args
        assert isinstance(index, Literal)
        if isinstance(struct, Call) and struct.fn == "named_struct":
            return self.of(struct.args[2 * int(index.value or 0) + 1])
        return f"{self.of(struct)}.{quoted_name(call.type or '')}"

    def _over(self, over: Over) -> str:
        parts = []
        if over.partition:
            parts.append("PARTITION BY " + ", ".join(self.of(term) for term in over.partition))
        if over.order:
            parts.append("ORDER BY " + ", ".join(self.sort_key(key) for key in over.order))
        if over.frame is not None:
            parts.append(self._frame(over.frame))
        nulls = " IGNORE NULLS" if isinstance(over.of, Call) and over.of.ignore_nulls else ""
        return f"{self.of(over.of)}{nulls} OVER ({' '.join(parts)})"

    def _frame(self, frame: WindowFrame) -> str:
        lower = "UNBOUNDED PRECEDING" if frame.lower is None else self._bound(frame.lower)
        upper = "UNBOUNDED FOLLOWING" if frame.upper is None else self._bound(frame.upper)
        return f"{frame.unit.upper()} BETWEEN {lower} AND {upper}"

    def _bound(self, bound: Expression) -> str:
        if isinstance(bound, Literal) and bound.value == "0":
            return "CURRENT ROW"
        if isinstance(bound, Literal) and (bound.value or "").startswith("-"):
            opposite = Literal((bound.value or "")[1:], bound.type)
            return f"{self.of(opposite)} PRECEDING"
        return f"{self.of(bound)} FOLLOWING"


def columns_in(expression: Expression) -> set[int]:
    """The numbers of the columns that an expression reads."""
    return {part.id for part in subexpressions_of(expression) if isinstance(part, Column)}


def subqueries_in(expression: Expression) -> list[int]:
    """The subqueries that an expression reads."""
    return [part.node for part in subexpressions_of(expression) if isinstance(part, Subquery)]


def opaque_in(expression: Expression) -> OpaqueExpression | None:
    """What can't be computed anew in an expression."""
    opaque_parts = [
        part for part in subexpressions_of(expression) if isinstance(part, OpaqueExpression)
    ]
    return opaque_parts[0] if opaque_parts else None


def conjuncts(expression: Expression) -> list[Expression]:
    """The terms of a conjunction."""
    if isinstance(expression, Call) and expression.fn == "and":
        return [term for argument in expression.args for term in conjuncts(argument)]
    return [expression]


def matched_by(recipe: Recipe, node: Join) -> list[int]:
    """The left side's columns that decide which right rows match, in order."""
    condition_columns = set() if node.condition is None else columns_in(node.condition)
    left_columns = [column.id for column in recipe.plan[node.left].columns]
    return [
        column_id for column_id in dict.fromkeys(left_columns) if column_id in condition_columns
    ]
