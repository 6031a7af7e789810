"""``python -m lineage_writer.migrating``: brings the store's schema up to date, then ends. May be repeated.

A writer does the same when it starts. Done before an upgrade, no new process meets an old schema, and what
is wrong with the store is known before anything is replaced.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from os import environ

import structlog

from lineage_core.errors import LineageError
from lineage_service.logs import set_up_logs
from lineage_store.errors import StoreUnavailableError
from lineage_store.lake import table as lake_table
from lineage_store.lake.address import is_lake
from lineage_store.neo4j.schema import STEPS
from lineage_writer.errors import SettingsError
from lineage_writer.loading import Store
from lineage_writer.settings import NO_STORE
from lineage_writer.stores import store_opener
from lineage_writer.waiting import pauses

EXIT_AWAY = 1
EXIT_SETTINGS = 2

log = structlog.get_logger(__name__)


def migrate(
    open_store: Callable[[], Store],
    wait_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Open the store, which brings its schema up to date; wait for it as long as that may take.

    Raises:
        StoreUnavailableError: it did not answer in time.
        StoreError: it can't be used.
    """
    deadline = clock() + wait_s
    for pause in pauses():
        try:
            open_store().close()
        except StoreUnavailableError as error:
            if clock() + pause > deadline:
                raise
            log.warning("store_unavailable", reason=str(error))
            sleep(pause)
        else:
            return


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line entry; the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m lineage_writer.migrating",
        description="Bring Neo4j's constraints and indexes up to date, or make a lake. LINEAGE_STORE and "
        "LINEAGE_NEO4J_* say where it is. May be repeated.",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long for the store to answer (default: do not wait)",
    )
    wait_s = parser.parse_args(arguments).wait
    set_up_logs("info", ("neo4j",))
    try:
        store = environ.get("LINEAGE_STORE", "")
        if not store:
            raise SettingsError(NO_STORE)
        migrate(store_opener(store), wait_s)
    except LineageError as error:
        log.error("migration_failed", reason=str(error))
        return EXIT_AWAY if isinstance(error, StoreUnavailableError) else EXIT_SETTINGS
    version = lake_table.VERSION if is_lake(store) else len(STEPS)
    log.info("schema_is_up_to_date", version=version)
    return 0


if __name__ == "__main__":
    sys.exit(main())
