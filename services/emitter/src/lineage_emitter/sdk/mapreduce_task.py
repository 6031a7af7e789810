"""What stands between Hadoop and a mapper or reducer of Hadoop Streaming, in each task.

Tasks run it as a file, by any Python: it loads the standard library alone. A record that a mapper writes carries the attempt that
wrote it through the shuffle, in front of its value: keys stay as they are, and so do partitions, order and groups. What
went in and came out is a file beside the task's output, which Hadoop commits, or drops, together with it: of a mapper the lines
that each record was made from, and its key; of a reducer the keys that it was given and wrote. So records and lines meet by key.
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
from codecs import lookup
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, BinaryIO

CHUNK_BYTES = 1 << 16
BOUND_BYTES = 6
ALL_BYTES = bytes(range(256))
MARK_FOUND = "lineage: a record holds the mark of capture: run the job again"
RECORD_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""Where Hadoop ends the records that a program writes. A CR at the end may be half of a line end."""
ENCODINGS = {"ascii", "iso8859-1", "utf-8"}
"""Encodings in which a line of bytes is a line of text, whatever stands before it."""
LINE, LINES, NO_LINE = b"l", b"~", b"-"
"""What a mapper's records were made from: the line named; perhaps all lines up to it; nothing."""
GIVEN, WRITTEN = b"i", b"o"
"""What a reducer's log counts."""
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
        self.carried = b"%s%d.%s\t" % (self.mark, self.partition, self.attempt.encode())
        """What a record carries to the reducer, in the place of its separator."""
        self.given_by = Counter[str]()
        """How many records a reducer was given of each attempt at a map task."""
        self.last_key = b""
        self.is_sorted = True
        """Whether keys were given in the order of their bytes, as Hadoop sorts them: so the records of each stood together."""
        self.is_superset = False
        self.split: dict[str, Any] | None = None
        self.is_observed = self.is_exhausted = self.has_bounds = False
        self.bound = os.urandom(BOUND_BYTES).hex()
        """Stands in what the program writes wherever it has read a line, while ``has_bounds``: so many lines arrive at once."""
        self.process = os.getpid()
        self.read = self.bounds = self.rows = self.first_line = self.last_line = 0
        self.upto = 0
        """How many lines the program had read when it wrote what is looked at."""
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
        self.others = ALL_BYTES.translate(None, self.separator + b"\n")
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
            records, end, rest = (rest + data).rpartition(b"\n")
            if end:
                yield self.given_records(records + end)
        if rest:
            yield self.given_records(rest + b"\n")
        self.is_exhausted = True

    def given_records(self, data: bytes) -> bytes:
        """Records as the program gets them.

        Raises:
            SystemExit: they are not as a mapper wrote them.
        """
        count = data.count(b"\n")
        self.read += count
        if self.is_map:
            return data
        key, *pieces = data.split(self.mark)
        if len(pieces) != count:
            raise SystemExit(MARK_FOUND)
        given, counts = [key], Counter[bytes]()
        # A piece reaches from behind the key of a record to the end of the next one's. Many are equal where values are short.
        for piece, equal in groupby(pieces):
            times = len(list(equal))
            attempt, _, value = piece.partition(b"\t")
            next_key = value.rpartition(b"\n")[2]
            self.given_by[attempt.decode()] += times
            self._pass_key(key)
            if times > 1:
                self._pass_key(next_key)
            given += [value] * times
            counts[key] += 1
            counts[next_key] += times - 1
            key = next_key
        self._count(GIVEN, counts.items())
        return self.given.join(given)

    def _pass_key(self, key: bytes) -> None:
        if key != self.last_key:
            self.is_sorted &= key > self.last_key
            self.last_key = key

    def _count(self, kind: bytes, counts: Iterable[tuple[bytes, int]]) -> None:
        """Log how many records of each key a reducer was given, or wrote."""
        self.log.write(b"".join([b"%s\t%d\t%s\n" % (kind, n, key) for key, n in counts if n]))

    def write(self, data: bytes) -> None:
        """Take what the program writes.

        Raises:
            SystemExit: it holds the mark of capture, which nothing but chance can bring about.
        """
        if self.has_bounds:
            self._write_lines(data)
        elif data:
            self.upto = self.read
            self._write_of(AT_END if self.is_exhausted else self.read, data)

    def end_bounds(self) -> None:
        """From now on what the program writes arrives before it reads the next line.

        Raises:
            SystemExit: it wrote a bound.
        """
        if self.has_bounds:
            self.write_pending()
            self.has_bounds = False
            if self.bounds != self.read:
                raise SystemExit(MARK_FOUND)

    def _write_lines(self, data: bytes) -> None:
        """Take what the program made of several lines, with a bound behind each of them but the last.

        Raises:
            SystemExit: it wrote a bound, or the mark.
        """
        if self.mark and self.mark in data:
            raise SystemExit(MARK_FOUND)
        line = self.bounds
        first, *parts = data.split(self.bound.encode())
        self.bounds += len(parts)
        # The bound of the line that has just been read may be on its way.
        if self.bounds not in (self.read, self.read - 1):
            raise SystemExit(MARK_FOUND)
        self._write_after(line, first)
        # A chunk begins and ends anywhere in a record.
        whole = parts[:-1]
        if (
            not self.rest
            and b"\r" not in data
            and all(part.endswith(b"\n") for part in whole if part)
        ):
            counts = [part.count(b"\n") for part in whole]
            self._write_records(LINE, line, counts, b"".join(whole))
            parts = parts[-1:]
        for number, part in enumerate(parts, self.bounds - len(parts) + 1):
            self._write_after(number, part)

    def _write_after(self, line: int, data: bytes) -> None:
        """Take what the program wrote when it had read so many lines."""
        self.upto = line
        if data:
            self._write_of(line, data)

    def _write_of(self, now: int, data: bytes) -> None:
        """Take what the program wrote after it had read so many lines."""
        if not self.rest:
            self.first_line = now
        if not self.rest.endswith(b"\r"):
            self.last_line = now
        data = self.rest + data
        if self.mark and self.is_map and self.mark in data:
            raise SystemExit(MARK_FOUND)
        if b"\r" in data:
            data = RECORD_END.sub(b"\n", data)
        records, end, self.rest = data.rpartition(b"\n")
        if end and (self.first_line != now or self.last_line != now):
            first, end, records = records.partition(b"\n")
            self.write_records(first + b"\n")
            self.first_line = self.last_line = now
        if end:
            self.write_records(records + b"\n")

    def write_records(self, records: bytes) -> None:
        """Records for Hadoop that were made from the same lines."""
        kind, line = self.made_from()
        self._write_records(kind, line, [records.count(b"\n")], records)

    def _write_records(self, kind: bytes, line: int, counts: Sequence[int], records: bytes) -> None:
        """Records for Hadoop, so many of each of lines that follow on another."""
        if not records:
            return
        self.rows += sum(counts)
        if not self.is_map:
            keys = [self.key_and_value(record)[0] for record in records[:-1].split(b"\n")]
            self._count(WRITTEN, [(key, len(list(equal))) for key, equal in groupby(keys)])
        else:
            self.is_superset |= kind == LINES
            self.log.write(
                b"%s\t%d\t%s\n" % (kind, line, b",".join([b"%d" % count for count in counts]))
            )
            if self.mark:
                keys, records = self._carried(records)
                self.log.write(b"\n".join(keys) + b"\n")
        self.sink.write(records)

    def _carried(self, records: bytes) -> tuple[list[bytes], bytes]:
        """The keys of records, and records as they go to reducers."""
        separator = self.separator
        if self.fields == 1 and len(separator) == 1:
            bare = records.translate(None, self.others)
            if bare == (separator + b"\n") * (len(bare) // 2):
                keys = records.replace(separator, b"\n").split(b"\n")[:-1:2]
                return keys, records.replace(separator, self.carried)
        pairs = [self.key_and_value(record) for record in records[:-1].split(b"\n")]
        carried = [b"%s%s%s\n" % (key, self.carried, value) for key, value in pairs]
        return [key for key, _ in pairs], b"".join(carried)

    def key_and_value(self, record: bytes) -> tuple[bytes, bytes]:
        """The key and the value of a record, as Hadoop would divide it."""
        if self.fields == 1:
            return record.partition(self.separator)[::2]
        parts = record.split(self.separator, self.fields)
        if len(parts) <= self.fields:
            return record, b""
        return self.separator.join(parts[: self.fields]), parts[self.fields]

    def made_from(self) -> tuple[bytes, int]:
        """What the record was made from, and the number of the line."""
        if self.is_observed and self.first_line == self.last_line > 0:
            return LINE, self.last_line - 1
        if self.upto == 0 or (self.is_observed and self.first_line == self.last_line == 0):
            return NO_LINE, 0
        return LINES, self.upto - 1

    def close(self) -> None:
        """The program has ended: nothing of the task is missing now. Where it failed, Hadoop drops what is here."""
        self.end_bounds()
        if self.rest:
            self.upto = self.read
            self.write_records(self.rest.removesuffix(b"\r") + b"\n")
        # What a reducer writes that is given nothing, Hadoop drops.
        end: dict[str, Any] = {"rows": self.rows if self.is_map or self.read else 0}
        end |= {"attempt": self.attempt, "split": self.split}
        end["is_changed"] = self.split is not None and version(self.path) != self.version
        end["is_of_output"] = not self.is_map or not self.mark
        end |= {"is_superset": self.is_superset, "given": self.given_by}
        end["is_sorted"] = self.is_sorted
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
        with suppress(BrokenPipeError):  # the program has read enough
            for chunk in task.chunks():
                stdin.write(chunk)
    finally:
        with suppress(BrokenPipeError):
            stdin.close()


class _Stream(io.BufferedIOBase):
    """A standard stream of a program that is observed. Who wraps it may read ahead or write later: it is observed no more."""

    closed = False
    """Looked up at each write: it takes longer where it is a property, as in the base class."""

    def __init__(self, task: Task, name: str) -> None:
        self.task, self.name = task, name
        self.is_ready = False
        self.text: _Text | None = None

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

    def close(self) -> None:
        super().close()
        self.closed = True
        if self.text is not None:
            self.text.closed = True

    def wrapped(self) -> bool:
        """Note that something is put around the stream."""
        if self.is_ready:
            self.task.end_bounds()
            self.task.is_observed = False
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
            self.task.end_bounds()
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
    """A standard stream as text."""

    _CHUNK_SIZE: int
    closed = False

    def __init__(self, stream: _Stream, encoding: str, errors: str | None) -> None:
        super().__init__(stream, encoding, errors, newline="\n")
        self.stream, self.task = stream, stream.task
        stream.text = self

    @property
    def buffer(self) -> _Stream:  # type: ignore[override]
        self.task.end_bounds()
        return self.stream

    def detach(self) -> Any:
        self.task.end_bounds()
        return super().detach()

    def reconfigure(self, **options: Any) -> None:
        self.task.end_bounds()
        self.stream.is_ready = False
        super().reconfigure(**options)
        self.stream.is_ready = True


class _Print(_Text):
    """Standard output; what is written goes out before the next line is read, whatever of it is changed.

    Text goes to a wrapper of the base class: ``print`` takes two thirds of the time that it takes with another class. This one
    is over a stream that takes nothing: what passes by ``write`` fails at once.
    """

    def __init__(self, stream: _Written, encoding: str, errors: str | None) -> None:
        super().__init__(_Stream(stream.task, stream.name), encoding, errors)
        self._CHUNK_SIZE = 1
        self.stream, stream.text = stream, self
        self.plain = io.TextIOWrapper(stream, encoding, errors, newline="\n")
        self.plain._CHUNK_SIZE = CHUNK_BYTES  # type: ignore[attr-defined]
        self.write = self.plain.write  # type: ignore[method-assign]
        self.flush = self.plain.flush  # type: ignore[method-assign]

    def detach(self) -> Any:
        super().detach()
        return self.plain.detach()

    def reconfigure(self, **options: Any) -> None:
        super().reconfigure(**options)
        self.stream.is_ready = False
        self.plain.reconfigure(**options)
        self.stream.is_ready = True

    def close(self) -> None:
        self.plain.close()

    def write_pending(self) -> None:
        """Have what was written arrive, where the stream is still the program's."""
        try:
            is_usable = not self.plain.closed
        except ValueError:  # it was taken apart
            is_usable = False
        if is_usable:
            self.flush()


class _Lines(_Text):
    """Standard input. While ``has_bounds``, a line is taken past the buffers, and noted in what is written by a bound."""

    def __init__(self, stream: _Read, encoding: str, errors: str, output: _Print) -> None:
        super().__init__(stream, encoding, errors)
        self.records, self.write_bound = stream.lines, output.plain.write
        self.line_encoding = encoding, errors

    def _next(self) -> str:
        """The next line, or nothing at the end, where bounds end, too."""
        task = self.task
        record = next(self.records, b"")
        if not record:
            task.end_bounds()
            return ""
        try:
            self.write_bound(task.bound)
        except ValueError:  # it was closed, or taken apart
            task.bounds += 1
            task.end_bounds()
        return record.decode(*self.line_encoding)

    def __next__(self) -> str:  # type: ignore[override]
        if not self.task.has_bounds:
            return super().__next__()
        if line := self._next():
            return line
        raise StopIteration

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        if size >= 0:
            self.task.end_bounds()
        return self._next() if self.task.has_bounds else super().readline(size)

    def read(self, size: int | None = -1) -> str:
        self.stream.wrapped()
        return super().read(size)

    def readlines(self, hint: int = -1) -> list[str]:  # type: ignore[override]
        self.stream.wrapped()
        return super().readlines(hint)


def _silence(task: Task) -> None:
    """In a process that a program forks, the files of the task are not its own."""
    task.has_bounds = False
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
    sys.stdout = text = _Print(written, sys.stdout.encoding, sys.stdout.errors)
    sys.stdin = lines = _Lines(read, sys.stdin.encoding, sys.stdin.errors or "strict", text)
    task.write_pending = text.write_pending
    task.has_bounds = all(lookup(end.encoding).name in ENCODINGS for end in (lines, text))
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
