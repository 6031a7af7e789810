"""Which array of which recording a name means: of a file, the version that lies there now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.files import checksum_of, is_folder, version_at
from lineage_arrays.formats.names import array_name, grows, split_name
from lineage_arrays.saved.linking import Recordings, version_of
from lineage_arrays.saved.reading import (
    APPLICATIONS_SEARCHED,
    NamedArray,
    StoredRecording,
    listed_arrays,
)
from lineage_arrays.saved.storing import is_array
from lineage_arrays.workflow import ArrayFile
from lineage_core.tracing.budget import current_budget
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile

FileStatus: TypeAlias = Literal["same", "changed", "gone"]


@dataclass(frozen=True)
class Located:
    """An array of a recording, and what is to be said about its file."""

    app: str
    array: NamedArray
    warnings: tuple[str, ...] = ()


def status_of(file: ArrayFile) -> FileStatus:
    """Whether a file is still what was read or written: by size and time, and where the time is another one by its checksum."""
    current = _version_at(file.path)
    if current is None:
        return "gone"
    # A folder's size and time say too little of its files.
    if not is_folder(file.path) and version_of(file).has_state_of(current):
        return "same"
    if current.size != file.size:
        return "changed"
    return "same" if _checksum(file.path) == file.checksum else "changed"


def _version_at(path: str) -> FileVersion | None:
    """What lies at a path now, without its checksum; None: nothing that can be read."""
    try:
        return FileVersion(*version_at(path))
    except (OSError, ValueError, ArrayLineageError):
        return None


def _checksum(path: str) -> str:
    try:
        return checksum_of(path)
    except (OSError, ArrayLineageError):
        return ""


def locate(
    store: GraphStore, recordings: Recordings, name: str, app: str | None, *, sources: bool
) -> Located:
    """The array that a name means.

    Args:
        store: the store.
        recordings: of its applications.
        name: of an array, or the path of a file; where the file has several with the name in it (`lineage_arrays.formats.names`).
        app: the application; None: the one that wrote (read) the file as it is now, else the latest that has such an array.
        sources: an array that came from outside is meant, not one that was made.

    Raises:
        ArrayLineageError: no recording has it, or which one it is is not known.
    """
    path, member = split_name(name)
    absolute = array_name(os.path.realpath(path), member)
    if app is not None:
        return _warned(_named(recordings, app, name, absolute, None, sources=sources))
    query = FileQuery(os.path.realpath(path), Spellings())
    recorded = store.recorded_files(query)
    files = [one for one in recorded.items if one.wrote is not sources and is_array(one.node)]
    if grows(path, member):
        # Others may have written other arrays of the file since.
        files = [one for one in files if _has(recordings, one, absolute, sources=sources)]
    chosen = _chosen(os.path.realpath(path), files, sources=sources)
    if chosen is not None:
        return _warned(_named(recordings, chosen.app, name, absolute, chosen, sources=sources))
    for application, arrays in listed_arrays(store, store.applications()[:APPLICATIONS_SEARCHED]):
        current_budget().check()
        if any(array.name == name for array in arrays):
            try:
                return _warned(
                    _named(recordings, application.app, name, absolute, None, sources=sources)
                )
            except ArrayLineageError:
                continue
    kind = "read" if sources else "made"
    raise ArrayLineageError(
        f"no recording {kind} an array {name!r}: `lineage arrays list` lists them; an older one is asked with --app"
    )


def _chosen(path: str, files: Sequence[RecordedFile], *, sources: bool) -> RecordedFile | None:
    """Of versions of a file that programs used, the one that lies there now, or the latest.

    Raises:
        ArrayLineageError: several programs wrote what lies there, and which one did it last is not known.
    """
    if not files:
        return None
    current = _version_at(path)
    if current is None:
        return files[0]
    # As in `status_of`.
    same_state = (
        [] if is_folder(path) else [one for one in files if one.version.has_state_of(current)]
    )
    if same_state:
        return same_state[0]
    checksum = _checksum(path) if any(one.version.size == current.size for one in files) else ""
    same_content = [one for one in files if checksum and one.version.checksum == checksum]
    apps = list(dict.fromkeys(one.app for one in same_content))
    if len(apps) > 1 and not sources:
        raise ArrayLineageError(
            f"{', '.join(apps)} wrote the content that {path} has: name one of them by --app"
        )
    return (same_content or list(files))[0]


def _has(recordings: Recordings, one: RecordedFile, absolute: str, *, sources: bool) -> bool:
    """Whether the array of a name is among those that an application read or wrote of a file."""
    try:
        recording = recordings.of(one.app)
    except (ArrayLineageError, KeyError):
        # Why it can't be read is said where it is the one that is meant.
        return True
    return bool(_of_version(recording, one, absolute, sources=sources))


def _of_version(
    recording: StoredRecording, one: RecordedFile, absolute: str, *, sources: bool
) -> list[NamedArray]:
    return [
        array
        for array in (recording.sources if sources else recording.outputs)
        if array.file is not None
        and array_name(array.file.path, array.file.member) == absolute
        and version_of(array.file).is_same(one.version)
    ]


def _named(
    recordings: Recordings,
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
        return Located(app, recording.find(name, sources=sources))
    except ArrayLineageError:
        if absolute == name:
            raise
        return Located(app, recording.find(absolute, sources=sources))


def _warned(located: Located) -> Located:
    file = located.array.file
    if file is None:
        return located
    status = status_of(file)
    if status == "same":
        return located
    happened = "is gone" if status == "gone" else "has changed since"
    warning = f"{file.path} {happened}: the answer is about {version_of(file)}, which {located.app} recorded"
    return Located(located.app, located.array, (warning,))
