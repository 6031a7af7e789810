"""Publishes the events of one application to the backend and file of the settings."""

from __future__ import annotations

from dataclasses import replace

from lineage_openlineage.facts import facts_of
from lineage_openlineage.sending import append, events_of, read_endpoint, send
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.port import GraphStore

TIMEOUT_S = 3.0
"""Short, as no user waits for the events: the end of a job is delayed by a few of these at most."""


def publish_events(store: GraphStore, app: str, settings: OpenLineageSettings) -> str | None:
    """Send or write the events of an application; may be repeated.

    Returns:
        The published status; None: the verdict is not final yet, and nothing was published.

    Raises:
        KeyError: there is no such application.
        OpenLineageUnavailableError: the backend does not answer, or is temporarily unavailable.
        OpenLineageError: the backend refuses an event, or the start time is unknown.
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
