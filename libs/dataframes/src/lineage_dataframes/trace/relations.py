"""All rows of an output at once: which rows of sources each was made from, as pairs of items.

The queries are those of `tracing`, run for every row: the first pairs rows of the output's files with rows of
sources and with groups, each next one the groups of a node with the rows (or groups) that they were made
from. A group is an item of its own, named by a hash of its key, so no pair is ever multiplied out: an output
row made from a group of a million rows is one pair, and the group has a million.

Pairs stay on disk until they are told (`results`).
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
from lineage_dataframes.rewrite.built import Leaf, NamedQuery
from lineage_dataframes.rewrite.choices import ONE_ROW_KEPT
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
    has_one_of,
    key_view,
)
from lineage_dataframes.rewrite.windows import is_running, reads_some_rows, window_functions
from lineage_dataframes.sources.file_codes import OUTPUT_FILES, file_codes
from lineage_dataframes.sources.jdbc import live_sources
from lineage_dataframes.sources.views import ROW_COLUMN
from lineage_dataframes.sources.written import loses_values, text_as_written
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.pairs import (
    OUT_CHECK,
    OUT_FILE,
    OUT_GROUP,
    OUT_ROW,
    Hashes,
    Items,
    Pairs,
    Stage,
    group_columns,
    groups_of,
    keys_in,
)
from lineage_dataframes.trace.results import Result, result_of
from lineage_dataframes.trace.rows import OUTPUT, output_of
from lineage_dataframes.trace.session import begun_session, check, told

RESTRICTED_MAX = 200_000
"""Up to this many groups a query is restricted to those that are wanted."""

QUERIES_AT_ONCE = 4
"""Of one level: small ones wait for Spark more than they compute."""

WHOLE_KEY = "lineage_whole_key"
"""A hash of the whole key, in rows that name their groups by values made of keys."""

SMALL_OUTPUT = 1 << 20
"""Bytes of files that are read for the values of an output, to compute no more anew than rows with these."""


@dataclass(frozen=True)
class Above:
    """Groups that the rows of a query name by ``leaf``: their hashes. ``result``: the query's rows."""

    leaf: Leaf
    result: Result
    groups: Hashes


EQUAL = "rows of the output are equal and share their sources"


class _SharedValuesError(Exception):
    """Several groups have the values by which output rows were to name theirs."""


class Relations:
    """The pairs of one recipe.

    Args:
        spark: any session; the queries run in a new one beside it.
        recipe: noted when the job ran; its output must have files.
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
        self.reasons: dict[Items, list[str]] = {}
        """Why items of a kind may name too many."""
        for source in live_sources(recipe):
            raise RefusedError(f"rows of {source.name} are as they are now: none are kept")
        self.output = output_of(spark, recipe)
        code = runnable(spark, recipe, key)
        self._recipe = code.recipe
        self._scratch = scratch
        scratch.mkdir(parents=True, exist_ok=True)
        self._session, self._ready = begun_session(spark, recipe, {OUTPUT: self.output})
        register(self._session, code.recipe)
        self._files = file_codes(self._session, recipe, self.output)
        self._alike = find_common_subplans(self._recipe)
        self._stages: list[Stage] = []
        self._numbers = count()
        self._named = self._named_groups()
        with code.explained():
            self._run_all()
        for reasons in self.reasons.values():
            reasons.extend(code.why)

    def pairs(self) -> Iterator[Pairs]:
        """All pairs."""
        for stage in self._stages:
            yield from stage.pairs(self._recipe)

    def _run_all(self) -> None:
        """Run the queries, one for the output and then one for each kind of groups that was met."""
        if self._named is None:
            self._run_from(self._anew())
            return
        try:
            first = self._by_groups(self._named)
            self._ready()
            self._run_from(first)
        except (_SharedValuesError, RefusedError, NotComputedError):
            if not self._named.terms:
                raise
            self._named = None
            self._stages.clear()
            self.reasons.clear()
            self._run_from(self._anew())

    def _named_groups(self) -> Grouping | None:
        """How the output's rows name their groups themselves, if they do."""
        if self.output.format not in LOSSLESS_FORMATS:
            return None
        return grouping_of(self._recipe) or derived_grouping_of(self._recipe, self._builder().text)

    def _run_from(self, first: Stage) -> None:
        waiting: PendingGroups[Above] = PendingGroups(self._recipe.plan, self._alike)
        self._take(first, waiting)
        with ThreadPoolExecutor(QUERIES_AT_ONCE) as pool:
            while groups := waiting.ready():
                todo = [[above for _, above in asked] for asked in groups]
                running = [pool.submit(self._next, next(self._numbers), above) for above in todo]
                for above, future in zip(todo, running, strict=True):
                    stage = future.result()
                    if self._keys_of(above[0].leaf):
                        made = stage.named()
                        if not all(np.isin(one.groups, made).all() for one in above):
                            raise RefusedError(
                                "a group that was there has no rows when it is computed anew"
                            )
                    self._take(stage, waiting)

    def _take(self, stage: Stage, waiting: PendingGroups[Above]) -> None:
        self._stages.append(stage)
        for reason in (*stage.reasons, *stage.doubts()):
            self._because(stage.made, reason)
        for leaf in stage.built.leaves:
            if leaf.grouped and len(groups := stage.named(leaf)):
                waiting.add(leaf, Above(leaf, stage.result, groups))

    # Queries

    @property
    def _output_place(self) -> str:
        return f"{self._files.terms[OUTPUT_FILES]} AS {OUT_FILE}, {ROW_COLUMN} AS {OUT_ROW}"

    def _by_groups(self, named: Grouping) -> Stage:
        """Output rows with the groups that they name themselves."""
        names = [literals.quoted_name(self._recipe.columns[n].name) for n in named.places]
        held = zip(["true", *names], named.leaf.columns, strict=True)
        columns = ", ".join(f"{term} AS {name}" for term, name in held)
        rows = f"(SELECT {self._output_place}, {columns} FROM {OUTPUT})"
        built = NamedQuery(rows, (), (named.leaf,))
        listed = [f"r.{OUT_FILE}", f"r.{OUT_ROW}", *self._ids(built)]
        of, number = f"{rows} AS r", next(self._numbers)
        return self._run(number, Items("output"), self._builder(), built, listed, of)

    def _anew(self) -> Stage:
        """Output rows with what they name, found by their values in the output computed anew."""
        try:
            return self._found_in(self._builder())
        except TiedError:
            return self._found_in(replace(self._builder(), tied=True))

    def _found_in(self, builder: Builder) -> Stage:
        built = builder.build(len(self._recipe.plan) - 1, ids=True, top=True)
        compared = [
            one
            for one in self._recipe.columns
            if one.id not in built.unknown and literals.comparable(one.type)
        ]
        rows, values = self._values_of_output(compared)
        self._ready()
        same = [
            self._same(f"r.c{one.id}", f"o.{literals.quoted_name(one.name)}", one.type)
            for one in compared
        ]
        output = f"(SELECT *, {self._output_place} FROM {OUTPUT}) AS o"
        of = f"{output} JOIN {built.name} AS r ON {literals.all_of([*same, *values])}"
        listed = [f"o.{OUT_FILE}", f"o.{OUT_ROW}", *self._ids(built)]
        stage = self._run(next(self._numbers), Items("output"), builder, built, listed, of)
        self._check_output(stage.result, rows, ONE_ROW_KEPT if builder.kept else EQUAL)
        return stage

    def _same(self, computed: str, held: str, kind: str) -> str:
        """The condition that the output's files hold a value that was computed anew."""
        written = self.output.format
        if loses_values(kind, written):
            return f"{text_as_written(computed, written)} = {text_as_written(held, written)}"
        return equal_terms(computed, held, kind)

    def _values_of_output(self, columns: Sequence[Attribute]) -> tuple[int | None, list[str]]:
        """How many rows a small output has, and what its values say of any row, for Spark to push down."""
        if sum(file.size for file in self.output.files) > SMALL_OUTPUT or not columns:
            return None, []
        names = [literals.quoted_name(one.name) for one in columns]
        held = to_arrow(self._session.table(OUTPUT).select(*names).limit(VALUES_MAX + 1))
        if held.num_rows > VALUES_MAX:
            return None, []
        said = [
            has_one_of(f"r.c{column.id}", values, column.type)
            for column, values in zip(columns, held.columns, strict=True)
            if not loses_values(column.type, self.output.format)
        ]
        return held.num_rows, [one for one in said if one]

    def _check_output(self, result: Result, there: int | None, several_are: str) -> None:
        """Every output row (of ``there``) was computed anew; where several were, their witnesses are shared."""
        found = pa.concat_tables(result.tables([OUT_FILE, OUT_ROW]))
        rows, several = distinct(found).num_rows, found.num_rows
        there = self._session.table(OUTPUT).count() if there is None else there
        if rows < there:
            raise RefusedError(f"{there - rows} of {there} output rows are not computed anew")
        if several > rows:
            self._because(Items("output"), several_are)

    def _next(self, number: int, above: Sequence[Above]) -> Stage:
        """Groups with what they were made from. Queries run side by side: ``number`` is the stage's own."""
        leaf = above[0].leaf
        builder, made = self._builder(), groups_of(leaf)
        if leaf.subquery:
            built = builder.build(leaf.of, ids=True)
            return self._run_groups(number, made, builder, built, [], f"{built.name} AS r")
        node = self._recipe.plan[leaf.of]
        if isinstance(node, Join):
            return self._matches(number, builder, node, above)
        if isinstance(node, PythonRows):
            raise RefusedError(f"which rows {node.name} gave, {node.why}, can't be computed anew")
        assert isinstance(node, Aggregate | Window)
        built = builder.build(node.input, ids=True)
        if isinstance(node, Aggregate):
            keys = recomputable_keys(node, built)
            terms = key_terms(builder.text(), keys, built)
            if len(keys) < len(node.keys):
                builder.reasons.append(COARSE_GROUPS)
        else:
            terms = [builder.text().of(one) for one in window_functions(node)[0].partition]
        if self._named is not None and self._named.terms and self._named.leaf == leaf:
            return self._by_values(number, self._named, above, builder, built, terms)
        if isinstance(node, Window) and (is_running(node) or reads_some_rows(node)):
            builder.reasons.append("a window function looks at some rows of its partition")
        where = self._restriction(number, above, terms)
        of = f"{built.name} AS r WHERE {where}"
        return self._run_groups(number, made, builder, built, terms, of)

    def _by_values(
        self,
        number: int,
        named: Grouping,
        above: Sequence[Above],
        builder: Builder,
        built: NamedQuery,
        keys: Sequence[str],
    ) -> Stage:
        """Groups that output rows name by what is made of keys: one group must have the values."""
        if any(one.leaf != named.leaf for one in above):
            raise _SharedValuesError
        terms = list(named.terms)
        of = f"{built.name} AS r WHERE {self._restriction(number, above, terms)}"
        whole = f"{literals.hash_term(keys)} AS {WHOLE_KEY}"
        stage = self._run_groups(number, groups_of(named.leaf), builder, built, terms, of, whole)
        found = pa.concat_tables(stage.result.tables([OUT_GROUP, WHOLE_KEY]))
        if distinct(found).num_rows > distinct(found.select([OUT_GROUP])).num_rows:
            raise _SharedValuesError
        return stage

    def _restriction(self, number: int, above: Sequence[Above], terms: list[str]) -> str:
        if not terms:
            return "true"
        keys = self._keys_named(above)
        if keys is None or not all(map(literals.comparable, arrow_types(keys))):
            return "true"
        return has_key(self._session, f"lineage_keys_{number}", terms, keys)

    def _keys_named(self, above: Sequence[Above]) -> pa.Table | None:
        """The keys that the rows of queries name, each once; None where they are many.

        Raises:
            RefusedError: the keys don't tell groups apart, run for run.
        """
        found = [self._keys_in(one.result, one.leaf) for one in above]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        keys = distinct(
            pa.concat_tables([one.rename_columns(known[0].column_names) for one in known])
        )
        return None if keys.num_rows > RESTRICTED_MAX else keys

    def _keys_in(self, above: Result, leaf: Leaf) -> pa.Table | None:
        """The keys that the rows of a query name, each once; None where they are many.

        Raises:
            RefusedError: the keys don't tell groups apart, run for run.
        """
        names = self._keys_of(leaf)
        kinds = [above.types[name] for name in names]
        if literals.FLOATING_TYPES & set(kinds) and self._computed(self._recipe.plan[leaf.of]):
            raise RefusedError("groups are named by numbers that come out differently each time")
        if any("collate" in kind for kind in kinds):
            raise RefusedError("groups are named by texts with a collation")
        if all(map(literals.comparable, kinds)):
            return keys_in(above, leaf.columns[0], names, RESTRICTED_MAX)
        # Types that Parquet has no form of its own for: Spark reads what it wrote.
        frame = self._session.read.parquet(str(above.path)).where(leaf.columns[0])
        found = to_arrow(frame.select(*names).distinct().limit(RESTRICTED_MAX + 1))
        return None if found.num_rows > RESTRICTED_MAX else found

    def _computed(self, node: Node) -> bool:
        """Whether rows below are made of several others, so that doubles may differ from run to run."""
        todo = list(input_nodes_of(node))
        while todo:
            below = self._recipe.plan[todo.pop()]
            if isinstance(below, Aggregate | Window):
                return True
            todo.extend(input_nodes_of(below))
        return False

    def _matches(self, number: int, builder: Builder, node: Join, above: Sequence[Above]) -> Stage:
        made, built = groups_of(above[0].leaf), builder.build(node.right, ids=True)
        columns = matched_by(self._recipe, node)
        if node.condition is None or not columns:
            where = "true" if node.condition is None else builder.text().of(node.condition)
            of = f"{built.name} AS r WHERE {where}"
            return self._run_groups(number, made, builder, built, [], of)
        keys = self._keys_named(above)
        if keys is None:
            raise RefusedError(f"more than {RESTRICTED_MAX:,} different rows are matched by others")
        view = f"lineage_keys_{number}"
        key_view(self._session, view, keys)
        terms = [f"k.k{n}" for n in range(len(columns))]
        condition = builder.text(dict(zip(columns, terms, strict=True))).of(node.condition)
        of = f"{built.name} AS r JOIN {view} AS k ON {condition}"
        return self._run_groups(number, made, builder, built, terms, of)

    def _run_groups(
        self,
        number: int,
        made: Items,
        builder: Builder,
        built: NamedQuery,
        terms: Sequence[str],
        of: str,
        *also: str,
    ) -> Stage:
        listed = [
            f"{literals.hash_term(terms)} AS {OUT_GROUP}",
            f"{literals.hash_term(terms, 1)} AS {OUT_CHECK}",
            *also,
        ]
        return self._run(number, made, builder, built, [*listed, *self._ids(built)], of)

    def _run(
        self,
        number: int,
        made: Items,
        builder: Builder,
        built: NamedQuery,
        listed: Sequence[str],
        of: str,
    ) -> Stage:
        with told():
            check(self._session, builder)
            rows = self._session.sql(builder.statement(f"SELECT {', '.join(listed)} FROM {of}"))
            result = result_of(rows, self._scratch / f"stage-{number}", self._recipe.sources)
        return Stage(made, built, result, self._files, tuple(builder.reasons))

    def _builder(self) -> Builder:
        return Builder(self._recipe, self._files.terms, self._alike)

    def _ids(self, built: NamedQuery) -> list[str]:
        """What rows (called ``r``) name, groups by hashes of their keys, too."""
        listed: list[str] = []
        for leaf in built.leaves:
            listed += [f"r.{name} AS {name}" for name in leaf.columns]
            if leaf.grouped:
                keys = [f"r.{name}" for name in self._keys_of(leaf)]
                listed += [
                    f"CASE WHEN r.{leaf.columns[0]} THEN {literals.hash_term(keys, salt)} END AS {name}"
                    for salt, name in enumerate(group_columns(leaf))
                ]
        return listed

    def _keys_of(self, leaf: Leaf) -> list[str]:
        """The columns that name a group; a row's rank in its partition does not."""
        keys = list(leaf.columns[1:])
        node = self._recipe.plan[leaf.of]
        if not leaf.subquery and isinstance(node, Window):
            return keys[: len(window_functions(node)[0].partition)]
        return keys

    def _because(self, items: Items, reason: str) -> None:
        known = self.reasons.setdefault(items, [])
        if reason not in known:
            known.append(reason)
