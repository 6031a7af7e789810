"""Jobs of Hadoop Streaming, captured while their mappers and reducers run as they are.

Records carry the lines that they were made from through the shuffle, and each task leaves a log of what went in and came out
beside its output (:mod:`lineage_emitter.sdk.mapreduce_task`). What Hadoop commits is what counts: of a task that is tried
again, only the attempt that it took leaves a log.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lineage_core.contract.message import SinkFile, SinkFiles, Split, Splits
from lineage_core.contract.runs import sorted_unique
from lineage_emitter.errors import CaptureFailedError, UnsupportedOperatorError
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.sdk.mapreduce_command import StreamingJob, captured
from lineage_emitter.sdk.mapreduce_task import version

if TYPE_CHECKING:
    from lineage_core.contract.block import I64
    from lineage_emitter.sdk.task_capture import TaskCapture

Event = tuple[bool, bytes, bytes]
"""Whether a record came out, the lines that it was made from, and its key. Of records that went in one behind the other with one
key the lines stand in one event, divided by commas."""
_AS_COMMAS = bytes.maketrans(b".#", b",,")
ATTEMPT_BITS = 16
RECORDS_PAIRED = 1 << 17
"""Records whose lineage is in memory at a time."""
MAP_REASON = "a mapper may use any line that its task read so far"
REDUCE_REASON = "a reducer may use any record that its task read so far"
NAMES_REASON = f"a line of a reducer begins with no key of its task: {REDUCE_REASON}"
END_BYTES_MAX = 1 << 16
"""Longest last line of a log."""


def run_streaming(
    api: LineageApi, command: Sequence[str], *, each_line: bool = False, named_keys: bool = False
) -> int:
    """Run a job of Hadoop Streaming, captured.

    Args:
        api: The application that reports the lineage.
        command: As people start the job: ``hadoop jar hadoop-streaming.jar -input ...``.
        each_line: Declares that each line of the mapper, a Python program that reads ``sys.stdin``, is made from the line
            that it read last.
        named_keys: Declares that each line of the reducer begins with the key of the records that it is made from.

    Returns:
        The exit code of the command. Where it is not 0, nothing is captured.

    Raises:
        UnsupportedOperatorError: an option by which records can't be followed.
    """
    job = captured(command, each_line=each_line, named_keys=named_keys)
    code = subprocess.run(job.command, check=False).returncode
    try:
        if code == 0:
            _Outputs(api, job, named_keys=named_keys).keep()
    except Exception as problem:
        api.problem("the logs of tasks", problem)
    return code if code >= 0 else 128 - code


class _Log:
    """What a task left: an event for each record that went in or came out, and how it ended."""

    def __init__(self, path: Path) -> None:
        self.path, self.partition = path, _number(path)
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - END_BYTES_MAX))
            end = json.loads(log.read().rpartition(b"\n")[2])
        self.rows, self.attempt = end["rows"], end["attempt"]
        self.split: dict[str, Any] | None = end["split"]
        self.is_changed: bool = end["is_changed"]
        self.is_of_output: bool = end["is_of_output"]

    def events(self) -> Iterator[Event]:
        """What went in and came out, in order."""
        with self.path.open("rb") as log:
            for line in log:
                if not line.startswith(b"{"):
                    kind, made_from, key = line[:-1].split(b"\t", 2)
                    yield kind == b"o", made_from, key


class _Outputs:
    """What a job wrote, and the logs that its tasks left beside it."""

    def __init__(self, api: LineageApi, job: StreamingJob, *, named_keys: bool) -> None:
        self.api, self.path, self.named_keys = api, job.output, named_keys
        self.folder = Path(re.sub("^file:/+", "/", job.output)).resolve()
        self.logs = [_Log(path) for path in sorted(self.folder.glob("_lineage-*"))]
        maps = [log for log in self.logs if log.split is not None]
        self.splits = {f"{log.partition}.{log.attempt}": log for log in maps}
        self.read = api.register("read", kind="source", alias="read", path=job.inputs)
        self.write = api.register("write", kind="sink", alias="write", path=job.output)
        api.flow_link(self.read, self.write)

    def keep(self) -> None:
        """Report the lineage, and remove the logs."""
        api, splits = self.api, []
        for log in self.splits.values():
            split = Split(partition=log.partition, compressed=False, **(log.split or {}))
            splits.append(split.model_copy(update={"compressed": is_compressed(split.path)}))
            if log.is_changed:
                api.unknown("read", f"{split.path} changed while it was read")
        api.send_files(Splits(app=api.app, node=self.read, splits=tuple(splits)))
        files = tuple(map(self._file, sorted(self.folder.glob("part-*"))))
        api.send_files(SinkFiles(app=api.app, node=self.write, path=self.path, files=files))
        for log in self.logs:
            log.path.unlink()

    def _file(self, part: Path) -> SinkFile:
        number, state = _number(part), version(str(part))
        with part.open("rb") as data:
            rows = sum(block.count(b"\n") for block in iter(lambda: data.read(1 << 20), b""))
        with self.api.task(self.write, number) as task:
            try:
                logs = [log for log in self.logs if log.is_of_output and log.partition == number]
                if [log.rows for log in logs] != [rows]:
                    raise CaptureFailedError(f"the task of {part} left no log of its {rows} lines")
                if rows:
                    self._pair(task, logs[0])
            except Exception as problem:
                task.end_capture(problem)
        size, mtime = state["file_size"], state["mtime"]
        return SinkFile(partition=number, path=f"file:{part}", size=size, mtime=mtime, rows=rows)

    def _pair(self, task: TaskCapture, log: _Log) -> None:
        keys, reasons = _Keys(), set[str]()
        for is_output, made_from, key in log.events():
            if b"~" in made_from:
                reasons.add(MAP_REASON)
            keys.add(key, is_output=is_output)
        is_map = log.split is not None
        is_named = self.named_keys and not is_map and keys.name_all_rows()
        if not is_map and not is_named:
            reasons.add(NAMES_REASON if self.named_keys else REDUCE_REASON)
        task.superset_reason = "; ".join(sorted(reasons))
        if is_map:
            self._pair_rows(task, log)
        elif is_named:
            self._pair_keys(task, log, keys)
        else:
            self._pair_in_order(task, log)

    def _pair_rows(self, task: TaskCapture, log: _Log) -> None:
        """Each row is made from the lines that its event names."""
        first = 0
        for events in _batches(log.events()):
            rows = range(first, first + len(events))
            self._add_inputs(task, [made_from for _, made_from, _ in events], rows)
            self._add_rows(task, log, rows, rows)
            first = rows.stop

    def _pair_keys(self, task: TaskCapture, log: _Log, keys: _Keys) -> None:
        """Each row is made from all records of its key, and is added behind the last of them."""
        inputs = (event for event in log.events() if not event[0] and event[2] in keys.rows)
        for events in _batches(inputs):
            names = [key for _, _, key in events]
            codes = [keys.codes[key] for key in names]
            self._add_inputs(task, [made_from for _, made_from, _ in events], codes)
            keys.inputs.subtract(names)
            rows = [
                (row, key) for key in set(names) if not keys.inputs[key] for row in keys.rows[key]
            ]
            self._add_rows(
                task, log, [row for row, _ in rows], [keys.codes[key] for _, key in rows]
            )

    def _pair_in_order(self, task: TaskCapture, log: _Log) -> None:
        """Each row is made from all records before it."""
        rows = count()
        for is_output, made_from, _ in log.events():
            if is_output:
                task.add_output(f"{self.write}#{log.partition}#{next(rows)}")
            else:
                self._add_inputs(task, [made_from])

    def _add_rows(
        self, task: TaskCapture, log: _Log, rows: Sequence[int], tags: Sequence[int]
    ) -> None:
        space = f"{self.write}#{log.partition}"
        task.add_outputs(
            space, np.array(rows, np.uint64), tags=np.array(tags, np.int64), reset=True
        )

    def _add_inputs(
        self, task: TaskCapture, made_from: Sequence[bytes], tags: Sequence[int] | None = None
    ) -> None:
        """Add lines of splits, as the attempts read them whose logs Hadoop committed: others may have read other versions.

        Raises:
            CaptureFailedError: a line is of another attempt.
        """
        counts = [lines.count(b",") + 1 if lines else 0 for lines in made_from]
        if not any(counts):
            return
        places = _places(b",".join(filter(None, made_from)), sum(counts))
        tag = None if tags is None else np.repeat(np.array(tags, np.int64), counts)
        attempt_of = places[:, 0] << ATTEMPT_BITS | places[:, 1]
        for attempt in sorted_unique(attempt_of).tolist():
            split, number = attempt >> ATTEMPT_BITS, attempt & (1 << ATTEMPT_BITS) - 1
            if f"{split}.{number}" not in self.splits:
                raise CaptureFailedError(f"attempt {split}.{number} at a map task left no log")
            chosen = attempt_of == attempt
            task.add_inputs(
                f"{self.read}#{split}",
                places[chosen, 2].astype(np.uint64),
                last=places[chosen, 3].astype(np.uint64),
                tags=None if tag is None else tag[chosen],
            )


class _Keys:
    """The keys of a task, with a number each, and what came in and out under them."""

    def __init__(self) -> None:
        self.codes: dict[bytes, int] = {}
        self.inputs = Counter[bytes]()
        self.rows: defaultdict[bytes, list[int]] = defaultdict(list)
        self._count = 0

    def add(self, key: bytes, *, is_output: bool) -> None:
        """Count an event."""
        self.codes.setdefault(key, len(self.codes))
        if is_output:
            self.rows[key].append(self._count)
            self._count += 1
        else:
            self.inputs[key] += 1

    def name_all_rows(self) -> bool:
        """Whether each row begins with the key of records of the task."""
        return self.rows.keys() <= self.inputs.keys()


def _batches(events: Iterator[Event]) -> Iterator[list[Event]]:
    """Events in lists of so many records that memory is bounded."""
    batch, records = list[Event](), 0
    for event in events:
        batch.append(event)
        records += 1 + event[1].count(b",")
        if records >= RECORDS_PAIRED:
            yield batch
            batch, records = [], 0
    if batch:
        yield batch


def _places(joined: bytes, count: int) -> I64:
    """Split, attempt, first and last line (int64[n, 4]) of places such as ``3.0#5`` and ``~3.0#0-9``, divided by commas.

    Raises:
        CaptureFailedError: they are no ``count`` places.
    """
    width = 3
    if b"-" in joined:
        runs = [place.partition(b"-") for place in joined.split(b",")]
        joined = b",".join([b"%s#%s" % (at, end or at.rpartition(b"#")[2]) for at, _, end in runs])
        width = 4
    numbers = np.zeros(0, np.int64)
    if not joined.translate(None, b"0123456789~.#,"):
        numbers = np.fromstring(joined.translate(_AS_COMMAS, b"~"), np.int64, sep=",")
    if len(numbers) != width * count or joined.count(b"#") != (width - 2) * count:
        raise CaptureFailedError(f"a log names no lines: {joined[:80]!r}")
    places = numbers.reshape(count, width)
    if int(places[:, 1].max()) >> ATTEMPT_BITS:
        raise CaptureFailedError(f"a log names attempt {int(places[:, 1].max())} at a task")
    return places if width == 4 else places[:, [0, 1, 2, 2]]


def _number(path: Path) -> int:
    """The partition in the name of a file: ``part-00003``."""
    return int(re.findall("[0-9]+", path.name)[0])


def main() -> None:
    """Run a command of Hadoop Streaming captured, as ``lineage mapreduce`` does; lineage goes where the environment says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--each-line", action="store_true")
    parser.add_argument("--named-keys", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    with LineageApi("mapreduce") as api:
        try:
            code = run_streaming(
                api, options.command, each_line=options.each_line, named_keys=options.named_keys
            )
        except UnsupportedOperatorError as problem:
            api.close("failed")
            sys.exit(f"lineage: {problem}")
        if code:
            api.close("failed")
    sys.exit(code)


if __name__ == "__main__":
    main()
