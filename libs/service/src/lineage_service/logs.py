"""Structured logs: one JSON object a line on stderr, also of the libraries."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection

import structlog

SELDOM_S = 30.0
"""Libraries repeat themselves many times a second while a server is away."""
REMEMBERED_MESSAGES_MAX = 1_000


class Seldom(logging.Filter):
    """Passes repeated messages of ``libraries`` once per `SELDOM_S`; all others always pass."""

    def __init__(self, libraries: Collection[str]) -> None:
        super().__init__()
        self._libraries = frozenset(libraries)
        self._last_logged: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message was not logged recently."""
        if record.name.partition(".")[0] not in self._libraries:
            return True
        message_key = record.name, str(record.msg)[:80]
        if record.created - self._last_logged.get(message_key, -SELDOM_S) < SELDOM_S:
            return False
        if len(self._last_logged) > REMEMBERED_MESSAGES_MAX:
            self._last_logged.clear()
        self._last_logged[message_key] = record.created
        return True


def set_up_logs(level: str, libraries: Collection[str]) -> None:
    """Send all logs of the process to stderr. ``libraries`` log only warnings and errors."""
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
    handler.addFilter(Seldom(libraries))
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
    for library in libraries:
        logging.getLogger(library).setLevel(
            max(logging.WARNING, logging.getLevelName(level.upper()))
        )
