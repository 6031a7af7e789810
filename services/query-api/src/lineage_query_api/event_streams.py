"""What goes on while a caller looks, as server-sent events."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
from anyio.to_thread import run_sync
from fastapi.responses import StreamingResponse

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import BudgetError
from lineage_query_api.errors import ProblemError
from lineage_query_api.lineages import Lineages
from lineage_query_api.problems import problem_of
from lineage_store.lake.address import is_lake
from lineage_store.url import is_embedded, spool_of

POLL_S = 0.1
SILENT_S = 10.0
"""Silence after which a comment is sent, so that proxies keep the connection."""
MARGIN_S = 5.0
"""Before the time of the stream is up, in which it ends by itself."""


def streamed(events: AsyncIterator[bytes]) -> StreamingResponse:
    """The response of events."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


def shared_spool(lineages: Lineages, without: str, hint: str) -> Path:
    """The spool that this server shares with jobs.

    Args:
        lineages: of the server's store.
        without: what can't be done without it.
        hint: what to do instead.

    Raises:
        ProblemError: 422, there is none.
    """
    url = lineages.settings.store
    if not is_embedded(url) and not is_lake(url):
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"the store of this server has no spool, so {without}",
            hint=hint,
        )
    return spool_of(url)


class EventStream(ABC):
    """One caller's stream of events.

    Args:
        lineages: whose settings say how long it may take.
        request_id: for a problem.
    """

    def __init__(self, lineages: Lineages, request_id: str) -> None:
        self._request_id = request_id
        self._until = time.monotonic() + lineages.settings.api_stream_s - MARGIN_S
        self._number = 0
        self._sent_bytes = 0

    @property
    @abstractmethod
    def _is_over(self) -> bool:
        """Nothing more can come."""

    @abstractmethod
    def _step(self) -> Iterator[dict[str, Any]]:
        """What has happened since the last step; raises a `LineageError`."""

    @abstractmethod
    def _end(self) -> Iterator[dict[str, Any]]:
        """The last events; raises a `LineageError`."""

    @abstractmethod
    def _close(self) -> None:
        """Give back what the stream holds."""

    async def events(self) -> AsyncIterator[bytes]:
        """Until nothing more can come, the time of the stream is up, or the client leaves."""
        said_at = time.monotonic()
        yield b": begun\n\n"
        try:
            while not self._is_over and time.monotonic() < self._until:
                async for event in self._sent(self._step()):
                    yield event
                    said_at = time.monotonic()
                if time.monotonic() - said_at >= SILENT_S:
                    yield b": waiting\n\n"
                    said_at = time.monotonic()
                await anyio.sleep(POLL_S)
            async for event in self._sent(self._end()):
                yield event
        except BudgetError:
            raise
        except LineageError as error:
            # The status is sent already.
            yield self._event({"event": "problem", **problem_of(self._request_id, error)})
        finally:
            self._close()

    async def _sent(self, documents: Iterator[dict[str, Any]]) -> AsyncIterator[bytes]:
        while (document := await run_sync(next, documents, None)) is not None:
            yield self._event(document)

    def _event(self, document: dict[str, Any]) -> bytes:
        self._number += 1
        text = json.dumps(document, ensure_ascii=False)
        event = f"event: {document['event']}\nid: {self._number}\ndata: {text}\n\n".encode(
            errors="backslashreplace"
        )
        self._sent_bytes += len(event)
        return event
