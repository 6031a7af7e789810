"""``python -m lineage_linker``: settings from the environment, logs to stderr."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import structlog

from lineage_core.errors import LineageError
from lineage_linker.service import Service, ServiceOutcome
from lineage_linker.settings import LinkerSettings, read_settings
from lineage_service.logs import set_up_logs
from lineage_service.memory import keep_freed_memory

EXIT_BROKEN = 1
EXIT_SETTINGS = 2
LIBRARIES = ("aiohttp", "aiokafka", "asyncio", "faust", "mode")
"""Whose logs are ours, too."""
RETAINED_BYTES = 64 << 20
"""Free memory that is not given back: columns of the next block go there."""


def main() -> int:
    """Run until a signal; the exit code."""
    set_up_logs("info", LIBRARIES)
    keep_freed_memory(RETAINED_BYTES)
    try:
        settings = read_settings()
        set_up_logs(settings.log_level, LIBRARIES)
        # Never closed: what is left of a Faust app that could not be stopped would be waited for.
        outcome = asyncio.Runner().run(_serve(settings))
    except (LineageError, OSError) as error:
        structlog.get_logger().error("linker_failed", reason=str(error))
        return EXIT_SETTINGS
    logging.shutdown()
    if outcome is ServiceOutcome.AWAY:
        # A fresh process of the same id: what is left of the old Faust app is no base to go on from.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    # A thread may still wait for Redis: what it does is not acked, and done again by the next.
    os._exit(0 if outcome is ServiceOutcome.STOPPED else EXIT_BROKEN)


async def _serve(settings: LinkerSettings) -> ServiceOutcome:
    # The service is made where its loop runs.
    return await Service(settings).run()


if __name__ == "__main__":
    sys.exit(main())
