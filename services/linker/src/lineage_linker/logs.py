"""Structured logs: one JSON object a line on stderr, also of the libraries."""

from __future__ import annotations

import logging
import sys

import structlog

LIBRARIES = ("aiohttp", "aiokafka", "asyncio", "faust", "mode")


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
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(
            max(logging.WARNING, logging.getLevelName(level.upper()))
        )
