"""The folder by which records of a running job are watched: ``<spool>/<app>/watch``.

======================================  ====================================================================
``job.json``                            of the driver, which holds a lock on it while it captures
``nodes.jsonl``                         of the driver: a line for each operator that can be watched, and for what can't be
``rows.json``                           of the driver: what rows of DataFrames are watched for, for executors
``conditions/<id>.json``                of who watches, which holds a lock on it meanwhile: what to watch for
``hits/<id>/<name>.jsonl``              of the tasks: a line for each record that fulfils condition ``<id>``
``hits/<id>/<name>.lost``               of a task that could not write all of them
======================================  ====================================================================

A condition counts while its lock is held: what a watcher left that was killed costs the job nothing. Nothing of a
file is trusted: sizes are bounded, and what can't be read is left out.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from lineage_core.environment.private_files import ensure_private_folder, private_opener

FOLDER, JOB, NODES, CONDITIONS, HITS = "watch", "job.json", "nodes.jsonl", "conditions", "hits"
ROWS = "rows.json"
CONDITIONS_MAX = 16
"""At the same time: each costs a test of each record."""
HITS_MAX = 10_000
"""Records that one run of a task reports of a condition; the rest is counted."""
HIT_BYTES_MAX = 4 << 20
"""Bytes that one run of a task writes of a condition."""
SLOWEST_MAX = 5
"""Of the records of one run of a task that are named as the slowest."""
LINE_BYTES_MAX = 1 << 20
DOCUMENT_BYTES_MAX = 64 << 10
LOST = ".lost"
FUNCTION = "udf"
"""What Python functions of DataFrames are, of the operators that can be watched."""
_NAME = re.compile(r"[0-9a-f]{8,64}")


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """What a condition's file says.

    ``node``: which operators: a node's number, its name, its operator, or its line of the program (``job.py:14``). ``condition``: of
    records, as :mod:`lineage_core.contract.record_conditions` reads it. ``limit``: of the records that a run of a task reports.
    ``must``: records that do not fulfil the condition are reported. ``slower_than_s``: instead, those that the operator's function
    takes as long with. ``latency``: instead, how long it takes with the records of each run of a task, and the slowest of these.
    """

    node: str
    condition: str = ""
    limit: int = HITS_MAX
    must: bool = False
    slower_than_s: float | None = None
    latency: bool = False

    @property
    def is_timed(self) -> bool:
        """Whether the time of the operator's function is looked at, and not its records."""
        return self.latency or self.slower_than_s is not None

    def fits(self, facts: WatchableNode) -> bool:
        """Whether an operator is watched."""
        return self.node in {facts.node, facts.name, facts.op, facts.call_site}


@dataclass(frozen=True, slots=True)
class WatchableNode:
    """An operator that can be watched."""

    node: str
    name: str
    op: str
    call_site: str

    @property
    def label(self) -> str:
        """For people."""
        site = f" at {self.call_site}" if self.call_site else ""
        return f"{self.name} ({self.node}){site}"


@dataclass(frozen=True, slots=True)
class UnwatchedNodes:
    """Operators of a plan that can't be watched. ``ops``: what they do. ``call_site``: of the action whose output they are, or nothing.

    Of Python functions, which are timed: of the action that calls them.
    """

    label: str
    ops: str
    call_site: str
    why: str

    def fits(self, request: WatchRequest) -> bool:
        """Whether a request would have been for some of them."""
        names = self.ops.split(",")
        has_functions = FUNCTION in names or "*" in names
        is_of_kind = has_functions if request.is_timed else names != [FUNCTION]
        return is_of_kind and (request.node in {*names, self.call_site} or "*" in names)


class WatchedJob:
    """The driver's side: the job can be watched until :meth:`close`.

    Args:
        folder: of the application in the spool.
        app: the application.
        refusal: why it can't be watched although its user allows it; empty: it can be.

    Raises:
        OSError: the folder can't be written.
    """

    def __init__(self, folder: Path, app: str, refusal: str = "") -> None:
        self.folder = folder / FOLDER
        self.is_refused = bool(refusal)
        for part in (CONDITIONS, HITS):
            ensure_private_folder(self.folder / part)
        self._lock = _locked_file(self.folder / JOB, {"app": app, "refusal": refusal})
        self._nodes = open(  # noqa: SIM115 - closed by close
            self.folder / NODES, "a", encoding="utf-8", buffering=1, opener=private_opener
        )

    def add(self, node: WatchableNode) -> None:
        """Name an operator that can be watched.

        Raises:
            OSError: it can't be written.
        """
        self._nodes.write(json.dumps([node.node, node.name, node.op, node.call_site]) + "\n")

    def close(self) -> None:
        """The end: the folder is removed, unless somebody is watching, who then removes it."""
        self._nodes.close()
        self._lock.close()
        with contextlib.suppress(OSError):
            remove_if_over(self.folder)


def _locked_file(path: Path, document: dict[str, Any]) -> IO[str]:
    """A file that appears complete and locked; the lock is held until it is closed.

    Raises:
        OSError: it can't be written.
    """
    partial = path.with_suffix(".partial")
    file = open(partial, "x", encoding="utf-8", opener=private_opener)  # noqa: SIM115
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(document, file)
        file.flush()
        os.rename(partial, path)
    except BaseException:
        file.close()
        raise
    return file


def is_held(path: Path) -> bool:
    """Whether the writer of a file lives; False if there is none. Where files can't be locked it counts as alive."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


def remove_if_over(folder: Path) -> None:
    """Remove the folder of a job that has ended and that nobody watches.

    Raises:
        OSError: a part of it can't be removed.
    """
    if is_held(folder / JOB) or any(map(is_held, _files(folder / CONDITIONS, ".json"))):
        return
    for root, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(os.path.join(root, name))
        for name in folders:
            os.rmdir(os.path.join(root, name))
    os.rmdir(folder)
    with contextlib.suppress(OSError):
        # Empty where all else of the application is in the store.
        os.rmdir(folder.parent)


class WatchingFile:
    """The watcher's side: its condition counts until :meth:`close`.

    Args:
        folder: of the watched job, ``.../watch``.
        name: of the condition: hexadecimal digits, in the order of their begins.
        request: what to watch for.

    Raises:
        OSError: it can't be written.
    """

    def __init__(self, folder: Path, name: str, request: WatchRequest) -> None:
        self.request = request
        self.path = folder / CONDITIONS / f"{name}.json"
        self.hits = folder / HITS / name
        ensure_private_folder(self.hits)
        self._file = _locked_file(self.path, asdict(request))

    def close(self) -> None:
        """Tasks test no record for it from now on, or soon."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)
        self._file.close()


def held_conditions(folder: Path) -> list[Path]:
    """The files of conditions that count, those that began first (their names say so); at most `CONDITIONS_MAX`.

    Raises:
        OSError: the folder can't be read.
    """
    held = (path for path in _files(folder / CONDITIONS, ".json") if is_held(path))
    return sorted(held)[:CONDITIONS_MAX]


def read_request(path: Path) -> WatchRequest | None:
    """The request of a condition's file; None: it is none.

    Raises:
        OSError: it can't be read.
    """
    document = _document(path)
    if document is None:
        return None
    node, condition, limit, must, slower_than_s, latency = (
        document.get(field.name) for field in fields(WatchRequest)
    )
    if not (isinstance(node, str) and isinstance(condition, str) and isinstance(limit, int)):
        return None
    if not isinstance(must, bool) or not isinstance(slower_than_s, float | None):
        return None
    limit = max(0, min(limit, HITS_MAX))
    return WatchRequest(node, condition, limit, must, slower_than_s, latency is True)


def running_jobs(spool: Path) -> Iterator[tuple[str, Path, str]]:
    """Jobs that run and allow to be watched: the application, its folder, and why it can't be watched after all (or nothing)."""
    for path in sorted(spool.glob(f"*/{FOLDER}/{JOB}")):
        # It may end meanwhile.
        with contextlib.suppress(OSError):
            document = _document(path) if is_held(path) else None
            if document is not None:
                yield str(document.get("app", "")), path.parent, str(document.get("refusal", ""))


def watchable_nodes(folder: Path) -> Iterator[WatchableNode]:
    """The operators that can be watched, those that the program has made so far.

    Raises:
        OSError: they can't be read.
    """
    for facts in _nodes(folder):
        if len(facts) == 4:
            yield WatchableNode(*facts)


def unwatched_nodes(folder: Path) -> Iterator[UnwatchedNodes]:
    """What the program has made so far and can't be watched, as far as its driver says so.

    Raises:
        OSError: it can't be read.
    """
    for facts in _nodes(folder):
        # The first is the node's number, which these have none of.
        if len(facts) == 5:
            yield UnwatchedNodes(*facts[1:])


def _nodes(folder: Path) -> Iterator[list[str]]:
    with open(folder / NODES, "rb") as file:
        while line := file.readline(LINE_BYTES_MAX):
            with contextlib.suppress(ValueError, RecursionError):
                facts = json.loads(line)
                if isinstance(facts, list):
                    yield list(map(str, facts))


def _document(path: Path) -> dict[str, Any] | None:
    with open(path, "rb") as file:
        text = file.read(DOCUMENT_BYTES_MAX + 1)
    if len(text) > DOCUMENT_BYTES_MAX:
        return None
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _files(folder: Path, suffix: str) -> list[Path]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return [
        folder / name
        for name in names
        if name.endswith(suffix) and _NAME.fullmatch(name.removesuffix(suffix))
    ]


def hit_files(folder: Path) -> list[Path]:
    """The files of hits of a condition.

    Raises:
        OSError: the folder can't be read.
    """
    return _files(folder, ".jsonl")


def has_lost(folder: Path) -> bool:
    """Whether a task could not write all hits of a condition.

    Raises:
        OSError: the folder can't be read.
    """
    return bool(_files(folder, LOST))
