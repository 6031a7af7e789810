"""Other applications that wrote the files of an answer's rows, or read them, as the answer names them."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass
from typing import Any

from lineage_core.tracing.trace_result import Direction

ALL_JOBS = "the same command with --all-jobs goes on"


@dataclass(frozen=True, slots=True)
class NextJob:
    """An application that wrote files of the rows of a group (backward), or read them (forward).

    ``app``, ``job``: its id and its name; empty: which it is, is not known. ``files``: how many of the files, the first of
    which is ``path``. ``same_version``: it wrote exactly the version that was read, or read the one that was written.
    ``place``: the first listed row of them, from which a trace in this application goes on; empty: none does, except
    through all jobs. ``reason``: why the version is not the same, or not known to be, or that the file is a copy; else empty.
    """

    app: str
    job: str
    path: str
    files: int = 1
    same_version: bool = False
    place: str = ""
    reason: str = ""

    def command(self, direction: Direction, store: str = "") -> str:
        """The command that goes on; empty: there is none, or only one through all jobs.

        Args:
            direction: of the answer.
            store: the URL that the command names; empty: none, as it is the default.
        """
        if not self.place:
            return ""
        # What begins with a hyphen is an option.
        place = f"./{self.place}" if self.place.startswith("-") else self.place
        verb = "back" if direction is Direction.BACKWARD else "forward"
        named_store = f" --store {shlex.quote(store)}" if store else ""
        return f"lineage {verb} {shlex.quote(place)} --app {shlex.quote(self.app)}{named_store}"

    def line(self, direction: Direction, store: str = "") -> str:
        """What people read behind the rows of the group, in one line.

        Args:
            direction: of the answer.
            store: as :meth:`command` has it.
        """
        command = self.command(direction, store)
        who = f"{self.job} ({self.app})" if self.job not in ("", self.app) else self.app
        if self.files > 1:
            who += f", {self.files:,} files"
        if self.same_version:
            verb = "written" if direction is Direction.BACKWARD else "read"
            text = f"{verb} by {who}: {command or ALL_JOBS}"
        else:
            text = ": ".join(part for part in (who, self.reason, command) if part)
        return "\\n".join(text.splitlines())

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> NextJob:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        return cls(
            document["app"],
            document["job"],
            document["path"],
            document["files"],
            document["same_version"],
            document["place"],
            document["reason"],
        )
