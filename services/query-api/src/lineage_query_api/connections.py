"""Connections: time limits for sending a request and for receiving the response, and the number of connections."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import h11
import structlog
from uvicorn.protocols.http.h11_impl import H11Protocol

from lineage_query_api.problems import problem

CHECK_EVERY_S = 1.0
"""Seconds between checks of a connection."""

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of one server.

    Args:
        request_s: seconds from the connection, or the end of the previous response, until a complete request is received.
        stalled_s: seconds without any progress in sending a response.
        answer_s: seconds for a client to receive the rest of a response, once all of it was written.
        connections: at once.
    """

    request_s: float = 20.0
    stalled_s: float = 30.0
    answer_s: float = 600.0
    connections: int = 512


class BoundedConnection(H11Protocol):
    """A connection of uvicorn, which by default waits for a client as long as it sends or receives anything at all."""

    bounds = Bounds()

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._request_awaited_since = self.loop.time()
        """Since when a request is waited for, while there is none."""
        self._has_sent = False
        """Whether any part of that request was received."""
        self._unsent_bytes_before, self._progress_at = 0, 0.0
        """Bytes of the response still to be sent, and the time of the last change of that number."""
        self._check_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._schedule_check()
        if len(self.connections) > self.bounds.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._has_sent = True
        super().data_received(data)

    def on_response_complete(self) -> None:
        self._request_awaited_since, self._has_sent = self.loop.time(), False
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse input that is not HTTP, by a problem document as for every error."""
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    @property
    def waits_since(self) -> float | None:
        """Since when the server waits for the client; None: it is at work for it."""
        if self._unsent_bytes():
            return self._progress_at
        return None if self._is_answering else self._request_awaited_since

    @property
    def _is_answering(self) -> bool:
        """Whether a complete request was received and its response is not finished."""
        cycle = self.cycle
        return cycle is not None and not (cycle.more_body or cycle.response_complete)

    def _schedule_check(self) -> None:
        self._check_timer = self.loop.call_later(CHECK_EVERY_S, self._check)

    def _check(self) -> None:
        now, bounds, unsent = self.loop.time(), self.bounds, self._unsent_bytes()
        waited_s = 0.0 if self._is_answering else now - self._request_awaited_since
        if unsent:
            if now - self._progress_at > bounds.stalled_s or waited_s > bounds.answer_s:
                self._drop(self)
                return
        elif waited_s > bounds.request_s and not self.transport.is_closing():
            self._time_out()
        self._schedule_check()

    def _unsent_bytes(self) -> int:
        """Bytes of the answer that the client has not taken."""
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent_bytes_before:
            self._unsent_bytes_before, self._progress_at = unsent, self.loop.time()
        return unsent

    def _time_out(self) -> None:
        if self._has_sent:
            wait = f"a request is sent within {self.bounds.request_s:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, wait)
        else:
            self.transport.close()

    def _refuse(self, status: HTTPStatus, detail: str) -> None:
        """Answer, where that can still be done, and close the connection."""
        request_id = uuid.uuid4().hex
        _log.info("request_refused", request_id=request_id, status=int(status), reason=detail)
        if self.cycle is not None and not self.cycle.response_complete:
            # This notifies the request's task that the client has disconnected.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = problem(request_id, status, detail)
            headers = [*answer.raw_headers, (b"connection", b"close"), (b"x-request-id", request_id.encode())]  # fmt: skip
            start = h11.Response(status_code=status, headers=headers, reason=status.phrase.encode())
            for event in (start, h11.Data(data=bytes(answer.body)), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self._request_awaited_since = self.loop.time()
        self.transport.close()

    def _make_room(self) -> None:
        """End the connection whose client is waited for longest; this one, where none is."""
        waiting = [
            (since, number, connection)
            for number, connection in enumerate(self.connections)
            if isinstance(connection, BoundedConnection) and connection is not self
            if (since := connection.waits_since) is not None
        ]
        self._drop(min(waiting)[-1] if waiting else self)

    @staticmethod
    def _drop(connection: BoundedConnection) -> None:
        _log.info("connection_dropped", client=(connection.client or ("",))[0])
        # Drop the rest of a response: closing would wait until it is sent.
        connection.connections.discard(connection)
        connection.transport.abort()


def bounded_by(server_bounds: Bounds) -> type[BoundedConnection]:
    """A connection class with the limits of one server."""

    class Bounded(BoundedConnection):
        bounds = server_bounds

    return Bounded
