"""Structured logs: one JSON object a line on stderr, also of the libraries."""

from __future__ import annotations

import logging
import sys

import structlog

LIBRARIES = ("aiokafka", "aiohttp", "neo4j", "asyncio")
SELDOM_S = 30.0
"""Libraries repeat themselves many times a second while a server is away."""


class Seldom(logging.Filter):
    """Lets what a library says pass once in a while."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it was not said for a while; our own events always pass."""
        if record.name.partition(".")[0] not in LIBRARIES:
            return True
        said = record.name, str(record.msg)[:40]
        if record.created - self._said.get(said, -SELDOM_S) < SELDOM_S:
            return False
        if len(self._said) > 1_000:
            self._said.clear()
        self._said[said] = record.created
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
    handler.addFilter(Seldom())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(
            max(logging.WARNING, logging.getLevelName(level.upper()))
        )
