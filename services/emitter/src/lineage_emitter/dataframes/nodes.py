"""Catalyst's plan nodes to a recipe's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import chain

from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Expand,
    Expression,
    Filter,
    Generate,
    Join,
    JoinKind,
    Limit,
    Node,
    OpaqueExpression,
    OpaqueNode,
    Project,
    PythonRows,
    Range,
    Sample,
    Sessions,
    Sort,
    Union,
    Window,
)
from lineage_emitter.dataframes.code import Functions
from lineage_emitter.dataframes.expressions import Expressions
from lineage_emitter.dataframes.guarded_code import (
    flagged,
    is_guarded,
    name_of,
    sets_groups_aside,
)
from lineage_emitter.dataframes.plan_text import Tree
from lineage_emitter.dataframes.set_aside import (
    UNKNOWN,
    CalledRows,
    SetAsideCalls,
    SetAsideRows,
    balanced,
)
from lineage_emitter.dataframes.types import ddl

TRANSPARENT_NODES = {
    "LocalLimit", "WindowGroupLimit", "SubqueryAlias", "View", "Repartition", "RepartitionByExpression",
    "RebalancePartitions", "ResolvedHint", "CollectMetrics",
}  # fmt: skip
"""Nodes that leave the rows as they are, or whose effect the node above repeats (a local limit's).

What is observed of rows (``CollectMetrics``) goes to the driver beside them, as an accumulator's value does."""

JOINS: dict[str, JoinKind] = {
    "Inner": "inner", "Cross": "inner", "LeftOuter": "left", "RightOuter": "right",
    "FullOuter": "full", "LeftSemi": "semi", "LeftAnti": "anti", "ExistenceJoin": "exists",
}  # fmt: skip

OBJECT_PLACE = re.compile(r', "kept": \d+')
"""Tells one object of a leaf from another: its columns do, too."""

LeafRule = Callable[[Tree], int | None]
"""Records a leaf and says its place; None where it does not know the class."""


class PlanNodes:
    """Collects a plan's nodes, inputs before their users.

    ``types``: of columns by number. ``functions``: takes the code of Python functions. ``calls``: those that failed, where
    the plan has run; None: they are not known.
    ``leaf``: records what reads data; without it, leaves are opaque.
    """

    def __init__(
        self, types: dict[int, str], functions: Functions, calls: SetAsideCalls | None = None
    ) -> None:
        self.plan: list[Node] = []
        self.set_aside: list[SetAsideRows] = []
        """What Python functions left out."""
        self._calls = calls
        self._functions = functions
        self.leaf: LeafRule = lambda _: None
        self._types = types
        self._subplans: dict[str, int] = {}

    def add(self, node: Node) -> int:
        self.plan.append(node)
        return len(self.plan) - 1

    def add_tree(self, tree: Tree) -> int:
        """Record the node and all below it; its place in the plan."""
        if tree.kind in TRANSPARENT_NODES:
            return self.add_tree(tree.children[0])
        rule = getattr(self, f"_{tree.kind}", None)
        if rule is None:
            node_number = self.leaf(tree) if not tree.children else None
            return self._opaque(tree) if node_number is None else node_number
        return self.add(rule(tree))

    def attribute(self, tree: Tree) -> Attribute:
        """The column that an attribute or alias names."""
        column_id = tree.fields["exprId"]
        return Attribute(column_id, str(tree.fields["name"]), self._types.get(column_id, ""))

    def _columns(self, node_number: int) -> tuple[Attribute, ...]:
        return self.plan[node_number].columns

    def _expressions(self, tree: Tree) -> Expressions:
        def subplan(expression: Tree) -> int:
            text = OBJECT_PLACE.sub("", json.dumps(expression.fields["plan"]))
            if text not in self._subplans:
                below = expression.tree("plan")
                assert below is not None
                self._subplans[text] = self.add_tree(below)
            return self._subplans[text]

        return Expressions(self._types, subplan, self._functions)

    def _opaque(self, tree: Tree) -> int:
        columns = tuple(self.attribute(column) for column in tree.trees("output"))
        inputs = self._inputs(tree)
        why = "rows of an RDD" if tree.kind == "LogicalRDD" else "not known to recipes"
        return self.add(OpaqueNode(columns, tree.kind, why, inputs))

    def _Project(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        listed = tree.trees("projectList")
        return Project(self._named(listed), below, self._expressions(tree).all(listed))

    def _named(self, trees: Iterable[Tree]) -> tuple[Attribute, ...]:
        return tuple(self.attribute(column) for column in trees)

    def _Filter(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        condition = tree.tree("condition")
        assert condition is not None
        return Filter(self._columns(below), below, self._expressions(tree).one(condition))

    def _Join(self, tree: Tree) -> Node:
        left_node, right_node = (self.add_tree(child) for child in tree.children)
        kind = tree.fields["joinType"]
        name = kind if isinstance(kind, str) else kind["class"]
        condition_tree = tree.tree("condition")
        condition = None if condition_tree is None else self._expressions(tree).one(condition_tree)
        shared = {column.id for column in self._columns(left_node)} & {
            column.id for column in self._columns(right_node)
        }
        if name not in JOINS or shared:
            why = "a join of this kind" if name not in JOINS else "both sides hold the same column"
            return OpaqueNode((), name, why, (left_node, right_node))
        how = JOINS[name]
        columns = self._columns(left_node)
        if how == "exists":
            exists_id = kind["exists"]["exprId"]
            columns = (*columns, Attribute(exists_id, "exists", "boolean"))
        elif how not in {"semi", "anti"}:
            columns = (*columns, *self._columns(right_node))
        return Join(columns, left_node, right_node, how, condition)

    def _Aggregate(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        expressions = self._expressions(tree)
        expressions.one_row_group_columns = self._one_row_group_columns(tree)
        keys = expressions.all(tree.trees("groupingExpressions"))
        listed, guarded = self._without_flags(tree.trees("aggregateExpressions"))
        called = CalledRows(below, keys)
        set_aside = [self._set_aside(function, called) for function in guarded]
        below = self._without(below, list(chain.from_iterable(set_aside)))
        session = tree.fields.get("session")
        if session is not None:
            others = tuple(key for key in keys if key != Column(session))
            below = self.add(Sessions(self._columns(below), below, others, session))
        return Aggregate(self._named(listed), below, keys, expressions.all(listed))

    def _without_flags(self, listed: list[Tree]) -> tuple[list[Tree], list[Tree]]:
        """The columns of an aggregation but for those that say which groups are left, and its functions that set groups aside."""
        columns, guarded = list[Tree](), list[Tree]()
        for column in listed:
            function = _python_aggregate(column)
            if function is not None and flagged(function) is not None:
                self._functions.flag_columns.add(column.fields["exprId"])
                continue
            columns.append(column)
            if function is not None and sets_groups_aside(function):
                guarded.append(function)
        return columns, guarded

    def _one_row_group_columns(self, tree: Tree) -> set[int]:
        """Columns with one value a group.

        Several distinct aggregates become two, one above the other; the upper takes the results of the
        lower by ``first(x) ignore nulls filter (where gid = n)``, which is no choice by order.
        """
        lower = tree.children[0]
        if lower.kind != "Aggregate" or lower.children[0].kind != "Expand":
            return set()
        if "gid" not in {column.fields["name"] for column in lower.children[0].trees("output")}:
            return set()
        results = lower.trees("aggregateExpressions")
        return {column.fields["exprId"] for column in results if column.kind == "Alias"}

    def _Window(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        listed = tree.trees("windowExpressions")
        columns = (*self._columns(below), *self._named(listed))
        return Window(columns, below, self._expressions(tree).all(listed))

    def _Sort(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        expressions = self._expressions(tree)
        order = tuple(expressions.sort_key(column) for column in tree.trees("order"))
        return Sort(self._columns(below), below, order)

    def _GlobalLimit(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        return Limit(self._columns(below), below, _number(tree, "limitExpr"))

    def _Offset(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        return Limit(self._columns(below), below, None, _number(tree, "offsetExpr"))

    def _Sample(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        return Sample(self._columns(below), below)

    def _Union(self, tree: Tree) -> Node:
        inputs = self._inputs(tree)
        return Union(self._columns(inputs[0]), inputs)

    def _Range(self, tree: Tree) -> Node:
        columns = self._named(tree.trees("output"))
        start, end, step = (int(tree.fields[name]) for name in ("start", "end", "step"))
        return Range(columns, start, end, step)

    def _Expand(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        columns = self._named(tree.trees("output"))
        expressions = self._expressions(tree)
        rows = tuple(expressions.all(row) for row in tree.rows("projections"))
        return Expand(columns, below, rows)

    def _Generate(self, tree: Tree) -> Node:
        below = self.add_tree(tree.children[0])
        generated = self._named(tree.trees("generatorOutput"))
        function = tree.tree("generator")
        assert function is not None
        # Made columns may take the place of what they were made from, under the same number. Others are
        # left out since nothing above reads them.
        dropped = set(tree.fields["unrequiredChildIndex"])
        generated_ids = {column.id for column in generated}
        columns = (
            *(
                column
                for position, column in enumerate(self._columns(below))
                if position not in dropped and column.id not in generated_ids
            ),
            *generated,
        )
        expression = self._expressions(tree).one(function)
        return Generate(columns, below, expression, generated, bool(tree.fields["outer"]))

    def _python(self, tree: Tree) -> Node:
        """Python functions of one row each."""
        below = self.add_tree(tree.children[0])
        expressions, listed = self._expressions(tree), list[tuple[Tree, Tree]]()
        for udf, attribute in zip(tree.trees("udfs"), tree.trees("resultAttrs"), strict=True):
            number = flagged(udf)
            if number is None:
                listed.append((udf, attribute))
            else:
                self._functions.flagged.add(number)
                self._functions.flag_columns.add(attribute.fields["exprId"])
        set_aside = list[Expression]()
        for udf, attribute in listed:
            if is_guarded(udf):
                column = attribute.fields["exprId"]
                self._functions.kept_columns.add(column)
                self._types[column] = ddl(udf.fields["dataType"]["fields"][0]["type"])
            if self._functions.is_guarded(udf):
                called = CalledRows(below, expressions.all(list(udf.children)))
                set_aside += self._set_aside(udf, called)
        below = self._without(below, set_aside)
        results = self._named(attribute for _, attribute in listed)
        functions = expressions.all([udf for udf, _ in listed])
        passed = tuple(Column(column.id) for column in self._columns(below))
        return Project((*self._columns(below), *results), below, (*passed, *functions))

    def _without(self, below: int, set_aside: list[Expression]) -> int:
        """The rows of a node of which none of these conditions holds."""
        if not set_aside:
            return below
        kept = Call("not", (balanced("or", set_aside),))
        return self.add(Filter(self._columns(below), below, kept))

    def _set_aside(self, udf: Tree, *inputs: CalledRows) -> list[Expression]:
        """Of each input, that a row is one that the job left out, as the function failed on it; nothing where it left out none."""
        if self._calls is None:
            return [
                OpaqueExpression(name_of(udf), UNKNOWN, rows.arguments, "boolean")
                for rows in inputs
            ]
        code = self._functions.guarded(udf)
        calls = self._calls.of(code.number)
        if not calls:
            return []
        left_out = SetAsideRows(code.number, code.name, inputs, code.types, calls)
        self.set_aside.append(left_out)
        return [left_out.condition(rows.arguments) for rows in inputs]

    _BatchEvalPython = _python
    _ArrowEvalPython = _python

    def _partitions(self, tree: Tree) -> Node:
        function, inputs = tree.tree("functionExpr"), self._inputs(tree)
        assert function is not None
        self._functions.note_unguarded(function)
        columns = self._named(tree.trees("output"))
        why = "a Python function over partitions"
        return PythonRows(columns, inputs, name_of(function), why)

    _MapInPandas = _partitions
    _MapInArrow = _partitions
    _PythonMapInArrow = _partitions

    def _groups(self, tree: Tree) -> Node:
        function, inputs = tree.tree("functionExpr"), self._inputs(tree)
        assert function is not None
        keys = self._keys(tree, "groupingAttributes")
        columns = self._named(tree.trees("output"))
        if sets_groups_aside(function):
            sides = (
                [keys]
                if len(inputs) == 1
                else [self._keys(tree, "leftKeys"), self._keys(tree, "rightKeys")]
            )
            inputs = self._without_groups(function, inputs, sides)
        else:
            self._functions.note_unguarded(function)
        why = "a Python function over groups"
        return PythonRows(columns, inputs, name_of(function), why, keys)

    def _keys(self, tree: Tree, field: str) -> tuple[int, ...]:
        return tuple(column.id for column in self._named(tree.trees(field)))

    def _without_groups(
        self, function: Tree, inputs: tuple[int, ...], keys: Iterable[tuple[int, ...]]
    ) -> tuple[int, ...]:
        """The rows of the inputs of a function of groups but for those of groups that were left out. ``keys``: of each input, the columns that name its groups."""
        called = [
            CalledRows(below, tuple(map(Column, columns)))
            for below, columns in zip(inputs, keys, strict=True)
        ]
        set_aside = self._set_aside(function, *called)
        if not set_aside:
            return inputs
        return tuple(
            self._without(below, [condition])
            for below, condition in zip(inputs, set_aside, strict=True)
        )

    _FlatMapGroupsInPandas = _groups
    _FlatMapGroupsInArrow = _groups
    _FlatMapCoGroupsInPandas = _groups
    _FlatMapCoGroupsInArrow = _groups

    def _stateful_groups(self, tree: Tree) -> Node:
        """A Python function that keeps a state for each group of a stream's rows."""
        function, inputs = tree.tree("functionExpr"), self._inputs(tree)
        assert function is not None
        columns = self._named(tree.trees("outAttributes") or tree.trees("outputAttrs"))
        return PythonRows(
            columns, inputs, name_of(function), "a Python function that keeps a state"
        )

    _FlatMapGroupsInPandasWithState = _stateful_groups
    _TransformWithStateInPandas = _stateful_groups
    _TransformWithStateInPySpark = _stateful_groups

    def _table_function(self, tree: Tree) -> Node:
        """A Python table function: one object serves a whole partition, and may keep what it was given."""
        function, inputs = tree.tree("udtf"), self._inputs(tree)
        assert function is not None
        self._functions.note_unguarded(function)
        columns = self._named([*tree.trees("requiredChildOutput"), *tree.trees("resultAttrs")])
        return PythonRows(columns, inputs, name_of(function), "a Python table function")

    _BatchEvalPythonUDTF = _table_function
    _ArrowEvalPythonUDTF = _table_function

    def _inputs(self, tree: Tree) -> tuple[int, ...]:
        return tuple(self.add_tree(child) for child in tree.children)


def _python_aggregate(column: Tree) -> Tree | None:
    """The Python function whose value a column of an aggregation is; None: it is another one."""
    for kind in ("Alias", "AggregateExpression"):
        # With a FILTER it has a condition, too, and sets nothing aside.
        if column.kind != kind or len(column.children) != 1:
            return None
        (column,) = column.children
    return column if column.kind == "PythonUDAF" else None


def _number(tree: Tree, field: str) -> int:
    literal = tree.tree(field)
    assert literal is not None
    return int(literal.fields["value"])
