"""What stands between Hadoop and a mapper or reducer of Hadoop Streaming, in each task.

Tasks run it as a file, by any Python: it loads the standard library alone. A record that a mapper writes carries the lines it
was made from through the shuffle, in front of its value: keys stay as they are, and so do partitions, order and groups. What
went in and came out is a file beside the task's output, which Hadoop commits, or drops, together with it.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

CHUNK_BYTES = 1 << 16
RECORD_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""Where Hadoop ends the records that a program writes. A CR at the end may be half of a line end."""
AT_END = -1
"""Stands for the number of lines read when there are no more: a program may keep lines, and write behind the last one."""
RESTORED = {
    "stream_map_output_field_separator": "lineage_map_separator",
    "stream_num_map_output_key_fields": "lineage_map_fields",
    "stream_reduce_input_field_separator": "lineage_reduce_separator",
}
"""Settings that capture takes for itself, and where the job's own are, as variables of a task."""

REFUSED = {
    "textinputformat_record_delimiter": "",
    "mapreduce_job_combine_class": "",
    "stream_combine_streamprocessor": "",
    "mapreduce_output_fileoutputformat_compress": "false",
}
"""Settings that change what a record or a file is, as variables of a task, with what they may be. Commands with them are refused;
files of the site are seen here alone."""


def local(uri: str) -> str:
    """The path of a file of this machine, as Hadoop names it.

    Raises:
        SystemExit: it is of another file system.
    """
    if not uri.startswith("file:/"):
        raise SystemExit(f"lineage: {uri} is not a file of the local file system")
    return "/" + uri.removeprefix("file:").lstrip("/")


def version(path: str) -> dict[str, Any]:
    """The state of a file, with Hadoop's milliseconds."""
    state = os.stat(path)
    return {"file_size": state.st_size, "mtime": state.st_mtime_ns // 1_000_000 / 1000}


class Task:
    """One attempt at a task: lines go to the program, and its output to Hadoop."""

    def __init__(self, source: BinaryIO, sink: BinaryIO) -> None:
        env = os.environ
        self.source, self.sink = source, sink
        for name, allowed in REFUSED.items():
            if env.get(name, allowed) != allowed:
                raise SystemExit(f"lineage: {name.replace('_', '.')}={env[name]} can't be followed")
        self.is_map = env["mapreduce_task_ismap"] == "true"
        self.mark = env.get("lineage_mark", "").encode()
        if (not self.mark) != (env["mapreduce_job_reduces"] == "0"):
            raise SystemExit(
                "lineage: Hadoop's settings and the command differ: are there reducers?"
            )
        self.partition = int(env["mapreduce_task_partition"])
        self.attempt = env["mapreduce_task_attempt_id"].rpartition("_")[2]
        self.split: dict[str, Any] | None = None
        self.is_observed = self.is_exhausted = False
        self.process = os.getpid()
        self.read = self.rows = self.first_line = self.last_line = 0
        self.rest = b""
        self.write_pending: Callable[[], None] = lambda: None
        """Has what the program wrote so far arrive here: it may be kept between two lines, but not beyond the next one."""
        if self.mark:
            for name, kept in RESTORED.items():
                env[name] = env.get(kept, "")
                if not env[name]:
                    del env[name]
        separator, fields, given = (env.get(name) for name in RESTORED)
        self.separator = os.fsencode(separator or "\t")
        self.fields = max(1, int(fields or 1))
        self.given = os.fsencode(given or "\t")
        folder = local(env["mapreduce_task_output_dir"])
        os.makedirs(folder, exist_ok=True)
        name = f"_lineage-{'m' if self.is_map else 'r'}-{self.partition:05}"
        self.log = open(os.path.join(folder, name), "wb")  # noqa: SIM115 (it is open until the task ends)
        if self.is_map:
            self.path = local(env["mapreduce_map_input_file"])
            start, length = env["mapreduce_map_input_start"], env["mapreduce_map_input_length"]
            self.version = version(self.path)
            place = {"path": f"file:{self.path}", "start": int(start), "length": int(length)}
            self.split = place | self.version

    def lines(self) -> Iterator[bytes]:
        """Lines for a mapper; each counts before the program can have it."""
        for record in self.source:
            self.read += 1
            yield record
        self.is_exhausted = True

    def chunks(self) -> Iterator[bytes]:
        """What a program is given that is not observed: whole records, which count before the program can have them."""
        rest = b""
        while data := self.source.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
            *records, rest = (rest + data).split(b"\n")
            if records:
                yield self.given_records(records)
        if rest:
            yield self.given_records([rest])
        self.is_exhausted = True

    def given_records(self, records: list[bytes]) -> bytes:
        """Records as the program gets them."""
        self.read += len(records)
        if self.is_map:
            return b"\n".join(records) + b"\n"
        given, last = list[bytes](), None
        log, group = list[tuple[list[bytes], bytes]](), list[bytes]()
        for record in records:
            key, _, rest = record.partition(self.mark)
            lines, _, value = rest.partition(b"\t")
            if key != last:
                group = []
                log.append((group, key))
                last = key
            group.append(lines)
            given.append(key + self.given + value)
        self.log.write(b"".join([b"i\t%s\t%s\n" % (b",".join(group), key) for group, key in log]))
        return b"\n".join(given) + b"\n"

    def write(self, data: bytes) -> None:
        """Take what the program writes.

        Raises:
            SystemExit: it holds the mark of capture, which nothing but chance can bring about.
        """
        now = AT_END if self.is_exhausted else self.read
        if not self.rest:
            self.first_line = now
        if not self.rest.endswith(b"\r"):
            self.last_line = now
        data = self.rest + data
        if self.mark and self.is_map and self.mark in data:
            raise SystemExit("lineage: a record holds the mark of capture: run the job again")
        *records, self.rest = RECORD_END.split(data) if b"\r" in data else data.split(b"\n")
        if records:
            if self.first_line != now or self.last_line != now:
                self.write_records([records.pop(0)])
                self.first_line = self.last_line = now
            self.write_records(records)

    def write_records(self, records: list[bytes]) -> None:
        """Records for Hadoop that were made from the same lines."""
        if not records:
            return
        self.rows += len(records)
        if not self.is_map:
            keys = [self.key_and_value(record)[0] for record in records]
            self.log.write(b"".join([b"o\t\t%s\n" % key for key in keys]))
        elif not self.mark:
            self.log.write(b"o\t%s\t\n" % self.made_from() * len(records))
        else:
            lines = b"%s%s\t" % (self.mark, self.made_from())
            if self.fields == 1:
                separator = self.separator
                records = [
                    record.replace(separator, lines, 1) if separator in record else record + lines
                    for record in records
                ]
            else:
                pairs = map(self.key_and_value, records)
                records = [b"%s%s%s" % (key, lines, value) for key, value in pairs]
        self.sink.write(b"\n".join(records) + b"\n")

    def key_and_value(self, record: bytes) -> tuple[bytes, bytes]:
        """The key and the value of a record, as Hadoop would divide it."""
        if self.fields == 1:
            return record.partition(self.separator)[::2]
        parts = record.split(self.separator, self.fields)
        if len(parts) <= self.fields:
            return record, b""
        return self.separator.join(parts[: self.fields]), parts[self.fields]

    def made_from(self) -> bytes:
        """The lines that the record was made from: ``SPLIT.ATTEMPT#FIRST-LAST``, behind ``~`` where they may be too many."""
        place = f"{self.partition}.{self.attempt}".encode()
        if self.is_observed and self.first_line == self.last_line > 0:
            return b"%s#%d" % (place, self.last_line - 1)
        if self.read == 0 or (self.is_observed and self.first_line == self.last_line == 0):
            return b""
        last = self.read - 1
        return b"~%s#%s" % (place, b"0-%d" % last if last else b"0")

    def close(self) -> None:
        """The program has ended: nothing of the task is missing now. Where it failed, Hadoop drops what is here."""
        if self.rest:
            self.write_records([self.rest.removesuffix(b"\r")])
        # What a reducer writes that is given nothing, Hadoop drops.
        end: dict[str, Any] = {"rows": self.rows if self.is_map or self.read else 0}
        end |= {"attempt": self.attempt, "split": self.split}
        end["is_changed"] = self.split is not None and version(self.path) != self.version
        end["is_of_output"] = not self.is_map or not self.mark
        self.log.write(json.dumps(end).encode())
        self.log.close()
        self.sink.flush()


def run(task: Task, command: list[str]) -> int:
    """Run a program; nobody sees when it reads, so what it writes may be made from all it was given so far."""
    with suppress(OSError):  # as Hadoop does with programs that a job brings along
        os.chmod(command[0], os.stat(command[0]).st_mode | 0o111)
    found = shutil.which(command[0], path=os.pathsep.join((os.getcwd(), os.environ["PATH"])))
    words, pipe = [found or command[0], *command[1:]], subprocess.PIPE
    with (
        ThreadPoolExecutor(1) as pool,
        subprocess.Popen(words, stdin=pipe, stdout=pipe) as program,
    ):
        assert program.stdin is not None
        assert program.stdout is not None
        feeding = pool.submit(_feed, task, program.stdin)
        while data := program.stdout.read1(CHUNK_BYTES):  # type: ignore[attr-defined]
            task.write(data)
        feeding.result()
    task.close()
    code = program.returncode
    return code if code >= 0 else 128 - code


def _feed(task: Task, stdin: Any) -> None:
    try:
        for chunk in task.chunks():
            stdin.write(chunk)
        stdin.close()
    except BrokenPipeError:
        # The program has read enough.
        with suppress(BrokenPipeError):
            stdin.close()


class _Stream(io.BufferedIOBase):
    """A standard stream of a program that is observed. Who wraps it may read ahead or write later: it is observed no more."""

    def __init__(self, task: Task, name: str) -> None:
        self.task, self.name = task, name
        self.is_ready = False

    def seekable(self) -> bool:
        self.wrapped()
        return False

    def check_process(self) -> None:
        """Refuse other processes, whose reads and writes are not seen here.

        Raises:
            OSError: the program has forked this one.
        """
        if os.getpid() != self.task.process:
            raise OSError(f"lineage: {self.name} of a program that is observed is used by a fork")

    def wrapped(self) -> bool:
        """Note that something is put around the stream."""
        self.task.is_observed &= not self.is_ready
        return True


class _Read(_Stream):
    """Standard input: a read that goes beyond a line can't be told from one that reads ahead."""

    def __init__(self, task: Task) -> None:
        super().__init__(task, "<stdin>")
        self.lines, self.line = task.lines(), b""

    def readable(self) -> bool:
        return self.wrapped()

    def read1(self, size: int = -1) -> bytes:
        self.check_process()
        if not self.line:
            self.task.write_pending()
            self.line = next(self.lines, b"")
        size = len(self.line) if size < 0 else size
        part, self.line = self.line[:size], self.line[size:]
        return part

    def readline(self, size: int | None = -1) -> bytes:
        return self.read1(-1 if size is None else size)

    def read(self, size: int | None = -1) -> bytes:
        wanted = sys.maxsize if size is None or size < 0 else size
        found = self.read1(wanted)
        while len(found) < wanted and (more := self.read1(wanted - len(found))):
            self.task.is_observed = False
            found += more
        return found


class _Written(_Stream):
    """Standard output: what a program writes arrives before it reads the next line."""

    def writable(self) -> bool:
        return self.wrapped()

    def write(self, data: Any) -> int:
        self.check_process()
        written = bytes(data)
        self.task.write(written)
        return len(written)


class _Text(io.TextIOWrapper):
    """A standard stream as text; what is written goes out before the next line is read, whatever of it is changed."""

    buffer: _Stream

    def reconfigure(self, **options: Any) -> None:
        self.buffer.is_ready = False
        super().reconfigure(**options)
        self.buffer.is_ready = True

    def write_pending(self) -> None:
        """Have what was written arrive, where the stream is still the program's."""
        try:
            is_usable = not self.closed
        except ValueError:  # it was taken apart
            is_usable = False
        if is_usable:
            self.flush()

    def read(self, size: int | None = -1) -> str:
        self.buffer.wrapped()
        return super().read(size)

    def readlines(self, hint: int = -1) -> list[str]:  # type: ignore[override]
        self.buffer.wrapped()
        return super().readlines(hint)


def _silence(task: Task) -> None:
    """In a process that a program forks, the files of the task are not its own."""
    for file in (task.sink, task.log):
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())


def observe(task: Task, command: list[str]) -> None:
    """Run a Python program in this process: a line that it writes is made from the line that it read last."""
    task.is_observed = True
    os.register_at_fork(after_in_child=partial(_silence, task))
    atexit.register(_close, task)  # before the program's own: it runs behind them
    # Who goes past sys.stdin and sys.stdout must not go unseen: it fails.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 1)
    read, written = _Read(task), _Written(task, "<stdout>")
    encoding, errors = sys.stdin.encoding, sys.stdin.errors
    sys.stdin = _Text(read, encoding, errors, newline="\n")
    encoding, errors = sys.stdout.encoding, sys.stdout.errors
    sys.stdout = text = _Text(written, encoding, errors, newline="\n")
    task.write_pending = text.write_pending
    os.register_at_fork(before=task.write_pending)
    read.is_ready = written.is_ready = True
    sys.argv = command
    sys.path[0] = os.path.dirname(os.path.realpath(command[0]))
    runpy.run_path(command[0], run_name="__main__")


def _close(task: Task) -> None:
    try:
        task.write_pending()
        task.close()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def main() -> None:
    """``--each-line PROGRAM ARGUMENTS`` observes a Python program, ``--as-is COMMAND`` runs any."""
    mode, *command = sys.argv[1:]
    task = Task(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    if mode == "--each-line":
        observe(task, command)
    else:
        raise SystemExit(run(task, command))


if __name__ == "__main__":
    main()
