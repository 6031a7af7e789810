"""PROV-JSON: items are entities, nodes are activities, derivations are as stored.

Each step of a derivation is written with its activity (``used``, ``wasGeneratedBy`` and
``wasDerivedFrom``). PROV derivations are not transitive, so a found item and an item of the query get
an additional derivation, of the type ``lineage:EndToEnd``, if stored steps lead from one to the other.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any
from urllib.parse import quote

from lineage_core.contract.graph import NodeRecord
from lineage_core.environment.extras import needed
from lineage_query.exports.derived import Derived, ExportedItem, ItemKey, derived, end_to_end
from lineage_query.exports.errors import ExportError
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.tables import encodable_text, facts
from lineage_query.record_trace import RecordTrace

VOCABULARY = "urn:lineage-master:prov#"
"""Namespace of our own attributes: exact, reason, role, operator, application ..."""


def write_prov(
    traced: RecordTrace, stream: IO[bytes], options: ExportOptions
) -> Mapping[str, None]:
    """Write a trace as PROV-JSON.

    Raises:
        ExportError: prov is not installed.
        ExportTooLargeError: more items or derivations than ``options`` allows.
    """
    model = needed("prov.model", "PROV-JSON", error=ExportError)
    composer = traced.composer()
    graph = derived(traced, composer, options, "PROV-JSON")
    ends = end_to_end(traced, graph, options.pairs_max)
    if ends is None:
        composer.warnings["PROV-JSON: there are too many end-to-end pairs: they are left out"] = (
            None
        )
    builder = _Document(model, traced, graph)
    builder.add_steps()
    builder.add_ends(ends)
    text = io.StringIO()
    builder.document.serialize(text, format="json", ensure_ascii=False)
    stream.write(encodable_text(text.getvalue()).encode())
    return composer.warnings


class _Document:
    """Builds a PROV document."""

    def __init__(self, model: Any, traced: RecordTrace, graph: Derived) -> None:
        self.document = model.ProvDocument()
        self._graph = graph
        self._traced = traced
        self._own = self.document.add_namespace("lineage", VOCABULARY)
        base = f"urn:lineage-master:{quote(traced.app, safe='')}"
        self._items = self.document.add_namespace("item", f"{base}:item:")
        self._nodes = self.document.add_namespace("node", f"{base}:node:")
        self._entities: dict[ItemKey, Any] = {}
        self._activities: dict[str, Any] = {}

    def add_steps(self) -> None:
        """Entities, activities and every stored derivation."""
        for item_key, part in self._graph.parts.items():
            self._entities[item_key] = self._entity(part)
        records = {node.node: node for node in self._traced.graph.nodes()}
        taking_part = dict.fromkeys(derivation.node for derivation in self._graph.derivations)
        for node in taking_part:
            self._activities[node] = self._activity(node, records.get(node))
        used: dict[tuple[str, ItemKey], bool] = {}
        for derivation in self._graph.derivations:
            self.document.wasDerivedFrom(
                self._entities[derivation.generated_item],
                self._entities[derivation.used],
                self._activities[derivation.node],
                other_attributes=self._exactness_attributes(
                    exact=derivation.exact, reason=derivation.reason
                ),
            )
            used[derivation.node, derivation.used] = derivation.exact or used.get(
                (derivation.node, derivation.used), False
            )
        for (node, item_key), exact in used.items():
            exactness = self._exactness_attributes(exact=exact, reason="")
            self.document.used(
                self._activities[node], self._entities[item_key], other_attributes=exactness
            )
        generated = dict.fromkeys(
            (derivation.generated_item, derivation.node) for derivation in self._graph.derivations
        )
        for item_key, node in generated:
            self.document.wasGeneratedBy(self._entities[item_key], self._activities[node])

    def add_ends(self, ends: Mapping[tuple[ItemKey, ItemKey], bool] | None) -> None:
        """Add the end-to-end derivations, and the attributes of the trace."""
        kind = {"prov:type": self._own["EndToEnd"]}
        for (generated_item, used_item), exact in (ends or {}).items():
            self.document.wasDerivedFrom(
                self._entities[generated_item],
                self._entities[used_item],
                other_attributes=kind | self._exactness_attributes(exact=exact, reason=""),
            )
        trace_attributes = {
            self._own[key]: text for key, text in facts(self._traced).items() if text
        }
        trace_attributes[self._own["endToEnd"]] = "left out: too many" if ends is None else "given"
        self.document.entity(self._own["trace"], trace_attributes)

    def _entity(self, part: ExportedItem) -> Any:
        item = part.item
        attributes: dict[Any, str] = {
            "prov:label": encodable_text(item.address),
            self._own["node"]: self._traced.names.label(part.node),
            self._own["role"]: part.role,
        }
        if item.location is not None:
            attributes["prov:location"] = encodable_text(item.location)
        if item.text is not None:
            attributes["prov:value"] = encodable_text(item.text)
        if item.binding is not None:
            attributes[self._own["binding"]] = item.binding
        return self.document.entity(self._items[local_name(item.address)], attributes)

    def _activity(self, node: str, record: NodeRecord | None) -> Any:
        attributes: dict[Any, str] = {self._own["node"]: self._traced.names.label(node)}
        if record is not None:
            attributes["prov:label"] = encodable_text(record.name or record.op)
            details = {"operator": record.op, "callSite": record.call_site, "path": record.path}
            attributes |= {
                self._own[key]: encodable_text(text) for key, text in details.items() if text
            }
            attributes |= self._exactness_attributes(exact=record.exact, reason=record.reason)
        return self.document.activity(self._nodes[local_name(node)], other_attributes=attributes)

    def _exactness_attributes(self, *, exact: bool, reason: str) -> dict[Any, Any]:
        if exact:
            return {}
        reason_attribute = {self._own["reason"]: encodable_text(reason)} if reason else {}
        return {self._own["exact"]: False} | reason_attribute


def local_name(text: str) -> str:
    """The local part of a name: what ends a name in PROV-N is written as %XX."""
    return quote(text, safe="#@*:._-/")
