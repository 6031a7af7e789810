"""Jobs of Hadoop Streaming, captured while their mappers and reducers run as they are.

Each task leaves a log of what went in and came out beside its output (:mod:`lineage_emitter.sdk.mapreduce_task`). What Hadoop
commits is what counts: of a task that is tried again, only the attempt that it took leaves a log.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.contract.message import SinkFile, SinkFiles, Split, Splits
from lineage_core.contract.runs import sorted_unique
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.sdk.line_files import file_written
from lineage_emitter.sdk.mapreduce_command import StreamingJob, captured
from lineage_emitter.sdk.mapreduce_logs import TaskLog, lines_of, partition_of
from lineage_emitter.sdk.mapreduce_shuffle import JoinedRecords, Reducer, Shuffle
from lineage_emitter.sdk.mapreduce_task import version
from lineage_emitter.sdk.pairing import Spaces

if TYPE_CHECKING:
    from lineage_core.contract.block import I64
    from lineage_emitter.sdk.task_capture import TaskCapture

Run = Callable[[Sequence[str]], int]
MAP_REASON = "a mapper may use any line that its task read so far"
REDUCE_REASON = "a reducer may use any record that its task read so far"
NAMES_REASON = f"a line of a reducer begins with no key of its task: {REDUCE_REASON}"
ORDER_REASON = "the records of a key did not stand together, by an order of the job's own: a line may be made of some of them"
LEFT_REASON = "a reducer ended before it was given all records of a key"


def run_job(command: Sequence[str], run: Run, *, each_line: bool, named_keys: bool) -> int:
    """Run a job of Hadoop Streaming, captured as an application of its own, whose lineage goes where the environment says.

    Args:
        command: as people start the job.
        run: runs a command, and gives its exit code, negative for a signal.
        each_line: as of :func:`run_streaming`.
        named_keys: as there.

    Returns:
        The exit code of the command.

    Raises:
        UnsupportedOperatorError: an option by which records can't be followed.
    """
    with LineageApi("mapreduce") as api:
        code = run_streaming(api, command, run, each_line=each_line, named_keys=named_keys)
        if code:
            api.close("failed")
    return code


def _run(command: Sequence[str]) -> int:
    return subprocess.run(command, check=False).returncode


def run_streaming(
    api: LineageApi,
    command: Sequence[str],
    run: Run = _run,
    *,
    each_line: bool = False,
    named_keys: bool = False,
) -> int:
    """Run a job of Hadoop Streaming, captured.

    Args:
        api: The application that reports the lineage.
        command: As people start the job: ``hadoop jar hadoop-streaming.jar -input ...``.
        run: Runs a command, and gives its exit code, negative for a signal.
        each_line: Declares that each line of the mapper, a Python program that reads ``sys.stdin``, is made from the line
            that it read last.
        named_keys: Declares that each line of the reducer begins with the key of the records that it is made from.

    Returns:
        The exit code of the command. Where it is not 0, nothing is captured.

    Raises:
        UnsupportedOperatorError: an option by which records can't be followed.
    """
    job = captured(command, each_line=each_line, named_keys=named_keys)
    code = run(job.command)
    try:
        if code == 0:
            _Outputs(api, job, named_keys=named_keys).keep()
    except Exception as problem:
        api.problem("the logs of tasks", problem)
    return code if code >= 0 else 128 - code


class _Outputs:
    """What a job wrote, and the logs that its tasks left beside it."""

    def __init__(self, api: LineageApi, job: StreamingJob, *, named_keys: bool) -> None:
        self.api, self.path, self.named_keys = api, job.output, named_keys
        self.folder = Path(re.sub("^file:/+", "/", job.output)).resolve()
        self.logs = [TaskLog(path) for path in sorted(self.folder.glob("_lineage-*"))]
        self.maps = {log.attempt: log for log in self.logs if log.split is not None}
        self.read = api.register("read", kind="source", alias="read", path=job.inputs)
        self.write = api.register("write", kind="sink", alias="write", path=job.output)
        api.flow_link(self.read, self.write)

    def keep(self) -> None:
        """Report the lineage, and remove the logs."""
        api, splits = self.api, []
        for log in self.maps.values():
            split = Split(partition=log.partition, compressed=False, **(log.split or {}))
            splits.append(split.model_copy(update={"compressed": is_compressed(split.path)}))
            if log.is_changed:
                api.unknown("read", f"{split.path} changed while it was read")
        api.send_files(Splits(app=api.app, node=self.read, splits=tuple(splits)))
        with Shuffle(self.maps, [log for log in self.logs if log.split is None]) as shuffle:
            parts = sorted(self.folder.glob("part-*"))
            files = tuple(self._file(part, shuffle) for part in parts)
        api.send_files(SinkFiles(app=api.app, node=self.write, path=self.path, files=files))
        for log in self.logs:
            log.path.unlink()

    def _file(self, part: Path, shuffle: Shuffle) -> SinkFile:
        number, state = partition_of(part), version(str(part))
        with part.open("rb") as data:
            rows = sum(block.count(b"\n") for block in iter(lambda: data.read(1 << 20), b""))
        with self.api.task(self.write, number) as task:
            try:
                logs = [log for log in self.logs if log.is_of_output and log.partition == number]
                if [log.rows for log in logs] != [rows]:
                    raise CaptureFailedError(f"the task of {part} left no log of its {rows} lines")
                if rows and logs[0].split is not None:
                    self._pair_rows(task, logs[0])
                elif rows:
                    self._pair_reducer(task, shuffle.reducer(logs[0]))
            except Exception as problem:
                task.end_capture(problem)
        return file_written(number, str(part), state, rows)

    def _pair_rows(self, task: TaskCapture, log: TaskLog) -> None:
        """Each row is what a mapper wrote."""
        task.superset_reason = MAP_REASON if log.is_superset else ""
        begin = 0
        for made_from, *_ in log.records():
            rows, inputs = np.arange(begin, begin + len(made_from)), np.flatnonzero(made_from)
            split = np.full(len(inputs), log.partition)
            self._add_inputs(task, JoinedRecords(rows[inputs], split, made_from[inputs]))
            self._add_rows(task, log, rows, rows)
            begin += len(rows)

    def _pair_reducer(self, task: TaskCapture, reducer: Reducer) -> None:
        keys, reasons = reducer.keys, set[str]()
        is_named = self.named_keys and bool((keys.rows >= 0).all())
        if not is_named:
            reasons.add(NAMES_REASON if self.named_keys else REDUCE_REASON)
        elif bool((reducer.logged > keys.given)[keys.rows].any()):
            reasons.add(LEFT_REASON)
        elif not reducer.log.is_sorted:
            reasons.add(ORDER_REASON)
        if reducer.is_superset:
            reasons.add(MAP_REASON)
        task.superset_reason = "; ".join(sorted(reasons))
        if is_named:
            self._pair_keys(task, reducer)
        else:
            self._pair_in_order(task, reducer)

    def _pair_keys(self, task: TaskCapture, reducer: Reducer) -> None:
        """Each row is made from all records of its key."""
        rows = np.argsort(reducer.keys.rows, kind="stable")
        codes = reducer.keys.rows[rows]
        has_row = np.zeros(len(reducer.logged), np.bool_)
        has_row[codes] = True
        for records, *bounds in reducer.joined():
            self._add_inputs(task, records.take(np.flatnonzero(has_row[records.code])))
            low, high = np.searchsorted(codes, bounds)
            self._add_rows(task, reducer.log, rows[low:high], codes[low:high])

    def _pair_in_order(self, task: TaskCapture, reducer: Reducer) -> None:
        """Each row is made from all records of the keys before it."""
        before, row = reducer.keys.before, 0
        for records, _, high in reducer.joined():
            at, stop = 0, int(np.searchsorted(before, high, side="right"))
            for keys in np.unique(before[row:stop]).tolist():
                end = int(np.searchsorted(records.code, keys))
                self._add_inputs(task, records.take(slice(at, end)), has_tags=False)
                rows = np.arange(row, int(np.searchsorted(before, keys, side="right")))
                self._add_rows(task, reducer.log, rows, None)
                at, row = end, row + len(rows)
            self._add_inputs(task, records.take(slice(at, None)), has_tags=False)

    def _add_rows(self, task: TaskCapture, log: TaskLog, rows: I64, tags: I64 | None) -> None:
        space = f"{self.write}#{log.partition}"
        tag = np.zeros(len(rows), np.int64) if tags is None else tags
        task.add_outputs(space, rows.astype(np.uint64), tags=tag, reset=tags is not None)

    def _add_inputs(
        self, task: TaskCapture, records: JoinedRecords, *, has_tags: bool = True
    ) -> None:
        """Add lines of splits, by the keys of the records that were made from them."""
        first, last = lines_of(records.made_from)
        splits = sorted_unique(records.split)
        index = np.searchsorted(splits, records.split)
        names = tuple(f"{self.read}#{split}" for split in splits.tolist())
        if names:
            task.add_inputs(
                Spaces(names, index),
                first.astype(np.uint64),
                last=last.astype(np.uint64),
                tags=records.code if has_tags else np.zeros(len(index), np.int64),
            )
