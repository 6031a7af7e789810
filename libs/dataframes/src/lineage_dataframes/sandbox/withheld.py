"""Ends Python functions that request what a confined Spark does not have: their values might be others than the job's were.

A function that reads a table of prices, or a variable of the environment, and takes a default where there is none, would
give another value in a trace, and nobody would see that. Looked at is what Python itself opens, connects to, listens on and reads of
the environment; what libraries written in C open by themselves fails with their own errors.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from types import FrameType
from typing import Any

from lineage_dataframes.sandbox.names import NAMES, SANDBOX

HARMLESS = {
    "COLORTERM", "COLUMNS", "DISPLAY", "EDITOR", "FORCE_COLOR", "INVOCATION_ID", "LINES", "MAIL", "NO_COLOR", "OLDPWD",
    "PAGER", "PWD", "SHELL", "SHLVL", "TERM", "TMPDIR", "VIRTUAL_ENV", "_",
}  # fmt: skip
_HARMLESS_PREFIXES = (
    "CONDA_",
    "GIT_",
    "LINEAGE_",
    "PYSPARK_",
    "PYTEST_",
    "PYTHON",
    "SPARK_",
    "SSH_",
    "XDG_",
)
"""Variables that decide nothing of a value, or that a worker has from Spark."""
_CONNECTING = {
    "socket.bind",
    "socket.connect",
    "socket.getaddrinfo",
    "socket.gethostbyname",
    "socket.sendto",
    "socket.sendmsg",
}
_LISTING = {"os.listdir", "os.scandir"}
_STARTING = {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "subprocess.Popen"}  # fmt: skip
CALLERS_CHECKED = 3
"""Callers that are examined for Python's own: `linecache` opens files through `tokenize`."""


class WithheldError(BaseException):
    """A function requests what is withheld.

    It is no `Exception`: code that takes a default after any error would go on.
    """


def withheld_names(variables: Iterable[str], is_set: Callable[[str], bool]) -> str:
    """Names of variables that a worker is not given and that may matter to a function, as `watch_environment` reads them."""
    names = (
        name
        for name in variables
        if name not in HARMLESS and not name.startswith(_HARMLESS_PREFIXES)
    )
    return ",".join(sorted(name for name in names if "," not in name and not is_set(name)))


def watch_environment() -> None:
    """End whatever looks up a withheld variable from here on, in this process and those that it forks."""
    withheld = {name for name in os.environ.pop(NAMES, "").split(",") if name}
    environment: Any = os.environ
    environment.__class__ = _watched_environment(withheld)
    in_bytes: Any = os.environb
    in_bytes.__class__ = _watched_environment({os.fsencode(name) for name in withheld})


def watch_process() -> None:
    """End whatever opens, connects to or starts something withheld from here on, in this process."""
    sys.addaudithook(_Hook())


def _watched_environment(withheld: Collection[Any]) -> type[Any]:
    class Watched(os._Environ[Any]):
        """The environment, which raises for variables that the sandbox withholds."""

        def __getitem__(self, name: Any) -> Any:
            try:
                return super().__getitem__(name)
            except KeyError:
                if name in withheld:
                    raise WithheldError(
                        f"a Python function asks for the variable {os.fsdecode(name)} of the environment, {_LIFTED}"
                    ) from None
                raise

        def __iter__(self) -> Iterator[Any]:
            # Which ones are looked for is not known. Libraries look for their own settings when they are imported.
            if withheld and not _is_importing():
                raise WithheldError(
                    f"a Python function asks for all variables of the environment, {_LIFTED}"
                )
            return super().__iter__()

    return Watched


_LIFTED = (
    f"which it does not have where traces are confined; {SANDBOX}=off starts them as they were"
)


class _Hook:
    """Hears of what Python is about to do."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, (str, bytes)) and flags & os.O_ACCMODE != os.O_WRONLY:
                self._check_path(path)
        elif event in _CONNECTING:
            raise WithheldError(f"a Python function asks for the network, {_LIFTED}")
        elif event in _STARTING and not _is_importing():
            raise WithheldError(f"a Python function asks for another process, {_LIFTED}")
        elif event in _LISTING and isinstance(arguments[0], (str, bytes)):
            self._check_path(arguments[0])

    def _check_path(self, path: str | bytes) -> None:
        """See that a file or folder which may be opened outside of the sandbox may be here."""
        if getattr(self._own, "looks", False) or _is_of_python():
            return
        self._own.looks = True
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK))
        except PermissionError:
            # Modes and owners as they are say yes: it is the sandbox that says no.
            if os.geteuid() == 0 or os.access(path, os.R_OK):
                raise WithheldError(
                    f"a Python function asks for {os.fsdecode(path)}, {_LIFTED}"
                ) from None
        except (OSError, ValueError):
            pass
        finally:
            self._own.looks = False


def _is_importing() -> bool:
    """Whether a module is being imported."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _is_of_python() -> bool:
    """Whether Python looks for a module, or for the text of a line that it shows: neither decides a value."""
    frame: FrameType | None = sys._getframe(3)
    for _ in range(CALLERS_CHECKED):
        if frame is None:
            break
        if frame.f_code.co_filename.startswith("<frozen importlib") or (
            frame.f_globals.get("__name__") == "linecache"
        ):
            return True
        frame = frame.f_back
    return False
