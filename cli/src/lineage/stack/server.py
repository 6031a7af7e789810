"""The interface of a process that the stack runs; the stack is a list of such servers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from lineage.stack.ports import LOOPBACK

Say = Callable[[str], None]
"""Called with a message for each long step."""


def silent(_: str) -> None:
    """Print nothing."""


class NotReady(Exception):
    """Raised by a readiness check; the message has the request and the response."""


class Server(ABC):
    """One process of the stack, with a folder of its own for all it writes.

    The folder holds NAME.pid and NAME.log beside what the server keeps there. ``needs`` are the
    servers that must be ready before this one starts.
    """

    start_limit_s: ClassVar[float] = 120
    """Seconds until a start fails; a process that has ended fails at once."""
    stop_limit_s: ClassVar[float] = 60

    def __init__(
        self, name: str, folder: Path, port: int, needs: frozenset[str] = frozenset()
    ) -> None:
        self.name = name
        self.folder = folder
        self.port = port
        self.needs = needs

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def pid_file(self) -> Path:
        return self.folder / f"{self.name}.pid"

    @property
    def address(self) -> str:
        """The server's address as shown to users."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def ports(self) -> Mapping[str, int]:
        """All ports that it listens on, by what they are for."""
        return {self.name: self.port}

    @abstractmethod
    def prepare(self, say: Say = silent) -> None:
        """Put in place what a start needs. Repeatable: data of an earlier start stays.

        Raises:
            StackError: something is missing on this machine.
        """

    @abstractmethod
    def command(self) -> list[str]:
        """Program and arguments; no secrets, as all users can read them."""

    def environment(self) -> dict[str, str]:
        """Variables for the process, added to those of the caller."""
        return {}

    @abstractmethod
    def check(self) -> None:
        """Send a request that only a working server answers.

        Raises:
            NotReady: the server does not answer it, or not yet.
        """

    def after_start(self) -> None:
        """Finish the start of a ready server; does nothing by default. Repeatable.

        Raises:
            StackError: it can't be done.
        """
        return

    def settings(self) -> dict[str, str]:
        """Environment variables by which others find this server."""
        return {}
