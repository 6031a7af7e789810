"""Graphs of nodes as Mermaid flowcharts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lineage_core.contract.graph import LinkRecord
from lineage_core.tracing.folding import Fold, links_between
from lineage_query.names import Names

_SHAPES = {
    "source": ("[(", ")]"),
    "frame-source": ("[(", ")]"),
    "sink": ("[/", "/]"),
    "frame": ("[/", "/]"),
    "shuffle": ("{{", "}}"),
}


def mermaid_text(
    folds: Sequence[Fold],
    links: Sequence[LinkRecord],
    *,
    names: Names | None = None,
    notes: Mapping[str, str] | None = None,
) -> str:
    """A graph as a Mermaid flowchart.

    ``names``: the names of nodes, if these are not all nodes of the application. ``notes``: labels
    of folds (by first node) instead of their number of flows.
    """
    names = names or Names([node for fold in folds for node in fold.nodes])
    ids = {fold.first.node: f"n{at}" for at, fold in enumerate(folds)}
    lines = ["flowchart LR"]
    for fold in folds:
        node = fold.total
        opening, closing = _SHAPES.get(node.kind, ("[", "]"))
        parts = [names.label(node.node), fold_name(fold), node.path or node.call_site]
        if notes is not None:
            parts.append(notes.get(node.node, ""))
        elif node.flows:
            parts.append(f"{node.flows:,} flows")
        if not node.exact:
            parts.append("unknown" if node.kind == "unknown" else "superset")
        text = "<br/>".join(quoted(part) for part in dict.fromkeys(parts) if part)
        lines.append(f'    {ids[node.node]}{opening}"{text}"{closing}')
    for link in links_between(folds, links):
        lines.append(f"    {ids[link.src]} --> {ids[link.dest]}")
    return "\n".join(lines) + "\n"


def fold_name(fold: Fold) -> str:
    """The operation of the nodes, and their number if there are several."""
    name = fold.first.name or fold.first.op
    return f"{name} x{len(fold.nodes)}" if fold.nodes[1:] else name


def quoted(text: str) -> str:
    """Text inside a quoted Mermaid label: entities for what would end it."""
    for plain, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(plain, entity)
    return " ".join(text.split())
