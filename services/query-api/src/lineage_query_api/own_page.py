"""A server on the machine of its user: what other pages of the browser send is refused."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from lineage_query_api.problems import problem

_OWN_PAGES = ("same-origin", "none")
"""``Sec-Fetch-Site`` of requests of the page itself, and of what somebody types into the address bar."""


class OwnPage:
    """ASGI middleware of a server that one user runs for themself.

    The token is sent in a header only: cookies ignore ports, and a browser would also send them to the server of another
    user of the machine.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] == "http" and scope["path"].startswith("/v1/")
        if is_api and _is_from_another_page(Headers(scope=scope)):
            request_id = str(scope.get("state", {}).get("request_id", ""))
            refusal = problem(request_id, 403, "another page sent this request")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_from_another_page(headers: Headers) -> bool:
    # Programs send neither header; every browser of today sends the first.
    if headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
