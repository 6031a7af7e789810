"""Bounds of what is written of a plan, and whether its calls have the arguments that their text needs.

A recipe that reads as one may still be forged: what could not be written, or without end, is refused here.
"""

from __future__ import annotations

from lineage_core.recipe.plan import Call, Literal, Node, expressions_of, subexpressions_of
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.expressions import INFIX
from lineage_dataframes.rewrite.function_names import AGGREGATES

LEAVES_MAX = 10_000
"""Places of a plan that the rows of one query name: a few nodes that each join or unite one with itself name twice as
many each."""
TEXT_MAX = 32 << 20
"""Characters of the named queries of one statement: each node that reads a wide one writes all of its columns."""
TOO_DEEP = "the plan is nested too deeply"

_ARGUMENTS_MIN = {
    "not": 1, "~": 1, "is null": 1, "is not null": 1, "in": 1, "like": 3, "[]": 2, "cast": 1, "try_cast": 1,
    "case": 2, "field": 2, "lambda": 2, **dict.fromkeys(INFIX, 1), **dict.fromkeys(AGGREGATES - {"count"}, 1),
}  # fmt: skip


def check_calls(node: Node) -> None:
    """See that the calls of a node have the arguments without which there is no text of them.

    Raises:
        RefusedError: one has not.
    """
    for expression in expressions_of(node):
        for part in subexpressions_of(expression):
            if isinstance(part, Call):
                _check_call(part)


def _check_call(call: Call) -> None:
    if len(call.args) < _ARGUMENTS_MIN.get(call.fn, 0):
        raise RefusedError(f"the plan calls {call.fn!r:.40} with {len(call.args)} arguments")
    if call.fn == "field" and not _names_a_field(call):
        raise RefusedError("the plan names a field that is not there")


def _names_a_field(call: Call) -> bool:
    if len(call.args) != 2 or not isinstance(call.args[1], Literal):
        return False
    struct, index = call.args[0], call.args[1]
    if not isinstance(struct, Call) or struct.fn != "named_struct":
        return True
    number = index.value or "0"
    return number.isascii() and number.isdigit() and 2 * int(number[:9]) + 1 < len(struct.args)
