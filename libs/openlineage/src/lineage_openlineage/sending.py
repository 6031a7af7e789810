"""Where events go: to a backend over HTTP, or to a file, one event a line."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import urlsplit

from lineage_core.environment.extras import needed
from lineage_core.environment.secrets import secret_from_environment
from lineage_core.environment.shown_address import shown_address
from lineage_openlineage.errors import OpenLineageError, OpenLineageUnavailableError
from lineage_openlineage.facts import RunFacts

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent
    from requests import Response

Event: TypeAlias = "RunEvent | Mapping[str, Any]"
"""One event: of the client's model, or as JSON has it (what a server answers)."""
DEFAULT_ENDPOINT = "api/v1/lineage"
TIMEOUT_S = 10.0
RETRIES = {
    "total": 2,
    "backoff_factor": 0.2,
    "status_forcelist": [500, 502, 503, 504],
    "allowed_methods": ["POST"],
}
"""Short failures are retried, longer ones reported; an event may safely be sent twice."""
PROBLEM_TEXT_MAX = 200


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A backend. ``url``: with a path it is the endpoint itself; ``api_key`` is never shown."""

    url: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = TIMEOUT_S


def read_endpoint(url: str, environment: Mapping[str, str] = os.environ) -> Endpoint:
    """The backend at ``url``, with the key that the environment gives, by value or by file.

    Raises:
        OpenLineageError: the URL can't be used, or the file of the key can't be read.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable, parts = False, urlsplit("")
    if parts.username is not None or parts.password is not None:
        # Not repeated: the text may hold the password.
        raise OpenLineageError(
            "the URL must not hold credentials: give LINEAGE_OPENLINEAGE_API_KEY or "
            "LINEAGE_OPENLINEAGE_API_KEY_FILE"
        )
    if not usable:
        raise OpenLineageError(
            f"{shown_address(url)!r} is no URL of a backend: give http(s)://HOST[:PORT]"
        )
    return Endpoint(
        url, secret_from_environment(environment, "LINEAGE_OPENLINEAGE_API_KEY", OpenLineageError)
    )


@dataclass(frozen=True, slots=True)
class OpenLineageRun:
    """The events of one application, as JSON objects."""

    app: str
    run: str
    events: Sequence[Event]

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {"app": self.app, "run": self.run, "events": list(self.events)}


def run_of(facts: RunFacts) -> OpenLineageRun:
    """The events to publish for an application.

    Raises:
        ExportError: the OpenLineage client is not installed.
    """
    events = events_of(facts)
    return OpenLineageRun(facts.app, facts.run_id, [json.loads(line) for line in lines_of(events)])


def events_of(facts: RunFacts) -> list[RunEvent]:
    """The events of a run; see :func:`lineage_openlineage.events.run_events`.

    Raises:
        ExportError: the OpenLineage client is not installed.
    """
    needed("openlineage.client", "OpenLineage", error=OpenLineageError)
    from lineage_openlineage.events import run_events

    return run_events(facts)


def lines_of(events: Sequence[Event]) -> list[str]:
    """Events as JSON, as they are sent."""
    from openlineage.client.serde import Serde

    return [Serde.to_json(event) for event in events]


def send(events: Sequence[Event], endpoint: Endpoint) -> None:
    """Post events in order. Settings of the client itself (openlineage.yml) are not read.

    Raises:
        OpenLineageUnavailableError: the backend does not answer, or is temporarily unavailable.
        OpenLineageError: it refuses an event.
    """
    import requests
    from openlineage.client.transport.http import (
        ApiKeyTokenProvider,
        HttpConfig,
        HttpTransport,
        TokenProvider,
    )

    parts = urlsplit(endpoint.url)
    path = parts.path.strip("/") + (f"?{parts.query}" if parts.query else "")
    key = ApiKeyTokenProvider({"apiKey": endpoint.api_key}) if endpoint.api_key else None
    transport = HttpTransport(
        HttpConfig(
            url=f"{parts.scheme}://{parts.netloc}/",
            endpoint=path or DEFAULT_ENDPOINT,
            timeout=endpoint.timeout_s,
            auth=key or TokenProvider({}),
            retry=RETRIES,
        )
    )
    try:
        for event in events:
            # The client serialises both kinds of event in the same way.
            _check(transport.emit(cast("RunEvent", event)), endpoint)
    except requests.HTTPError as error:
        if error.response is not None:
            _check(error.response, endpoint)
        raise OpenLineageError(f"{endpoint.url} refuses the event: {error}") from error
    except requests.RequestException as error:
        text = " ".join(str(error).split())[:PROBLEM_TEXT_MAX]
        raise OpenLineageUnavailableError(
            f"can't reach the OpenLineage backend at {endpoint.url} ({text}): see whether it "
            "runs, then send again"
        ) from error
    finally:
        transport.close()


def _check(response: Response, endpoint: Endpoint) -> None:
    """Refuse an answer other than success; a redirected POST may have arrived without its content.

    Raises:
        OpenLineageError: the backend did not accept the event.
    """
    status = response.status_code
    if response.history:
        raise OpenLineageError(
            f"{endpoint.url} redirects to {response.url}: give that URL, events are not resent"
        )
    if 200 <= status < 300:
        return
    if status in (401, 403):
        raise OpenLineageError(
            f"{endpoint.url} answers {status}: check LINEAGE_OPENLINEAGE_API_KEY or "
            "LINEAGE_OPENLINEAGE_API_KEY_FILE"
        )
    if status in (408, 429) or status >= 500:
        raise OpenLineageUnavailableError(f"{endpoint.url} answers {status}: send again later")
    raise OpenLineageError(f"{endpoint.url} refuses the event: {status} {response.reason}")


def append(events: Sequence[Event], path: str) -> None:
    """Add events to a file, one JSON object a line.

    Raises:
        OSError: the file can't be written.
    """
    from openlineage.client.transport.file import FileConfig, FileTransport

    with open(path, "ab"):
        # Opened here first: the client's own error hides why it can't be.
        pass
    transport = FileTransport(FileConfig(log_file_path=path, append=True))
    for event in events:
        transport.emit(cast("RunEvent", event))
