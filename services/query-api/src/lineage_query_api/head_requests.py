"""HEAD for all that GET answers: by the same route, with the same rights and the same headers, without the body."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """ASGI middleware: what is inside of it answers HEAD as it answers GET; records, metrics and logs outside name HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def send_without_body(message: Message) -> None:
            if message["type"] == "http.response.body":
                message = {**message, "body": b""}
            await send(message)

        answered_as_get = {**scope, "method": "GET"}
        try:
            await self._app(answered_as_get, receive, send_without_body)
        finally:
            if "route" in answered_as_get:
                # Metrics outside tell routes apart.
                scope["route"] = answered_as_get["route"]
