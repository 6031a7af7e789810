"""Actions of DataFrames, noticed: recorded by recipes, and their answers kept where somebody may ask for the rows of these."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from lineage_core.answers import ANSWERS
from lineage_emitter import scope
from lineage_emitter.dataframes import hooks
from lineage_emitter.pyspark_parts import frame_class

if TYPE_CHECKING:
    from lineage_emitter.dataframes.hooks import ActiveSession

GIVING_ROWS = ("collect", "take", "head", "tail", "toPandas", "toArrow")
"""Actions whose answer has rows."""

_installed = False


def install(sessions: ActiveSession) -> None:
    """Notice what actions do, from now on; a second call changes nothing.

    Args:
        sessions: gives the session of the active SparkContext.
    """
    global _installed  # noqa: PLW0603 - PySpark's classes are the process's, too
    if _installed:
        return
    _installed = True
    frame = frame_class()
    for name in GIVING_ROWS:
        stock = getattr(frame, name, None)
        if stock is not None:
            setattr(frame, name, _giving(stock, f"DataFrame.{name}", sessions))
    hooks.install(sessions)


def _giving(stock: Any, action_name: str, sessions: ActiveSession) -> Any:
    """An action that gives rows, as `hooks` runs it: over rows with names where somebody may ask for these."""

    @functools.wraps(stock)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        # PySpark's own calls are within an action of another name.
        is_answer = ANSWERS.wanted and scope.is_outermost(action_name)
        running, session = scope.outermost(), sessions() if is_answer else None
        if session is None or running is None:
            return stock(self, *arguments, **keywords)
        # What it needs is loaded by programs that use it.
        from lineage_emitter.driver.named_answers import run_with_names

        return run_with_names(session, running, stock, self, arguments, keywords)

    return method
