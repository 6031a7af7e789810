"""The host names of a server."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_query_api.problems import problem


class KnownHosts:
    """ASGI middleware: Starlette's check of the Host header, which refuses by a problem as every error.

    ``hosts``: names, ``*.example.com``, or ``*`` for any.
    """

    def __init__(self, app: ASGIApp, *, hosts: Sequence[str]) -> None:
        self._app = app
        self._hosts = list(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or await self._is_accepted(scope, receive):
            await self._app(scope, receive, send)
            return
        request_id = str(scope.get("state", {}).get("request_id", ""))
        refusal = problem(request_id, 400, "the server does not go by the name in the Host header")
        await refusal(scope, receive, send)

    async def _is_accepted(self, scope: Scope, receive: Receive) -> bool:
        is_accepted = False

        async def accept(_scope: Scope, _receive: Receive, _send: Send) -> None:
            nonlocal is_accepted
            is_accepted = True

        check = TrustedHostMiddleware(accept, self._hosts, www_redirect=False)
        await check(scope, receive, _unsent)
        return is_accepted


async def _unsent(_: Message) -> None:
    """Starlette's own words of a refusal."""
