"""``lineage.trace`` and ``lineage.verify``: the API for Python programs."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Literal

from lineage.access import open_access
from lineage.options import DEFAULT_STORE
from lineage.verdicts import LATEST, ApplicationVerdict
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery

if TYPE_CHECKING:
    from lineage_query.answers import Answer


def trace(  # noqa: PLR0913 - an argument is an option
    *places: str,
    direction: Literal["backward", "forward"] = "backward",
    app: str | None = None,
    to: str | None = None,
    steps: int | None = None,
    limit: int | None = None,
    by: str = "row",
    all_jobs: bool = False,
    way: bool = False,
    store: str | None = None,
) -> Answer:
    """Find the input rows that made a row, or the output rows that it went into.

    Args:
        *places: Rows, as `lineage back` takes them: `PATH:LINE`, `PATH#COLUMN=VALUE` or an address of an item.
        direction: `backward` to where the rows come from, `forward` to what they went into.
        app: An application's id, or the beginning of it; by default all, or the latest, that fit.
        to: A node on the way; the trace ends there.
        steps: How many steps the trace takes; by default it goes all the way.
        limit: How many items of each node are listed; by default all. They are counted without a limit.
        by: The level of the answer: `row`, or `split`, `file`, `dataset`, `task`, `node`, `application` or `job` for
            containers with the number of their rows, or a type of containers that the program registered.
        all_jobs: Go on through the applications that wrote what was read, or read what was written.
        way: With `all_jobs`, also list the rows on the way, at which one application goes on from another.
        store: The URL of a store or of a server; by default `LINEAGE_STORE`, else `.lineage/lineage.db`.

    Returns:
        The answer: `groups` of items by node (`containers` at other levels than rows), `exact` with the `reasons` where
        it is not, and `warnings`.

    Raises:
        StoreError: There is no such store or application, or no server answers.
        LineageError: A place names no row, or its lineage can't be traced; the message says why.
        ValueError: The direction is neither of the two.
    """
    question = TraceQuery(
        direction=Direction(direction),
        places=places,
        app=app,
        until=to,
        steps=steps,
        limit=limit,
        by=by,
        all_jobs=all_jobs,
        way=way,
    )
    with _unrecorded(), open_access(_url(store)) as access:
        return access.ask(question)


def verify(app: str = LATEST, *, store: str | None = None) -> ApplicationVerdict:
    """Check whether the lineage of an application is complete, and whether rows of all its outputs can be traced.

    Args:
        app: The application's id, the beginning of it, or `latest`.
        store: The URL of a store or of a server; by default `LINEAGE_STORE`, else `.lineage/lineage.db`.

    Returns:
        `app`, the whole id, and the `verdict`: `complete` with the `reasons` where it is not, and `answerable`. It
        prints like `lineage verify`, in a notebook as a table.

    Raises:
        StoreError: There is no such store or application, or no server answers.
    """
    with _unrecorded(), open_access(_url(store)) as access:
        whole_id = access.find(app)
        return ApplicationVerdict(whole_id, access.answerable(whole_id, access.verdict(whole_id)))


def _unrecorded() -> AbstractContextManager[None]:
    """Exclude Spark queries of a trace, which run in the program's own Spark, from the program's lineage.

    Returns:
        A context manager to hold while the trace runs.
    """
    if "lineage_emitter.scope" not in sys.modules:
        return nullcontext()
    from lineage_emitter import scope

    return scope.suspended()


def _url(store: str | None) -> str:
    return store or os.environ.get("LINEAGE_STORE") or DEFAULT_STORE
