"""Reads files of packed rows, or other bytes that a job may have made, in processes whose memory and time are bounded.

A process receives the bytes that it requests, and opens no file: this module decides which files may be read. It
returns plain values. A process that exceeds its memory or the query's time ends; the next query starts another.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import date, datetime
from decimal import Decimal
from multiprocessing.connection import Connection
from typing import IO, Any

import numpy as np

from lineage_core.environment.module_programs import module_command
from lineage_core.tracing.budget import Budget, current_budget
from lineage_query.rows.typed_values import UnsureError

PROCESSES_MAX = 2
"""Maximum number of processes. Each takes about 100 MB, plus the data read at once."""
MEMORY_BYTES = 384 << 20
"""Maximum memory for reading one file."""
READ_BYTES_MAX = 64 << 20
"""Maximum bytes of a file in one read."""
ANSWER_BYTES_MAX = MEMORY_BYTES
WAIT_S = 0.05
"""Seconds between checks whether the caller still waits for the answer."""
VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "PYTHONHOME")
"""The environment variables that Python needs to start: the process gets no others."""
PROCESS = "lineage_query.rows.confined_process"
FORMATS = "lineage_query.rows.formats"
"""The module of what processes do unless another one is given."""
_PLAIN = {(type_.__module__, type_.__qualname__): type_ for type_ in (Decimal, date, datetime)}
TOO_LARGE = f"reading it takes more than {MEMORY_BYTES >> 20} MiB of memory"


class ConfinedFormats:
    """As :class:`lineage_query.rows.formats.FormatsHere`, in processes. Several threads may use it.

    ``module``: has the ``OPERATIONS``. ``opens_files``: libraries that it uses open files of the system (of time zones, for
    example) after they were loaded; else the kernel refuses a process any file and any connection.
    """

    def __init__(self, module: str = FORMATS, *, opens_files: bool = True) -> None:
        self._options = (module, "files" if opens_files else "")
        self._free: list[_Process] = []
        self._lock = threading.Lock()
        self._process_slots = threading.Semaphore(PROCESSES_MAX)

    def read(self, operation: str, file: IO[bytes], *arguments: Any) -> Any:
        """As :meth:`lineage_query.rows.formats.Formats.read`."""
        with self._process_slot():
            with self._lock:
                process = self._free.pop() if self._free else None
            process = process or _Process(self._options)
            try:
                result = process.read(operation, file, arguments)
            except UnsureError:
                self._release(process)
                raise
            except BaseException:
                # After an error the process is not reused: it may be in an undefined state.
                process.end()
                raise
            self._release(process)
            return result

    def close(self) -> None:
        """End the idle processes."""
        with self._lock:
            free, self._free = self._free, []
        for process in free:
            process.end()

    def _release(self, process: _Process) -> None:
        with self._lock:
            self._free.append(process)

    @contextmanager
    def _process_slot(self) -> Iterator[None]:
        while not self._process_slots.acquire(timeout=WAIT_S):
            current_budget().check()
        try:
            yield
        finally:
            self._process_slots.release()


class _Process:
    """One process, and the connection to it."""

    def __init__(self, options: tuple[str, ...] = (FORMATS, "files")) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            environment = {name: os.environ[name] for name in VARIABLES if name in os.environ}
            self._process = subprocess.Popen(
                module_command(PROCESS, str(theirs.fileno()), *options),
                env={**environment, "ARROW_DEFAULT_MEMORY_POOL": "system"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = Connection(ours.detach())

    def read(self, operation: str, file: IO[bytes], arguments: tuple[Any, ...]) -> Any:
        budget = current_budget()
        budget.check()
        size = file.seek(0, os.SEEK_END)
        seconds = None if budget.left_s == float("inf") else budget.left_s
        request = (operation, size, arguments, seconds, budget.text_bytes_left)
        try:
            self._connection.send_bytes(pickle.dumps(request))
            while True:
                match self._received(budget):
                    case ("read", int(offset), int(length)):
                        self._connection.send_bytes(_bytes_of(file, offset, length))
                    case ("found", result, int(text_bytes)):
                        budget.count_text(text_bytes)
                        return result
                    case ("rows", bytes(places)):
                        return np.frombuffer(places, np.uint64)
                    case ("unsure",):
                        raise UnsureError
                    case ("budget", int(text_bytes)):
                        budget.count_text(text_bytes)
                        raise budget.time_up_error()
                    case ("error", str(text)):
                        raise OSError(text)
                    case message:
                        raise OSError(f"what reads it answers {message!r:.80}")
        except (EOFError, BrokenPipeError, ConnectionResetError, pickle.UnpicklingError) as error:
            # Usually it ran out of memory; other causes are unknown here.
            raise OSError(f"{TOO_LARGE}, or can't be done") from error

    def _received(self, budget: Budget) -> Any:
        while not self._connection.poll(WAIT_S):
            budget.check()
        return _Plain(io.BytesIO(self._connection.recv_bytes(ANSWER_BYTES_MAX))).load()

    def end(self) -> None:
        self._connection.close()
        self._process.kill()
        self._process.wait()


class _Plain(pickle.Unpickler):
    """Loads plain values only: data from a process that read untrusted files must not execute code."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return _PLAIN[module_name, global_name]
        except KeyError as error:
            raise pickle.UnpicklingError(
                f"{module_name}.{global_name} is no plain value"
            ) from error


def _bytes_of(file: IO[bytes], offset: int, length: int) -> bytes:
    """A part of a file after a byte that says whether it could be read; if not, the error."""
    with suppress(OSError):
        if 0 <= length <= READ_BYTES_MAX:
            file.seek(offset)
            return b"\1" + file.read(length)
    return b"\0" + f"a part has more than {READ_BYTES_MAX >> 20} MiB, or can't be read".encode()
