"""Files whose bytes are items: a node for each, positions are offsets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from lineage_core.contract.message import RecordFiles, RecordSplit, RecordSplits, SinkFile
from lineage_core.contract.positions import file_node
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.mapreduce_task import version
from lineage_store.paths import UNKNOWN_STATE

FILES_MAX = 100_000
"""Files of one application: each is a node of its graph."""
State = tuple[int, float]
"""Size and time of modification of a file."""


@dataclass
class _PartedFile:
    """What is known of one file.

    ``first``: its state when a part of it was first named; None: it was not there. ``read_in``: states in which it was read, of which the first
    ``sent`` are sent. ``written_since``: the count of tasks when the first one that wrote parts of it was committed. ``written_in``: its state when the last task that wrote parts of it was committed; None: it was not there.
    """

    place: str
    first: State | None
    was_read: bool = False
    read_in: dict[State, None] = field(default_factory=dict)
    sent: int = 0
    has_writer: bool = False
    was_written: bool = False
    written_since: int | None = None
    written_in: State | None = None

    @property
    def path(self) -> str:
        """As messages have it."""
        return self.place if "://" in self.place else f"file:{self.place}"

    def note_read(self) -> None:
        """A task was committed that read parts of it."""
        self.was_read = True
        states = (self.first or UNKNOWN_STATE, _state(self.place) or UNKNOWN_STATE)
        self.read_in |= dict.fromkeys(states)

    def note_written(self, tasks: int) -> None:
        """A task was committed that wrote parts of it, when so many had begun."""
        if self.written_since is None:
            self.written_since = tasks
        self.was_written, self.written_in = True, _state(self.place)

    def unsent(self) -> list[State]:
        """States in which it was read that count as sent from now on."""
        states = list(self.read_in)[self.sent :]
        self.sent = len(self.read_in)
        return states


class FileSpaces:
    """The files of one application, of which parts are named. Not thread-safe.

    A file that is read is recorded in the states in which it was when a part of it was first named and whenever a task that read parts of it
    was committed: if it changed between, in which of them the bytes were is not known. One that is written is recorded as it was when the last task
    was committed that wrote parts of it.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._files: dict[str, _PartedFile] = {}
        self._tasks = 0

    def began(self) -> int:
        """A task begins; its number, from 1 up."""
        self._tasks += 1
        return self._tasks

    def check_read(self, nodes: Iterable[str], task: int) -> None:
        """See that what a task read of files can be told from what this application wrote to them.

        Raises:
            CaptureFailedError: it began before the first part that was written to one, which had bytes before, was committed.
        """
        for node in nodes:
            file = self._files[node]
            had_bytes = file.first is not None and file.first[0] > 0
            since = file.written_since
            if had_bytes and file.has_writer and (since is None or task <= since):
                raise CaptureFailedError(
                    f"{file.place} was written while parts of it were read: its versions can't be distinguished"
                )

    def node_of(self, path: str) -> tuple[str, bool]:
        """The node of a file, and whether it is a new one.

        Raises:
            CaptureFailedError: there are too many.
        """
        known = self._nodes.get(path)
        if known is not None:
            return known, False
        if len(self._nodes) >= FILES_MAX:
            raise CaptureFailedError(f"more than {FILES_MAX} files: parts of others are not linked")
        place = path if "://" in path else os.path.realpath(path)
        node = file_node(place)
        is_new = node not in self._files
        if is_new:
            self._files[node] = _PartedFile(place, _state(place))
        self._nodes[path] = node
        return node, is_new

    def is_file(self, node: str) -> bool:
        """Whether a node is one of these files."""
        return node in self._files

    def check_written(self, node: str) -> None:
        """See that parts of a file that are written now can be told from those that were read.

        Raises:
            CaptureFailedError: parts of it were read before that it had then.
        """
        file = self._files[node]
        if file.was_read and not file.has_writer and file.first is not None:
            raise CaptureFailedError(
                f"{file.place} is written after parts of it were read: its versions can't be distinguished"
            )
        file.has_writer = True

    def committed(
        self, app: str, read: Iterable[str], written: Iterable[str]
    ) -> Iterator[RecordSplits]:
        """A task was committed that read parts of some files, and wrote parts of others; yields what is to be sent of those read."""
        for node in written:
            self._files[node].note_written(self._tasks)
        for node in read:
            file = self._files[node]
            file.note_read()
            # What was not there at first may be written by another task of this application.
            if file.first is not None and not file.has_writer:
                yield from _read_in(app, node, file)

    def closed(self, app: str) -> Iterator[RecordSplits | RecordFiles]:
        """What is left to be sent when no task comes any more."""
        for node, file in self._files.items():
            if file.was_written:
                size, mtime = file.written_in or UNKNOWN_STATE
                written = SinkFile(partition=0, path=file.path, size=size, mtime=mtime)
                yield RecordFiles(app=app, node=node, path=file.path, files=(written,))
            else:
                yield from _read_in(app, node, file)


def _read_in(app: str, node: str, file: _PartedFile) -> Iterator[RecordSplits]:
    for size, mtime in file.unsent():
        split = RecordSplit(
            partition=0, path=file.path, start=0, length=size, file_size=size, mtime=mtime
        )
        yield RecordSplits(app=app, node=node, whole=False, splits=(split,))


def _state(place: str) -> State | None:
    try:
        state = version(place)
    except (OSError, ValueError):
        return None
    return state["file_size"], state["mtime"]


def is_compressed(path: str) -> bool:
    """Whether Hadoop would read the file through a codec, by its extension."""
    return path.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate"))
