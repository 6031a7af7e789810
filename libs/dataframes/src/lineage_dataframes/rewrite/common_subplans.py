"""Parts of a plan that are there several times, as those of a common table expression that is joined with itself.

Their groups are the same groups, so the requests for each are gathered and traced at once. The optimiser leaves out
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
from lineage_dataframes.rewrite.expressions import matched_by, subqueries_in
from lineage_dataframes.rewrite.named_query import Leaf
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
    first_places: dict[int, int] = {}
    return tuple(first_places.setdefault(number, place) for place, number in enumerate(numbers))


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
        rows, own_columns = self._rows(node, below)
        self.groups.append(self._group(node, below, rows))
        self.rows.append(rows)
        self.columns.append({**below, **own_columns})

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
        inputs = tuple(self.rows[input_node] for input_node in input_nodes_of(node))
        ids = [column.id for column in node.columns]
        match node:
            case Scan():
                fields = [self._number("field", field_name) for field_name in node.fields]
                return self._number("scan", node.source), _by_id(ids, fields)
            case Project():
                return inputs[0], _by_id(
                    ids, [self._form(expression, below) for expression in node.expressions]
                )
            case Window():
                own_forms = [
                    self._number("window", inputs, self._form(expression, below))
                    for expression in node.expressions
                ]
                return inputs[0], _by_id(ids[len(ids) - len(own_forms) :], own_forms)
            case Filter():
                return self._number("filter", inputs, self._form(node.condition, below)), {}
            case Sort():
                return self._number("sort", inputs, self._form(node.order, below)), {}
            case Limit():
                return self._number("limit", inputs, node.count, node.offset), {}
            case Aggregate():
                rows = self._number("aggregate", inputs, self._form(node.keys, below))
                return rows, _by_id(
                    ids, [self._form(expression, below) for expression in node.expressions]
                )
            case Join():
                rows = self._number("join", node.how, inputs, self._form(node.condition, below))
                exists_form = [self._number("exists", rows)] if node.how == "exists" else []
                return rows, _by_id(ids[len(ids) - len(exists_form) :], exists_form)
            case Union():
                column_forms = [
                    [self.columns[n][column.id] for column in self.recipe.plan[n].columns]
                    for n in node.inputs
                ]
                own_forms = [
                    self._number("union", *forms) for forms in zip(*column_forms, strict=True)
                ]
                return self._number("union", inputs), _by_id(ids, own_forms)
            case Expand():
                own_forms = [
                    self._number(
                        "expand", *(self._form(expression, below) for expression in column_forms)
                    )
                    for column_forms in zip(*node.projections, strict=True)
                ]
                return self._number("expand", inputs, len(node.projections)), _by_id(ids, own_forms)
            case Generate():
                rows = self._number(
                    "generate", inputs, self._form(node.function, below), node.outer
                )
                own_forms = [self._number("made", rows, n) for n in range(len(node.made))]
                return rows, _by_id([column.id for column in node.made], own_forms)
            case _:
                # Values of the program's own, or what may come out otherwise each time.
                rows = self._own()
                return rows, _by_id(ids, [self._number("own", rows, n) for n in range(len(ids))])

    def _own(self) -> int:
        return self._number("own", len(self._numbers))

    def _group(self, node: Node, below: Mapping[int, int], rows: int) -> int:
        """What a next query traces (`lineage_dataframes.rewrite.group_queries`), where the node has groups."""
        match node:
            case Window() if window_functions(node):
                window_function = window_functions(node)[0]
                group_form = self._form((window_function.partition, window_function.order), below)
                frame_form = (is_running(node), reads_some_rows(node))
                return self._number("frames", self.rows[node.input], group_form, *frame_form)
            case Join(how="semi" | "exists"):
                left_column_forms = tuple(
                    below[column_id] for column_id in matched_by(self.recipe, node)
                )
                group_form = self._form(node.condition, below)
                return self._number("matches", self.rows[node.right], group_form, left_column_forms)
            case _:
                return rows

    def _form(self, part: Any, below: Mapping[int, int]) -> int:
        match part:
            case Column():
                return below[part.id] if part.id in below else self._own()
            case Subquery():
                column = self.recipe.plan[part.node].columns[0].id
                subquery_form = (self.rows[part.node], self.columns[part.node][column])
                return self._number("subquery", *subquery_form)
            case OpaqueExpression():
                return self._own()
            case tuple():
                return self._number("parts", *(self._form(item, below) for item in part))
            case _ if is_dataclass(part):
                member_forms = (
                    self._form(getattr(part, member.name), below) for member in fields(part)
                )
                return self._number(type(part).__name__, *member_forms)
            case _:
                return self._number("value", type(part).__name__, part)


def _by_id(ids: Iterable[int], numbers: Iterable[int]) -> dict[int, int]:
    return dict(zip(ids, numbers, strict=True))


class PendingGroups(Generic[Request]):
    """Groups to trace, each with all requests that came before its turn."""

    def __init__(self, plan: Sequence[Node], common_subplans: CommonSubplans) -> None:
        self._plan, self._common_subplans = plan, common_subplans
        self._requests_by_group: dict[GroupKey, list[tuple[Leaf, Request]]] = {}
        self._below: dict[GroupKey, frozenset[GroupKey]] = {}

    def add(self, leaf: Leaf, request: Request) -> None:
        self._requests_by_group.setdefault((leaf.of, leaf.subquery), []).append((leaf, request))

    def ready(self) -> list[list[tuple[Leaf, Request]]]:
        """The requests by group, of those groups that no other pending group leads to; they are pending no longer."""
        groups_still_reached = frozenset[GroupKey]().union(
            *map(self._led_to, self._requests_by_group)
        )
        return [
            self._requests_by_group.pop(group)
            for group in list(self._requests_by_group)
            if group not in groups_still_reached
        ]

    def _led_to(self, group: GroupKey) -> frozenset[GroupKey]:
        """The groups that tracing one may lead to."""
        if group not in self._below:
            place, subquery = group
            groups = set[GroupKey]()
            pending = [place] if subquery else self._read(place, groups)
            while pending:
                node_below = pending.pop()
                groups.add((self._common_subplans.first(node_below), False))
                pending += self._read(node_below, groups)
            self._below[group] = frozenset(groups)
        return self._below[group]

    def _read(self, place: int, groups: set[GroupKey]) -> list[int]:
        """The nodes that a node reads; subqueries among them are found groups."""
        node = self._plan[place]
        subqueries = [n for expression in expressions_of(node) for n in subqueries_in(expression)]
        groups.update((self._common_subplans.first(n, subquery=True), True) for n in subqueries)
        return [*input_nodes_of(node), *subqueries]
