"""What one cell of a notebook added to the lineage of a program."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lineage_core.contract.graph import NodeRecord
from lineage_core.html_parts import block, code, heading, hyperlink, mime_bundle, note, table, text
from lineage_emitter.program.lookups import open_view
from lineage_emitter.program.waiting import LINKED_S

if TYPE_CHECKING:
    from lineage_emitter.program.lookups import LineageView
    from lineage_emitter.session.session import Session

NOTHING = "no action ran in this cell: there is nothing to trace yet"
OUTPUTS = ("sink", "frame")
SOURCES = ("source", "frame-source")


@dataclass(frozen=True, slots=True)
class CellOutput:
    """What an action of the cell gave: ``how`` says how a row of it is traced, ``reason`` why it is a superset."""

    what: str
    how: str
    reason: str


@dataclass(frozen=True, slots=True)
class CellLineage:
    """What a cell added. ``gaps``: why lineage of the program so far is missing; ``url``: of its page."""

    app: str
    sources: tuple[str, ...]
    outputs: tuple[CellOutput, ...]
    gaps: tuple[str, ...]
    url: str = ""

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"lineage: {self.app}"
        yield from (f"  read {source}" for source in self.sources)
        for output in self.outputs:
            yield f"  {output.what}: {output.how}"
            if output.reason:
                yield f"    superset: {output.reason}"
        if not self.outputs:
            yield f"  {NOTHING}"
        yield from (f"  incomplete: {gap}" for gap in self.gaps)
        if self.url:
            yield f"  {self.url}"

    def _repr_html_(self) -> str:
        rows = [
            (
                code(output.what),
                code(output.how),
                note("superset", output.reason, "doubtful") if output.reason else "",
            )
            for output in self.outputs
        ]
        head = ("captured", "to trace a row", "")
        return block(
            (
                heading(f"lineage: {self.app}"),
                *(f"<div>read {code(source)}</div>" for source in self.sources),
                table(head, rows) if rows else f"<div>{text(NOTHING)}</div>",
                *(note("incomplete", gap, "bad") for gap in self.gaps),
                hyperlink(self.url, "graph and rows on the page") if self.url else "",
            )
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mime_bundle(self._repr_html_(), str(self))


def captured_nodes(session: Session, timeout_s: float = LINKED_S) -> frozenset[str]:
    """The nodes that a program has made so far.

    Raises:
        TracingError, NotLinkedError, StoreError, OSError: as for :func:`open_view`.
    """
    session.frames.wait_until_recorded()
    with open_view(session, timeout_s) as view:
        return frozenset(view.nodes)


def cell_lineage(
    session: Session, earlier_nodes: Collection[str], url: str = "", timeout_s: float = LINKED_S
) -> CellLineage:
    """What the program has added to nodes that were known before.

    Raises:
        TracingError, NotLinkedError, StoreError, OSError: as for :func:`open_view`.
    """
    session.frames.wait_until_recorded()
    with open_view(session, timeout_s) as view:
        new = [
            node
            for node in view.nodes.values()
            if node.node not in earlier_nodes and not view.is_numbering(node.node)
        ]
        sources = dict.fromkeys(
            node.path or view.text(node.node) for node in new if node.kind in SOURCES
        )
        outputs = [_output(view, node) for node in new if node.kind in OUTPUTS]
        return CellLineage(session.app, tuple(sources), tuple(outputs), view.gaps(), url)


def _output(view: LineageView, node: NodeRecord) -> CellOutput:
    label = view.names.label(node.node)
    name = node.name or node.op
    if node.kind == "frame":
        how = f"%lineage back '{node.path}#COLUMN=VALUE'" if node.path else "df.lineage().back(row)"
    elif node.path:
        how = f"%lineage back {node.path}/part-00000:LINE"
    else:
        how = f"%lineage back {label}#PARTITION#ITEM"
    description = (
        f"{name} to {node.path}" if node.path else f"{name} ({label})" if label != name else name
    )
    return CellOutput(description, how, "" if node.exact else node.reason)
