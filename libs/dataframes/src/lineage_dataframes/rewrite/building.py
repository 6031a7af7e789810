"""Rewriting a recipe's plan so that each row says which rows it was made from.

Every node becomes one or two named queries (``WITH ... AS``): ``o<n>`` gives the node's rows, ``a<n>`` the
same rows, one for one, with columns that name what each was made from. That is the invariant: ``a<n>``
without those columns equals ``o<n>`` as a multiset, so whatever is computed over ``o<n>`` (windows, limits,
joins) may be computed over ``a<n>``. Where a row comes from many (an aggregate's group, a window's
partition, the matches of a semi join, a scalar subquery) ``a<n>`` does not multiply: it names the group by
its key, and a next query, restricted to those keys, traces the group. That is Cui and Widom's tracing
(VLDBJ 12:1, 2003) by steps through the aggregates of a plan, with Perm's rewrites (Glavic and Alonso, ICDE
2009) between them; no cross product of witnesses ever arises.

Witnesses per node (why-provenance):

scan, values, range
    The row itself.
project, filter, sort, expand, generate, union
    Those of the one input row.
join
    Inner and outer: those of the pair; of the one side alone where the other is absent. Semi and
    existence: the left row's, and those of all right rows that match. Anti: the left row's (absence is
    not lineage).
aggregate
    Those of all rows of the group (distinct, intersect and except are aggregates and joins by now). Where it but keeps a row
    of each (``dropDuplicates``, ``first``): those of that row.
sessions
    The row itself: the aggregate above takes all rows of the session.
window
    Those of the rows in its frame (`group_queries`), the row itself among them.
limit, sample
    Those of the row. At the top of a plan they are left out: the requested row was in the output.
    Elsewhere a limit must be determined by its order, else the trace is refused; a sample always is.
Python function over partitions or groups
    Those of all rows of its input: which of them it made a row of can't be known. One row stands for all that it
    made, so it may stand where rows pass one by one, and nowhere else.
scalar subquery
    Those of the subquery's row, for each row whose expression reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Column,
    Expand,
    Expression,
    Filter,
    Generate,
    Join,
    Limit,
    Literal,
    Node,
    OpaqueExpression,
    OpaqueNode,
    Project,
    PythonRows,
    Range,
    Sample,
    Scan,
    Sessions,
    Sort,
    Union,
    Values,
    Window,
    expressions_of,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.choices import ANY_ROW_OF_GROUP, keeps_some_rows, row_expressions
from lineage_dataframes.rewrite.common_subplans import CommonSubplans
from lineage_dataframes.rewrite.expressions import (
    SqlWriter,
    columns_in,
    conjuncts,
    matched_by,
    opaque_in,
    subqueries_in,
)
from lineage_dataframes.rewrite.group_keys import cannot_recompute, key_terms, recomputable_keys
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.rewrite.numbering import (
    TIED_ROWS,
    TOO_MANY_TIED_ROWS,
    candidate_number_queries,
    greatest_number,
    peer_count,
    row_number_indexes,
    unequal_ties_query,
)
from lineage_dataframes.rewrite.orders import (
    is_nondeterministic,
    nondeterministic_columns,
    tied_neighbours_query,
)
from lineage_dataframes.rewrite.sessions import sessions_query
from lineage_dataframes.rewrite.shapes import LEAVES_MAX, TEXT_MAX, TOO_DEEP, check_calls
from lineage_dataframes.rewrite.stream_states import reason_of_state
from lineage_dataframes.rewrite.windows import (
    depends_on_ties,
    is_running,
    window_functions,
    window_keys,
)
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN, plain_view_name, view_name
from lineage_dataframes.spark import literals


@dataclass
class Builder:
    """Writes the named queries of one SQL statement.

    ``files``: by source, the term that says which file a row is of, its path unless given. ``common_subplans``: groups that
    several nodes have are named by the first of these. ``reasons``: why the witnesses may be too many.
    ``checks``: statements that must give no row, with the reason to refuse the trace where one does. ``tied``: rows of windows at
    the top that are tied (`numbering`) stand there with each number that they may have had. ``with_candidates``: rows stand there of which the
    job kept some, by a condition that can't be computed anew, or as one of their group.
    """

    recipe: Recipe
    files: Mapping[int, str] = field(default_factory=dict)
    common_subplans: CommonSubplans = field(default_factory=CommonSubplans)
    tied: bool = False
    with_candidates: bool = False
    queries: dict[str, str] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)
    checks: list[tuple[str, str]] = field(default_factory=list)
    _built_queries: dict[tuple[int, bool, bool], NamedQuery] = field(default_factory=dict)
    _written: int = 0

    @cached_property
    def _nondeterministic(self) -> frozenset[int]:
        return nondeterministic_columns(self.recipe)

    def statement(self, select: str) -> str:
        """``select`` with the named queries that stand before it."""
        named_queries = ",\n".join(
            f"{name} AS (\n  {text}\n)" for name, text in self.queries.items()
        )
        return f"WITH {named_queries}\n{select}" if named_queries else select

    def rows(self, node_number: int) -> NamedQuery:
        """The node's rows."""
        return self.build(node_number, ids=False)

    def build(self, node_number: int, *, ids: bool, top: bool = False) -> NamedQuery:
        """The node's rows, with what they were made from where ``ids``.

        ``top``: the requested rows are known to be in the output, and all that stands above lets rows
        through one by one; so more rows than the job's may be given where the job's can't be known.

        Raises:
            RefusedError: the rows can't be computed soundly.
        """
        key = (node_number, ids, top)
        if key not in self._built_queries:
            self._built_queries[key] = self._built(node_number, ids, top)
        return self._built_queries[key]

    def _built(self, node_number: int, ids: bool, top: bool) -> NamedQuery:
        node = self.recipe.plan[node_number]
        check_calls(node)
        rule = getattr(self, f"_{type(node).__name__.lower()}")
        try:
            built: NamedQuery = rule(node_number, node, ids, top)
        except RecursionError as problem:
            raise RefusedError(TOO_DEEP) from problem
        if len(built.leaves) > LEAVES_MAX:
            raise RefusedError(
                f"the plan names rows of more than {LEAVES_MAX} of its places at once"
            )
        return built

    def _name(self, node_number: int, text: str, ids: bool, top: bool) -> str:
        name = f"{'t' if top else 'a' if ids else 'o'}{node_number}"
        if not ids and top:
            name = f"u{node_number}"
        self._written += len(text)
        if self._written > TEXT_MAX:
            raise RefusedError(
                f"queries of the plan have more than {TEXT_MAX:,} characters: many of its nodes are wide"
            )
        self.queries[name] = text
        return name

    def writer(self, columns: dict[int, str] | None = None) -> SqlWriter:
        """Writes expressions of this statement."""
        return SqlWriter(self._subquery, columns)

    def _subquery(self, node_number: int) -> str:
        built = self.rows(node_number)
        return f"(SELECT {built.names[0]} FROM {built.name})"

    def _name_group(
        self, node_number: int, keys: Sequence[str], marks: list[str], leaves: list[Leaf]
    ) -> None:
        """Add the columns that name a row's group by its keys."""
        names = [f"b{node_number}", *(f"b{node_number}_{n}" for n in range(len(keys)))]
        marks += [f"{term} AS {name}" for term, name in zip(["true", *keys], names, strict=True)]
        leaves.append(Leaf(self.common_subplans.first(node_number), tuple(names)))

    def _mark_inexact(
        self, node_number: int, condition: str, reason: str, marks: list[str], leaves: list[Leaf]
    ) -> None:
        """Add the column that says of which rows the witnesses may be too many."""
        marks.append(f"CASE WHEN {condition} THEN true END AS d{node_number}")
        leaves.append(Leaf(node_number, (f"d{node_number}",), inexact_reason=reason))

    # Leaves

    def _scan(self, node_number: int, node: Scan, ids: bool, top: bool) -> NamedQuery:
        select_terms = [
            f"{literals.quoted_name(name)} AS c{field_column.id}"
            for field_column, name in zip(node.columns, node.fields, strict=True)
        ]
        leaves: tuple[Leaf, ...] = ()
        if ids:
            leaves = (Leaf(node_number, (f"p{node_number}_f", f"p{node_number}_r")),)
            file = self.files.get(node.source, FILE_COLUMN)
            select_terms += [f"{file} AS p{node_number}_f", f"{ROW_COLUMN} AS p{node_number}_r"]
        view = view_name if ids else plain_view_name
        text = f"SELECT {_select_list(select_terms)} FROM {view(node.source)}"
        return NamedQuery(self._name(node_number, text, ids, False), node.columns, leaves)

    def _values(self, node_number: int, node: Values, ids: bool, top: bool) -> NamedQuery:
        names = [f"c{column.id}" for column in node.columns]
        rows = [
            "(" + ", ".join([str(n), *(literals.recipe_constant(literal) for literal in row)]) + ")"
            for n, row in enumerate(node.rows)
        ]
        if rows:
            relation = f"(VALUES {', '.join(rows)}) AS v({', '.join(['n', *names])})"
        else:
            nulls = [
                f"CAST(NULL AS {column.type or 'void'}) AS c{column.id}" for column in node.columns
            ]
            relation = f"(SELECT 0 AS n, {', '.join(nulls) or 'NULL'} WHERE false) AS v"
        return self._inline(node_number, node, ids, relation, names, "v.n")

    def _range(self, node_number: int, node: Range, ids: bool, top: bool) -> NamedQuery:
        column = node.columns[0].id
        relation = (
            f"(SELECT id AS c{column} FROM range({node.start}, {node.end}, {node.step})) AS v"
        )
        ordinal = f"((c{column} - {node.start}) div {node.step})"
        return self._inline(node_number, node, ids, relation, [f"c{column}"], ordinal)

    def _inline(
        self, node_number: int, node: Node, ids: bool, relation: str, names: list[str], ordinal: str
    ) -> NamedQuery:
        leaves: tuple[Leaf, ...] = ()
        select_terms = list(names)
        if ids:
            leaves = (Leaf(node_number, (f"p{node_number}_f", f"p{node_number}_r")),)
            select_terms += [
                f"'' AS p{node_number}_f",
                f"CAST({ordinal} AS BIGINT) AS p{node_number}_r",
            ]
        text = f"SELECT {_select_list(select_terms)} FROM {relation}"
        return NamedQuery(self._name(node_number, text, ids, False), node.columns, leaves)

    # Row by row

    def _project(self, node_number: int, node: Project, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids, top=top)
        select_terms, unknown = self._values_of(node.columns, node.expressions, below)
        marks, leaves = self._marks(node_number, node, ids)
        text = f"SELECT {_select_list([*select_terms, *below.ids, *marks])} FROM {below.name}"
        return NamedQuery(
            self._name(node_number, text, ids, top), node.columns, (*below.leaves, *leaves), unknown
        )

    def _values_of(
        self, columns: Sequence[Attribute], expressions: Iterable[Expression], below: NamedQuery
    ) -> tuple[list[str], frozenset[int]]:
        """Columns with their expressions, each once, and those that can't be computed anew."""
        writer, terms_by_id, unknown = self.writer(), {}, set()
        for column, expression in zip(columns, expressions, strict=True):
            if self._unknowable(expression, below):
                unknown.add(column.id)
                terms_by_id[column.id] = f"CAST(NULL AS {column.type or 'void'}) AS c{column.id}"
            elif isinstance(expression, Column) and expression.id == column.id:
                terms_by_id[column.id] = f"c{column.id}"
            else:
                terms_by_id[column.id] = f"{writer.of(expression)} AS c{column.id}"
        return list(terms_by_id.values()), frozenset(unknown)

    def _check_recomputable(
        self, purpose: str, expressions: Iterable[Expression], *below: NamedQuery
    ) -> None:
        for expression in expressions:
            opaque = opaque_in(expression)
            if opaque is not None:
                raise RefusedError(f"{purpose} by {opaque.name}, which {_why_clause(opaque.why)}")
            if any(columns_in(expression) & condition_side.unknown for condition_side in below):
                raise RefusedError(f"{purpose} by a column that can't be computed anew")
            if any(map(self._is_unknown_value, subqueries_in(expression))):
                raise RefusedError(f"{purpose} by a subquery that can't be computed anew")

    def _unknowable(self, expression: Expression, below: NamedQuery) -> bool:
        return cannot_recompute(expression, below) or any(
            map(self._is_unknown_value, subqueries_in(expression))
        )

    def _is_unknown_value(self, node_number: int) -> bool:
        """Whether the value of a scalar subquery can't be computed anew."""
        built = self.rows(node_number)
        return built.columns[0].id in built.unknown

    def _marks(self, node_number: int, node: Node, ids: bool) -> tuple[list[str], list[Leaf]]:
        """Columns that say which subqueries the node's expressions read."""
        if not ids:
            return [], []
        subqueries = dict.fromkeys(
            n for expression in expressions_of(node) for n in subqueries_in(expression)
        )
        leaves = [
            Leaf(
                self.common_subplans.first(n, subquery=True),
                (f"s{node_number}_{n}",),
                subquery=True,
            )
            for n in subqueries
        ]
        return [f"true AS {leaf.columns[0]}" for leaf in leaves], leaves

    def _filter(self, node_number: int, node: Filter, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids, top=top)
        terms = self._terms("rows are chosen", node.condition, top, below)
        marks, leaves = self._marks(node_number, node, ids)
        if ids and (reason := reason_of_state(node.condition)):
            self._mark_inexact(node_number, "true", reason, marks, leaves)
        text = f"SELECT {_select_list([*below.names, *below.ids, *marks])} FROM {below.name}"
        if terms:
            # With no alias, Spark may read "x WHERE (y)" as x under the name WHERE.
            text += f" AS r WHERE {' AND '.join(terms)}"
        name = self._name(node_number, text, ids, top)
        return NamedQuery(name, node.columns, (*below.leaves, *leaves), below.unknown)

    def _terms(
        self, purpose: str, condition: Expression, top: bool, *below: NamedQuery
    ) -> list[str]:
        """The terms of a condition; at the top, without those that can't be computed anew."""
        terms = []
        for term in conjuncts(condition):
            if top and any(self._unknowable(term, condition_side) for condition_side in below):
                self.reasons.append(f"{purpose} by what can't be computed anew")
                self.with_candidates = True
                continue
            self._check_recomputable(purpose, [term], *below)
            terms.append(self.writer().of(term))
        return terms

    def _sort(self, node_number: int, node: Sort, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids, top=top)
        if top:
            return below
        self._check_recomputable("rows are ordered", (key.of for key in node.order), below)
        order = ", ".join(self.writer().sort_key(key) for key in node.order)
        text = (
            f"SELECT {_select_list([*below.names, *below.ids])} FROM {below.name} ORDER BY {order}"
        )
        return NamedQuery(
            self._name(node_number, text, ids, top), node.columns, below.leaves, below.unknown
        )

    def _limit(self, node_number: int, node: Limit, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids, top=top)
        if top:
            return below
        self._check_limit(node)
        count = "" if node.count is None else f" LIMIT {node.count}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        text = f"SELECT {_select_list([*below.names, *below.ids])} FROM {below.name}{count}{offset}"
        return NamedQuery(
            self._name(node_number, text, ids, top), node.columns, below.leaves, below.unknown
        )

    def _check_limit(self, node: Limit) -> None:
        """A limit within the plan must cut between rows that differ in its order, or not cut at all."""
        reason = "a limit within the plan cuts through rows that its order does not tell apart"
        node_number = node.input
        while isinstance(node_below := self.recipe.plan[node_number], Project | Limit):
            node_number = node_below.input
        below = self.rows(node_below.input if isinstance(node_below, Sort) else node.input)
        cuts = [cut for cut in (node.offset, node.offset + (node.count or 0)) if cut]
        for cut in cuts:
            if isinstance(node_below, Sort):
                ties_query = tied_neighbours_query(
                    self.writer(), below.name, (), node_below.order, self._nondeterministic, cut=cut
                )
            else:
                count_query = f"SELECT count(1) AS n FROM {below.name}"
                ties_query = f"SELECT n FROM ({count_query}) AS q WHERE n > {cut}"
            self.checks.append((ties_query, reason))

    def _check_window(self, below: NamedQuery, node: Window) -> None:
        """No two rows of a partition may stand either way round, where that changes what the window says.

        Ranks and running sums are the same for rows that are equal in the order, not so for rows that
        another run finds nearly equal.
        """
        over, writer = window_functions(node)[0], self.writer()
        is_positional = depends_on_ties(node)
        if is_nondeterministic(over.order, self._nondeterministic):
            reason = "a window's order is by sums of doubles, of which some are nearly equal"
            ties_query = tied_neighbours_query(
                writer,
                below.name,
                over.partition,
                over.order,
                self._nondeterministic,
                equal_too=is_positional,
            )
            self.checks.append((ties_query, reason))
        elif is_positional:
            self.checks.append((unequal_ties_query(writer, below, node), TIED_ROWS))

    def _sample(self, node_number: int, node: Sample, ids: bool, top: bool) -> NamedQuery:
        if not top:
            raise RefusedError("the plan draws a sample of rows within")
        return self.build(node.input, ids=ids, top=top)

    def _opaquenode(self, node_number: int, node: OpaqueNode, ids: bool, top: bool) -> NamedQuery:
        raise RefusedError(f"the plan holds {node.name}: {node.why}")

    def _pythonrows(self, node_number: int, node: PythonRows, ids: bool, top: bool) -> NamedQuery:
        """One row stands for all that the function made: nothing is known of them, not even how many."""
        if not top:
            raise RefusedError(f"which rows {node.name} gave, {node.why}, can't be computed anew")
        null_columns = [
            f"CAST(NULL AS {column.type or 'void'}) AS c{column.id}" for column in node.columns
        ]
        mark = f"b{node_number}"
        text = f"SELECT {_select_list([*null_columns, f'true AS {mark}'])}"
        unknown = frozenset(column.id for column in node.columns)
        name = self._name(node_number, text, ids, top)
        return NamedQuery(name, node.columns, (Leaf(node_number, (mark,)),), unknown)

    def _union(self, node_number: int, node: Union, ids: bool, top: bool) -> NamedQuery:
        inputs = [self.build(input_node, ids=ids, top=top) for input_node in node.inputs]
        id_names = [name for query in inputs for name in query.ids]
        parts, unknown = [], set()
        for query in inputs:
            renamed = {
                out.id: f"c{own.id} AS c{out.id}"
                for out, own in zip(reversed(node.columns), reversed(query.columns), strict=True)
            }
            unknown |= {
                out.id
                for out, own in zip(node.columns, query.columns, strict=True)
                if own.id in query.unknown
            }
            own_ids = set(query.ids)
            id_terms = [name if name in own_ids else f"NULL AS {name}" for name in id_names]
            column_terms = [renamed[n] for n in dict.fromkeys(out.id for out in node.columns)]
            parts.append(f"SELECT {_select_list([*column_terms, *id_terms])} FROM {query.name}")
        leaves = tuple(leaf for query in inputs for leaf in query.leaves)
        name = self._name(node_number, "\n  UNION ALL ".join(parts), ids, top)
        return NamedQuery(name, node.columns, leaves, frozenset(unknown))

    def _expand(self, node_number: int, node: Expand, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids)
        for row in node.projections:
            self._check_recomputable("rows are expanded", row, below)
        writer = self.writer()
        rows = [
            [f"{writer.of(e)} AS c{column.id}" for e, column in zip(row, node.columns, strict=True)]
            for row in node.projections
        ]
        if ids:
            # One query each: a restriction to one grouping set then leaves out the others.
            parts = [f"SELECT {_select_list([*row, *below.ids])} FROM {below.name}" for row in rows]
            statement = "\n  UNION ALL ".join(parts)
        else:
            structs = ", ".join(f"struct({', '.join(row)})" for row in rows)
            names = ", ".join(f"c{column.id}" for column in node.columns)
            statement = f"SELECT inline(array({structs})) AS ({names}) FROM {below.name}"
        return NamedQuery(
            self._name(node_number, statement, ids, False), node.columns, below.leaves
        )

    def _generate(self, node_number: int, node: Generate, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids, top=top)
        self._check_recomputable("rows are made", [node.function], below)
        # Made columns may have the numbers of columns that they take the place of.
        generated = [f"g{node_number}_{n} AS c{column.id}" for n, column in enumerate(node.made)]
        passed_names = [
            name for name in below.names if name not in {f"c{column.id}" for column in node.made}
        ]
        names = ", ".join(column.partition(" ")[0] for column in generated)
        outer = "OUTER " if node.outer else ""
        text = (
            f"SELECT {_select_list([*passed_names, *generated, *below.ids])} FROM {below.name} "
            f"LATERAL VIEW {outer}{self.writer().of(node.function)} g AS {names}"
        )
        return NamedQuery(
            self._name(node_number, text, ids, top), node.columns, below.leaves, below.unknown
        )

    # Joins

    def _join(self, node_number: int, node: Join, ids: bool, top: bool) -> NamedQuery:
        if node.how in {"semi", "anti", "exists"}:
            return self._half_join(node_number, node, ids, top)
        left_rows = self.build(node.left, ids=ids, top=top and node.how in {"inner", "left"})
        right_rows = self.build(node.right, ids=ids, top=top and node.how in {"inner", "right"})
        terms = []
        if node.condition is not None:
            loose = top and node.how == "inner"
            terms = self._terms("rows are joined", node.condition, loose, left_rows, right_rows)
        marks, leaves = self._marks(node_number, node, ids)
        how = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}
        select_list = _select_list(
            [*left_rows.names, *right_rows.names, *left_rows.ids, *right_rows.ids, *marks]
        )
        on = " AND ".join(terms) or "true"
        text = (
            f"SELECT {select_list} FROM {left_rows.name} {how[node.how]} {right_rows.name} ON {on}"
        )
        if node.how == "inner" and not terms:
            text = f"SELECT {select_list} FROM {left_rows.name} CROSS JOIN {right_rows.name}"
        return NamedQuery(
            self._name(node_number, text, ids, top), node.columns, (*left_rows.leaves, *right_rows.leaves, *leaves),
            left_rows.unknown | right_rows.unknown,
        )  # fmt: skip

    def _half_join(self, node_number: int, node: Join, ids: bool, top: bool) -> NamedQuery:
        left = self.build(node.left, ids=ids, top=top)
        right = self.rows(node.right)
        condition = "true"
        if node.condition is not None:
            self._check_recomputable("rows are joined", [node.condition], left, right)
            condition = self.writer().of(node.condition)
        marks, leaves = self._marks(node_number, node, ids)
        if ids and node.how != "anti":
            keys = [f"c{column_id}" for column_id in matched_by(self.recipe, node)]
            self._name_group(node_number, keys, marks, leaves)
        select_terms = [*left.names, *left.ids, *marks]
        semi, anti = (
            f"FROM {left.name} LEFT {how} JOIN {right.name} ON {condition}"
            for how in ("SEMI", "ANTI")
        )
        if node.how == "exists":
            exists_column = f"c{node.columns[-1].id}"
            matches = set(leaves[-1].columns) if ids else set()
            unmatched_terms = [_null_if_named(term, matches) for term in select_terms]
            text = (
                f"SELECT {_select_list([*select_terms, f'true AS {exists_column}'])} {semi}\n"
                f"  UNION ALL SELECT {_select_list([*unmatched_terms, f'false AS {exists_column}'])} {anti}"
            )
        else:
            text = f"SELECT {_select_list(select_terms)} {semi if node.how == 'semi' else anti}"
        return NamedQuery(
            self._name(node_number, text, ids, top),
            node.columns,
            (*left.leaves, *leaves),
            left.unknown,
        )

    # Groups

    def _aggregate(self, node_number: int, node: Aggregate, ids: bool, top: bool) -> NamedQuery:
        expressions = row_expressions(node) if top else None
        if expressions is not None:
            return self._one_of_each(node_number, node, expressions, ids)
        below = self.rows(node.input)
        keys = recomputable_keys(node, below)
        if not top:
            self._check_recomputable("rows are grouped", node.keys, below)
        if len(keys) == len(node.keys):
            select_terms, unknown = self._values_of(node.columns, node.expressions, below)
        else:
            # The groups are unions of the job's: what its functions gave of each isn't known.
            select_terms, unknown = self._values_of_keys(node, keys, below)
        marks, leaves = self._marks(node_number, node, ids)
        if ids:
            self._name_group(node_number, key_terms(self.writer(), keys, below), marks, leaves)
            if keeps_some_rows(node):
                self._mark_inexact(node_number, "count(1) > 1", ANY_ROW_OF_GROUP, marks, leaves)
        text = f"SELECT {_select_list([*select_terms, *marks])} FROM {below.name}"
        grouped = ", ".join(self.writer().of(key) for key in keys)
        text += f" GROUP BY {grouped}" if keys else " HAVING true"
        return NamedQuery(
            self._name(node_number, text, ids, top), node.columns, tuple(leaves), unknown
        )

    def _one_of_each(
        self, node_number: int, node: Aggregate, expressions: Sequence[Expression], ids: bool
    ) -> NamedQuery:
        """All rows of which one of each group was kept: a requested row is one of them."""
        self.with_candidates = True
        below = self.build(node.input, ids=ids, top=True)
        select_terms, unknown = self._values_of(node.columns, expressions, below)
        marks, leaves = self._marks(node_number, node, ids)
        relation = below.name if node.keys else f"(SELECT 1) AS one LEFT JOIN {below.name} ON true"
        text = f"SELECT {_select_list([*select_terms, *below.ids, *marks])} FROM {relation}"
        return NamedQuery(
            self._name(node_number, text, ids, True),
            node.columns,
            (*below.leaves, *leaves),
            unknown,
        )

    def _values_of_keys(
        self, node: Aggregate, keys: Sequence[Expression], below: NamedQuery
    ) -> tuple[list[str], frozenset[int]]:
        expressions = [
            expression
            if expression in keys or isinstance(expression, Literal)
            else OpaqueExpression("", "", (), kind)
            for expression, kind in zip(
                node.expressions, (c.type for c in node.columns), strict=True
            )
        ]
        return self._values_of(node.columns, expressions, below)

    def _sessions(self, node_number: int, node: Sessions, ids: bool, top: bool) -> NamedQuery:
        below = self.build(node.input, ids=ids)
        self._check_recomputable("sessions are made", [*node.keys, Column(node.window)], below)
        text = sessions_query(self.writer(), below, node)
        name = self._name(node_number, text, ids, False)
        return NamedQuery(name, node.columns, below.leaves, below.unknown)

    def _window(self, node_number: int, node: Window, ids: bool, top: bool) -> NamedQuery:
        # The row itself is in its partition, and not after itself: what the group names holds it.
        below = self.rows(node.input)
        if not window_functions(node):
            raise RefusedError("the plan holds a window function whose window was not recorded")
        over = window_functions(node)[0]
        terms = [*over.partition, *(key.of for key in over.order)]
        self._check_recomputable("a window is made", terms, below)
        loose = top and self.tied and depends_on_ties(node)
        if not loose:
            self._check_window(below, node)
        own = node.columns[len(node.columns) - len(node.expressions) :]
        select_terms, unknown = self._values_of(own, node.expressions, below)
        marks, leaves = self._marks(node_number, node, ids)
        if ids:
            keys = window_keys(self.writer(), node)
            self._name_group(node_number, keys, marks, leaves)
            if depends_on_ties(node) and is_running(node):
                self._mark_inexact(
                    node_number, f"{peer_count(self.writer(), node)} > 1", TIED_ROWS, marks, leaves
                )
        text = f"SELECT {_select_list([*below.names, *select_terms, *marks])} FROM {below.name}"
        if loose:
            text, unknown = self._with_each_number(node_number, node, below, marks)
        return NamedQuery(
            self._name(node_number, text, ids, top),
            node.columns,
            tuple(leaves),
            below.unknown | unknown,
        )

    def _with_each_number(
        self, node_number: int, node: Window, below: NamedQuery, marks: Sequence[str]
    ) -> tuple[str, frozenset[int]]:
        """Rows with each number that they may have had; other values that depend on ties are not known."""
        own_columns = node.columns[len(node.columns) - len(node.expressions) :]
        number_indexes, other_indexes = row_number_indexes(node)
        unknown = frozenset(own_columns[n].id for n in other_indexes)
        null_terms = [
            f"CAST(NULL AS {own_columns[n].type or 'void'}) AS c{own_columns[n].id}"
            for n in other_indexes
        ]
        columns = [own_columns[n].id for n in number_indexes]
        text, many = candidate_number_queries(
            self.writer(), node, below.name, [*below.names, *null_terms, *marks],
            [f"c{column_id}" for column_id in columns], greatest_number(self.recipe, node_number, columns),
        )  # fmt: skip
        self.checks.append((many, TOO_MANY_TIED_ROWS))
        return text, unknown


def _select_list(terms: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(terms)) or "true AS nothing"


def _null_if_named(term: str, names: set[str]) -> str:
    """A column's term, or NULL in its place where it is one of ``names``."""
    name = term.rpartition(" AS ")[2]
    return f"NULL AS {name}" if name in names else term


def _why_clause(why: str) -> str:
    return f"is {why}" if why.startswith(("not", "random", "a ")) else why
