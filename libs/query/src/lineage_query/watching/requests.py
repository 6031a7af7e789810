"""What a running job is watched for, and whether it can be."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lineage_core.contract.message import Register
from lineage_core.contract.record_conditions import RecordConditionError, read_condition
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import TraceError
from lineage_query.conditions import ACCEPTED_SYNTAX, ConditionError, parse_condition
from lineage_store.spool.reader import DRIVER_FILE, read_lines
from lineage_store.watch_folder import (
    CONDITIONS_MAX,
    WatchableNode,
    WatchingFile,
    WatchRequest,
    held_conditions,
    running_jobs,
    unwatched_nodes,
    watchable_nodes,
)

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|min)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "min": 60.0}
FRAMES = "rows of DataFrames are watched by their operators (`lineage watch` lists them), in jobs that were started with LINEAGE_WATCH_FRAMES=true"
UNWATCHABLE = {
    "source": "watch the operator behind it",
    "sink": "watch the operator before it",
    "frame": FRAMES,
    "frame-source": FRAMES,
}


class DurationError(LineageError):
    """A text is no duration."""


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs and was started so that it can be watched. ``folder``: by which it is. ``refusal``: why it can't be after all."""

    app: str
    folder: Path
    refusal: str = ""


def duration_s(text: str) -> float:
    """Seconds of a duration such as ``200ms``, ``1.5s`` or ``2min``.

    Raises:
        DurationError: it is none, or nothing.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise DurationError(f"{text!r} is no duration; give one such as 200ms, 1.5s or 2min")
    return seconds


def requested_watch(
    node: str, condition: str, must: str, slower_than: str, limit: int, *, latency: bool = False
) -> WatchRequest:
    """What is to be watched for: records that fulfil ``condition``, that do not fulfil ``must``, or that are slow, or the time of tasks.

    Raises:
        TraceError: not just one of the four is given, or no operator.
        RecordConditionError: a condition can be read neither as one of records nor as one of rows.
        DurationError: the duration can't be read.
    """
    if not node:
        raise TraceError("say which operators to watch: NODE is empty")
    if sum(map(bool, (condition, must, slower_than, latency))) != 1:
        raise TraceError(
            "give one of CONDITION, --must CONDITION, --slower-than DURATION and --latency"
        )
    if latency:
        return WatchRequest(node, limit=limit, latency=True)
    if slower_than:
        return WatchRequest(node, limit=limit, slower_than_s=duration_s(slower_than))
    _check_condition(condition or must)
    return WatchRequest(node, condition or must, limit, must=bool(must))


def _check_condition(text: str) -> None:
    try:
        read_condition(text)
    except RecordConditionError as problem:
        try:
            parse_condition(text)
        except ConditionError:
            raise RecordConditionError(
                f"{problem}; of rows of DataFrames {ACCEPTED_SYNTAX}"
            ) from None


def find_jobs(spool: Path, app: str) -> Sequence[RunningJob]:
    """Jobs that run and whose id begins with ``app``."""
    return [RunningJob(*found) for found in running_jobs(spool) if found[0].startswith(app)]


def find_job(spool: Path, app: str) -> RunningJob:
    """The job that runs and can be watched.

    Args:
        spool: the folder of all applications.
        app: the id of an application, or the beginning of it.

    Raises:
        TraceError: none, or more than one, or it can't be watched.
    """
    jobs = find_jobs(spool, app)
    if not jobs:
        raise TraceError(
            f"no job {app or 'that can be watched'} runs with its spool in {spool}: start it with LINEAGE_WATCH=true (RDDs) or LINEAGE_WATCH_FRAMES=true (DataFrames)"
        )
    if len(jobs) > 1:
        names = ", ".join(job.app for job in jobs)
        raise TraceError(f"{len(jobs)} jobs run: {names}; --app chooses one")
    (job,) = jobs
    if job.refusal:
        raise TraceError(f"{job.app} can't be watched: {job.refusal}")
    return job


def counting_condition(folder: Path, request: WatchRequest) -> WatchingFile:
    """A condition that counts.

    Raises:
        TraceError: too many do already.
        OSError: it can't be written.
    """
    # In the order of their begins: what comes too late takes the place of none.
    watching = WatchingFile(folder, f"{time.time_ns():016x}{uuid.uuid4().hex}", request)
    if watching.path in held_conditions(folder):
        return watching
    watching.close()
    shutil.rmtree(watching.hits, ignore_errors=True)
    raise TraceError(f"{CONDITIONS_MAX} conditions are watched for already: end one of them")


def has_operator(folder: Path, request: WatchRequest) -> bool:
    """Whether the program has made an operator that is watched.

    Raises:
        TraceError: it has made such a node, but that can't be watched.
    """
    with suppress(FileNotFoundError):
        if any(map(request.fits, watchable_nodes(folder))):
            return True
        # Tasks of an action are timed whatever its plan is.
        if request.latency and any(n.call_site == request.node for n in unwatched_nodes(folder)):
            return True
    with suppress(FileNotFoundError), open(folder.parent / DRIVER_FILE, "rb") as stream:
        for line in read_lines(stream, 0):
            message = line.message
            if isinstance(message, Register) and request.fits(_facts(message)):
                why = UNWATCHABLE.get(message.kind, "it runs no function of Python")
                raise TraceError(
                    f"node {message.node} ({message.name or message.op}) can't be watched: {why}"
                )
    return False


def _facts(message: Register) -> WatchableNode:
    return WatchableNode(message.node, message.name, message.op, message.call_site)
