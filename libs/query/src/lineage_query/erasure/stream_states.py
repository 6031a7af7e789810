"""Streaming queries that keep rows, or what was made of them, in the state of their checkpoints: no lineage says where these lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.contract.message import Stream
from lineage_core.errors import ContractError
from lineage_core.recipe.document import ERASED, Recipe
from lineage_core.recipe.plan import OpaqueExpression, expressions_of, subexpressions_of
from lineage_query.showing import names_text
from lineage_store.port import GraphStore

NAMED_MAX = 20
STATE = "state"
"""What recipes of batches call a condition on what a query holds from batch to batch, as a deduplication does."""


def queries_with_state(store: GraphStore, app: str) -> list[str]:
    """The streaming queries of an application that keep rows' values from batch to batch, or of which that is not known."""
    queries: dict[str, None] = {}
    begun, with_state = set[str](), set[str]()
    for message in store.messages(app, "stream"):
        if isinstance(message, Stream):
            queries[message.query] = None
            if message.state == "begun":
                begun.add(message.query)
                with_state.update({message.query} if message.keeps != "nothing" else ())
    if begun - with_state:
        for message in store.messages(app, "recipe"):
            if isinstance(message, RecipeMessage):
                with_state.update(_query_with_state(message.recipe, queries))
    return [query for query in queries if query in with_state or query not in begun]


def _query_with_state(text: str, queries: Iterable[str]) -> Iterable[str]:
    """The query of a recipe if its batches are chosen by a state; all of its application, where that can't be read any more."""
    try:
        recipe = None if text == ERASED else Recipe.from_json(text)
    except ContractError:
        recipe = None
    if recipe is None:
        return queries
    chosen = any(
        isinstance(part, OpaqueExpression) and part.name == STATE
        for node in recipe.plan
        for expression in expressions_of(node)
        for part in subexpressions_of(expression)
    )
    return (recipe.batch.query,) if chosen and recipe.batch is not None else ()


def stream_states(store: GraphStore, apps: Iterable[str]) -> Iterator[str]:
    """A line that names such queries of some applications, for people."""
    queries = [f"{query} ({app})" for app in apps for query in queries_with_state(store, app)]
    if queries:
        named = names_text(queries, NAMED_MAX)
        yield (
            f"State of {len(queries):,} streaming queries, in their checkpoints, where the rows or what was made of them may stand: {named}. Begin these anew "
            "with other checkpoints, over sources without the rows, and delete the old ones."
        )
