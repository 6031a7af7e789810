"""Which node is meant, where there are several."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark import RDD

from lineage_emitter.errors import ChoiceError, TracingError
from lineage_emitter.program.recipes import Source, recipe_of

if TYPE_CHECKING:
    from lineage_emitter.program.lookups import LineageView
    from lineage_emitter.session.session import Session

Which: TypeAlias = "RDD[Any] | str"
"""An RDD of the program, or the id, the alias or the operator of a node."""


def step_to(
    look: LineageView,
    session: Session,
    starts: Iterable[str],
    reached: Collection[str],
    which: Which | None,
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
    nodes = [node for node in look.nodes if node in set(reached)]
    if which is None:
        nodes = [n for n in nodes if not look.is_numbering(n)] or nodes
        return _only(look, nodes, "several nodes lie that way")
    if not nodes:
        return None
    meant = _meant(look, session, which) & _way(look, starts, back=back)
    exact = _numbered(which, nodes) or [node for node in nodes if node in meant]
    behind = [n for n in nodes if meant & look.topology.reachable_from(n, upstream=back)]
    before = [n for n in nodes if meant & look.topology.reachable_from(n, upstream=not back)]
    found = exact or behind or before
    if not found:
        texts = "; ".join(look.text(node) for node in nodes)
        raise TracingError(f"{_shown(which)} does not lie that way; these do: {texts}")
    return _only(look, found, f"{_shown(which)} may mean several nodes")


def way_to(
    look: LineageView, session: Session, starts: Iterable[str], which: Which, *, back: bool
) -> str:
    """The node with items, on the way from ``starts``, that is meant.

    Raises:
        ChoiceError: it may be several.
        TracingError: it is none, or one inside a segment, which has no items of its own.
        AddressError: nothing in the program has that name.
    """
    on_the_way = _way(look, starts, back=back)
    meant = [node for node in look.nodes if node in _meant(look, session, which) & on_the_way]
    if not meant:
        raise TracingError(f"{_shown(which)} does not lie that way")
    with_items = [node for node in meant if look.has_items(node)]
    if not with_items:
        others = [n for n in look.nodes if n in on_the_way and look.has_items(n)]
        texts = "; ".join(look.text(n) for n in others if not look.is_numbering(n))
        raise TracingError(
            f"{look.text(meant[0])} keeps no items of its own; nodes on the way that do: {texts}"
        )
    real = [node for node in with_items if not look.is_numbering(node)]
    nodes = _numbered(which, with_items) or real or with_items
    found = _only(look, nodes, f"{_shown(which)} may mean several nodes")
    assert found is not None
    return found


def one_of(look: LineageView, session: Session, nodes: Collection[str], which: Which | None) -> str:
    """Of some nodes the one that is meant, or the only one.

    Raises:
        ChoiceError: it may be several.
        TracingError: it is none.
        AddressError: nothing in the program has that name.
    """
    ordered = [node for node in look.nodes if node in set(nodes)]
    if which is not None:
        meant = _meant(look, session, which)
        found = [node for node in ordered if node in meant]
        if not found:
            texts = "; ".join(look.text(node) for node in ordered)
            raise TracingError(f"there are no items of {_shown(which)}; there are of: {texts}")
        ordered = found
    only = _only(look, ordered, "there are items of several nodes")
    if only is None:
        raise TracingError("there are no items")
    return only


def _way(look: LineageView, starts: Iterable[str], *, back: bool) -> set[str]:
    """All nodes on the way from some, these included."""
    found: set[str] = set()
    for start in starts:
        found |= look.topology.reachable_from(start, upstream=back)
    return found


def _only(look: LineageView, nodes: list[str], what: str) -> str | None:
    if len(nodes) > 1:
        raise ChoiceError(what, [look.text(node) for node in nodes])
    return nodes[0] if nodes else None


def _meant(look: LineageView, session: Session, which: Which) -> set[str]:
    """The nodes that are meant, for an RDD also those of its numbered records."""
    if not isinstance(which, RDD):
        return look.called(which)
    node = getattr(which, "node", None)
    if node is None or getattr(which, "session", None) is not session:
        raise TracingError("the RDD is not captured by this LineageContext")
    recipe = recipe_of(which)
    name = node.name
    if isinstance(recipe, Source) and recipe.whole is None:
        name = recipe.node
    numbered = getattr(which, "numbered", None)
    return {name} if numbered is None else {name, numbered.sink.name}


def _numbered(which: Which, nodes: Collection[str]) -> list[str]:
    """The node, among some, whose items are the numbered records of an RDD: these can be shown."""
    numbered = getattr(which, "numbered", None)
    return [] if numbered is None else [node for node in nodes if node == numbered.sink.name]


def _shown(which: Which) -> str:
    return "the RDD" if isinstance(which, RDD) else repr(which)
