"""``lineage watch``: records of a running job that fulfil a condition, break one or are slow, and the rows that they were made from."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lineage.refusing_servers import refuse_server
from lineage.terminal import echo
from lineage.watch_printing import Printer
from lineage.watch_reports import Report, Reports
from lineage.watch_sources import sources_of
from lineage_core.contract.message import Register
from lineage_core.contract.record_conditions import read_condition
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import TraceError
from lineage_store.spool.reader import DRIVER_FILE, read_lines
from lineage_store.url import spool_of
from lineage_store.watch_folder import (
    CONDITIONS_MAX,
    JOB,
    WatchableNode,
    WatchingFile,
    WatchRequest,
    held_conditions,
    is_held,
    remove_if_over,
    running_jobs,
    watchable_nodes,
)

_DURATION = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s|min)")
_UNITS_S = {"ms": 0.001, "s": 1.0, "min": 60.0}
POLL_S = 0.1
TRACE_EVERY_S = 1.0
LINKED_S = 60.0
"""For which sources are waited for when the job has ended."""
UNWATCHABLE = {
    "source": "watch the operator behind it",
    "sink": "watch the operator before it",
    "frame": "rows of DataFrames can't be watched",
    "frame-source": "rows of DataFrames can't be watched",
}


class DurationError(LineageError):
    """A text is no duration."""


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
    node: str, condition: str, must: str, slower_than: str, limit: int
) -> WatchRequest:
    """What is to be watched for: records that fulfil ``condition``, that do not fulfil ``must``, or that are slow.

    Raises:
        TraceError: not just one of the three is given.
        RecordConditionError: a condition can't be read.
        DurationError: the duration can't be read.
    """
    if sum(map(bool, (condition, must, slower_than))) != 1:
        raise TraceError("give one of CONDITION, --must CONDITION and --slower-than DURATION")
    if slower_than:
        return WatchRequest(node, limit=limit, slower_than_s=duration_s(slower_than))
    read_condition(condition or must)
    return WatchRequest(node, condition or must, limit, must=bool(must))


def watch_records(url: str, request: WatchRequest, app: str, *, as_json: bool) -> bool:
    """Print records as they pass, until the job ends, as many as the limit were printed and their sources are known, or Ctrl-C.

    Returns:
        Of a condition that all must fulfil: whether some were tested, none broke it, and no task said that it can't see or report some.
        Else True.

    Raises:
        TraceError: no such job runs, or it can't be watched, or has no such operator.
        OSError: the job's folder can't be written.
    """
    refuse_server(url, "records are watched")
    node = request.node
    job, folder = _running_job(spool_of(url), app)
    if not _is_known(folder, request):
        echo(f"lineage: {job} has no operator {node} yet: it is watched when it is made", err=True)
    watching = counting_condition(folder, request)
    session = _Session(url, job, folder, watching, Printer(as_json=as_json), request.limit)
    try:
        session.run()
    except KeyboardInterrupt:
        session.printer.note("stopped; the job goes on")
        session.read_rest()
    finally:
        watching.close()
        shutil.rmtree(watching.hits, ignore_errors=True)
        with suppress(OSError):
            remove_if_over(folder)
    if not session.fitted:
        raise TraceError(f"{job} ended without an operator {node} that can be watched")
    return not request.must or session.sums_up_as_kept()


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


def _running_job(spool: Path, app: str) -> tuple[str, Path]:
    jobs = [found for found in running_jobs(spool) if found[0].startswith(app)]
    if not jobs:
        raise TraceError(
            f"no job {app or 'that can be watched'} runs with its spool in {spool}: start it with LINEAGE_WATCH=true"
        )
    if len(jobs) > 1:
        names = ", ".join(name for name, _, _ in jobs)
        raise TraceError(f"{len(jobs)} jobs run: {names}; --app chooses one")
    ((job, folder, refusal),) = jobs
    if refusal:
        raise TraceError(f"{job} can't be watched: {refusal}")
    return job, folder


def _is_known(folder: Path, request: WatchRequest) -> bool:
    """Whether the program has made an operator that is watched.

    Raises:
        TraceError: it has made such a node, but that can't be watched.
    """
    if any(map(request.fits, watchable_nodes(folder))):
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


@dataclass
class _Session:
    """One ``lineage watch``."""

    url: str
    job: str
    folder: Path
    watching: WatchingFile
    printer: Printer
    limit: int
    fitted: bool = False
    """Whether there is an operator that is watched."""

    def __post_init__(self) -> None:
        self._reports = Reports(self.watching.hits)
        self._pending: list[Report] = []
        self._traced_at = self._looked_at = 0.0

    def run(self) -> None:
        """Until the job ends, or all is printed that is to be."""
        is_full = False
        while is_held(self.folder / JOB) and not (is_full and not self._pending):
            self._look()
            if not is_full and len(self._reports.reports) >= self.limit:
                is_full = True
                self.watching.close()
                self.printer.note(f"stopped watching after {self.limit:,} records (--limit)")
            self._print_sources(is_final=False)
            time.sleep(POLL_S)
        self.read_rest()
        deadline = time.monotonic() + LINKED_S
        while self._pending and time.monotonic() < deadline:
            self._print_sources(is_final=False)
            time.sleep(POLL_S)
        self._print_sources(is_final=True)

    def read_rest(self) -> None:
        """Read what tasks have written since, and say what they only counted."""
        self._look()
        for text in self._reports.summary():
            self.printer.note(text)

    def sums_up_as_kept(self) -> bool:
        """Say how many records broke the condition. False: some did, tasks could not see some, or none was tested."""
        count, tested, sees_all = self._reports.count, self._reports.tested, self._reports.sees_all
        self.printer.violations(count, tested, sees_all=sees_all)
        return sees_all and not count and tested > 0

    def _look(self) -> None:
        now = time.monotonic()
        if not self.fitted and now - self._looked_at >= TRACE_EVERY_S:
            self._looked_at = now
            with suppress(FileNotFoundError):
                self.fitted = _is_known(self.folder, self.watching.request)
        for found in self._reports.read():
            self.fitted = True
            if isinstance(found, str):
                self.printer.note(found)
            elif found.number <= self.limit:
                self.printer.report(found)
                self._pending.append(found)

    def _print_sources(self, *, is_final: bool) -> None:
        now = time.monotonic()
        if not self._pending or (now - self._traced_at < TRACE_EVERY_S and not is_final):
            return
        self._traced_at = now
        pending, self._pending = self._pending, []
        with sources_of(self.url, self.job, is_final=is_final) as find:
            for report in pending:
                sources = find(self._reports.candidates(report))
                if sources is None:
                    self._pending.append(report)
                else:
                    self.printer.sources(report, sources)
