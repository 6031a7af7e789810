"""``python -m lineage_writer.migrating``: brings Neo4j's schema up to date, then ends. May be repeated.

A writer does the same when it starts. Done before an upgrade, no new process meets an old schema, and what
is wrong with Neo4j is known before anything is replaced.
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
from lineage_store.neo4j.connection import read_address
from lineage_store.neo4j.schema import STEPS
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.tiers.address import hot_part
from lineage_writer.errors import SettingsError
from lineage_writer.waiting import pauses

EXIT_AWAY = 1
EXIT_SETTINGS = 2

log = structlog.get_logger(__name__)


def migrate(
    open_store: Callable[[], Neo4jStore],
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
        description="Bring Neo4j's constraints and indexes up to date. LINEAGE_STORE and "
        "LINEAGE_NEO4J_* say where it is. May be repeated.",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="wait so long for Neo4j to answer (default: do not wait)",
    )
    wait_s = parser.parse_args(arguments).wait
    set_up_logs("info", ("neo4j",))
    try:
        store = environ.get("LINEAGE_STORE", "")
        if not store:
            raise SettingsError("LINEAGE_STORE is not set: give Neo4j's as neo4j://HOST:PORT")
        address = read_address(hot_part(store))
        migrate(lambda: Neo4jStore(address, retry_s=0), wait_s)
    except LineageError as error:
        log.error("migration_failed", reason=str(error))
        return EXIT_AWAY if isinstance(error, StoreUnavailableError) else EXIT_SETTINGS
    log.info("schema_is_up_to_date", version=len(STEPS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
