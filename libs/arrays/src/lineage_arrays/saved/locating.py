"""Which array of which recording a name means: of a file, the version that lies there now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.files import checksum_of, is_folder, version_at
from lineage_arrays.formats.names import array_name, grows, split_name
from lineage_arrays.saved.linking import Recordings, version_of
from lineage_arrays.saved.reading import (
    APPLICATIONS_SEARCHED,
    ArrayRecording,
    NamedArray,
    find_array,
    listed_arrays,
    readable,
)
from lineage_arrays.saved.storing import is_array
from lineage_arrays.workflow import ArrayFile
from lineage_core.tracing.budget import current_budget
from lineage_store.paths import Spellings
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile

FileStatus: TypeAlias = Literal["same", "changed", "gone"]


@dataclass(frozen=True)
class Located:
    """An array of a recording."""

    app: str
    array: NamedArray


class CurrentFiles(Protocol):
    """Says what lies at paths now."""

    def real_path(self, path: str) -> str:
        """The path that a typed one means."""

    def is_folder(self, path: str) -> bool:
        """Whether it is a folder, whose size and time say too little of its files."""

    def version(self, path: str) -> FileVersion | None:
        """What lies there, without its checksum; None: nothing that can be read."""

    def checksum(self, path: str) -> str:
        """The checksum of what lies there; empty: it can't be read."""


class LocalFiles(CurrentFiles):
    """Files of this machine."""

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)

    def is_folder(self, path: str) -> bool:
        return is_folder(path)

    def version(self, path: str) -> FileVersion | None:
        try:
            return FileVersion(*version_at(path))
        except (OSError, ValueError, ArrayLineageError):
            return None

    def checksum(self, path: str) -> str:
        try:
            return checksum_of(path)
        except (OSError, ArrayLineageError):
            return ""


LOCAL_FILES = LocalFiles()


def status_of(file: ArrayFile) -> FileStatus:
    """Whether a file of this machine is still what was read or written: by size and time, and where the time is another one by its checksum."""
    current = LOCAL_FILES.version(file.path)
    if current is None:
        return "gone"
    if not LOCAL_FILES.is_folder(file.path) and version_of(file).has_state_of(current):
        return "same"
    if current.size != file.size:
        return "changed"
    return "same" if LOCAL_FILES.checksum(file.path) == file.checksum else "changed"


def locate(
    store: GraphStore,
    recordings: Recordings[ArrayRecording],
    name: str,
    app: str | None,
    *,
    sources: bool,
    files: CurrentFiles = LOCAL_FILES,
) -> Located:
    """The array that a name means.

    Args:
        store: the store.
        recordings: of its applications.
        name: of an array, or the path of a file; where the file has several with the name in it (`lineage_arrays.formats.names`).
        app: the application; None: the one that wrote (read) the file as it is now, else the latest that has such an array.
        sources: an array that came from outside is meant, not one that was made.
        files: what lies at paths now.

    Raises:
        ArrayLineageError: no recording has it, or which one it is is not known.
    """
    path, member = split_name(name)
    real_path = files.real_path(path)
    absolute = array_name(real_path, member)
    if app is not None:
        return _named(recordings, app, name, absolute, None, sources=sources)
    recorded = store.recorded_files(FileQuery(real_path, Spellings()))
    versions = [one for one in recorded.items if one.wrote is not sources and is_array(one.node)]
    if grows(path, member):
        # Others may have written other arrays of the file since.
        versions = [one for one in versions if _has(recordings, one, absolute, sources=sources)]
    chosen = _chosen(files, real_path, versions, sources=sources)
    if chosen is not None:
        current = files.version(real_path) if recorded.unread else None
        if recorded.unread and (current is None or not chosen.version.has_state_of(current)):
            verb = "read" if sources else "wrote"
            raise ArrayLineageError(
                f"whether {recorded.unread[0]} {verb} {real_path} later is not known, as it is damaged, or recorded more than "
                "one question reads: name an application by --app"
            )
        return _named(recordings, chosen.app, name, absolute, chosen, sources=sources)
    latest = store.applications()[:APPLICATIONS_SEARCHED]
    for application, arrays in listed_arrays(store, readable(latest)):
        current_budget().check()
        if any(array.name == name for array in arrays):
            try:
                located = _named(recordings, application.app, name, absolute, None, sources=sources)
            except ArrayLineageError:
                continue
            # A damaged one began at the latest at the time that is known of it: those behind are older.
            _refuse_damaged(latest[: latest.index(application)], name)
            return located
    _refuse_damaged(latest, name)
    kind = "read" if sources else "made"
    raise ArrayLineageError(
        f"no recording {kind} an array {name!r}: `lineage arrays list` lists them; an older one is asked with --app"
    )


def _refuse_damaged(applications: Sequence[ApplicationRecord], name: str) -> None:
    """Refuse where a damaged application may be the latest that has an array.

    Raises:
        ArrayLineageError: one of the applications is damaged.
    """
    for application in applications:
        if application.damage:
            raise ArrayLineageError(
                f"whether {application.app} has an array {name!r} is not known, as it is damaged: name an application by --app"
            )


def _chosen(
    files: CurrentFiles, path: str, versions: Sequence[RecordedFile], *, sources: bool
) -> RecordedFile | None:
    """Of versions of a file that programs used, the one that lies there now, or the latest.

    Raises:
        ArrayLineageError: several programs wrote what lies there, and which one did it last is not known.
    """
    if not versions:
        return None
    current = files.version(path)
    if current is None:
        return versions[0]
    # As in `status_of`.
    if not files.is_folder(path):
        same_state = [one for one in versions if one.version.has_state_of(current)]
        if same_state:
            return same_state[0]
    is_as_large = any(one.version.size == current.size for one in versions)
    checksum = files.checksum(path) if is_as_large else ""
    same_content = [one for one in versions if checksum and one.version.checksum == checksum]
    apps = list(dict.fromkeys(one.app for one in same_content))
    if len(apps) > 1 and not sources:
        raise ArrayLineageError(
            f"{', '.join(apps)} wrote the content that {path} has: name one of them by --app"
        )
    return (same_content or list(versions))[0]


def _has(
    recordings: Recordings[ArrayRecording], one: RecordedFile, absolute: str, *, sources: bool
) -> bool:
    """Whether the array of a name is among those that an application read or wrote of a file."""
    try:
        recording = recordings.of(one.app)
    except (ArrayLineageError, KeyError):
        # Why it can't be read is said where it is the one that is meant.
        return True
    return bool(_of_version(recording, one, absolute, sources=sources))


def _of_version(
    recording: ArrayRecording, one: RecordedFile, absolute: str, *, sources: bool
) -> list[NamedArray]:
    return [
        array
        for array in (recording.sources if sources else recording.outputs)
        if array.file is not None
        and array_name(array.file.path, array.file.member) == absolute
        and version_of(array.file).is_same(one.version)
    ]


def _named(
    recordings: Recordings[ArrayRecording],
    app: str,
    name: str,
    absolute: str,
    chosen: RecordedFile | None,
    *,
    sources: bool,
) -> Located:
    recording = recordings.of(app)
    if chosen is not None:
        arrays = _of_version(recording, chosen, absolute, sources=sources)
        if arrays:
            return Located(app, arrays[-1])
    try:
        return Located(app, find_array(app, recording, name, sources=sources))
    except ArrayLineageError:
        if absolute == name:
            raise
        return Located(app, find_array(app, recording, absolute, sources=sources))


def change_since(located: Located) -> tuple[str, ...]:
    """What is to be said about the file of an array on this machine, if it is another one now."""
    file = located.array.file
    status = "same" if file is None else status_of(file)
    if file is None or status == "same":
        return ()
    happened = "is gone" if status == "gone" else "has changed since"
    return (
        f"{file.path} {happened}: the answer is about {version_of(file)}, which {located.app} recorded",
    )
