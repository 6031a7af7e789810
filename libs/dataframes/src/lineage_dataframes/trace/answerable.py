"""Whether rows of DataFrames can be traced, decided from their recipes alone: no query is run, and no Spark is needed.

A recipe may be all there and still allow no trace: a group's key that can't be computed anew, a sample within a
plan, a Python function over partitions below an aggregate. The queries of a trace (`backward`) are written here as they
would be then, level by level, and each refusal is collected. What only the rows can show (whether a window's order ties,
whether a source has changed) is for a trial on some of them: see `probing`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.verdict import Refusal, Verdict
from lineage_core.errors import ContractError
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    NODES,
    Aggregate,
    Join,
    PythonRows,
    Scan,
    Window,
)
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.functions import runnable_in
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.sources.views import unnamed_rows_reason
from lineage_dataframes.spark.settings import replayed_settings
from lineage_store.port import GraphStore

NAME_UNKNOWN = "what names its rows can't be computed anew"
OUTPUT_KINDS = ("frame", "unknown")
"""Kinds of nodes that may have a recipe."""

_OPERATORS = {kind: name for name, kind in NODES.items()}


@dataclass
class _Checker(Builder):
    """``refused_at``: the innermost node that refused."""

    refused_at: int | None = None

    def build(self, node_number: int, *, ids: bool, top: bool = False) -> NamedQuery:
        try:
            return super().build(node_number, ids=ids, top=top)
        except RefusedError:
            if self.refused_at is None:
                self.refused_at = node_number
            raise


def refusals(recipe: Recipe, key: str | None = None) -> tuple[tuple[str, str], ...]:
    """What keeps rows of a recipe's output from being traced back: operators of its plan, each with the reason.

    Args:
        recipe: recorded when the job ran.
        key: of its Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        FunctionsKeyError: the key can't be used.
    """
    code = runnable_in(recipe, key, recipe.spark)
    reasons = dict.fromkeys(
        [*_setting_refusals(recipe), *_source_refusals(recipe), *_level_refusals(code.recipe)]
    )
    code_reasons = f" ({'; '.join(code.why)})" if code.why else ""
    return tuple((operator, f"{reason}{code_reasons}") for operator, reason in reasons)


def _setting_refusals(recipe: Recipe) -> Iterator[tuple[str, str]]:
    try:
        replayed_settings(recipe)
    except RefusedError as problem:
        yield "", str(problem)


def _source_refusals(recipe: Recipe) -> Iterator[tuple[str, str]]:
    for node in recipe.plan:
        if isinstance(node, Scan):
            reason = unnamed_rows_reason(recipe.sources[node.source])
            if reason:
                yield _OPERATORS[Scan], reason


def _level_refusals(recipe: Recipe) -> Iterator[tuple[str, str]]:
    """Of the output's query and, one below the other, of those of the groups that it names."""
    todo = [(len(recipe.plan) - 1, True)]
    for node_number, top in todo:
        builder = _Checker(recipe)
        try:
            built = builder.build(node_number, ids=True, top=top)
        except RefusedError as problem:
            refused_node = node_number if builder.refused_at is None else builder.refused_at
            yield _OPERATORS[type(recipe.plan[refused_node])], str(problem)
            continue
        if top and recipe.names_rows and recipe.columns[-1].id in built.unknown:
            yield "", NAME_UNKNOWN
        for leaf in built.leaves:
            todo += [pending for pending in _nodes_below(recipe, leaf) if pending not in todo]


def _nodes_below(recipe: Recipe, leaf: Leaf) -> list[tuple[int, bool]]:
    """The nodes whose rows a next query gives, as `group_queries` writes it; with ``top`` of their builds."""
    if not leaf.grouped:
        return []
    node = recipe.plan[leaf.of]
    if leaf.subquery:
        return [(leaf.of, False)]
    if isinstance(node, Aggregate | Window):
        return [(node.input, False)]
    if isinstance(node, Join):
        return [(node.right, False)]
    if isinstance(node, PythonRows):
        # All rows of its inputs will do where the very ones can't be had.
        return [(input_node, not _can_build(recipe, input_node)) for input_node in node.inputs]
    return []


def _can_build(recipe: Recipe, node_number: int) -> bool:
    try:
        Builder(recipe).build(node_number, ids=True)
    except RefusedError:
        return False
    return True


def with_answerable(
    store: GraphStore,
    app: str,
    verdict: Verdict,
    *,
    timeout_s: float | None = None,
    key: str | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Verdict:
    """A verdict on an application with whether rows of all of its outputs can be traced.

    Args:
        store: has the recipes.
        app: the application.
        verdict: what is known of what was received.
        timeout_s: seconds after which outputs are left unchecked, and the verdict says so; None: all are examined.
        key: of recipes' Python functions, as in `refusals`.
        clock: in seconds.
    """
    if not verdict.recipes_received:
        return verdict
    until = None if timeout_s is None else clock() + timeout_s
    graph = store.graph(app)
    outputs = [node for node in graph.nodes() if node.kind in OUTPUT_KINDS]
    refusals_by_recipe: dict[object, tuple[tuple[str, str], ...]] = {}
    refusals: list[Refusal] = []
    for node_number, node in enumerate(outputs):
        if until is not None and clock() > until:
            return verdict.answered(refusals, len(outputs) - node_number)
        text = graph.recipe(node.node)
        if text is not None:
            refusals += to_refusals(node, _refusals_of(text, key, refusals_by_recipe))
    return verdict.answered(refusals)


def _refusals_of(
    text: str, key: str | None, refusals_by_recipe: dict[object, tuple[tuple[str, str], ...]]
) -> tuple[tuple[str, str], ...]:
    """The refusals of a recipe's text. ``known_refusals``: of others, by what they are like."""
    try:
        recipe = Recipe.from_json(text)
        if recipe.output.failure is not None:
            # It has no rows; the verdict says that it failed.
            return ()
        # Programs do the same in loops, over other files.
        cache_key = recipe.plan, tuple(_read_key(recipe)), text if recipe.functions else ""
        if cache_key not in refusals_by_recipe:
            refusals_by_recipe[cache_key] = refusals(recipe, key)
        return refusals_by_recipe[cache_key]
    except ContractError as problem:
        return (("", f"the recipe can't be read: {problem}"),)
    except RecursionError:
        return (("", "its plan is too deep"),)


def to_refusals(node: NodeRecord, refused: Iterable[tuple[str, str]]) -> Sequence[Refusal]:
    """Refusals of a node of the graph."""
    return [
        Refusal(node.node, node.name or node.op, operator, reason) for operator, reason in refused
    ]


def _read_key(recipe: Recipe) -> Iterator[object]:
    """What decides, beside the plan: how sources are read, and what for."""
    yield recipe.output.action
    yield recipe.spark, tuple(sorted(recipe.settings.items()))
    for source in recipe.sources:
        yield source.format, source.options.get("mode")
