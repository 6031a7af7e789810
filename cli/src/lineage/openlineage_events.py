"""``lineage openlineage``: send the events of a run to an OpenLineage backend."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from lineage.options import opened, print_json
from lineage.terminal import echo
from lineage_core.environment.setting_problems import setting_problems
from lineage_core.errors import LineageError
from lineage_openlineage.errors import OpenLineageError
from lineage_openlineage.publishing import publish_events
from lineage_openlineage.sending import append, lines_of, read_endpoint, send
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.port import GraphStore

STDOUT = "-"


class _Settings(BaseSettings, OpenLineageSettings):
    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="ignore", frozen=True)


def read_settings() -> OpenLineageSettings:
    """The OpenLineage settings of the environment.

    Raises:
        OpenLineageError: a setting can't be used.
    """
    try:
        return _Settings()
    except ValidationError as error:
        raise OpenLineageError(setting_problems(error)) from None


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
    naming = replace(read_settings().naming(), namespace=namespace, link=link)
    with opened(store_url) as access:
        lineage_run = access.openlineage(name, naming)
    if endpoint is not None:
        send(lineage_run.events, endpoint)
    elif file == STDOUT:
        echo("\n".join(lines_of(lineage_run.events)))
        return
    else:
        append(lineage_run.events, file)
    states = [json.loads(line)["eventType"] for line in lines_of(lineage_run.events)]
    to = file or url
    if as_json:
        print_json({"app": lineage_run.app, "run": lineage_run.run, "events": states, "to": to})
    else:
        echo(f"{lineage_run.app}: {' and '.join(states)} of run {lineage_run.run} sent to {to}")


def tell_linked(store: GraphStore, app: str) -> None:
    """Publish the events of an application that has just been linked, where settings name a backend or file; never raises."""
    try:
        settings = read_settings()
        if settings.tells_openlineage:
            publish_events(store, app, settings)
    except (LineageError, OSError, KeyError) as problem:
        echo(
            f"lineage: no OpenLineage events were sent for {app}: {problem}; "
            f"`{shlex.join(['lineage', 'openlineage', app])}` sends them",
            err=True,
        )
