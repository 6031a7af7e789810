"""Waits until what a program has captured so far is in the store, linked."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from lineage_core.contract.message import End, Job, Message
from lineage_core.contract.verdict import StoreCounts, Verdict, judge
from lineage_emitter.errors import NotLinkedError, TracingError
from lineage_emitter.program.progress import Show, progress_bar
from lineage_store.errors import StoreUnavailableError
from lineage_store.lake.address import is_lake
from lineage_store.url import is_embedded, open_store

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session
    from lineage_store.port import GraphStore

LINKED_S = 60.0
"""What goes over Kafka is linked within seconds, unless a part of the pipeline is away."""
POLL_S = 0.25
UNCHANGED_S = 5.0
"""So long nothing changes when what is still missing will not come (it waits in a spool, say)."""


def store_url(session: Session) -> str:
    """The store that holds what a session captures.

    Raises:
        TracingError: it can't be read from here.
        StoreError: the setting names none.
    """
    settings = session.settings
    if settings.dispatcher == "spool":
        if is_lake(settings.store) and session.closed:
            # It was moved there when it ended.
            return settings.store
        return f"sqlite:///{settings.store_file()}"
    if is_embedded(settings.store):
        raise TracingError(
            "the lineage goes to Kafka: name the store that its writer fills, such as "
            "LINEAGE_STORE=neo4j://HOST:7687 or lake:PLACE"
        )
    return settings.store


def wait_until_linked(session: Session, timeout_s: float) -> None:
    """Wait until all that was captured before can be traced.

    Raises:
        TracingError: the store can't be read from here.
        NotLinkedError: it does not have the lineage after ``timeout_s`` seconds.
        StoreError: it can't be written (embedded), reached, or is none.
        OSError: the spool can't be read or written.
    """
    url = store_url(session)
    session.commits.drain()
    session.api.dispatcher.sync()
    if session.settings.dispatcher == "spool":
        with progress_bar("linking") as show:
            session.api.linker.catch_up(lambda at: show(at.bytes_done, at.bytes_total))
        return
    jobs = session.api.jobs
    if session.jobs.settled < jobs:
        with progress_bar("waiting for the lineage") as show, open_store(url) as store:
            wait_for(store, session.app, jobs, timeout_s, show)
        session.jobs.settled = jobs


def wait_for(
    store: GraphStore,
    app: str,
    jobs: int,
    timeout_s: float,
    show: Show,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until a store has the first ``jobs`` jobs of an application with all of their lineage.

    What does not come (it waits in a spool, say) is not waited for longer than it takes to see
    that nothing changes: answers then say that lineage is missing.

    Raises:
        NotLinkedError: the jobs are not there in time.
    """
    deadline = clock() + timeout_s
    seen: object = None
    since = clock()
    verdict: Verdict | None = None
    while True:
        has_jobs = False
        try:
            messages, counts = store.messages(app), store.counts(app)
        except (KeyError, StoreUnavailableError):
            pass
        else:
            verdict = running_verdict(app, messages, counts)
            has_jobs = jobs <= max((m.job for m in messages if isinstance(m, Job)), default=0)
            if has_jobs and (verdict.complete or not jobs):
                return
            if seen != (verdict, len(messages)):
                seen, since = (verdict, len(messages)), clock()
            show(verdict.blocks_linked, verdict.blocks_expected)
        now = clock()
        if has_jobs and now - since >= UNCHANGED_S:
            return
        if now >= deadline:
            raise NotLinkedError(_timeout_message(app, jobs, timeout_s, verdict))
        sleep(min(POLL_S, deadline - now))


def running_verdict(app: str, messages: Sequence[Message], counts: StoreCounts) -> Verdict:
    """The verdict on an application that goes on, as if it ended here."""
    if not any(isinstance(message, End) for message in messages):
        # An end that promises nothing: what the jobs expect is checked all the same.
        messages = [*messages, End(app=app, ended_at=0.0, status="ok")]
    return judge(messages, counts, now=0.0)


def _timeout_message(app: str, jobs: int, timeout_s: float, verdict: Verdict | None) -> str:
    if verdict is None:
        has = "nothing has arrived there"
    else:
        has = (
            f"it has {verdict.tasks_committed:,} of {verdict.tasks_expected:,} tasks and "
            f"{verdict.blocks_linked:,} of {verdict.blocks_expected:,} blocks linked"
        )
    return (
        f"the store does not have the lineage of {app} up to action {jobs} after {timeout_s:g} s: "
        f"{has}. Do linker and writer run? getLineage(timeout_s=...) waits longer"
    )
