"""Records that may be set aside: the functions that may do so, and the sinks that take them."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from lineage_emitter import scope
from lineage_emitter.errors import SettingsError
from lineage_emitter.session.hooks import load_hook
from lineage_emitter.worker.by_record import ByRecord
from lineage_emitter.worker.guarded_partitions import PartitionOrSetAside
from lineage_emitter.worker.operators import OneRecord
from lineage_emitter.worker.quarantine import OrSetAside, QuarantineRule, quarantine_of

if TYPE_CHECKING:
    from lineage_emitter.session.nodes import Node, Nodes
    from lineage_emitter.settings import Settings
    from lineage_emitter.worker.commits import Marker

logger = logging.getLogger(__name__)

OVER_PARTITIONS = {"mapPartitions", "mapPartitionsWithIndex"}
NONE_SET_ASIDE = (
    "a record on which the function of %s fails ends the job: it is not known to do the same where it is called on each record by itself (%s), so LINEAGE_QUARANTINE sets none aside there. "
    "Call what may fail by map or flatMap, or find the record by lineage sift"
)


def quarantine_rule(settings: Settings) -> QuarantineRule:
    """Whether records are set aside, or repaired, and how many.

    Raises:
        SettingsError: what repairs them can't be loaded, or nothing says how many.
    """
    if settings.repair and not settings.quarantine:
        raise SettingsError(
            "LINEAGE_REPAIR needs LINEAGE_QUARANTINE, which says how many records of a task may be repaired"
        )
    return QuarantineRule(
        settings.quarantine,
        says_errors=settings.values and not settings.redact,
        repair=load_hook(settings.repair, "repair") if settings.repair else None,
    )


class Quarantined:
    """Of one application. Thread-safe."""

    def __init__(self, nodes: Nodes, rule: QuarantineRule) -> None:
        self._nodes = nodes
        self._rule = rule
        self._call_sites: dict[str, str] = {}
        """Of operators that have no sink yet."""
        self._lock = threading.Lock()

    def around(self, function: Any, node: Node, not_apart: str = "") -> Any:
        """A function of ``node`` as it goes into a chain: with the right to set records aside, if it may have that.

        ``not_apart``: why a function over a partition may do something else where it is called on each record by itself.
        """
        if not self._rule.records_max:
            return function
        running = scope.outermost()
        name, site = (
            (node.op, scope.call_site()) if running is None else (running.name, running.call_site)
        )
        described = f"{name} at {site}" if site else name
        guarded: OrSetAside | PartitionOrSetAside
        if isinstance(function, ByRecord):
            guarded = OrSetAside(function, self._rule, node.name, described)
        elif isinstance(function, OneRecord) and not not_apart:
            guarded = PartitionOrSetAside(function, self._rule, node.name, described)
        else:
            if name in OVER_PARTITIONS:
                logger.warning(NONE_SET_ASIDE, described, not_apart)
            return function
        with self._lock:
            self._call_sites[node.name] = site
        return guarded

    def record_commit(self, marker: Marker) -> None:
        """A task has ended: what it set aside gets its sinks."""
        for part in (*marker["set_aside"], *marker["repaired"]):
            with self._lock:
                site = self._call_sites.pop(part["node"], None)
            if site is not None:
                self._nodes.register_quarantine(quarantine_of(part["node"]), part["node"], site)
