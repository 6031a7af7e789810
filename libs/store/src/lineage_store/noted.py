"""Rows of DataFrames: no block holds them, so a trace that looks things up must not answer for them."""

from __future__ import annotations

from collections.abc import Iterable

from lineage_core.address import parse_space
from lineage_core.graph import NOTED, NodeRecord
from lineage_core.trace_result import TraceError


class NotedRowError(TraceError):
    """A row of a DataFrame was asked for: its trace is a query, made from the recipe of ``node``."""

    def __init__(self, place: str, app: str, record: NodeRecord) -> None:
        what = record.name or record.op
        told = f"{place} is a row of what {what} at {record.call_site} "
        told += "read" if record.kind == "frame-source" else "gave"
        if record.kind == "unknown":
            told += f": it has no lineage ({record.reason})"
        else:
            told += f" (node {record.node} of {app}): it is traced by a query over the recipe that was noted: "
            told += "ask `lineage back` or `forward` where the store and Spark are"
        super().__init__(told)
        self.place = place
        self.app = app
        self.node = record.node


def noted_among(nodes: Iterable[NodeRecord], ids: Iterable[str]) -> list[NodeRecord]:
    """Of some nodes those whose rows are in no block. A file of an unknown node is a DataFrame's."""
    wanted = set(ids)
    kinds = NOTED | {"unknown"}
    return [node for node in nodes if node.node in wanted and node.kind in kinds]


def node_of(space: str) -> str:
    """The node that a space belongs to."""
    return parse_space(space).name
