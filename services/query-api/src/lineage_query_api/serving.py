"""Listening: the socket is bound before its address is published."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

from lineage_query_api.connections import bounded_by
from lineage_query_api.errors import SettingsError
from lineage_service.local_servers import LocalServer, announced


def serve(
    app: FastAPI,
    host: str,
    port: int,
    tell: Callable[[str, Path | None], None],
    *,
    token: str = "",
    store: str = "",
) -> None:
    """Serve until a signal; ``tell`` is called with the address once the server accepts requests.

    ``token``: the token of the user who runs the server; that user's commands find it in the file given to ``tell``.

    Raises:
        SettingsError: the address can't be used.
        OSError: the token can't be kept.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise SettingsError(f"can't listen on {host}:{port}: {error.strerror}") from error
        chosen = listening.getsockname()[1]
        shown = f"[{host}]" if ":" in host else host
        config = server_config(app)
        url = f"http://{shown}:{chosen}"
        with _announced(url, token, store) as file:
            _Server(config, lambda: tell(url, file)).run(sockets=[listening])


def server_config(app: FastAPI, **options: Any) -> uvicorn.Config:
    """Configure uvicorn for an application of :func:`lineage_query_api.app.create_app`; ``options``: more of them."""
    return uvicorn.Config(
        app,
        http=bounded_by(app.state.bounds),
        # An upgraded connection would bypass the connection limits.
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        # A setting of this service decides which proxies are trusted: see create_app.
        proxy_headers=False,
        timeout_graceful_shutdown=5,
        **options,
    )


@contextmanager
def _announced(url: str, token: str, store: str) -> Iterator[Path | None]:
    if not token:
        yield None
        return
    with announced(LocalServer(url, token, store)) as file:
        yield file


class _Server(uvicorn.Server):
    """A server that reports when it accepts requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()
