"""A browser on the machine of its user: the token of the address becomes a cookie, other pages are refused."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from lineage_query_api.auth import hash_of
from lineage_query_api.problems import problem

PARAMETER = "token"
_OWN_PAGES = ("same-origin", "none")
"""``Sec-Fetch-Site`` of requests of the page itself, and of what somebody types into the address bar."""


class LocalSession:
    """ASGI middleware of a server that one user runs for themself."""

    def __init__(self, app: ASGIApp, *, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        answer = self._answer(scope, headers)
        if answer is not None:
            await answer(scope, receive, send)
            return
        token = _cookie(headers.get("cookie", ""), _name(scope))
        if token and "authorization" not in headers:
            bearer = (b"authorization", f"Bearer {token}".encode("latin-1", "replace"))
            scope = {**scope, "headers": [*scope["headers"], bearer]}
        await self._app(scope, receive, send)

    def _answer(self, scope: Scope, headers: Headers) -> ASGIApp | None:
        if scope["path"].startswith("/v1/"):
            if not _is_from_another_page(headers):
                return None
            request_id = str(scope.get("state", {}).get("request_id", ""))
            return problem(request_id, 403, "another page sent this request")
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] != "GET" or PARAMETER not in dict(query):
            return None
        return self._without_token(scope, query)

    def _without_token(self, scope: Scope, query: list[tuple[str, str]]) -> ASGIApp:
        """The same address without the token; its cookie, where it is the right one."""
        rest = urlencode([one for one in query if one[0] != PARAMETER])
        # One slash: with two, what follows would be the name of another server.
        path = "/" + quote(scope["path"].lstrip("/"))
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.headers["Cache-Control"] = "no-store"
        given = [value for name, value in query if name == PARAMETER][-1]
        if hmac.compare_digest(hash_of(given), hash_of(self._token)):
            answer.set_cookie(_name(scope), self._token, httponly=True, samesite="strict", path="/")
        return answer


def _name(scope: Scope) -> str:
    """Cookies know no ports: each server has one of its own name."""
    return f"lineage_{(scope.get('server') or ('', 0))[1]}"


def _cookie(header: str, name: str) -> str:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _is_from_another_page(headers: Headers) -> bool:
    # Programs send neither header; every browser of today sends the first.
    if headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host")
