"""Telling of one application, as settings say to whom."""

from __future__ import annotations

from dataclasses import replace

from lineage_openlineage.facts import facts_of
from lineage_openlineage.sending import append, events_of, read_endpoint, send
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.port import GraphStore

TIMEOUT_S = 3.0
"""Nobody asked for it just now: a job that ends waits for no more than a few of these."""


def tell(store: GraphStore, app: str, settings: OpenLineageSettings) -> str | None:
    """Send or write the events of an application; may be repeated.

    Gives the status that was told; None: the verdict is not final yet, and nothing was.

    Raises:
        KeyError: there is no such application.
        OpenLineageUnavailableError: the backend does not answer, or says that it can't now.
        OpenLineageError: it refuses an event, or there is nothing to be told.
        ExportError: the OpenLineage client is not installed.
        OSError: the file can't be written.
    """
    facts = facts_of(store, app, naming=settings.naming())
    if not facts.verdict.final:
        return None
    events = events_of(facts)
    if settings.openlineage_url:
        endpoint = read_endpoint(settings.openlineage_url)
        send(events, replace(endpoint, timeout_s=TIMEOUT_S))
    if settings.openlineage_file:
        append(events, settings.openlineage_file)
    return facts.verdict.status
