"""``python -m lineage_writer``: settings from the environment, logs to stderr."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import structlog

from lineage_core.errors import LineageError
from lineage_service.logs import set_up_logs
from lineage_writer.service import Service
from lineage_writer.settings import read_settings
from lineage_writer.stores import publishing_store_opener, store_opener

EXIT_SETTINGS = 2
LIBRARIES = ("aiohttp", "aiokafka", "asyncio", "neo4j", "openlineage")
"""Whose logs are ours, too."""


def main() -> int:
    """Run until a signal; the exit code."""
    set_up_logs("info", LIBRARIES)
    log = structlog.get_logger()
    try:
        settings = read_settings()
        set_up_logs(settings.log_level, LIBRARIES)
        service = Service(
            settings, store_opener(settings.store), publishing_store_opener(settings.store)
        )
        finished = asyncio.run(service.run())
    except (LineageError, OSError) as error:
        log.error("writer_failed", reason=str(error))
        return EXIT_SETTINGS
    if not finished:
        # A thread waits for the store. Its transaction is as if this process were killed: the store
        # rolls it back, or has it with its offset.
        log.warning("transaction_dropped")
        logging.shutdown()
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
