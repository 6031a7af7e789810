"""The current completeness verdict of a stored application."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.verdict import (
    VERDICT_MESSAGE_TYPES,
    Verdict,
    damaged_verdict,
    judge,
)
from lineage_store.errors import DamagedError, way_out
from lineage_store.port import CheckingStore, GraphStore


def verdict_of(store: GraphStore, app: str) -> Verdict:
    """The current verdict; of an application of which the store lost something, that."""
    try:
        messages, counts = store.messages(app, *VERDICT_MESSAGE_TYPES), store.counts(app)
    except DamagedError as error:
        return damaged_verdict(f"{error.damage}; {way_out(app)}")
    return judge(messages, counts, now=time.time())


def with_files_read(store: GraphStore, app: str, verdict: Verdict) -> Verdict:
    """A verdict once all that is stored was read: what a store of files lost is also where no count needs it.

    Args:
        store: has the application.
        app: the application.
        verdict: what is known of what was received.

    Raises:
        KeyError: there is no such application.
        StoreError: the store can't be read.
        BudgetError: the query has no time left.
    """
    if verdict.status == "damaged" or not isinstance(store, CheckingStore):
        return verdict
    try:
        store.check_files(app)
    except DamagedError as error:
        return damaged_verdict(f"{error.damage}; {way_out(app)}")
    return verdict


def with_reasons(
    nodes: Sequence[NodeRecord], superset: Mapping[str, Sequence[str]]
) -> list[NodeRecord]:
    """Nodes with the exactness of a verdict: tasks and blocks may have reported more than the program."""
    return [
        replace(node, exact=False, reason="; ".join(superset[node.node]))
        if node.node in superset
        else node
        for node in nodes
    ]
