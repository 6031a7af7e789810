"""``python -m lineage_query_api``: settings from the environment, logs to stderr."""

from __future__ import annotations

import sys
from contextlib import closing

import structlog

from lineage_core.errors import LineageError
from lineage_query_api.app import create_app, local_token
from lineage_query_api.lazy_store import open_lazily
from lineage_query_api.serving import serve
from lineage_query_api.settings import read_settings
from lineage_service.logs import set_up_logs
from lineage_store.url import open_store

EXIT_SETTINGS = 2
LIBRARIES = ("neo4j", "py4j", "uvicorn")


def main() -> int:
    """Run until a signal; the exit code."""
    set_up_logs("info", LIBRARIES)
    log = structlog.get_logger()
    try:
        settings = read_settings()
        set_up_logs(settings.log_level, LIBRARIES)
        with closing(open_lazily(lambda: open_store(settings.store))) as store:
            app = create_app(store, settings)
            serve(
                app,
                settings.api_host,
                settings.api_port,
                # The token is in the file, not in the log.
                lambda at, file: log.info(
                    "ready", url=at, **({"token_in": str(file)} if file else {})
                ),
                token=local_token(app),
                store=settings.store,
            )
    except (LineageError, OSError) as error:
        log.error("query_api_failed", reason=str(error))
        return EXIT_SETTINGS
    return 0


if __name__ == "__main__":
    sys.exit(main())
