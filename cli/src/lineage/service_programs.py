"""The services as programs: ``lineage-linker``, ``lineage-writer`` and ``lineage-query-api``."""

from __future__ import annotations

import sys
from importlib import import_module

from lineage.options import EXIT_ERROR
from lineage.terminal import echo
from lineage_core.environment.extras import missing


def linker() -> None:
    """Run the linker; settings come from the environment."""
    _run("lineage_linker.__main__", "pipeline")


def writer() -> None:
    """Run the writer; settings come from the environment."""
    _run("lineage_writer.__main__", "pipeline")


def query_api() -> None:
    """Run the query API with its page; settings come from the environment."""
    _run("lineage_query_api.__main__", "server")


def _run(module: str, extra: str) -> None:
    """Run a service's program as ``python -m`` does; ``extra`` brings what it needs."""
    try:
        main = import_module(module).main
    except ModuleNotFoundError as problem:
        named = missing(problem, extra)
        if named is None:
            raise
        echo(f"lineage: {named}", err=True)
        sys.exit(EXIT_ERROR)
    sys.exit(main())
