"""Which recorded program wrote the file that another one read: by its bytes, never by its name alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.formats.names import grows
from lineage_arrays.saved.reading import ArrayRecording, NamedArray
from lineage_arrays.workflow import ArrayFile
from lineage_core.errors import LineageError
from lineage_store.paths import MTIME_TOLERANCE_S, Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile, RecordedFiles

PROGRAMS_MAX = 1_000
"""Recordings that one question reads, at most."""


@dataclass(frozen=True)
class FileLink:
    """An array of another recording that holds the same bytes.

    ``superset``: why it may be another file, which is equal by chance; else empty. Then the trace goes on, and ends here, too.
    """

    app: str
    array: NamedArray
    superset: str = ""


@dataclass(frozen=True)
class NotLinked:
    """Why a trace does not go on through a file, although a program used it."""

    reason: str


R_co = TypeVar("R_co", bound=ArrayRecording, covariant=True)


class Recordings(Generic[R_co]):
    """Recordings of a store, each read once.

    Args:
        read: reads the recording of an application.
        programs_max: recordings that one question reads, at most.
    """

    def __init__(self, read: Callable[[str], R_co], programs_max: int = PROGRAMS_MAX) -> None:
        self._read = read
        self._known: dict[str, R_co] = {}
        self._programs_max = programs_max

    def of(self, app: str) -> R_co:
        """The recording of an application.

        Raises:
            ArrayLineageError: it has none, it can't be read, or the question reads too many.
        """
        if app not in self._known:
            if len(self._known) >= self._programs_max:
                raise ArrayLineageError(
                    f"the trace leads through more than {self._programs_max:,} programs: ask one by one, without --all-jobs"
                )
            self._known[app] = self._read(app)
        return self._known[app]


def version_of(file: ArrayFile) -> FileVersion:
    """The version of a file, as stores compare it."""
    return FileVersion(file.size, file.mtime, file.checksum)


class FileLinks:
    """Looks up who wrote, and who read, the bytes of a file.

    Args:
        store: the store.
        recordings: of its applications.
    """

    def __init__(self, store: GraphStore, recordings: Recordings[ArrayRecording]) -> None:
        self._store = store
        self._recordings = recordings
        self._spellings = Spellings()

    def writer(self, app: str, file: ArrayFile) -> FileLink | NotLinked | None:
        """The output that a file was, which an application read; None: no recorded program wrote it."""
        recorded = self._recorded(file)
        writers = [
            one
            for one in recorded.items
            if one.wrote and one.app != app and _is_before(one.version, version_of(file))
        ]
        same = [one for one in writers if self._is_same_file(one, file)]
        untouched = [one for one in same if self._is_untouched(one, file)]
        apps = list(dict.fromkeys(one.app for one in untouched or same or writers))
        if recorded.unread:
            return NotLinked(
                f"{recorded.unread[0]} may have written {file.path}: it recorded more files of that content than one question reads"
            )
        if len(apps) > 1:
            return NotLinked(
                f"{', '.join(apps)} wrote files of the content of {file.path}, and which of them {app} read is not known"
            )
        if not apps:
            return self._other_writer(app, file)
        superset = "" if same else _copy_text(app, file.path, apps[0], writers[0].path)
        return self._linked(apps[0], file, superset, sources=False)

    def other_readers(self, app: str, file: ArrayFile) -> Iterator[FileLink | NotLinked]:
        """The sources that other applications have of the very file that one read."""
        for link in self._readers(app, file):
            if isinstance(link, NotLinked) or not link.superset:
                yield link

    def apps_that_read(self, app: str, file: ArrayFile) -> list[str]:
        """Other applications that read a file of the same content, or may have."""
        recorded = self._recorded(file)
        read = [one.app for one in recorded.items if not one.wrote]
        return [other for other in dict.fromkeys((*read, *recorded.unread)) if other != app]

    def readers(self, app: str, file: ArrayFile) -> Iterator[FileLink | NotLinked]:
        """The sources that a file became, which an application wrote."""
        yield from self._readers(app, file)
        yield from self._later_versions(app, file)

    def _readers(self, app: str, file: ArrayFile) -> Iterator[FileLink | NotLinked]:
        recorded = self._recorded(file)
        for unread in recorded.unread:
            yield NotLinked(
                f"{unread} may have read {file.path}: it recorded more files of that content than one question reads"
            )
        readers: dict[str, RecordedFile] = {}
        for one in recorded.items:
            if one.wrote or one.app == app or not _is_before(version_of(file), one.version):
                continue
            if one.app not in readers or self._is_same_file(one, file):
                readers[one.app] = one
        for reader, one in readers.items():
            superset = (
                ""
                if self._is_same_file(one, file)
                else _copy_text(reader, one.path, app, file.path)
            )
            link = self._linked(reader, file, superset, sources=True)
            if link is not None:
                yield link

    def _recorded(self, file: ArrayFile) -> RecordedFiles:
        query = FileQuery(file.path, self._spellings, checksum=file.checksum)
        recorded = self._store.recorded_files(query)
        items = [one for one in recorded.items if one.version.size == file.size]
        return RecordedFiles(items, recorded.unread)

    def _is_same_file(self, one: RecordedFile, file: ArrayFile) -> bool:
        """Whether files of one content are one file, which was moved or touched at most: others are copies, or equal by chance."""
        return self._is_at(one, file) or one.version.has_state_of(version_of(file))

    def _is_untouched(self, one: RecordedFile, file: ArrayFile) -> bool:
        return self._is_at(one, file) and one.version.has_state_of(version_of(file))

    def _is_at(self, one: RecordedFile, file: ArrayFile) -> bool:
        return self._spellings.of(one.path) == self._spellings.of(file.path)

    def _linked(
        self, app: str, file: ArrayFile, superset: str, *, sources: bool
    ) -> FileLink | NotLinked | None:
        verb = "read" if sources else "wrote"
        try:
            recording = self._recordings.of(app)
        except LineageError as error:
            return NotLinked(f"{app} {verb} {file.path}: {error}")
        arrays = [
            one
            for one in (recording.sources if sources else recording.outputs)
            if one.file is not None and one.file.holds_same(file)
        ]
        itself = [
            one
            for one in arrays
            if one.file is not None and version_of(one.file).has_state_of(version_of(file))
        ]
        nodes = {one.node.number: one for one in itself or arrays}
        if len(nodes) > 1:
            return NotLinked(
                f"{app} {verb} several arrays of the content of {file.path}; which of them it is, is not known"
            )
        if not nodes:
            # Another array of the same file.
            if sources or not grows(file.path, file.member):
                return None
            return NotLinked(
                f"{app} wrote {file.path}, and what {file.member} in it was made from is not recorded: it may lie there since before"
            )
        return FileLink(app, next(iter(nodes.values())), superset)

    def _other_writer(self, app: str, file: ArrayFile) -> NotLinked | None:
        """A program that wrote another version of the file before: what was read may be made of it."""
        recorded = self._store.recorded_files(FileQuery(file.path, self._spellings))
        others = [
            one
            for one in recorded.items
            if one.wrote and one.app != app and _is_before(one.version, version_of(file))
        ]
        if not others:
            return None
        latest = max(others, key=lambda one: one.version.mtime)
        return NotLinked(
            f"{latest.app} wrote {latest.version} at {file.path}, and {app} read {version_of(file)}: who made this version is not known"
        )

    def _later_versions(self, app: str, file: ArrayFile) -> Iterator[NotLinked]:
        """Programs that read another version of the file later: it may be made of this one."""
        recorded = self._store.recorded_files(FileQuery(file.path, self._spellings))
        written = [
            one.version
            for one in recorded.items
            if one.wrote and one.app != app and self._may_have(one, file, unreadable=False)
        ]
        told = set[str]()
        for one in recorded.items:
            is_other = not one.wrote and one.version.checksum != file.checksum
            if not is_other or one.app == app or one.app in told:
                continue
            if one.version.mtime < file.mtime or any(map(one.version.is_same, written)):
                continue
            if not self._may_have(one, file, unreadable=True):
                continue
            told.add(one.app)
            yield NotLinked(
                f"{one.app} read {one.version} at {file.path}, a later version than {version_of(file)}: who made it is not known"
            )

    def _may_have(self, one: RecordedFile, file: ArrayFile, *, unreadable: bool) -> bool:
        """Whether an application wrote, or read, the array of a file in another version of it; ``unreadable``: if its recording can't be read."""
        if not grows(file.path, file.member):
            return True
        try:
            recording = self._recordings.of(one.app)
        except LineageError:
            return unreadable
        arrays = recording.outputs if one.wrote else recording.sources
        return any(
            array.file is not None
            and array.file.member == file.member
            and version_of(array.file).is_same(one.version)
            for array in arrays
        )


def _is_before(written: FileVersion, read: FileVersion) -> bool:
    """Whether what was written may be what was read: a file that is read is not older."""
    return written.mtime <= read.mtime + MTIME_TOLERANCE_S


def _copy_text(reader: str, read: str, writer: str, written: str) -> str:
    return f"{read}, which {reader} read, has the checksum of {written}, which {writer} wrote: it counts as its copy"
