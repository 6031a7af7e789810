"""/healthz, /readyz and /metrics on one port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest


class Probes:
    """A small, separate HTTP server: it answers before other servers are ready, and without them.

    ``problems`` returns the problems by server; an empty mapping means that the service can work.
    """

    def __init__(
        self, registry: CollectorRegistry, problems: Callable[[], Awaitable[Mapping[str, str]]]
    ) -> None:
        self._registry = registry
        self._problems = problems
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._scrape),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)

    async def start(self, host: str, port: int) -> int:
        """Listen; the port (a free one where 0 was given).

        Raises:
            OSError: the address can't be used.
        """
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Close the port."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        problems = await self._problems()
        body = {"ready": not problems, "problems": dict(problems)}
        return web.json_response(body, status=503 if problems else 200)

    async def _scrape(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._registry),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )
