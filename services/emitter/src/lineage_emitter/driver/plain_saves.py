"""Saves of plain RDDs in a program that chooses by a LineageContext what is captured: it left them out.

So they are no writes that nobody saw. It does not hold for a context
that is captured as a whole, as under ``lineage run``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD, SparkContext

from lineage_emitter.driver.saving import SAVES

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

_installed = False


def install(capture_session: Callable[[SparkContext], Session | None]) -> None:
    """Let saves of PySpark's own RDDs count as seen, from now on; a second call changes nothing."""
    global _installed  # noqa: PLW0603 - PySpark's classes are the process's, too
    if _installed:
        return
    _installed = True
    for name in ("saveAsTextFile", *SAVES):
        setattr(RDD, name, _recorded_save(getattr(RDD, name), capture_session))


def _recorded_save(
    stock: Callable[..., Any], capture_session: Callable[[SparkContext], Session | None]
) -> Callable[..., Any]:
    @functools.wraps(stock)
    def method(self: RDD[Any], *arguments: Any, **keywords: Any) -> Any:
        session = capture_session(self.ctx)
        if session is None or session.is_fully_captured:
            return stock(self, *arguments, **keywords)
        with session.recorded():
            return stock(self, *arguments, **keywords)

    return method
