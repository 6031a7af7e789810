"""Calls of Python functions of DataFrames that failed, and whose rows a job set aside, as their recipes have them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lineage_core.contract.verdict import QUARANTINE
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import SET_ASIDE_CALL
from lineage_core.recipe.plan import Call, Expression, Literal, Project
from lineage_query.snapshot import ApplicationSnapshot
from lineage_store.recipes import read_recipe


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call: ``node`` has the rows on which it is made, ``number`` is its own there. ``what``: the function, its arguments, its error."""

    node: str
    number: int
    what: str

    @property
    def condition(self) -> str:
        """What the rows of its node fulfil that it was made on, in SQL."""
        return f"{SET_ASIDE_CALL} = {self.number}"


def failed_calls(opened: ApplicationSnapshot) -> Iterator[FailedCall]:
    """The calls of an application that failed, each once for each node that holds its rows.

    Raises:
        LineageError: a recipe can't be read.
    """
    for node in opened.nodes:
        if node.kind != "frame" or node.op != QUARANTINE:
            continue
        recipe = read_recipe(opened.graph, node.node)
        if recipe is None:
            continue
        function, _, action = (node.name or node.op).rpartition(" of ")
        site = f" at {node.call_site}" if node.call_site else ""
        for number, (values, error) in enumerate(_calls(recipe), 1):
            inner = function.rstrip(")")
            called = f"{inner}({', '.join(values)}){')' * (len(function) - len(inner))}"
            yield FailedCall(node.node, number, f"{called} of {action}{site}: {error}")


def _calls(recipe: Recipe) -> Iterator[tuple[list[str], str]]:
    """Arguments and error of each call, as `lineage_emitter.dataframes.set_aside` wrote them."""
    last = recipe.plan[-1]
    assert isinstance(last, Project)
    errors = last.expressions[-1]
    assert isinstance(errors, Call)
    for is_call, error in zip(errors.args[::2], errors.args[1::2], strict=True):
        assert isinstance(error, Literal)
        yield list(map(_value, _operands(is_call))), error.value or ""


def _operands(condition: Expression) -> Iterator[Expression]:
    """What an ``and`` combines."""
    if isinstance(condition, Call) and condition.fn == "and":
        for operand in condition.args:
            yield from _operands(operand)
    elif not isinstance(condition, Literal):
        yield condition


def _value(equal: Expression) -> str:
    """The argument that a condition asks for."""
    assert isinstance(equal, Call)
    if equal.fn == "is null":
        return "NULL"
    argument, value = equal.args
    if isinstance(value, Call):
        (micros,) = value.args
        assert isinstance(micros, Literal)
        return f"{value.fn}({micros.value})"
    assert isinstance(value, Literal)
    # Zeros and NaN are compared as texts.
    is_number = isinstance(argument, Call) and value.value in {"0.0", "-0.0", "NaN"}
    is_text = value.type == "string" and not is_number
    return repr(value.value) if is_text else str(value.value)
