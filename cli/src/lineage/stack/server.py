"""What the stack must know of a process to run it: a list of such servers is all that it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from lineage.stack.ports import LOOPBACK

Say = Callable[[str], None]
"""Told of steps that take long."""


def silent(_: str) -> None:
    """Say nothing."""


class NotReady(Exception):
    """Raised by a readiness check; the message says what was asked and how it answered."""


class Server(ABC):
    """One process of the stack, with a folder of its own for all it writes.

    The folder holds NAME.pid and NAME.log beside what the server keeps there. ``needs`` are the
    servers that must be ready before this one starts.
    """

    start_limit_s: ClassVar[float] = 120
    """A slow machine is no failure; a process that has ended is one at once."""
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
        """Where it answers, as people are told."""
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
        """Program and arguments; no secrets, for everybody can read them."""

    def environment(self) -> dict[str, str]:
        """Variables for the process, added to those of the caller."""
        return {}

    @abstractmethod
    def check(self) -> None:
        """Ask for a service that only a working server gives.

        Raises:
            NotReady: it does not, or not yet.
        """

    def after_start(self) -> None:
        """What is to be done once it is ready: nothing, unless a server says otherwise. Repeatable.

        Raises:
            StackError: it can't be done.
        """
        return

    def settings(self) -> dict[str, str]:
        """Environment variables by which others find this server."""
        return {}
