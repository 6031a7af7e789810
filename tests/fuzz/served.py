"""``python -m tests.fuzz.served FOLDER``: the query server that is put through requests; it ends with its stdin."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Any

import structlog

from lineage_core.contract.message import Recipe
from lineage_query_api.app import create_app
from lineage_query_api.serving import serve
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.fuzz.recipes import RECIPES
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import store_run

RDD_APP, FRAMES_APP = "app-1", "app-2"


def store_lineage(folder: Path) -> str:
    """A store of two applications: a word count over RDDs, and one of all kinds of recipes; its URL."""
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder, RDD_APP)
    spool = Spool(folder / "spool", FRAMES_APP)
    spool.begin(2000.0, "frames")
    for number, recipe in enumerate(RECIPES):
        node = str(number)
        spool.node(node, "sink", "df.write", alias=f"frame{number}", path=f"out{number}")
        spool.send(Recipe(app=FRAMES_APP, node=node, recipe=recipe.to_json()))
    spool.end(recipes=len(RECIPES))
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        ingest_all(store, folder / "spool")
    return url


def main(folder: str) -> None:
    """Serve, and print the address."""
    # Lines of the log would be kept without end.
    structlog.configure(processors=[dropped])
    url = store_lineage(Path(folder))
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    with open_store(url) as store:
        settings = read_settings(
            store=url, api_roots=folder, api_open=True, api_rate="1000000000/second"
        )
        serve(create_app(store, settings), "127.0.0.1", 0, _tell)


def _tell(address: str, _: Path | None) -> None:
    sys.stdout.write(address + "\n")
    sys.stdout.flush()


def _end_with_stdin() -> None:
    sys.stdin.read()
    os._exit(0)


def dropped(_log: object, _method: str, _event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A line of the log that nobody reads."""
    raise structlog.DropEvent


if __name__ == "__main__":
    main(sys.argv[1])
