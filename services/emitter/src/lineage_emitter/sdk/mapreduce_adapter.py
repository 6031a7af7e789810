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
from typing import Any

from lineage_core.contract.message import SinkFile, SinkFiles, Split, Splits
from lineage_emitter.errors import CaptureFailedError, UnsupportedOperatorError
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.files import is_compressed
from lineage_emitter.sdk.mapreduce_command import StreamingJob, captured
from lineage_emitter.sdk.mapreduce_task import version
from lineage_emitter.sdk.task_capture import TaskCapture

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

    def events(self) -> Iterator[tuple[bool, bytes, bytes]]:
        """Of each record whether it came out, the lines that it was made from, and its key."""
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
        api.send(Splits(app=api.app, node=self.read, splits=tuple(splits)))
        files = tuple(map(self._file, sorted(self.folder.glob("part-*"))))
        api.send(SinkFiles(app=api.app, node=self.write, path=self.path, files=files))
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
        is_map, space = log.split is not None, f"{self.write}#{log.partition}"
        waiting, rows, reasons = Counter[bytes](), defaultdict[bytes, list[int]](list), set[str]()
        numbers = count()
        for is_output, made_from, key in log.events():
            if made_from.startswith(b"~"):
                reasons.add(MAP_REASON)
            if is_output:
                rows[key].append(next(numbers))
            else:
                waiting[key] += 1
        is_named = self.named_keys and not is_map and rows.keys() <= waiting.keys()
        if not is_map and not is_named:
            reasons.add(NAMES_REASON if self.named_keys else REDUCE_REASON)
        task.superset_reason = "; ".join(sorted(reasons))
        numbers = count()
        for is_output, made_from, key in log.events():
            if made_from and (key in rows or not is_named):
                task.add_input(self._address(made_from), key if is_named else b"")
            if not is_named and is_output:
                task.add_output(f"{space}#{next(numbers)}", b"", reset=is_map)
            elif not is_output:
                waiting[key] -= 1
                if is_named and not waiting[key]:
                    for row in rows.get(key, ()):
                        task.add_output(f"{space}#{row}", key, reset=row == rows[key][-1])

    def _address(self, made_from: bytes) -> str:
        """Of lines of a split, as the attempt read it whose log Hadoop committed: another may have read another version."""
        attempt, _, positions = made_from.decode().removeprefix("~").partition("#")
        if attempt not in self.splits:
            raise CaptureFailedError(f"attempt {attempt} at a map task left no log")
        return f"{self.read}#{attempt.partition('.')[0]}#{positions}"


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
