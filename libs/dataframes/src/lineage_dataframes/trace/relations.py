"""All rows of an output at once: which rows of sources each was made from, as pairs of items.

The queries are those of `backward`, run for every row: the first pairs rows of the output's files with rows of
sources and with groups, each next one the groups of a node with the rows (or groups) that they were made
from. A group is an item of its own, named by a hash of its key, so no pair is ever multiplied out: an output
row made from a group of a million rows is one pair, and the group has a million.

Pairs stay on disk until they are read (`results`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import KAFKA
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Join,
    Node,
    PythonRows,
    Window,
    input_nodes_of,
)
from lineage_dataframes.errors import NotComputedError, RefusedError, TiedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.choices import ANY_ROW_OF_GROUP
from lineage_dataframes.rewrite.common_subplans import PendingGroups, find_common_subplans
from lineage_dataframes.rewrite.expressions import matched_by
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.rewrite.group_keys import COARSE_GROUPS, key_terms, recomputable_keys
from lineage_dataframes.rewrite.grouping import (
    LOSSLESS_FORMATS,
    Grouping,
    derived_grouping_of,
    grouping_of,
)
from lineage_dataframes.rewrite.keys import (
    VALUES_MAX,
    arrow_types,
    distinct,
    equal_terms,
    has_key,
    is_among,
    key_view,
)
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.rewrite.windows import is_running, reads_some_rows, window_functions
from lineage_dataframes.sources.file_codes import OUTPUT_FILES, file_codes
from lineage_dataframes.sources.jdbc import live_sources
from lineage_dataframes.sources.lossy_formats import loses_values, text_as_written
from lineage_dataframes.sources.views import ROW_COLUMN
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.pairs import (
    OUT_CHECK,
    OUT_FILE,
    OUT_GROUP,
    OUT_ROW,
    CompletedQuery,
    Hashes,
    ItemKind,
    ItemPairs,
    distinct_keys,
    group_columns,
    groups_of,
)
from lineage_dataframes.trace.results import Result, run_to_disk
from lineage_dataframes.trace.rows import OUTPUT_VIEW, output_of
from lineage_dataframes.trace.session import run_checks, start_session, translate_spark_errors

RESTRICTED_MAX = 200_000
"""Up to this many groups a query is restricted to those that are wanted."""

QUERIES_AT_ONCE = 4
"""Of one level: small ones wait for Spark more than they compute."""

FULL_KEY = "lineage_whole_key"
"""A hash of the whole key, in rows that name their groups by values made of keys."""

SMALL_OUTPUT_BYTES = 1 << 20
"""Bytes of files that are read for the values of an output, to compute no more anew than rows with these."""


@dataclass(frozen=True)
class NamedGroups:
    """Groups that the rows of a query name by ``leaf``: their hashes. ``result``: the query's rows."""

    leaf: Leaf
    result: Result
    groups: Hashes


EQUAL_SHARE_SOURCES = "rows of the output are equal and share their sources"


class _SharedValuesError(Exception):
    """Several groups have the values by which output rows were to name theirs."""


class Relations:
    """The pairs of one recipe.

    Args:
        spark: any session; the queries run in a new one beside it.
        recipe: recorded when the job ran; its output must have files.
        scratch: a folder for pairs on their way. Where there are many, Spark writes them there: they share it.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        RefusedError: the plan does not allow sound traces, or none of all rows at once.
        RowError: the job kept no file of its rows.
        ChangedSourceError: a source or the output is not what it was.
        FunctionsKeyError: the key can't be used.
    """

    def __init__(
        self, spark: SparkSession, recipe: Recipe, scratch: Path, key: str | None = None
    ) -> None:
        self.reasons: dict[ItemKind, list[str]] = {}
        """Why items of a kind may name too many."""
        for source in live_sources(recipe):
            raise RefusedError(f"rows of {source.name} are as they are now: none are kept")
        for source in recipe.sources:
            if source.format == KAFKA:
                raise RefusedError(f"records of {source.name} are of Kafka: none are kept")
        self.output = output_of(spark, recipe)
        code = runnable(spark, recipe, key)
        self._recipe = code.recipe
        self._scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        self._session, self._wait_for_views = start_session(
            spark, recipe, {OUTPUT_VIEW: self.output}
        )
        register(self._session, code.recipe)
        self._files = file_codes(self._session, recipe, self.output)
        self._common_subplans = find_common_subplans(self._recipe)
        self._queries: list[CompletedQuery] = []
        self._query_numbers = count()
        self._grouping = self._find_grouping()
        with code.explained():
            self._run_all()
        for reasons in self.reasons.values():
            reasons.extend(code.why)

    def pairs(self) -> Iterator[ItemPairs]:
        """All pairs."""
        for query in self._queries:
            yield from query.pairs(self._recipe)

    def _run_all(self) -> None:
        """Run the queries, one for the output and then one for each kind of groups that was met."""
        if self._grouping is None:
            self._run_levels(self._query_by_values())
            return
        try:
            first_query = self._query_by_group_names(self._grouping)
            self._wait_for_views()
            self._run_levels(first_query)
        except (_SharedValuesError, RefusedError, NotComputedError):
            if not self._grouping.terms:
                raise
            self._grouping = None
            self._queries.clear()
            self.reasons.clear()
            self._run_levels(self._query_by_values())

    def _find_grouping(self) -> Grouping | None:
        """How the output's rows name their groups themselves, if they do."""
        if self.output.format not in LOSSLESS_FORMATS:
            return None
        return grouping_of(self._recipe) or derived_grouping_of(
            self._recipe, self._builder().writer
        )

    def _run_levels(self, first_query: CompletedQuery) -> None:
        pending: PendingGroups[NamedGroups] = PendingGroups(
            self._recipe.plan, self._common_subplans
        )
        self._add_query(first_query, pending)
        with ThreadPoolExecutor(QUERIES_AT_ONCE) as pool:
            while groups := pending.ready():
                todo = [[above for _, above in requests] for requests in groups]
                futures = [
                    pool.submit(self._query_groups, next(self._query_numbers), above)
                    for above in todo
                ]
                for above, future in zip(todo, futures, strict=True):
                    query = future.result()
                    if self._key_columns(above[0].leaf):
                        group_hashes = query.group_hashes()
                        if not all(
                            np.isin(named_groups.groups, group_hashes).all()
                            for named_groups in above
                        ):
                            raise RefusedError(
                                "a group that was there has no rows when it is computed anew"
                            )
                    self._add_query(query, pending)

    def _add_query(self, query: CompletedQuery, pending: PendingGroups[NamedGroups]) -> None:
        self._queries.append(query)
        for reason in (*query.reasons, *query.inexact_reasons()):
            self._add_reason(query.kind, reason)
        for leaf in query.built.leaves:
            if leaf.grouped and len(groups := query.group_hashes(leaf)):
                pending.add(leaf, NamedGroups(leaf, query.result, groups))

    # Queries

    @property
    def _output_place(self) -> str:
        return f"{self._files.terms[OUTPUT_FILES]} AS {OUT_FILE}, {ROW_COLUMN} AS {OUT_ROW}"

    def _query_by_group_names(self, grouping: Grouping) -> CompletedQuery:
        """Output rows with the groups that they name themselves."""
        names = [literals.quoted_name(self._recipe.columns[n].name) for n in grouping.places]
        terms_and_names = zip(["true", *names], grouping.leaf.columns, strict=True)
        columns = ", ".join(f"{term} AS {name}" for term, name in terms_and_names)
        rows = f"(SELECT {self._output_place}, {columns} FROM {OUTPUT_VIEW})"
        built = NamedQuery(rows, (), (grouping.leaf,))
        select_terms = [f"r.{OUT_FILE}", f"r.{OUT_ROW}", *self._id_terms(built)]
        relation, number = f"{rows} AS r", next(self._query_numbers)
        return self._run_query(
            number, ItemKind("output"), self._builder(), built, select_terms, relation
        )

    def _query_by_values(self) -> CompletedQuery:
        """Output rows with what they name, found by their values in the output computed anew."""
        try:
            return self._query_output(self._builder())
        except TiedError:
            return self._query_output(replace(self._builder(), tied=True))

    def _query_output(self, builder: Builder) -> CompletedQuery:
        built = builder.build(len(self._recipe.plan) - 1, ids=True, top=True)
        compared = [
            column
            for column in self._recipe.columns
            if column.id not in built.unknown and literals.comparable(column.type)
        ]
        rows, values = self._values_of_output(compared)
        self._wait_for_views()
        conditions = [
            self._is_in_output(
                f"r.c{column.id}", f"o.{literals.quoted_name(column.name)}", column.type
            )
            for column in compared
        ]
        output = f"(SELECT *, {self._output_place} FROM {OUTPUT_VIEW}) AS o"
        relation = f"{output} JOIN {built.name} AS r ON {literals.all_of([*conditions, *values])}"
        select_terms = [f"o.{OUT_FILE}", f"o.{OUT_ROW}", *self._id_terms(built)]
        query = self._run_query(
            next(self._query_numbers), ItemKind("output"), builder, built, select_terms, relation
        )
        self._check_output(
            query.result, rows, ANY_ROW_OF_GROUP if builder.with_candidates else EQUAL_SHARE_SOURCES
        )
        return query

    def _is_in_output(self, computed: str, stored: str, kind: str) -> str:
        """The condition that the output's files hold a value that was computed anew."""
        written = self.output.format
        if loses_values(kind, written):
            return f"{text_as_written(computed, written)} = {text_as_written(stored, written)}"
        return equal_terms(computed, stored, kind)

    def _values_of_output(self, columns: Sequence[Attribute]) -> tuple[int | None, list[str]]:
        """How many rows a small output has, and what its values say of any row, for Spark to push down."""
        if sum(file.size for file in self.output.files) > SMALL_OUTPUT_BYTES or not columns:
            return None, []
        names = [literals.quoted_name(column.name) for column in columns]
        rows = to_arrow(self._session.table(OUTPUT_VIEW).select(*names).limit(VALUES_MAX + 1))
        if rows.num_rows > VALUES_MAX:
            return None, []
        conditions = [
            is_among(f"r.c{column.id}", values, column.type)
            for column, values in zip(columns, rows.columns, strict=True)
            if not loses_values(column.type, self.output.format)
        ]
        return rows.num_rows, [term for term in conditions if term]

    def _check_output(self, result: Result, output_rows: int | None, shared_reason: str) -> None:
        """Every output row (of ``output_rows``) was computed anew; where several were, their witnesses are shared."""
        matches = pa.concat_tables(result.tables([OUT_FILE, OUT_ROW]))
        rows, match_count = distinct(matches).num_rows, matches.num_rows
        output_rows = (
            self._session.table(OUTPUT_VIEW).count() if output_rows is None else output_rows
        )
        if rows < output_rows:
            raise RefusedError(
                f"{output_rows - rows} of {output_rows} output rows are not computed anew"
            )
        if match_count > rows:
            self._add_reason(ItemKind("output"), shared_reason)

    def _query_groups(self, number: int, above: Sequence[NamedGroups]) -> CompletedQuery:
        """Groups with what they were made from. Queries run side by side: ``number`` is the stage's own."""
        leaf = above[0].leaf
        builder, kind = self._builder(), groups_of(leaf)
        if leaf.subquery:
            built = builder.build(leaf.of, ids=True)
            return self._run_groups(number, kind, builder, built, [], f"{built.name} AS r")
        node = self._recipe.plan[leaf.of]
        if isinstance(node, Join):
            return self._query_matches(number, builder, node, above)
        if isinstance(node, PythonRows):
            raise RefusedError(f"which rows {node.name} gave, {node.why}, can't be computed anew")
        assert isinstance(node, Aggregate | Window)
        built = builder.build(node.input, ids=True)
        if isinstance(node, Aggregate):
            keys = recomputable_keys(node, built)
            terms = key_terms(builder.writer(), keys, built)
            if len(keys) < len(node.keys):
                builder.reasons.append(COARSE_GROUPS)
        else:
            terms = [builder.writer().of(term) for term in window_functions(node)[0].partition]
        if self._grouping is not None and self._grouping.terms and self._grouping.leaf == leaf:
            return self._query_derived_groups(number, self._grouping, above, builder, built, terms)
        if isinstance(node, Window) and (is_running(node) or reads_some_rows(node)):
            builder.reasons.append("a window function looks at some rows of its partition")
        where = self._restriction(number, above, terms)
        relation = f"{built.name} AS r WHERE {where}"
        return self._run_groups(number, kind, builder, built, terms, relation)

    def _query_derived_groups(
        self,
        number: int,
        grouping: Grouping,
        above: Sequence[NamedGroups],
        builder: Builder,
        built: NamedQuery,
        keys: Sequence[str],
    ) -> CompletedQuery:
        """Groups that output rows name by what is made of keys: one group must have the values."""
        if any(named_groups.leaf != grouping.leaf for named_groups in above):
            raise _SharedValuesError
        terms = list(grouping.terms)
        relation = f"{built.name} AS r WHERE {self._restriction(number, above, terms)}"
        full_key = f"{literals.hash_term(keys)} AS {FULL_KEY}"
        query = self._run_groups(
            number, groups_of(grouping.leaf), builder, built, terms, relation, full_key
        )
        group_keys = pa.concat_tables(query.result.tables([OUT_GROUP, FULL_KEY]))
        if distinct(group_keys).num_rows > distinct(group_keys.select([OUT_GROUP])).num_rows:
            raise _SharedValuesError
        return query

    def _restriction(self, number: int, above: Sequence[NamedGroups], terms: list[str]) -> str:
        if not terms:
            return "true"
        keys = self._merged_keys(above)
        if keys is None or not all(map(literals.comparable, arrow_types(keys))):
            return "true"
        return has_key(self._session, f"lineage_keys_{number}", terms, keys)

    def _merged_keys(self, above: Sequence[NamedGroups]) -> pa.Table | None:
        """The keys that the rows of queries name, each once; None where they are many.

        Raises:
            RefusedError: the keys don't distinguish groups in every run.
        """
        keys_by_result = [
            self._keys_of_result(named_groups.result, named_groups.leaf) for named_groups in above
        ]
        key_tables = [keys_or_none for keys_or_none in keys_by_result if keys_or_none is not None]
        if len(key_tables) < len(keys_by_result):
            return None
        keys = distinct(
            pa.concat_tables(
                [table.rename_columns(key_tables[0].column_names) for table in key_tables]
            )
        )
        return None if keys.num_rows > RESTRICTED_MAX else keys

    def _keys_of_result(self, result: Result, leaf: Leaf) -> pa.Table | None:
        """The keys that the rows of a query name, each once; None where they are many.

        Raises:
            RefusedError: the keys don't distinguish groups in every run.
        """
        names = self._key_columns(leaf)
        kinds = [result.types[name] for name in names]
        if literals.FLOATING_TYPES & set(kinds) and self._is_combined_below(
            self._recipe.plan[leaf.of]
        ):
            raise RefusedError("groups are named by numbers that come out differently each time")
        if any("collate" in kind for kind in kinds):
            raise RefusedError("groups are named by texts with a collation")
        if all(map(literals.comparable, kinds)):
            return distinct_keys(result, leaf.columns[0], names, RESTRICTED_MAX)
        # Types that Parquet has no form of its own for: Spark reads what it wrote.
        frame = self._session.read.parquet(str(result.path)).where(leaf.columns[0])
        keys = to_arrow(frame.select(*names).distinct().limit(RESTRICTED_MAX + 1))
        return None if keys.num_rows > RESTRICTED_MAX else keys

    def _is_combined_below(self, node: Node) -> bool:
        """Whether rows below are made of several others, so that doubles may differ from run to run."""
        todo = list(input_nodes_of(node))
        while todo:
            below = self._recipe.plan[todo.pop()]
            if isinstance(below, Aggregate | Window):
                return True
            todo.extend(input_nodes_of(below))
        return False

    def _query_matches(
        self, number: int, builder: Builder, node: Join, above: Sequence[NamedGroups]
    ) -> CompletedQuery:
        kind, built = groups_of(above[0].leaf), builder.build(node.right, ids=True)
        columns = matched_by(self._recipe, node)
        if node.condition is None or not columns:
            where = "true" if node.condition is None else builder.writer().of(node.condition)
            relation = f"{built.name} AS r WHERE {where}"
            return self._run_groups(number, kind, builder, built, [], relation)
        keys = self._merged_keys(above)
        if keys is None:
            raise RefusedError(f"more than {RESTRICTED_MAX:,} different rows are matched by others")
        view = f"lineage_keys_{number}"
        key_view(self._session, view, keys)
        terms = [f"k.k{n}" for n in range(len(columns))]
        condition = builder.writer(dict(zip(columns, terms, strict=True))).of(node.condition)
        relation = f"{built.name} AS r JOIN {view} AS k ON {condition}"
        return self._run_groups(number, kind, builder, built, terms, relation)

    def _run_groups(
        self,
        number: int,
        kind: ItemKind,
        builder: Builder,
        built: NamedQuery,
        terms: Sequence[str],
        relation: str,
        *more_terms: str,
    ) -> CompletedQuery:
        select_terms = [
            f"{literals.hash_term(terms)} AS {OUT_GROUP}",
            f"{literals.hash_term(terms, 1)} AS {OUT_CHECK}",
            *more_terms,
        ]
        return self._run_query(
            number, kind, builder, built, [*select_terms, *self._id_terms(built)], relation
        )

    def _run_query(
        self,
        number: int,
        kind: ItemKind,
        builder: Builder,
        built: NamedQuery,
        select_terms: Sequence[str],
        relation: str,
    ) -> CompletedQuery:
        with translate_spark_errors():
            run_checks(self._session, builder)
            rows = self._session.sql(
                builder.statement(f"SELECT {', '.join(select_terms)} FROM {relation}")
            )
            result = run_to_disk(rows, self._scratch / f"stage-{number}", self._recipe.sources)
        return CompletedQuery(kind, built, result, self._files, tuple(builder.reasons))

    def _builder(self) -> Builder:
        return Builder(self._recipe, self._files.terms, self._common_subplans)

    def _id_terms(self, built: NamedQuery) -> list[str]:
        """What rows (called ``r``) name, groups by hashes of their keys, too."""
        terms: list[str] = []
        for leaf in built.leaves:
            terms += [f"r.{name} AS {name}" for name in leaf.columns]
            if leaf.grouped:
                keys = [f"r.{name}" for name in self._key_columns(leaf)]
                terms += [
                    f"CASE WHEN r.{leaf.columns[0]} THEN {literals.hash_term(keys, salt)} END AS {name}"
                    for salt, name in enumerate(group_columns(leaf))
                ]
        return terms

    def _key_columns(self, leaf: Leaf) -> list[str]:
        """The columns that name a group; a row's rank in its partition does not."""
        keys = list(leaf.columns[1:])
        node = self._recipe.plan[leaf.of]
        if not leaf.subquery and isinstance(node, Window):
            return keys[: len(window_functions(node)[0].partition)]
        return keys

    def _add_reason(self, items: ItemKind, reason: str) -> None:
        reasons = self.reasons.setdefault(items, [])
        if reason not in reasons:
            reasons.append(reason)
