"""Mermaid: the nodes on the way as a flowchart, with how many of their items take part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

from lineage_core.tracing.folding import fold_by_call
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.tables import encodable_text
from lineage_query.flowchart import mermaid_text
from lineage_query.record_trace import RecordTrace


def write_mermaid(
    traced: RecordTrace, stream: IO[bytes], options: ExportOptions
) -> Mapping[str, None]:
    """Write the nodes on the way of a trace; nodes without a number of items have none."""
    nodes, links = traced.nodes()
    folds = fold_by_call(nodes)
    counts = traced.counts()
    notes = {
        fold.first.node: _items(sum(counts.get(node.node, 0) for node in fold.nodes))
        for fold in folds
    }
    comments = [f"%% {line}" for line in _comment_lines(traced)]
    text = "\n".join([*comments, mermaid_text(folds, links, names=traced.names, notes=notes)])
    stream.write(encodable_text(text).encode())
    return dict.fromkeys(traced.warnings)


def _items(count: int) -> str:
    return "" if not count else "1 item" if count == 1 else f"{count:,} items"


def _comment_lines(traced: RecordTrace) -> list[str]:
    """Comments that describe the trace."""
    preposition = "from" if traced.direction.value == "backward" else "to"
    places = ", ".join(traced.requested_places)
    lines = [f"what {'made' if preposition == 'from' else 'became of'} {places} in {traced.app}"]
    if not traced.result.exact:
        lines += [f"not exact: {reason}" for reason in traced.result.reasons]
    if not traced.complete:
        lines.append("the lineage is incomplete: items may be missing")
    return [" ".join(line.split()) for line in lines]
