"""The query API on a port of its own, in a thread of the test."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import structlog
import uvicorn
from fastapi import FastAPI

from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.serving import server_config
from lineage_query_api.settings import QueryApiSettings, read_settings
from lineage_store.url import open_store
from tests.support.stored_lineage import store_run


def readers(folder: Path) -> tuple[dict[str, str], Path]:
    """Tokens of who may read rows (``reads``) and of who may not (``looks``), and the file that has them."""
    secrets, text = {}, ""
    for name, rows in (("looks", False), ("reads", True)):
        secrets[name], lines = new_token(name, "reader", rows=rows)
        text += lines
    tokens = folder / "tokens.toml"
    tokens.write_text(text)
    return secrets, tokens


@contextmanager
def running(app: FastAPI, logs: io.StringIO | None = None) -> Iterator[str]:
    """The address that an application answers on; ``logs`` takes what it logs."""
    # Its logs are not part of what a command under test prints.
    structlog.configure(
        logger_factory=structlog.PrintLoggerFactory(io.StringIO() if logs is None else logs)
    )
    server = uvicorn.Server(server_config(app, host="127.0.0.1", port=0))
    ready = threading.Event()
    started = server.startup

    async def startup(sockets: object = None) -> None:
        await started(sockets)  # type: ignore[arg-type]
        ready.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@contextmanager
def serving(url: str, **given: object) -> Iterator[str]:
    """The address of a query API over a store; without tokens, for anybody."""
    settings: QueryApiSettings = read_settings(store=url, **{"api_open": True, **given})
    with open_store(url) as store, running(create_app(store, settings)) as address:
        yield address


@contextmanager
def word_count_served(folder: Path, **given: object) -> Iterator[httpx.Client]:
    """A client of a query API over the word count of :func:`tests.support.stored_lineage.store_run`."""
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    with (
        serving(url, **{"api_roots": str(folder), **given}) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client
