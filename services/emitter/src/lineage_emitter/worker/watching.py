"""Watchpoints in the workers: records that fulfil a condition are reported while the task runs.

Who watches puts conditions into a folder (:mod:`lineage_store.watch_folder`), and takes them out again. Records pass in
portions of about `POLL_S`, and between two portions the folder is looked at: with nothing to watch for, a record costs
a step of two iterators of Python's own.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from lineage_core.contract.record_conditions import RecordConditionError, read_condition
from lineage_core.environment.private_files import private_opener
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.partition_inputs import is_uncountable, wrap_like
from lineage_emitter.worker.recorders import made_from
from lineage_emitter.worker.segment import Numbering
from lineage_emitter.worker.values import ValueTexts
from lineage_store.watch_folder import (
    HIT_BYTES_MAX,
    HITS,
    LOST,
    WatchableNode,
    WatchRequest,
    held_conditions,
    read_request,
)

Records = Iterable[Any]
PartitionFunction = Callable[[int, Records], Records]

POLL_S = 0.2
PORTION_MAX = 256
"""Records of a portion: as many may pass before a new condition counts where records become slow all at once."""
REASON_CHARS_MAX = 500


@dataclass(slots=True)
class WatchedNode:
    """An operator that can be watched. On the driver ``report`` gets it when it gets a function."""

    folder: str
    facts: WatchableNode
    texts: ValueTexts | None
    report: Callable[[WatchableNode], None] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return WatchedNode, (self.folder, self.facts, self.texts)

    def around(self, function: PartitionFunction) -> PartitionFunction:
        """``function``, whose records can be watched."""
        if self.report is not None:
            self.report(self.facts)
        return Watchable(function, self)


@dataclass(slots=True)
class Watch:
    """A condition that counts. ``problem``: why it can't be tested."""

    name: str
    request: WatchRequest
    test: Callable[[Any], Any] | None = None
    problem: str = ""


class Conditions:
    """The conditions of a folder, read again where `POLL_S` have passed. One a process."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._watches: dict[str, Watch] = {}
        self._read_at = 0.0

    def of(self, node: WatchableNode) -> list[Watch]:
        """The conditions on an operator."""
        now = time.monotonic()
        if now - self._read_at >= POLL_S:
            self._read_at = now
            self._read()
        return [watch for watch in self._watches.values() if watch.request.fits(node)]

    def _read(self) -> None:
        watches: dict[str, Watch] = {}
        try:
            for path in held_conditions(self.folder):
                watch = self._watches.get(path.stem) or _watch(path)
                if watch is not None:
                    watches[path.stem] = watch
        except OSError:
            # The folder goes with the job, or can't be seen from here.
            watches = {}
        self._watches = watches


def _watch(path: Path) -> Watch | None:
    try:
        request = read_request(path)
    except FileNotFoundError:
        return None
    if request is None:
        return None
    try:
        return Watch(path.stem, request, read_condition(request.condition))
    except RecordConditionError as problem:
        return Watch(path.stem, request, problem=str(problem)[:REASON_CHARS_MAX])


_conditions: Conditions | None = None


def conditions_of(folder: str) -> Conditions:
    """The conditions of a job, of which a worker process runs one at a time."""
    global _conditions  # noqa: PLW0603  one a process, as it is looked at by the clock
    if _conditions is None or str(_conditions.folder) != folder:
        _conditions = Conditions(folder)
    return _conditions


class Watchable:
    """``function``, whose records are tested by the conditions that count while they pass."""

    def __init__(self, function: PartitionFunction, node: WatchedNode) -> None:
        self.function = function
        self.node = node

    def __call__(self, split: int, iterator: Records) -> Records:
        records = self.function(split, iterator)
        segment = segments.current_segment()
        conditions = conditions_of(self.node.folder)
        # Records that rules leave out of lineage are watched, too.
        numbering = segment.numbering.unlimited or segment.numbering
        run = _Run(conditions, self.node, numbering, split)
        segment.on_end(run.close)
        if is_uncountable(records):
            run.cannot_watch("its function returned a collection of a type of its own")
            return records
        return wrap_like(records, chain.from_iterable(_portions(iter(records), run)))


def _portions(records: Iterator[Any], run: _Run) -> Iterator[Iterator[Any]]:
    """The records in portions, each of about `POLL_S`: those to be tested are, as they pass."""
    size, began = 1, time.monotonic()
    for first in records:
        portion = chain((first,), islice(records, size - 1))
        run.poll()
        yield run.tested(portion) if run.watches else portion
        now = time.monotonic()
        if now - began < POLL_S / 2:
            size = min(2 * size, PORTION_MAX)
        elif now - began > POLL_S:
            size = max(1, size // 2)
        began = now


class _Run:
    """What one run of a segment reports of an operator."""

    def __init__(
        self,
        conditions: Conditions,
        node: WatchedNode,
        numbering: Numbering,
        split: int,
    ) -> None:
        self._conditions = conditions
        self._node = node
        self._numbering = numbering
        self._split = split
        self._name = uuid.uuid4().hex
        self._hits: dict[str, Hits] = {}
        self.watches: list[tuple[Callable[[Any], Any], Hits]] = []

    def poll(self) -> None:
        """Take up the conditions that count now."""
        watches = self._conditions.of(self._node.facts)
        self.watches = [
            (watch.test, hits)
            for watch in watches
            for hits in [self._hits_of(watch)]
            if watch.test is not None
        ]

    def _hits_of(self, watch: Watch) -> Hits:
        hits = self._hits.get(watch.name)
        if hits is None:
            path = self._conditions.folder / HITS / watch.name / f"{self._name}.jsonl"
            facts = {
                "node": self._node.facts.node,
                "label": self._node.facts.label,
                "partition": self._split,
            }
            hits = self._hits[watch.name] = Hits(str(path), facts, watch.request.limit)
            if watch.problem:
                hits.write({"problem": watch.problem})
        return hits

    def cannot_watch(self, reason: str) -> None:
        """Say so to those who watch now."""
        for watch in self._conditions.of(self._node.facts):
            self._hits_of(watch).write({"problem": f"records can't be watched here: {reason}"})

    def tested(self, records: Iterator[Any]) -> Iterator[Any]:
        """Pass records on, and report those that fulfil a condition."""
        watches = self.watches
        for record in records:
            for test, hits in watches:
                try:
                    if test(record):
                        self._report(hits, record)
                except Exception as problem:
                    hits.fail(problem)
            yield record

    def _report(self, hits: Hits, record: Any) -> None:
        if hits.is_full:
            hits.beyond += 1
            return
        texts = self._node.texts
        hits.write(
            {
                "text": None if texts is None else texts(record),
                "made_from": made_from(self._numbering),
                "superset": self._numbering.opaque,
            }
        )
        hits.count += 1

    def close(self) -> None:
        """The end of the run: what was only counted is written."""
        for hits in self._hits.values():
            hits.close()


@dataclass(slots=True)
class Hits:
    """The file of what one run reports of a condition. Where it can't be written, a file without content says that reports are missing."""

    path: str
    facts: dict[str, Any]
    limit: int
    count: int = 0
    bytes: int = 0
    beyond: int = 0
    failed: int = 0
    _descriptor: int | None = field(default=None)
    _is_lost: bool = False

    @property
    def is_full(self) -> bool:
        """Whether further records are only counted."""
        return self.count >= self.limit or self.bytes >= HIT_BYTES_MAX

    def fail(self, problem: Exception) -> None:
        """The condition failed on a record."""
        self.failed += 1
        if self.failed == 1:
            # Its type alone: what it says may hold the record.
            self.write({"error": type(problem).__name__})

    def write(self, document: dict[str, Any]) -> None:
        """Write a line at once."""
        if self._is_lost:
            return
        line = json.dumps(self.facts | document).encode() + b"\n"
        try:
            if self._descriptor is None:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
                self._descriptor = private_opener(self.path, flags)
            self._is_lost = os.write(self._descriptor, line) < len(line)
        except OSError:
            self._is_lost = True
        if self._is_lost:
            # Without the folder nobody watches any more.
            with contextlib.suppress(OSError):
                Path(self.path).with_suffix(LOST).touch(mode=0o600)
        self.bytes += len(line)

    def close(self) -> None:
        """Write the counts, and close the file."""
        if self.beyond or self.failed:
            self.write({"beyond": self.beyond, "failed": self.failed})
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
