"""Calls of Python functions of DataFrames that failed, and whose rows a job set aside, as their recipes have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.verdict import QUARANTINE
from lineage_core.errors import RecipeError
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import SET_ASIDE_CALL
from lineage_core.recipe.plan import Call, Expression, Filter, Literal, OpaqueExpression, Project
from lineage_query.snapshot import ApplicationSnapshot
from lineage_store.recipes import read_recipe


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call of a function that failed: ``node`` has the rows on which it was made, ``number`` is its own there.

    ``action``: which called it, with its call site. ``values``: of the arguments, as texts.
    """

    node: str
    number: int
    function: str
    action: str
    values: tuple[str, ...]
    error: str

    @property
    def what(self) -> str:
        """The function, its arguments, its error, in one line."""
        inner = self.function.rstrip(")")
        closing = ")" * (len(self.function) - len(inner))
        return f"{inner}({', '.join(self.values)}){closing} of {self.action}: {self.error}"

    @property
    def condition(self) -> str:
        """What the rows of its node fulfil that it was made on, in SQL."""
        return f"{SET_ASIDE_CALL} = {self.number}"


@dataclass(frozen=True, slots=True)
class SetAsideNode:
    """A node with the rows that were set aside for a function, and its recipe."""

    node: NodeRecord
    recipe: Recipe

    def calls(self) -> Iterator[FailedCall]:
        """The calls that failed on its rows.

        Raises:
            RecipeError: the recipe names none as they are written.
        """
        function, _, action = (self.node.name or self.node.op).rpartition(" of ")
        site = f" at {self.node.call_site}" if self.node.call_site else ""
        for number, (values, error) in enumerate(_calls(self.recipe), 1):
            yield FailedCall(
                self.node.node, number, function, f"{action}{site}", tuple(values), error
            )

    @property
    def has_more_calls(self) -> bool:
        """Whether more calls failed than the recipe names: its rows are not known then.

        Raises:
            RecipeError: the recipe names none as they are written.
        """
        left_out = self.recipe.plan[_last(self.recipe).input]
        return isinstance(left_out, Filter) and isinstance(left_out.condition, OpaqueExpression)


def set_aside_nodes(opened: ApplicationSnapshot, nodes: Iterable[NodeRecord]) -> list[SetAsideNode]:
    """Those of some nodes of an application that hold rows of DataFrames that were set aside.

    Raises:
        LineageError: a recipe can't be read.
    """
    found = []
    for node in nodes:
        if node.kind == "frame" and node.op == QUARANTINE:
            recipe = read_recipe(opened.graph, node.node)
            found += [] if recipe is None else [SetAsideNode(node, recipe)]
    return found


def _last(recipe: Recipe) -> Project:
    last = recipe.plan[-1] if recipe.plan else None
    if not isinstance(last, Project) or len(last.columns) != len(last.expressions):
        raise _not_of_calls()
    return last


def _not_of_calls() -> RecipeError:
    return RecipeError("a recipe of rows that were set aside names no calls as they are written")


def _calls(recipe: Recipe) -> Iterator[tuple[list[str], str]]:
    """Arguments and error of each call, as `lineage_emitter.dataframes.set_aside` wrote them.

    Raises:
        RecipeError: it was not written so.
    """
    last = _last(recipe)
    errors = last.expressions[-1] if last.expressions else None
    if not isinstance(errors, Call) or len(errors.args) % 2:
        raise _not_of_calls()
    # The number of the call and its error come last.
    types = [column.type for column in last.columns[:-2]]
    for is_call, error in zip(errors.args[::2], errors.args[1::2], strict=True):
        operands = list(_operands(is_call))
        if not isinstance(error, Literal) or len(operands) != len(types):
            raise _not_of_calls()
        yield list(map(_value, operands, types)), error.value or ""


def _operands(condition: Expression) -> Iterator[Expression]:
    """What an ``and`` combines."""
    if isinstance(condition, Call) and condition.fn == "and":
        for operand in condition.args:
            yield from _operands(operand)
    elif not isinstance(condition, Literal):
        yield condition


def _value(equal: Expression, kind: str) -> str:
    """The argument, of a type, that a condition asks for."""
    match equal:
        case Call(fn="is null"):
            return "NULL"
        case Call(args=(_, Call(fn=function, args=(Literal(value=micros),)))):
            return f"{function}({micros})"
        case Call(args=(_, Literal(value=value))):
            # Zeros and NaN are compared as texts: what is of a text is the argument's type.
            return repr(value) if kind == "string" else str(value)
    raise _not_of_calls()
