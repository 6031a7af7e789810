"""Recipes of DataFrames in stores: a plan is text of a few kilobytes that repeats itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pydantic_core import from_json

from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.message import (
    TEXT_MAX,
    Message,
    Recipe,
    parse_message,
)
from lineage_core.errors import RecipeError, VersionError
from lineage_core.tracing.budget import current_budget
from lineage_store.errors import StoreError
from lineage_store.folding import Body, expanded_body

if TYPE_CHECKING:
    from lineage_core.recipe.document import File
    from lineage_core.recipe.document import Recipe as Document

CACHED_BODY_MAX = 8_192
"""Maximum length of a message that is cached for the next query."""
BEGIN_CHARS = 6 * (TEXT_MAX + 1_000)
"""Characters of the begin message of an application that its name is among: arguments of the program, of any number, follow."""


def names_in(rows: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    """The names of applications, by their ids and the first `BEGIN_CHARS` of the bodies of their beginnings.

    Raises:
        BudgetError: the query has no time left.
    """
    names_by_app: dict[str, set[str]] = {}
    for app, body in rows:
        current_budget().check()
        begin = from_json(body, allow_partial=True)
        if isinstance(begin, dict) and isinstance(name := begin.get("name"), str):
            names_by_app.setdefault(app, set()).add(name)
    return {app: frozenset(names) for app, names in names_by_app.items()}


class MessageList(list[Message]):
    """Messages that count against the budget as long as the list exists.

    ``source``: the list that these were made of, which is counted for both.
    """

    __slots__ = ("__weakref__", "source")
    source: Sequence[Message]


def derived_messages(messages: Iterable[Message], source: Sequence[Message]) -> MessageList:
    """Messages that were made of others, and are counted as these."""
    derived = MessageList(messages)
    derived.source = source
    return derived


def read_messages(
    read: Callable[[], Iterable[Body]], count_bytes: Callable[[], int]
) -> MessageList:
    """Stored messages, as many as the query may hold, and as far as it has time.

    Args:
        read: Reads the bodies of the messages.
        count_bytes: Counts their bytes in the store; called only where a query may not hold any number.

    Raises:
        StoreError: the bytes of one are damaged.
        ContractError: one is no message.
        BudgetError: they are more than may be held, or the query has no time left.
    """
    messages = MessageList()
    budget = current_budget()
    budget.hold_messages(messages, count_bytes)
    for body in read():
        # An application may have sent any number of messages.
        budget.check()
        if not isinstance(body, str):
            # Text that repeats itself is far longer than what was counted of it.
            expanded = expanded_body(body)
            budget.hold_messages(messages, partial(len, expanded))
            messages.append(parse_body(expanded))
        else:
            messages.append(parse_body(body))
    return messages


def parse_body(body: Body) -> Message:
    """A stored message.

    Raises:
        StoreError: the bytes are damaged.
        ContractError: it is no message.
    """
    text = expanded_body(body)
    return _parsed(text) if len(text) <= CACHED_BODY_MAX else parse_message(text)


# Each question reads the same messages of an application again; a message never changes.
_parsed = lru_cache(maxsize=1_024)(parse_message)


def recipe_in(body: Body) -> str:
    """The recipe that a stored message brought.

    Raises:
        StoreError: the bytes are damaged, or the message brings none.
    """
    message = parse_body(body)
    if not isinstance(message, Recipe):
        raise StoreError(f"a stored recipe is a message of type {message.type}")
    return message.recipe


def read_recipe(graph: FlowGraph, node: str) -> Document | None:
    """The recipe of a DataFrame's output, with the checksums that the graph has of its files; None: it has none (yet).

    Raises:
        RecipeError, VersionError: it can't be read, or its action failed, so that there is no output.
    """
    recipe = _document(graph, node)
    if recipe is None:
        return None
    if recipe.output.failure is not None:
        raise RecipeError(
            f"{recipe.output.action} failed ({recipe.output.failure.type}): it gave no rows. "
            f"Which rows it failed on: lineage sift {node} --fails-with {recipe.output.failure.type}"
        )
    checksums = {file.path: file.checksum for file in graph.sink_files(node)}
    for link in graph.links():
        if link.dest == node:
            checksums |= {split.path: split.checksum for split in graph.splits(link.src)}

    def summed(files: tuple[File, ...]) -> tuple[File, ...]:
        return tuple(replace(entry, checksum=checksums.get(entry.path, "")) for entry in files)

    return replace(
        recipe,
        sources=tuple(replace(entry, files=summed(entry.files)) for entry in recipe.sources),
        output=replace(recipe.output, files=summed(recipe.output.files)),
    )


def failed_recipes(graph: FlowGraph) -> dict[str, Document]:
    """The recipes of actions that failed, by node; those that can't be read are left out."""
    recipes: dict[str, Document] = {}
    for node in graph.nodes():
        if node.kind != "unknown":
            continue
        current_budget().check()
        with suppress(RecipeError, VersionError):
            recipe = _document(graph, node.node)
            if recipe is not None and recipe.output.failure is not None:
                recipes[node.node] = recipe
    return recipes


def _document(graph: FlowGraph, node: str) -> Document | None:
    text = graph.recipe(node)
    if text is None:
        return None
    # Traces of records do not load this.
    from lineage_core.recipe.document import Recipe as Document

    return Document.from_json(text)
