"""Sessions of Spark Connect: what they do runs in another process, where nothing is captured. The verdict says so.

PySpark's module is watched for, not loaded: few programs use it, and it needs packages that few have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lineage_emitter.module_watch import call_on_load
from lineage_store.run_notes import note_uncaptured

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

MODULE = "pyspark.sql.connect.session"
CONNECT = "Spark Connect"
REASON = "a session of Spark Connect runs in another process: nothing that it does is noticed"


_used = False
"""Whether the program has made such a session."""


@functools.cache
def watch_connect(sessions: Callable[[], Session | None]) -> None:
    """Watch for sessions of Spark Connect from now on. ``sessions``: gives that of the active SparkContext."""

    def capture_connect(module: Any) -> None:
        stock = module.SparkSession.__init__

        @functools.wraps(stock)
        def begin(self: Any, *arguments: Any, **named: Any) -> None:
            global _used  # noqa: PLW0603 - of the process, as PySpark's classes are
            stock(self, *arguments, **named)
            _used = True
            session = sessions()
            if session is None:
                note_uncaptured(REASON)
            else:
                record_connect_use(session)

        module.SparkSession.__init__ = begin

    call_on_load(MODULE, capture_connect)


def record_connect_use(session: Session) -> None:
    """Record in the verdict that the program has made such a session."""
    if _used:
        session.nodes.unknown(CONNECT, REASON, ())
