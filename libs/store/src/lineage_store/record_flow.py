"""Flows record by record, as the published schema of record-level lineage has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lineage_core.contract.graph import LinkRecord, NodeRecord


@dataclass(frozen=True, slots=True)
class RecordFlow:
    """One item from one item. ``val``: what the output looked like, else the source row; or None."""

    flow_id: str
    node: str
    hash_in: str
    hash_out: str
    val: str | None


@dataclass(frozen=True, slots=True)
class RecordFlows:
    """What a view holds, each flow once. ``links``: how many pairs of flows follow each other."""

    app: str
    nodes: Sequence[NodeRecord]
    node_links: Sequence[LinkRecord]
    flows: Sequence[RecordFlow]
    middles: Mapping[str, int] = field(default_factory=dict)
    """Hashes that are both put out and taken in, with how many pairs of flows meet there."""
    warnings: tuple[str, ...] = ()
    """What is to be known of the files that values were read from."""

    @property
    def links(self) -> int:
        """Pairs of flows that follow each other."""
        return sum(self.middles.values())
