"""The journal of an erasure: what is to be done is frozen in its first line, and a line says what is done of it.

Each line is on the disk before the next step begins, and says when it was written, so an erasure that was killed is continued
where it was. Who continues it says so in a line of its own. A line that was cut off by the kill counts for nothing: each step may be done twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any

from lineage_core.environment.private_files import ensure_private_folder, private_opener
from lineage_core.errors import LineageError
from lineage_query.erasure.source_rows import SourceForm

if TYPE_CHECKING:
    from typing_extensions import Self

VERSION = 1
BYTES_MAX = 1 << 30
Step = dict[str, Any]


class JournalError(LineageError):
    """A journal that can't be read, or that another process writes."""


@dataclass(frozen=True, slots=True)
class BoundKeys:
    """Which subjects a plan is about, without their keys: a hash of all of them together."""

    salt: str
    hash: str

    @classmethod
    def of(cls, keys: Sequence[Sequence[str]], salt: str = "") -> BoundKeys:
        """The hash of some keys, in whatever order. ``salt``: in hexadecimal digits; empty: a new one."""
        salt = salt or os.urandom(16).hex()
        text = json.dumps(sorted(map(list, keys))).encode()
        return cls(salt, hashlib.scrypt(text, salt=bytes.fromhex(salt), n=1 << 14, r=8, p=1).hex())

    def holds(self, keys: Sequence[Sequence[str]]) -> bool:
        """Whether these are the keys."""
        return BoundKeys.of(keys, self.salt) == self


class Journal:
    """The journal of one plan; held by one process at a time."""

    def __init__(self, folder: Path, digest: str, part: str = "") -> None:
        """Open the journal of a plan, or begin one. ``part``: of what is done by it; empty: in what lineage keeps.

        Raises:
            JournalError: another process holds it, or it is damaged.
            OSError: the folder can't be written.
        """
        self.path = path_of(folder, digest, part)
        self.digest = digest
        ensure_private_folder(folder)
        self._file: IO[bytes] = open(self.path, "a+b", opener=private_opener)  # noqa: SIM115 - held until close
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise JournalError(f"another process carries this plan out ({self.path})") from error
        self.steps: Sequence[Step] | None = None
        self.bound: BoundKeys | None = None
        self.form: SourceForm | None = None
        self.results: dict[int, Mapping[str, Any]] = {}
        self.restarted: list[str] = []
        """When it was taken up again, each time."""
        self.is_ended = False
        try:
            self._load()
        except BaseException:
            self._file.close()
            raise

    def begin(
        self,
        steps: Sequence[Step],
        keys: Sequence[Sequence[str]] = (),
        form: SourceForm | None = None,
    ) -> None:
        """Freeze what is to be done. ``keys``: of the subjects, where they are named by keys. ``form``: how the source is read."""
        self.bound = BoundKeys.of(keys) if keys else None
        self.form = form
        bound = None if self.bound is None else asdict(self.bound)
        begun = {"event": "begun", "version": VERSION, "plan": self.digest}
        self._append(
            begun | {"steps": list(steps), "subjects": bound, "form": form and asdict(form)}
        )
        self.steps = steps

    def done(self, number: int, result: Mapping[str, Any]) -> None:
        """Say that a step is done."""
        self._append({"event": "done", "step": number, "result": dict(result)})
        self.results[number] = result

    def restart(self, again: Collection[int] = ()) -> None:
        """Say that what was begun by an earlier run is taken up again. ``again``: steps that count as not done from now on."""
        self._take(self._append({"event": "restarted", "again": sorted(again)}))

    def end(self) -> None:
        """Say that all is done."""
        self._append({"event": "ended"})
        self.is_ended = True

    def _append(self, event: Mapping[str, Any]) -> Mapping[str, Any]:
        entry = {**event, "at": datetime.now(timezone.utc).isoformat(timespec="seconds")}
        self._file.write(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        descriptor = os.open(self.path.parent, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        return entry

    def _load(self) -> None:
        size = self.path.stat().st_size
        if size > BYTES_MAX:
            raise JournalError(f"{self.path} has more than {BYTES_MAX >> 20} MiB")
        self._file.seek(0)
        content = self._file.read()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            # What a kill cut off.
            self._file.truncate(len(whole))
        try:
            for line in whole.splitlines():
                self._take(json.loads(line))
        except (ValueError, KeyError, TypeError) as error:
            raise JournalError(f"{self.path} is damaged: {error}") from error

    def _take(self, entry: Mapping[str, Any]) -> None:
        match entry["event"]:
            case "begun" if entry["plan"] == self.digest and entry["version"] == VERSION:
                self.steps = entry["steps"]
                bound = entry.get("subjects")
                self.bound = None if bound is None else BoundKeys(bound["salt"], bound["hash"])
                form = entry.get("form")
                self.form = form and SourceForm(**form | {"columns": tuple(form["columns"])})
            case "done":
                self.results[int(entry["step"])] = entry["result"]
            case "restarted":
                self.restarted.append(str(entry["at"]))
                for number in entry["again"]:
                    self.results.pop(int(number), None)
                self.is_ended = False
            case "ended":
                self.is_ended = True
            case event:
                raise ValueError(f"{event!r:.80} is no event of this plan")

    def close(self) -> None:
        """Let another process have it."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def path_of(folder: Path, digest: str, part: str = "") -> Path:
    """Where the journal of a plan is."""
    ending = f".{part}.jsonl" if part else ".jsonl"
    return folder / f"{digest.removeprefix('sha256:')[:32]}{ending}"


def steps_in(folder: Path, digest: str, part: str = "") -> Sequence[Step] | None:
    """The steps of a plan that was carried out to its end; None: it was not. ``part``: as of `Journal`.

    Raises:
        JournalError: another process carries it out, or its journal is damaged.
    """
    if not path_of(folder, digest, part).exists():
        return None
    with Journal(folder, digest, part) as journal:
        return journal.steps if journal.is_ended else None


@dataclass(frozen=True, slots=True)
class Begun:
    """By what a plan was carried out. ``subjects``: None: they are not named by keys. ``form``: how the source was read; None: not noted."""

    subjects: BoundKeys | None
    form: SourceForm | None


def begun_with(folder: Path, digest: str) -> Begun | None:
    """By what a plan was begun to be carried out; None: it was not; raises as `steps_in`."""
    if not path_of(folder, digest).exists():
        return None
    with Journal(folder, digest) as journal:
        return Begun(journal.bound, journal.form)
