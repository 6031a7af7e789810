"""Applications and graphs as tables and JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from lineage.terminal import echo
from lineage_core.contract.graph import RECIPE_NODE_KINDS, LinkRecord, NodeRecord
from lineage_core.terminal_text import plain
from lineage_core.tracing.folding import Fold, fold_by_call, links_between
from lineage_query.flowchart import fold_name
from lineage_query.names import Names
from lineage_store.port import ApplicationRecord

UNBOUNDED = 1_000_000
"""Characters of a line that nothing is cut or wrapped at."""


def moment_text(at: float, form: str) -> str:
    """A time of somebody's clock as it is here; ``?`` where no calendar has it."""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime(form)
    except (ValueError, OverflowError, OSError):
        return "?"


def show_apps(records: Sequence[ApplicationRecord]) -> None:
    """One line for each application."""
    table = table_of("application", "name", "started", "status", "flows", "recipes")
    for column in (4, 5):
        table.columns[column].justify = "right"
    for record in records:
        table.add_row(
            record.app,
            record.name,
            moment_text(record.started_at, "%Y-%m-%d %H:%M"),
            f"damaged: {record.damage}" if record.damage else record.status,
            "" if record.damage else f"{record.flows:,}",
            f"{record.recipes:,}" if record.recipes else "",
        )
    console().print(table)


def show_graph(folds: Sequence[Fold], links: Sequence[LinkRecord]) -> None:
    """One line for each fold of nodes, in order of creation."""
    names = Names([node for fold in folds for node in fold.nodes])
    above: dict[str, list[str]] = {}
    for link in links_between(folds, links):
        above.setdefault(link.dest, []).append(link.src)
    table = table_of("node", "from", "what", "where", "parts", "flows", "exact")
    for column in (4, 5):
        table.columns[column].justify = "right"
    for fold in folds:
        node = fold.total
        label = names.label(node.node)
        fold_label = fold_name(fold)
        table.add_row(
            node.node,
            ",".join(above.get(node.node, ())),
            fold_label
            if label == node.node
            else f"{fold_label} ({label}{', ...' if fold.nodes[1:] else ''})",
            node.path or node.call_site,
            "" if node.partitions is None else str(node.partitions),
            f"{node.flows:,}" if node.flows else "",
            _exactness(node),
        )
    console().print(table)
    for fold in folds:
        node = fold.total
        if not node.exact and node.reason:
            echo(f"node {node.node}: {node.reason}")
    repeated = [fold for fold in folds if fold.nodes[1:]]
    if repeated:
        looped_count = sum(len(fold.nodes) for fold in repeated)
        lines = "1 line stands" if len(repeated) == 1 else f"{len(repeated):,} lines stand"
        echo(f"{lines} for {looped_count:,} nodes made in loops; --unfold lists each")


def _exactness(node: NodeRecord) -> str:
    if node.kind == "unknown":
        return "unknown"
    if not node.exact:
        return "superset"
    # Whether rows computed from the recipe are exact is part of the answer to each query.
    return "recipe" if node.kind in RECIPE_NODE_KINDS else "yes"


def graph_json(
    app: str, nodes: Sequence[NodeRecord], links: Sequence[LinkRecord]
) -> dict[str, Any]:
    """Nodes and links as tools read them; ``group`` names the first of the nodes of one call."""
    fields = [field for field in NodeRecord.__slots__ if field not in {"call_path", "containers"}]
    group = {
        node.node: fold.first.node
        for fold in fold_by_call(nodes)
        for node in fold.nodes
        if fold.nodes[1:]
    }
    return {
        "app": app,
        "nodes": [
            {field: getattr(node, field) for field in fields}
            | {
                "containers": [asdict(container) for container in node.containers],
                "group": group.get(node.node),
            }
            for node in nodes
        ],
        "links": [{"src": link.src, "dest": link.dest} for link in links],
    }


class _PlainTable(Table):
    """A table whose cells steer no terminal."""

    def add_row(self, *cells: RenderableType | None, **style: Any) -> None:
        super().add_row(
            *(Text(plain(cell)) if isinstance(cell, str) else cell for cell in cells), **style
        )


def table_of(*columns: str) -> Table:
    """A table without rows."""
    table = _PlainTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1))
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def console() -> Console:
    """Where tables are printed: as wide as a terminal, and as wide as need be for a file or a program."""
    width = None if sys.stdout.isatty() else UNBOUNDED
    return Console(highlight=False, markup=False, emoji=False, width=width)
