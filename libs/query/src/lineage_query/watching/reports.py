"""Records that tasks report of a condition, each once, however often its partition is computed.

A partition is computed again when a task fails, when it is speculated on, and for another action. Each run of it
reports what it sees in a file of its own. So of equal records of a partition there are as many as the run has that
reported most of them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.errors import AddressError
from lineage_query.rows.places import ValuedPlace
from lineage_query.watching.latency import TaskReads, TaskTime
from lineage_store.watch_folder import LINE_BYTES_MAX, has_lost, hit_files

READ_BYTES_MAX = 64 << 20
"""Of reports that a watch reads: runs of a partition again and again may report without end."""
LOST_RECORDS = "records are missing: a task could not write what it found"
Runs: TypeAlias = tuple[tuple[str, int, int], ...]
"""Items (space, first, last) that a record was made from."""
_Key: TypeAlias = tuple[str, int, str | None, Runs, str]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a record was made from, as one run of its partition says."""

    made_from: Runs
    superset: bool


@dataclass(frozen=True, slots=True)
class Report:
    """A record. ``place``: among the equal ones of its partition.

    ``seconds``: how long its function had taken with it when it was reported; None: it was not timed. ``may_buffer``: that may have been
    for records that the function got before. ``task``: of the slowest of a task, the number of that.
    ``row``: of a row of a DataFrame, how a trace names it once its action has returned; empty: it can't, ``unnamed`` says why where that is
    not that no values are kept. None: it is a record of an RDD.
    """

    number: int
    label: str
    partition: int
    text: str | None
    key: _Key
    place: int
    seconds: float | None = None
    may_buffer: bool = False
    task: int | None = None
    row: str | None = None
    unnamed: str = ""

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        document: dict[str, Any] = {
            "record": self.number,
            "operator": self.label,
            "partition": self.partition,
            "text": self.text,
        }
        if self.seconds is not None:
            document |= {"seconds": self.seconds, "may_buffer": self.may_buffer}
        if self.task is not None:
            document["task"] = self.task
        return document


@dataclass
class _File:
    offset: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    task: int | None = None


class Reports:
    """What is read of a condition's folder, bit by bit."""

    def __init__(self, folder: Path) -> None:
        self.reports: list[Report] = []
        self.tasks: list[TaskTime] = []
        self.reads: dict[tuple[str, int], TaskReads] = {}
        """Of tasks, by node and partition."""
        self._folder = folder
        self._files: dict[str, _File] = defaultdict(_File)
        self._found: dict[_Key, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
        self._notes: set[str] = set()
        self.sees_all = True
        """Whether no task has said that it can't see or report records, and all that they reported was read."""
        self._bytes = 0

    def read(self) -> Iterator[Report | TaskTime | TaskReads | str]:
        """Records that are new, and what else tasks say for the first time."""
        for path in hit_files(self._folder):
            for document in self._documents(path):
                # The tasks run code of the user: what they wrote may be anything.
                with suppress(KeyError, TypeError, ValueError, AddressError):
                    found = self._handle(path.name, document)
                    if found is not None:
                        yield found
        if has_lost(self._folder):
            self.sees_all = False
            if (note := self._note(LOST_RECORDS)) is not None:
                yield note

    @property
    def is_full(self) -> bool:
        """Whether reports are not read any more: there were too many bytes of them."""
        return self._bytes >= READ_BYTES_MAX

    def _documents(self, path: Path) -> Iterator[dict[str, Any]]:
        file = self._files[path.name]
        with suppress(FileNotFoundError), open(path, "rb") as stream:
            stream.seek(file.offset)
            while (line := stream.readline(LINE_BYTES_MAX)).endswith(b"\n"):
                if self.is_full:
                    self.sees_all = False
                    return
                file.offset += len(line)
                self._bytes += len(line)
                with suppress(ValueError, RecursionError):
                    document = json.loads(line)
                    if isinstance(document, dict):
                        yield document

    def _handle(
        self, file: str, document: dict[str, Any]
    ) -> Report | TaskTime | TaskReads | str | None:
        label = str(document["label"])
        if "reads" in document:
            return self._add_reads(label, document)
        if "is_whole" in document:
            return self._add_task(file, label, document)
        if "beyond" in document:
            names = ("beyond", "failed", "tested")
            self._files[file].counts = {name: int(document[name]) for name in names}
            return None
        if "problem" in document:
            self.sees_all = False
            return self._note(f"{label}: {document['problem']}")
        if "error" in document:
            return self._note(f"{label}: the condition failed on records ({document['error']})")
        runs = tuple((str(space), int(a), int(b)) for space, a, b in document["made_from"])
        text, partition = document["text"], int(document["partition"])
        text = None if text is None else str(text)
        # Rows of sources have the same names in each run; of equal records behind a shuffle the next run may have others.
        stable = runs if all(_is_stable(space) for space, _, _ in runs) else ()
        # The slowest records of a task are those of that run.
        task = self._files[file].task
        # Rows that are shown alike, or not at all, may be told apart by their values.
        row = _row(document)
        stable = stable if row is None else (*stable, (row, 0, 0))
        key = (str(document["node"]), partition, text, stable, "" if task is None else file)
        of_key = self._found[key]
        most = max(map(len, of_key.values()), default=0)
        of_key[file].append(Candidate(runs, bool(document["superset"])))
        if len(of_key[file]) <= most:
            return None
        seconds = _seconds(document["seconds"]) if "seconds" in document else None
        may_buffer = bool(document.get("may_buffer", False))
        number = len(self.reports) + 1
        unnamed = str(document.get("unnamed", ""))
        timed = (seconds, may_buffer, task)
        report = Report(number, label, partition, text, key, most, *timed, row, unnamed)
        self.reports.append(report)
        return report

    def _add_task(self, file: str, label: str, document: dict[str, Any]) -> TaskTime:
        number = len(self.tasks) + 1
        node, partition = str(document["node"]), int(document["partition"])
        records, seconds = int(document["records"]), _seconds(document["seconds"])
        is_whole = document["is_whole"] is True
        time = TaskTime(number, node, label, partition, records, seconds, is_whole)
        self.tasks.append(time)
        self._files[file].task = number
        return time

    def _add_reads(self, label: str, document: dict[str, Any]) -> TaskReads:
        node, partition = str(document["node"]), int(document["partition"])
        found = TaskReads(node, label, partition, tuple(map(str, document["reads"])))
        self.reads[node, partition] = found
        return found

    def _note(self, text: str) -> str | None:
        if text in self._notes:
            return None
        self._notes.add(text)
        return text

    def candidates(self, report: Report) -> list[Candidate]:
        """What the record was made from by each run that has it, those that have most of the equal ones first."""
        of_key = self._found[report.key].values()
        runs = sorted((run for run in of_key if len(run) > report.place), key=len, reverse=True)
        return [run[report.place] for run in runs]

    @property
    def count(self) -> int:
        """Of the records that were found, those that tasks only counted among them; equal ones of several runs may count there again."""
        return len(self.reports) + self._sum("beyond")

    @property
    def tested(self) -> int:
        """How often tasks that have ended tested a record, of a condition that all must fulfil."""
        return self._sum("tested")

    def _sum(self, name: str) -> int:
        return sum(file.counts.get(name, 0) for file in self._files.values())

    def summary(self) -> Iterator[str]:
        """What was counted only."""
        for name, what in (
            ("beyond", "records more were found in tasks that reported as many as a task may"),
            ("failed", "times the condition failed on a record, which does not count as fulfilled"),
        ):
            if count := self._sum(name):
                yield f"{count:,} {what}"


def _seconds(value: Any) -> float:
    """Raises ValueError: it is no time."""
    seconds = float(value)
    if not math.isfinite(seconds):
        raise ValueError(f"{value!r} is no time")
    return seconds


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _row(document: dict[str, Any]) -> str | None:
    """How a trace names the rows of a report; empty: it does not; None: they are no rows of a DataFrame."""
    if "values" in document:
        values = [(str(name), _text(value)) for name, value in document["values"]]
        return str(ValuedPlace(str(document["node"]), tuple(values))) if values else ""
    if "row" not in document:
        return None
    return f"{document['node']}#{document['row']}" if document["row"] else ""


def _is_stable(space: str) -> bool:
    name = parse_space(space)
    return name.kind is SpaceKind.PARTITION and name.incarnation is None
