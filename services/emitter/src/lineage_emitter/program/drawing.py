"""A program's graph drawn as SVG: no scripts, no styles or fonts from elsewhere.

Letters have the colour of the text around, and boxes are tinted, so that light and dark grounds show through.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.html_parts import block, mime_bundle, text
from lineage_core.tracing.folding import Fold, fold_by_call, links_between
from lineage_core.tracing.topology import Topology
from lineage_query.names import Names

WIDTH, HEIGHT = 220, 44
"""A box, in pixels."""
GAP_X, GAP_Y, MARGIN = 44, 18, 8
LABEL_CHARS_MAX = 30
"""Letters that fit a line of a box."""
FILLS = {
    "source": "#4caf50",
    "frame-source": "#4caf50",
    "sink": "#e69a1c",
    "frame": "#e69a1c",
    "shuffle": "#4f7fe0",
    "unknown": "#e05050",
}
FILL = "#888888"
TINT = 0.2
"""How much of its colour a box has: the letters on it can be read on white and on black."""


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """Nodes and links of a program, those of a loop as one; ``marked`` ones have a thick edge."""

    folds: Sequence[Fold]
    links: Sequence[LinkRecord]
    marked: Collection[str] = ()

    @classmethod
    def of(
        cls,
        nodes: Iterable[NodeRecord],
        links: Iterable[LinkRecord],
        marked: Collection[str] = (),
    ) -> ProgramGraph:
        """The graph of some records; links to other nodes are left out."""
        folds = fold_by_call(tuple(nodes))
        between = links_between(folds, tuple(links))
        marked_folds = {
            fold.first.node for fold in folds if any(node.node in marked for node in fold.nodes)
        }
        return cls(
            tuple(folds), tuple(link for link in between if link.src != link.dest), marked_folds
        )

    def svg(self) -> str:
        """The drawing, sources on the left."""
        nodes = [fold.first for fold in self.folds]
        places = _places(nodes, self.links)
        across = max((x for x, _ in places.values()), default=-1) + 1
        down = max((y for _, y in places.values()), default=-1) + 1
        width = 2 * MARGIN + max(across * (WIDTH + GAP_X) - GAP_X, 0)
        height = 2 * MARGIN + max(down * (HEIGHT + GAP_Y) - GAP_Y, 0)
        names = Names([node for fold in self.folds for node in fold.nodes])
        edges = [_edge(places[link.src], places[link.dest]) for link in self.links]
        boxes = [
            _box(fold, names.label(node.node), places[node.node], marked=node.node in self.marked)
            for fold, node in zip(self.folds, nodes, strict=True)
        ]
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" fill="currentColor" font-family="sans-serif" font-size="12">'
            + "".join((*edges, *boxes))
            + "</svg>"
        )

    def _repr_html_(self) -> str:
        return block([self.svg()])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), str(self))

    def __str__(self) -> str:
        above: defaultdict[str, list[str]] = defaultdict(list)
        for link in self.links:
            above[link.dest].append(link.src)
        return "\n".join(
            f"{'*' if node in self.marked else ' '} {node}: {_node_label(fold)}"
            + (f" <- {', '.join(above[node])}" if above[node] else "")
            for fold, node in ((fold, fold.first.node) for fold in self.folds)
        )


def _places(nodes: Sequence[NodeRecord], links: Sequence[LinkRecord]) -> dict[str, tuple[int, int]]:
    """Column and row of each node: behind all that it reads from, near their rows."""
    order = Topology(nodes, links)
    above: defaultdict[str, list[str]] = defaultdict(list)
    for link in links:
        if order.rank(link.src) < order.rank(link.dest):
            above[link.dest].append(link.src)
    places: dict[str, tuple[int, int]] = {}
    rows_in_column: defaultdict[int, set[int]] = defaultdict(set)
    for node in sorted((node_record.node for node_record in nodes), key=order.rank):
        parents = [places[parent] for parent in above[node]]
        column = max((x for x, _ in parents), default=-1) + 1
        row = round(sum(y for _, y in parents) / len(parents)) if parents else 0
        while row in rows_in_column[column]:
            row += 1
        rows_in_column[column].add(row)
        places[node] = (column, row)
    return places


def _corner(grid_position: tuple[int, int]) -> tuple[int, int]:
    return MARGIN + grid_position[0] * (WIDTH + GAP_X), MARGIN + grid_position[1] * (HEIGHT + GAP_Y)


def _edge(source: tuple[int, int], target: tuple[int, int]) -> str:
    x1, y1 = _corner(source)
    x2, y2 = _corner(target)
    x1, y1, y2 = x1 + WIDTH, y1 + HEIGHT // 2, y2 + HEIGHT // 2
    bend = x1 + GAP_X // 2
    path = f"M{x1} {y1}C{bend} {y1} {bend} {y2} {bend + GAP_X // 2} {y2}L{x2} {y2}"
    arrow = f"M{x2 - 6} {y2 - 4}L{x2} {y2}L{x2 - 6} {y2 + 4}"
    return f'<path d="{path}{arrow}" fill="none" stroke="#888888"/>'


def _box(fold: Fold, label: str, grid_position: tuple[int, int], *, marked: bool) -> str:
    x, y = _corner(grid_position)
    node, node_label = fold.total, _node_label(fold)
    first = label if label == node_label else f"{label}: {node_label}"
    second = node.path or node.call_site
    edge = 'stroke="currentColor" stroke-width="3"' if marked else 'stroke="#888888"'
    lines = [first, node.path or "", node.call_site, "" if node.exact else node.reason]
    title = "\n".join(dict.fromkeys(line for line in lines if line))
    return (
        f"<g><title>{text(title)}</title>"
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="4" '
        f'fill="{FILLS.get(node.kind, FILL)}" fill-opacity="{TINT}" {edge}/>'
        f'<text x="{x + 8}" y="{y + 18}">{text(_cut(first))}</text>'
        f'<text x="{x + 8}" y="{y + 35}" fill-opacity="0.75">{text(_cut(second))}</text></g>'
    )


def _node_label(fold: Fold) -> str:
    node = fold.first
    name = node.name or node.op
    name = f"{name} x{len(fold.nodes)}" if fold.nodes[1:] else name
    return f"{name} ({node.description})" if node.description else name


def _cut(text: str) -> str:
    return text if len(text) <= LABEL_CHARS_MAX else f"{text[: LABEL_CHARS_MAX - 1]}…"
