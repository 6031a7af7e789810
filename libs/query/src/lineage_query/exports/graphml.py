"""GraphML: the nodes on the way with counts, and their items with derivations.

Edges follow the data. If there are more items than the limit, all are left out and the graph's
attribute ``itemsLeftOut`` has their number: a part of them would look like all. Booleans are
texts (``true``): networkx writes ``True`` for booleans, which XML readers reject.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import IO, Any

from lineage_core.environment.extras import needed
from lineage_query.answers import Composer
from lineage_query.exports.derived import Derived, ItemKey, derived
from lineage_query.exports.errors import ExportError, ExportTooLargeError
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.tables import encodable_text, facts, yes
from lineage_query.record_trace import RecordTrace

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_graphml(
    traced: RecordTrace, stream: IO[bytes], options: ExportOptions
) -> Mapping[str, None]:
    """Write a trace as GraphML.

    Raises:
        ExportError: networkx is not installed.
    """
    networkx = needed("networkx", "GraphML", error=ExportError)
    composer = traced.composer()
    # Multi: two nodes may make the same of the same.
    graph = networkx.MultiDiGraph()
    graph.graph.update({key: xml_text(text) for key, text in facts(traced).items()})
    _add_nodes(graph, traced)
    graph_items = _items(traced, composer, options)
    if isinstance(graph_items, ExportTooLargeError):
        item_count = sum(traced.counts().values())
        graph.graph["itemsLeftOut"] = item_count
        composer.warnings[
            f"GraphML has nodes only, {item_count:,} items were left out: {graph_items}"
        ] = None
    else:
        _add_items(graph, traced, graph_items)
    networkx.write_graphml_xml(graph, stream)
    return composer.warnings


def _items(
    traced: RecordTrace, composer: Composer, options: ExportOptions
) -> Derived | ExportTooLargeError:
    try:
        return derived(traced, composer, options, "GraphML")
    except ExportTooLargeError as error:
        return error


def _add_nodes(graph: Any, traced: RecordTrace) -> None:
    nodes, links = traced.nodes()
    counts = traced.counts()
    for node in nodes:
        attributes = {
            "kind": "node",
            "label": traced.names.label(node.node),
            "name": node.name or node.op,
            "operator": node.op,
            "nodeKind": node.kind,
            "callSite": node.call_site,
            "path": node.path or "",
            "exact": yes(node.exact),
            "reason": node.reason,
        }
        graph.add_node(
            f"node:{node.node}",
            **{key: xml_text(text) for key, text in attributes.items() if text},
            items=counts.get(node.node, 0),
        )
    for link in links:
        graph.add_edge(f"node:{link.src}", f"node:{link.dest}", kind="sendsTo")


def _add_items(graph: Any, traced: RecordTrace, graph_items: Derived) -> None:
    ids: dict[ItemKey, str] = {}
    for item_key, part in graph_items.parts.items():
        ids[item_key] = f"item:{xml_text(part.item.address)}"
        attributes = {
            "kind": "item",
            "label": part.item.address,
            "node": traced.names.label(part.node),
            "role": part.role,
            "location": part.item.location,
            "text": part.item.text,
            "binding": part.item.binding,
        }
        graph.add_node(
            ids[item_key],
            **{key: xml_text(text) for key, text in attributes.items() if text is not None},
        )
    for derivation in graph_items.derivations:
        attributes = {
            "kind": "derivation",
            "at": traced.names.label(derivation.node),
            "exact": yes(derivation.exact),
            "reason": derivation.reason,
        }
        graph.add_edge(
            ids[derivation.used],
            ids[derivation.generated_item],
            **{key: xml_text(text) for key, text in attributes.items() if text},
        )


def xml_text(text: str) -> str:
    """A text that XML can hold: other characters become U+FFFD."""
    return _NOT_IN_XML.sub("\ufffd", encodable_text(text))
