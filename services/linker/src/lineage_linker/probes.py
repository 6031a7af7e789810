"""/healthz, /readyz and /metrics on one port."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from lineage_linker.metrics import Metrics


class Probes:
    """A small HTTP server of its own: it answers before Kafka and Redis do, and without them.

    ``problems`` says what is wrong, by server; nothing, when the linker can work.
    """

    def __init__(self, metrics: Metrics, problems: Callable[[], Awaitable[dict[str, str]]]) -> None:
        self._metrics = metrics
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
        body = {"ready": not problems, "problems": problems}
        return web.json_response(body, status=503 if problems else 200)

    async def _scrape(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._metrics.registry),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )
