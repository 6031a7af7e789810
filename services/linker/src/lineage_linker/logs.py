"""Structured logs: one JSON object a line on stderr, also of the libraries."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable

import structlog

LIBRARIES = ("aiohttp", "aiokafka", "asyncio", "faust", "mode")


QUIET_S = 30.0
"""A library that says the same again within so many seconds is not heard: while Kafka is away they
would fill a disk."""


class NotAgain(logging.Filter):
    """Lets what libraries say pass once in a while. ``clock``: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name.partition(".")[0] not in LIBRARIES:
            return True
        key = (record.name, str(record.msg)[:80])
        now = self._clock()
        if now - self._said.get(key, -QUIET_S) < QUIET_S:
            return False
        self._said[key] = now
        return True


def set_up_logs(level: str) -> None:
    """Send all logs of the process to stderr. Libraries only speak up when something is wrong."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(NotAgain())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(
            max(logging.WARNING, logging.getLevelName(level.upper()))
        )
