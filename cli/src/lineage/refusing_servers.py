"""Commands that need the files and the Spark of a job, and so no server."""

from __future__ import annotations

from lineage.servers import SERVER_SCHEMES
from lineage_core.tracing.trace_result import TraceError


def refuse_server(url: str, action: str) -> None:
    """Refuse a store that is a server: what a command does needs the job's files and Spark.

    Raises:
        TraceError: it is one.
    """
    if url.startswith(SERVER_SCHEMES):
        raise TraceError(f"{action} where the store, the files and Spark are, not through a server")
