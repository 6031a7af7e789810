"""The process of :mod:`lineage_query.rows.confined`: reads files of packed rows, piece by piece, until its input ends.

Usage: python -m lineage_query.rows.confined_process DESCRIPTOR MODULE FILES

MODULE has the ``OPERATIONS``; without the word FILES no file can be opened.
"""

from __future__ import annotations

import io
import os
import pickle
import resource
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa

from lineage_core.tracing.budget import Budget, BudgetError, use_budget
from lineage_query.rows.confined import MEMORY_BYTES, TOO_LARGE
from lineage_query.rows.typed_values import UnsureError

STANDARD_DESCRIPTORS = 3


class _RemoteFile(io.RawIOBase):
    """A file that requests each part from the parent process."""

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection, self._size, self._at = connection, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise OSError("before the file")
        self._at = start + offset
        return self._at

    def read(self, size: int = -1, /) -> bytes:
        bytes_left = max(self._size - self._at, 0)
        length = bytes_left if size < 0 else min(size, bytes_left)
        if not length:
            return b""
        _send(self._connection, "read", self._at, length)
        answer = self._connection.recv_bytes()
        if not answer.startswith(b"\1"):
            raise OSError(answer[1:].decode())
        self._at += len(answer) - 1
        return answer[1:]


def main() -> None:
    """Answer requests until the other end is closed."""
    connection = Connection(int(sys.argv[1]))
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    module, opens_files = sys.argv[2], bool(sys.argv[3])
    functions = {
        operation: getattr(import_module(place), name)
        for operation, (place, name) in import_module(module).OPERATIONS.items()
    }
    _bound(opens_files=opens_files)
    with suppress(EOFError, ConnectionResetError, BrokenPipeError):
        while True:
            _answer(functions, connection, *pickle.loads(connection.recv_bytes()))


def _bound(*, opens_files: bool) -> None:
    """Take no more memory than may be from now on, and write no file; without ``opens_files`` open none, and no connection."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text(encoding="ascii").splitlines()
        data_bytes = next(
            int(line.split()[1]) << 10 for line in lines if line.startswith("VmData:")
        )
        resource.setrlimit(resource.RLIMIT_DATA, (data_bytes + MEMORY_BYTES,) * 2)
    if not opens_files:
        # What is open stays open; each new descriptor would be above the standard three.
        resource.setrlimit(resource.RLIMIT_NOFILE, (STANDARD_DESCRIPTORS,) * 2)


def _answer(
    functions: Mapping[str, Callable[..., Any]],
    connection: Connection,
    operation: str,
    size: int,
    arguments: tuple[Any, ...],
    seconds: float | None,
    text_bytes: int | None,
) -> None:
    file = cast("IO[bytes]", _RemoteFile(connection, size))
    with use_budget(Budget(seconds=seconds, text_bytes=text_bytes)) as budget:
        try:
            result = functions[operation](file, *arguments)
        except UnsureError:
            _send(connection, "unsure")
        except BudgetError:
            _send(connection, "budget", budget.text_bytes_used)
        except (EOFError, ConnectionResetError, BrokenPipeError):
            raise
        except MemoryError:
            _send(connection, "error", TOO_LARGE)
        except (OSError, pa.ArrowException, ValueError, ArithmeticError, RecursionError) as error:
            _send(connection, "error", TOO_LARGE if "std::bad_alloc" in str(error) else str(error))
        else:
            if isinstance(result, np.ndarray):
                _send(connection, "rows", result.astype(np.uint64, copy=False).tobytes())
            else:
                _send(connection, "found", result, budget.text_bytes_used)


def _send(connection: Connection, *message: Any) -> None:
    connection.send_bytes(pickle.dumps(message))


if __name__ == "__main__":
    main()
