"""Records that may be set aside: the sink that takes them, and the functions that may do so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lineage_core.contract.verdict import QUARANTINE
from lineage_emitter import scope
from lineage_emitter.worker.by_record import ByRecord
from lineage_emitter.worker.quarantine import OrSetAside, QuarantineRule

if TYPE_CHECKING:
    from lineage_emitter.session.nodes import Node, Nodes
    from lineage_emitter.settings import Settings


class Quarantined:
    """Of one application. ``settings``: whether records are set aside, and how many."""

    def __init__(self, nodes: Nodes, settings: Settings) -> None:
        self._nodes = nodes
        self._settings = settings
        self._sink: Node | None = None
        if settings.quarantine:
            # Before the program's own calls, which name their nodes by their order.
            self._sink = nodes.register_as(
                nodes.next_id(), QUARANTINE, "sink", QUARANTINE, alias=QUARANTINE
            )

    def around(self, function: Any, node: Node) -> Any:
        """A function of ``node`` as it goes into a chain: with the right to set records aside, if it may have that."""
        if self._sink is None or not isinstance(function, ByRecord):
            return function
        self._nodes.link(node, self._sink)
        says_errors = self._settings.values and not self._settings.redact
        rule = QuarantineRule(self._sink.name, self._settings.quarantine, says_errors)
        running = scope.outermost()
        name = node.op if running is None else f"{running.name} at {running.call_site}"
        return OrSetAside(function, rule, node.name, name)
