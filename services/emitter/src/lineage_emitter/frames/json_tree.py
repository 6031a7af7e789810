"""Spark's own JSON of a plan (``TreeNode.toJSON``), as trees.

One call brings a whole plan over; a call per node would cost a hundred times as much. What that text leaves
out (sets, nested lists, local rows) is fetched through `Tree.java`, which walks to the object when asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

ATTRIBUTE = "org.apache.spark.sql.catalyst.expressions.AttributeReference"


class Java:
    """An object of the JVM, found when it is first asked for."""

    __slots__ = ("_below", "_find", "_found")

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find = find
        self._found: Any = None
        self._below: Any = None

    def __call__(self) -> Any:
        if self._found is None:
            self._found = self._find()
        return self._found

    def child(self, place: int) -> Any:
        """What stands below it, if it is a plan or an expression."""
        if self._below is None:
            self._below = self().children()
        return self._below.apply(place)


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


def read_json(text: str, types: dict[int, str], ddl: Callable[[Any], str]) -> Any:
    """What the text says. ``types`` takes those of columns that it names anywhere, by number."""

    def seen(one: dict[str, Any]) -> dict[str, Any]:
        if one.get("class") == ATTRIBUTE and one["exprId"]["id"] not in types:
            types[one["exprId"]["id"]] = ddl(one["dataType"])
        return one

    return json.loads(text, object_hook=seen)


def tree_of(
    raw: list[dict[str, Any]],
    java: Callable[[], Any],
    leaves: Callable[[], Any] | None = None,
) -> Tree:
    """The tree that Spark's JSON says, once it is read.

    ``java`` gives its root, ``leaves`` (where Spark lists them) its leaves from left to right: each step on the way
    to one would be a call.
    """
    nodes, places = iter(raw), count()
    listed = None if leaves is None else Java(leaves)

    def build(here: Java) -> Tree:
        fields = next(nodes)
        children = tuple(
            build(Java(partial(here.child, place))) for place in range(fields["num-children"])
        )
        if listed is not None and not children:
            here = Java(partial(_nth, listed, next(places)))
        return Tree(fields["class"].rpartition(".")[2].rstrip("$"), fields, children, here)

    return build(Java(java))


def _nth(listed: Java, place: int) -> Any:
    return listed().apply(place)


def _single(held: Any) -> Any:
    """What an Option or a plain field holds."""
    return held.get() if held.getClass().getName() == "scala.Some" else held
