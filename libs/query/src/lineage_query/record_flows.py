"""Flows record by record, as the published schema has them: one input item, one output item.

``hashIn`` and ``hashOut`` are item addresses with the names that people use (``read#0#6``,
``write#0#1``), or the strings of a program that was instrumented by hand. One flow's ``hashOut`` is the
next one's ``hashIn``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from xxhash import xxh3_128_hexdigest

from lineage_core.contract.address import OPAQUE_SPACE, parse_space
from lineage_core.contract.graph import FlowGraph, LinkRecord, NodeRecord
from lineage_core.contract.positions import text_position
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.derivations import derivations_among
from lineage_core.tracing.trace_result import NodeItems
from lineage_query.answers import Composer
from lineage_query.names import Names
from lineage_query.opaque import opaque_texts
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.locations import Locations
from lineage_store.record_flow import RecordFlow, RecordFlows

FLOWS_MAX = 100_000
"""Default limit of flows in one view."""
LINKS_PER_FLOW = 10
"""Links between flows may be so many times the flows: each input of an item times each use of it."""
VALUE_LENGTH = 1_000
"""Maximum length of a value; a longer one is cut, with a mark at its end."""
HASH_LENGTH = 2_000
"""Longer strings of a program are identified by their position: Neo4j's index accepts about 8,000 bytes."""

ItemKey = tuple[str, int]
"""Space and position."""


class TooManyFlowsError(LineageError):
    """More flows, or links between them, than a view may have. At least ``count``, of ``limit``."""

    def __init__(self, message: str, *, count: int, limit: int) -> None:
        super().__init__(message)
        self.count = count
        self.limit = limit


def flows_of_trace(
    traced: RecordTrace, *, limit: int = FLOWS_MAX, texts: bool = True
) -> RecordFlows:
    """The flows along a trace.

    Raises:
        TooManyFlowsError: there are more than ``limit``.
    """
    nodes, links = traced.nodes()
    items = traced.taking_part()
    hint = "name fewer places, stop on the way with --step, or raise --limit"
    collector = _Collector(traced.graph, traced.names, limit, hint).collect(items)
    return collector.to_record_flows(traced.app, nodes, links, traced.locations, texts=texts)


def flows_of_application(
    app: str,
    graph: FlowGraph,
    locations: Locations,
    *,
    limit: int = FLOWS_MAX,
    texts: bool = True,
) -> RecordFlows:
    """All flows of an application.

    Raises:
        TooManyFlowsError: there are more than ``limit``.
    """
    nodes = graph.nodes()
    total = sum(node.associations for node in nodes)
    hint = f"{app} has about {total:,}: trace some rows with --from PLACE, or raise --limit"
    collector = _Collector(graph, Names(nodes), limit, hint).collect(None)
    return collector.to_record_flows(app, nodes, graph.links(), locations, texts=texts)


class _Collector:
    """Gathers distinct pairs of items, up to a limit."""

    def __init__(self, graph: FlowGraph, names: Names, limit: int, hint: str) -> None:
        self._graph = graph
        self._names = names
        self._limit = limit
        self._hint = hint
        self._pairs: dict[tuple[ItemKey, ItemKey], str] = {}

    def collect(self, items: Mapping[str, Region] | None) -> _Collector:
        """Collect all derivations between items (None: all)."""
        for pairs in derivations_among(self._graph, items):
            node = pairs.block_id.node
            for used, to_record_flows in zip(pairs.ins.tolist(), pairs.outs.tolist(), strict=True):
                key = ((pairs.in_space, used), (pairs.out_space, to_record_flows))
                # Two attempts of a task may have reported the same pair.
                self._pairs.setdefault(key, node)
            if len(self._pairs) > self._limit:
                raise self._too_many("flows", len(self._pairs), self._limit)
        return self

    def to_record_flows(
        self,
        app: str,
        nodes: Sequence[NodeRecord],
        links: Sequence[LinkRecord],
        locations: Locations,
        *,
        texts: bool,
    ) -> RecordFlows:
        """The flows, by their outputs."""
        input_counts, output_counts = (
            Counter(input_item for input_item, _ in self._pairs),
            Counter(output_item for _, output_item in self._pairs),
        )
        link_counts = {
            item: output_counts[item] * input_counts[item]
            for item in output_counts
            if item in input_counts
        }
        links_max = LINKS_PER_FLOW * self._limit
        if sum(link_counts.values()) > links_max:
            raise self._too_many(
                f"links between {len(self._pairs):,} flows", sum(link_counts.values()), links_max
            )
        sources = {node.node for node in nodes if node.kind == "source"}
        items_with_values = [
            *output_counts,
            *(item for item in input_counts if parse_space(item[0]).name in sources),
        ]
        composer = Composer(self._graph, self._names, locations.as_now())
        values = _values(composer, items_with_values) if texts else {}
        hashes = self._hashes({*input_counts, *output_counts})
        flows = [
            RecordFlow(
                xxh3_128_hexdigest(
                    f"{hashes[input_item]}\0{hashes[output_item]}".encode("utf-8", "replace")
                ),
                node,
                hashes[input_item],
                hashes[output_item],
                values.get(output_item, values.get(input_item)),
            )
            for (input_item, output_item), node in self._pairs.items()
        ]
        middles = {hashes[item]: count for item, count in link_counts.items()}
        return RecordFlows(app, nodes, links, flows, middles, tuple(composer.warnings))

    def _hashes(self, items: Iterable[ItemKey]) -> dict[ItemKey, str]:
        """The names of items in the published schema."""
        items = list(items)
        opaque = np.array(sorted({at for space, at in items if space == OPAQUE_SPACE}), np.uint64)
        strings = opaque_texts(self._graph, opaque)
        spaces = {space: self._names.space(space) for space, _ in items}
        return {
            (space, at): _string(strings[at])
            if space == OPAQUE_SPACE and at in strings
            else f"{spaces[space]}#{at}"
            for space, at in items
        }

    def _too_many(self, unit: str, count: int, limit: int) -> TooManyFlowsError:
        return TooManyFlowsError(
            f"more than {limit:,} {unit}: {self._hint}",
            count=count,
            limit=limit,
        )


def _string(text: str) -> str:
    """A string of a program as it can be stored and found."""
    if len(text) > HASH_LENGTH:
        return f"{OPAQUE_SPACE}#{text_position(text)}"
    return text.encode("utf-8", "replace").decode()


def _values(composer: Composer, items: Iterable[ItemKey]) -> dict[ItemKey, str]:
    """The texts of items, as far as known. The text of an opaque item is the item itself."""
    positions: dict[str, list[int]] = {}
    for space, at in items:
        if space != OPAQUE_SPACE:
            positions.setdefault(space, []).append(at)
    texts: dict[ItemKey, str] = {}
    for space, space_positions in positions.items():
        node = parse_space(space).name
        node_items = NodeItems(node, {space: Region.from_positions(space_positions)})
        for _, batch_positions, listed in composer.batches(node_items, texts=True):
            for at, item in zip(batch_positions.tolist(), listed, strict=True):
                if item.shown is not None:
                    texts[space, at] = _cut(item.shown)
    return texts


def _cut(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= VALUE_LENGTH else text[: VALUE_LENGTH - 1] + "…"
