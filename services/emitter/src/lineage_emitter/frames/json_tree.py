"""Spark's own JSON of a plan (``TreeNode.toJSON``), as trees.

One call brings a whole plan over; a call per node would cost a hundred times as much. What that text leaves
out (sets, nested lists, local rows) is fetched through `Tree.java`, which walks to the object when asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from itertools import count
from typing import Any


@dataclass(frozen=True)
class Tree:
    """A plan's or expression's node: its class without the package, its fields, what is below it."""

    kind: str
    fields: dict[str, Any]
    children: tuple[Tree, ...]
    java: Callable[[], Any]

    def tree(self, field: str) -> Tree | None:
        """The expression or plan in ``field``; None where it is empty."""
        raw = self.fields.get(field)
        if not raw:
            return None
        return tree_of(raw, lambda: _single(getattr(self.java(), field)()))

    def trees(self, field: str) -> list[Tree]:
        """The expressions in ``field``, a list."""
        raw = self.fields.get(field) or []
        return [
            tree_of(one, lambda place=place: getattr(self.java(), field)().apply(place))  # type: ignore[misc]
            for place, one in enumerate(raw)
        ]


def read_tree(text: str, java: Callable[[], Any]) -> Tree:
    """The tree that ``text`` says; ``java`` gives its root."""
    return tree_of(json.loads(text), java)


def all_fields(raw: Any) -> Iterator[dict[str, Any]]:
    """Every node's object in the JSON text, at any depth."""
    todo = [raw]
    while todo:
        one = todo.pop()
        if isinstance(one, list):
            todo.extend(one)
        elif isinstance(one, dict):
            if "class" in one:
                yield one
            todo.extend(one.values())


def tree_of(
    raw: list[dict[str, Any]],
    java: Callable[[], Any],
    leaves: Callable[[], Any] | None = None,
) -> Tree:
    """The tree that Spark's JSON says, once it is read.

    ``java`` gives its root, ``leaves`` (where Spark lists them) its leaves from left to right: each step on the way
    to one would be a call.
    """
    nodes, listed = iter(raw), None if leaves is None else cache(leaves)
    places = count()

    def build(here: Callable[[], Any]) -> Tree:
        fields = next(nodes)
        below = cache(lambda: here().children())
        children = tuple(
            build(cache(lambda place=place: below().apply(place)))
            for place in range(fields["num-children"])
        )
        if listed is not None and not children:
            here = cache(partial(_nth, listed, next(places)))
        return Tree(fields["class"].rpartition(".")[2].rstrip("$"), fields, children, here)

    return build(java)


def _nth(listed: Callable[[], Any], place: int) -> Any:
    return listed().apply(place)


def _single(held: Any) -> Any:
    """What an Option or a plain field holds."""
    return held.get() if held.getClass().getName() == "scala.Some" else held
