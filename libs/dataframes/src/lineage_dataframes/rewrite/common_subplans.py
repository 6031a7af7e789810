"""Parts of a plan that are there several times, as those of a common table expression that is joined with itself.

Their groups are the same groups, so what is asked of each is gathered and asked at once. The optimiser leaves out
columns that one of the parts does not need, and each part calls its columns otherwise. So nodes are compared by
which rows they give, with whatever columns, and a column stands for what it was computed from.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Column,
    Expand,
    Filter,
    Generate,
    Join,
    Limit,
    Node,
    OpaqueExpression,
    Project,
    Scan,
    Sort,
    Subquery,
    Union,
    Window,
    expressions_of,
    input_nodes_of,
)
from lineage_dataframes.rewrite.built import Leaf
from lineage_dataframes.rewrite.expressions import matched_by, subqueries_in
from lineage_dataframes.rewrite.windows import is_running, reads_some_rows, window_functions

GroupKey = tuple[int, bool]
"""The groups of a node, by its place; True: the one of the subquery that ends there."""

Request = TypeVar("Request")


@dataclass(frozen=True)
class CommonSubplans:
    """By place, the first node of the plan that gives the same rows (``rows``), or has the same groups (``groups``).

    Where nothing was compared, each node itself.
    """

    rows: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()

    def first(self, place: int, *, subquery: bool = False) -> int:
        """The node by whose place a group is named."""
        firsts = self.rows if subquery else self.groups
        return firsts[place] if firsts else place


def find_common_subplans(recipe: Recipe) -> CommonSubplans:
    """Compare the nodes of a plan."""
    forms = _Forms(recipe)
    for node in recipe.plan:
        forms.add(node)
    return CommonSubplans(_firsts(forms.rows), _firsts(forms.groups))


def _firsts(numbers: Sequence[int]) -> tuple[int, ...]:
    first: dict[int, int] = {}
    return tuple(first.setdefault(one, place) for place, one in enumerate(numbers))


@dataclass
class _Forms:
    """Numbers for the rows that nodes give, for their groups, and by column for what it was computed from.

    Equal numbers stand for the same, whichever part of the plan it is in.
    """

    recipe: Recipe
    rows: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    columns: list[Mapping[int, int]] = field(default_factory=list)
    _numbers: dict[Hashable, int] = field(default_factory=dict)

    def add(self, node: Node) -> None:
        below = self._below(node)
        rows, made = self._rows(node, below)
        self.groups.append(self._group(node, below, rows))
        self.rows.append(rows)
        self.columns.append({**below, **made})

    def _number(self, *form: Hashable) -> int:
        return self._numbers.setdefault(form, len(self._numbers))

    def _below(self, node: Node) -> dict[int, int]:
        """The columns of the inputs; of several, with the side that each is of."""
        inputs = input_nodes_of(node)
        if len(inputs) == 1:
            return dict(self.columns[inputs[0]])
        return {
            column: self._number("side", side, form)
            for side, place in enumerate(inputs)
            for column, form in self.columns[place].items()
        }

    def _rows(self, node: Node, below: Mapping[int, int]) -> tuple[int, dict[int, int]]:
        """The rows that a node gives, and the columns that it makes."""
        inputs = tuple(self.rows[one] for one in input_nodes_of(node))
        ids = [one.id for one in node.columns]
        match node:
            case Scan():
                fields = [self._number("field", one) for one in node.fields]
                return self._number("scan", node.source), _by_id(ids, fields)
            case Project():
                return inputs[0], _by_id(ids, [self._form(one, below) for one in node.expressions])
            case Window():
                made = [
                    self._number("window", inputs, self._form(one, below))
                    for one in node.expressions
                ]
                return inputs[0], _by_id(ids[len(ids) - len(made) :], made)
            case Filter():
                return self._number("filter", inputs, self._form(node.condition, below)), {}
            case Sort():
                return self._number("sort", inputs, self._form(node.order, below)), {}
            case Limit():
                return self._number("limit", inputs, node.count, node.offset), {}
            case Aggregate():
                rows = self._number("aggregate", inputs, self._form(node.keys, below))
                return rows, _by_id(ids, [self._form(one, below) for one in node.expressions])
            case Join():
                rows = self._number("join", node.how, inputs, self._form(node.condition, below))
                found = [self._number("exists", rows)] if node.how == "exists" else []
                return rows, _by_id(ids[len(ids) - len(found) :], found)
            case Union():
                of = [
                    [self.columns[n][one.id] for one in self.recipe.plan[n].columns]
                    for n in node.inputs
                ]
                made = [self._number("union", *forms) for forms in zip(*of, strict=True)]
                return self._number("union", inputs), _by_id(ids, made)
            case Expand():
                made = [
                    self._number("expand", *(self._form(one, below) for one in of))
                    for of in zip(*node.projections, strict=True)
                ]
                return self._number("expand", inputs, len(node.projections)), _by_id(ids, made)
            case Generate():
                rows = self._number(
                    "generate", inputs, self._form(node.function, below), node.outer
                )
                made = [self._number("made", rows, n) for n in range(len(node.made))]
                return rows, _by_id([one.id for one in node.made], made)
            case _:
                # Values of the program's own, or what may come out otherwise each time.
                rows = self._own()
                return rows, _by_id(ids, [self._number("own", rows, n) for n in range(len(ids))])

    def _own(self) -> int:
        return self._number("own", len(self._numbers))

    def _group(self, node: Node, below: Mapping[int, int], rows: int) -> int:
        """What a next query traces (`lineage_dataframes.rewrite.stages`), where the node has groups."""
        match node:
            case Window() if window_functions(node):
                over = window_functions(node)[0]
                named = self._form((over.partition, over.order), below)
                how = (is_running(node), reads_some_rows(node))
                return self._number("frames", self.rows[node.input], named, *how)
            case Join(how="semi" | "exists"):
                left = tuple(below[one] for one in matched_by(self.recipe, node))
                named = self._form(node.condition, below)
                return self._number("matches", self.rows[node.right], named, left)
            case _:
                return rows

    def _form(self, part: Any, below: Mapping[int, int]) -> int:
        match part:
            case Column():
                return below[part.id] if part.id in below else self._own()
            case Subquery():
                column = self.recipe.plan[part.node].columns[0].id
                of = (self.rows[part.node], self.columns[part.node][column])
                return self._number("subquery", *of)
            case OpaqueExpression():
                return self._own()
            case tuple():
                return self._number("parts", *(self._form(one, below) for one in part))
            case _ if is_dataclass(part):
                held = (self._form(getattr(part, one.name), below) for one in fields(part))
                return self._number(type(part).__name__, *held)
            case _:
                return self._number("value", type(part).__name__, part)


def _by_id(ids: Iterable[int], numbers: Iterable[int]) -> dict[int, int]:
    return dict(zip(ids, numbers, strict=True))


class PendingGroups(Generic[Request]):
    """Groups that are to be traced, each with all that was asked of it before its turn comes."""

    def __init__(self, plan: Sequence[Node], find_common_subplans: CommonSubplans) -> None:
        self._plan, self._alike = plan, find_common_subplans
        self._asked: dict[GroupKey, list[tuple[Leaf, Request]]] = {}
        self._below: dict[GroupKey, frozenset[GroupKey]] = {}

    def add(self, leaf: Leaf, asked: Request) -> None:
        self._asked.setdefault((leaf.of, leaf.subquery), []).append((leaf, asked))

    def ready(self) -> list[list[tuple[Leaf, Request]]]:
        """By group what was asked, of those that no other one that waits leads to; they wait no longer."""
        later = frozenset[GroupKey]().union(*map(self._led_to, self._asked))
        return [self._asked.pop(one) for one in list(self._asked) if one not in later]

    def _led_to(self, group: GroupKey) -> frozenset[GroupKey]:
        """The groups that tracing one may ask of."""
        if group not in self._below:
            place, subquery = group
            found = set[GroupKey]()
            todo = [place] if subquery else self._read(place, found)
            while todo:
                one = todo.pop()
                found.add((self._alike.first(one), False))
                todo += self._read(one, found)
            self._below[group] = frozenset(found)
        return self._below[group]

    def _read(self, place: int, found: set[GroupKey]) -> list[int]:
        """The nodes that a node reads; subqueries among them are found groups."""
        node = self._plan[place]
        read = [n for one in expressions_of(node) for n in subqueries_in(one)]
        found.update((self._alike.first(n, subquery=True), True) for n in read)
        return [*input_nodes_of(node), *read]
