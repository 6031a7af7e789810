"""Which node is meant, where there are several."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark import RDD

from lineage_emitter.errors import ChoiceError, TracingError
from lineage_emitter.program.recipes import SourceRecipe, recipe_of

if TYPE_CHECKING:
    from lineage_emitter.program.lookups import LineageView
    from lineage_emitter.session.session import Session

NodeChoice: TypeAlias = "RDD[Any] | str"
"""An RDD of the program, or the id, the alias or the operator of a node."""


def choose_step(
    view: LineageView,
    session: Session,
    starts: Iterable[str],
    reached: Collection[str],
    which: NodeChoice | None,
    *,
    back: bool,
) -> str | None:
    """The node, of those that a step from ``starts`` reached, that is meant; None: of none.

    ``which`` names it, or what lies on that way behind it or before it.

    Raises:
        ChoiceError: it may be several.
        TracingError: it is none.
        AddressError: nothing in the program has that name.
    """
    nodes = [node for node in view.nodes if node in set(reached)]
    if which is None:
        nodes = [n for n in nodes if not view.is_numbering(n)] or nodes
        return _single_node(view, nodes, "several nodes lie that way")
    if not nodes:
        return None
    matching = _matching_nodes(view, session, which) & _nodes_on_way(view, starts, back=back)
    exact = _numbering_nodes(which, nodes) or [node for node in nodes if node in matching]
    leading_there = [n for n in nodes if matching & view.topology.reachable_from(n, upstream=back)]
    before = [n for n in nodes if matching & view.topology.reachable_from(n, upstream=not back)]
    chosen = exact or leading_there or before
    if not chosen:
        texts = "; ".join(view.text(node) for node in nodes)
        raise TracingError(f"{_describe(which)} does not lie that way; these do: {texts}")
    return _single_node(view, chosen, f"{_describe(which)} may mean several nodes")


def node_on_way(
    view: LineageView, session: Session, starts: Iterable[str], which: NodeChoice, *, back: bool
) -> str:
    """The node with items, on the way from ``starts``, that is meant.

    Raises:
        ChoiceError: it may be several.
        TracingError: it is none, or one inside a segment, which has no items of its own.
        AddressError: nothing in the program has that name.
    """
    on_the_way = _nodes_on_way(view, starts, back=back)
    matching = [
        node for node in view.nodes if node in _matching_nodes(view, session, which) & on_the_way
    ]
    if not matching:
        raise TracingError(f"{_describe(which)} does not lie that way")
    with_items = [node for node in matching if view.has_items(node)]
    if not with_items:
        others = [n for n in view.nodes if n in on_the_way and view.has_items(n)]
        texts = "; ".join(view.text(n) for n in others if not view.is_numbering(n))
        raise TracingError(
            f"{view.text(matching[0])} keeps no items of its own; nodes on the way that do: {texts}"
        )
    real = [node for node in with_items if not view.is_numbering(node)]
    nodes = _numbering_nodes(which, with_items) or real or with_items
    single = _single_node(view, nodes, f"{_describe(which)} may mean several nodes")
    assert single is not None
    return single


def choose_node(
    view: LineageView, session: Session, nodes: Collection[str], which: NodeChoice | None
) -> str:
    """Of some nodes the one that is meant, or the only one.

    Raises:
        ChoiceError: it may be several.
        TracingError: it is none.
        AddressError: nothing in the program has that name.
    """
    ordered = [node for node in view.nodes if node in set(nodes)]
    if which is not None:
        matching = _matching_nodes(view, session, which)
        chosen = [node for node in ordered if node in matching]
        if not chosen:
            texts = "; ".join(view.text(node) for node in ordered)
            raise TracingError(f"there are no items of {_describe(which)}; there are of: {texts}")
        ordered = chosen
    single = _single_node(view, ordered, "there are items of several nodes")
    if single is None:
        raise TracingError("there are no items")
    return single


def _nodes_on_way(view: LineageView, starts: Iterable[str], *, back: bool) -> set[str]:
    """All nodes on the way from some, these included."""
    nodes: set[str] = set()
    for start in starts:
        nodes |= view.topology.reachable_from(start, upstream=back)
    return nodes


def _single_node(view: LineageView, nodes: list[str], choice: str) -> str | None:
    if len(nodes) > 1:
        raise ChoiceError(choice, [view.text(node) for node in nodes])
    return nodes[0] if nodes else None


def _matching_nodes(view: LineageView, session: Session, which: NodeChoice) -> set[str]:
    """The nodes that are meant, for an RDD also those of its numbered records."""
    if not isinstance(which, RDD):
        return view.called(which)
    node = getattr(which, "node", None)
    if node is None or getattr(which, "session", None) is not session:
        raise TracingError("the RDD is not captured by this LineageContext")
    recipe = recipe_of(which)
    name = node.name
    if isinstance(recipe, SourceRecipe) and recipe.full_rdd is None:
        name = recipe.node
    numbered = getattr(which, "numbered", None)
    return {name} if numbered is None else {name, numbered.sink.name}


def _numbering_nodes(which: NodeChoice, nodes: Collection[str]) -> list[str]:
    """The node, among some, whose items are the numbered records of an RDD: these can be shown."""
    numbered = getattr(which, "numbered", None)
    return [] if numbered is None else [node for node in nodes if node == numbered.sink.name]


def _describe(which: NodeChoice) -> str:
    return "the RDD" if isinstance(which, RDD) else repr(which)
