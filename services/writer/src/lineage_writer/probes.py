"""/healthz, /readyz and /metrics on one port."""

from __future__ import annotations

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from lineage_writer.health import Health
from lineage_writer.metrics import Metrics


class Probes:
    """A small HTTP server. Nothing that it answers depends on another server being there."""

    def __init__(self, metrics: Metrics, health: Health) -> None:
        self._metrics = metrics
        self._health = health
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
        ready = self._health.ready
        body = {"ready": ready, "problems": self._health.problems}
        return web.json_response(body, status=200 if ready else 503)

    async def _scrape(self, _: web.Request) -> web.Response:
        return web.Response(
            body=generate_latest(self._metrics.registry),
            headers={"Content-Type": CONTENT_TYPE_LATEST},
        )
