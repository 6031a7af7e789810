"""``lineage openlineage``: tell an OpenLineage backend of a run."""

from __future__ import annotations

import json

import typer

from lineage.options import print_json, stored
from lineage_store.finding import find_application
from lineage_store.openlineage.errors import OpenLineageError
from lineage_store.openlineage.facts import DEFAULT_NAMESPACE, facts_of
from lineage_store.openlineage.sending import append, events_of, lines_of, read_endpoint, send

STDOUT = "-"


def tell_run(
    store_url: str,
    name: str,
    *,
    url: str,
    file: str,
    namespace: str,
    link: str,
    as_json: bool,
) -> None:
    """Send or write the events of one application.

    Raises:
        OpenLineageError: neither a backend nor a file is named, or the events can't be sent.
    """
    if not url and not file:
        raise OpenLineageError(
            "where to? Give --url or LINEAGE_OPENLINEAGE_URL, or --file FILE (- for stdout)"
        )
    if as_json and file == STDOUT:
        raise OpenLineageError("--file - prints the events themselves: leave out --json")
    endpoint = None if file else read_endpoint(url)
    with stored(store_url) as store:
        found = find_application(store, name)
        facts = facts_of(store, found, namespace=namespace or DEFAULT_NAMESPACE, link=link)
    events = events_of(facts)
    if endpoint is not None:
        send(events, endpoint)
    elif file == STDOUT:
        typer.echo("\n".join(lines_of(events)))
        return
    else:
        append(events, file)
    states = [json.loads(line)["eventType"] for line in lines_of(events)]
    to = file or url
    if as_json:
        print_json({"app": found, "run": facts.run_id, "events": states, "to": to})
    else:
        typer.echo(f"{found}: {' and '.join(states)} of run {facts.run_id} sent to {to}")
