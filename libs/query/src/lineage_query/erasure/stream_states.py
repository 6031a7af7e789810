"""Streaming queries that keep rows, or what was made of them, in the state of their checkpoints: no lineage says where these lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lineage_core.contract.message import Stream
from lineage_store.port import GraphStore

NAMED_MAX = 20


def queries_with_state(store: GraphStore, app: str) -> list[str]:
    """The streaming queries of an application whose rows are made of more than those of a batch, or of which that is not known."""
    keeps: dict[str, bool] = {}
    begun: set[str] = set()
    for message in store.messages(app, "stream"):
        if isinstance(message, Stream):
            is_begun = message.state == "begun"
            begun.update({message.query} if is_begun else ())
            has_state = is_begun and message.keeps != "nothing"
            keeps[message.query] = keeps.get(message.query, False) or has_state
    return [query for query, has_state in keeps.items() if has_state or query not in begun]


def stream_states(store: GraphStore, apps: Iterable[str]) -> Iterator[str]:
    """A line that names such queries of some applications, for people."""
    queries = [f"{query} ({app})" for app in apps for query in queries_with_state(store, app)]
    if queries:
        more = len(queries) - NAMED_MAX
        named = ", ".join(queries[:NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")
        yield (
            f"State of {len(queries):,} streaming queries, in their checkpoints, where the rows or what was made of them may stand: {named}. Begin these anew "
            "with other checkpoints, over sources without the rows, and delete the old ones."
        )
