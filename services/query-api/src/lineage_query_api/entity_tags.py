"""Entity tags (RFC 9110, 8.8.3): a client that has an answer already gets it again only where it has changed.

A tag is a hash of the very answer that the request gets, made after its rights were checked. So whatever an answer depends
on (lineage that still arrives, a deletion, grants, masks) changes its tag, and a request is answered by 304 only where the
answer would be the same to its last byte. That saves the transfer, not the work.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from hashlib import sha256
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.staticfiles import NotModifiedResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NOT_MODIFIED: dict[int | str, dict[str, Any]] = {
    304: {"description": "Not modified: the answer has a tag that If-None-Match names"}
}
"""Responses of a :class:`TaggedRoute` whose answers have a tag."""
CACHING = "private, no-cache"
"""The caller's own cache may store an answer, and asks whether it has changed each time."""
_ENCODED = "-gzip"


class TaggedRoute(APIRoute):
    """A route whose answers have an entity tag if it declares :data:`NOT_MODIFIED`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """As FastAPI has it, with entity tags."""
        handle = super().get_route_handler()
        if not NOT_MODIFIED.keys() <= self.responses.keys():
            return handle

        async def handle_tagged(request: Request) -> Response:
            return _tagged(request, await handle(request))

        return handle_tagged


class EncodedTags:
    """ASGI middleware: a compressed answer has another tag, as its bytes are others."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_tag(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                tag = headers.get("etag")
                if tag is not None and "content-encoding" in headers:
                    headers["ETag"] = tag.removesuffix('"') + f'{_ENCODED}"'
            await send(message)

        await self._app(scope, receive, send_with_tag)


def _tagged(request: Request, response: Response) -> Response:
    """A response with its tag, or the one that says that the client has it."""
    if response.status_code != 200:
        return response
    digest = sha256(response.body).hexdigest()
    tags = (f'"{digest}"', f'"{digest}{_ENCODED}"')
    # A cache of one browser serves whoever signs in there.
    response.headers.update({"ETag": tags[0], "Cache-Control": CACHING, "Vary": "Authorization"})
    for header in request.headers.getlist("if-none-match"):
        for sent in header.split(","):
            tag = sent.strip().removeprefix("W/")
            if tag in tags:
                response.headers["ETag"] = tag
                return NotModifiedResponse(response.headers)
    return response
