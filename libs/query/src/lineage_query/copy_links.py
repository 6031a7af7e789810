"""Where a trace continues from a file that was moved, copied or touched between two applications."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.job_links import FileCopy, FileNode, JobLinks, refused_links
from lineage_store.materialised import whose_rows
from lineage_store.paths import MTIME_TOLERANCE_S, Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile, RecordedFiles


class CopyLinks:
    """Which nodes wrote the files of which others read copies.

    Args:
        store: has the applications.
        direction: backward, who wrote what was read; forward, who read what was written.
        spellings: of the answer.
        ids: of all applications of the store.
    """

    def __init__(
        self, store: GraphStore, direction: Direction, spellings: Spellings, ids: Collection[str]
    ) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = spellings
        self._ids = ids

    def find(
        self,
        origin: FileNode,
        path: str,
        versions: Sequence[FileVersion],
        others: Mapping[FileNode, Sequence[FileVersion]],
    ) -> JobLinks:
        """Where a trace continues from a file that was moved, copied or touched.

        By its checksum; where one was not taken, by its name, size and time.
        A file of which some node recorded exactly the version that is looked for is no copy.
        """
        if len(versions) != 1:
            return JobLinks()
        (version,) = versions
        if self._is_backward and any(map(version.is_same, chain.from_iterable(others.values()))):
            return JobLinks()
        recorded = self._of_same_content(path, version)
        same_content = [
            file
            for file in recorded.items
            if file.version.size == version.size and whose_rows(file.app, self._ids) is None
        ]
        written_at: dict[str, list[float]] = {}
        for file in same_content:
            current_budget().check()
            if file.wrote:
                written_at.setdefault(self._spellings.of(file.path), []).append(file.version.mtime)
        for times in written_at.values():
            times.sort()
        candidates = [
            file
            for file in same_content
            if file.wrote == self._is_backward
            and FileNode(file.app, file.node) != origin
            and self._may_be_copy(file, version, path, written_at)
        ]
        # A job that changes nothing makes the content that it reads: which file of the two was there first does not show.
        copies: dict[FileCopy, None] = {}
        own: list[FileNode] = []
        for file in candidates:
            if file.app == origin.app and not file.version.has_state_of(version):
                own.append(FileNode(file.app, file.node))
            else:
                copies[self._copy_of(file, version, path, origin)] = None
        refused = refused_links(
            own,
            f"{origin.app} itself {'wrote' if self._is_backward else 'read'} a file of the content of {path}; whether one was copied from "
            "the other is not known",
        )
        if not self._is_backward:
            return replace(refused, copies=tuple(copies))
        # The same file, moved, is more than another of the same content.
        best = [copy for copy in copies if copy.exact] or list(copies)
        if len(best) > 1 or (best and recorded.unread):
            return refused_links(
                (copy.node for copy in best),
                f"{origin.app} read {path}, which no captured application wrote; several files have its "
                f"{'checksum' if version.checksum else 'name, size and time'}, and which of them it was copied from is not known",
            )
        return JobLinks(copies=tuple(best)) if best else refused

    def _of_same_content(self, path: str, version: FileVersion) -> RecordedFiles:
        """Files of the same checksum, and those of the same name, size and time of which no checksum says otherwise."""
        query = FileQuery(path, self._spellings, state=version, in_any_folder=True)
        same_state = self._store.recorded_files(query)
        items = [
            file for file in same_state.items if not (file.version.checksum and version.checksum)
        ]
        if not version.checksum:
            return RecordedFiles(items, same_state.unread)
        query = FileQuery(path, self._spellings, checksum=version.checksum)
        same_checksum = self._store.recorded_files(query)
        unread = dict.fromkeys((*same_checksum.unread, *same_state.unread))
        return RecordedFiles([*same_checksum.items, *items], tuple(unread))

    def _may_be_copy(
        self,
        file: RecordedFile,
        version: FileVersion,
        path: str,
        written_at: Mapping[str, Sequence[float]],
    ) -> bool:
        """Whether what was read may be a copy of what was written: the one is not older, and nobody wrote it where it was read.

        ``written_at``: by canonical path, when files of this content were written, in order.
        """
        current_budget().check()
        if self._is_backward:
            return file.version.mtime <= version.mtime or file.version.has_state_of(version)
        canonical_path = self._spellings.of(file.path)
        if canonical_path == self._spellings.of(path) and file.version.has_state_of(version):
            return False
        is_older = file.version.mtime < version.mtime and not file.version.has_state_of(version)
        times = written_at.get(canonical_path, ())
        nearest = bisect_left(times, file.version.mtime - MTIME_TOLERANCE_S)
        is_written = (
            nearest < len(times) and times[nearest] <= file.version.mtime + MTIME_TOLERANCE_S
        )
        return not is_older and not is_written

    def _copy_of(
        self, file: RecordedFile, version: FileVersion, path: str, origin: FileNode
    ) -> FileCopy:
        is_same_path = self._spellings.of(file.path) == self._spellings.of(path)
        has_checksums = bool(file.version.checksum and version.checksum)
        is_exact = has_checksums and (is_same_path or file.version.has_state_of(version))
        other_path = plain_path(file.path)
        reader, writer = (origin.app, file.app) if self._is_backward else (file.app, origin.app)
        read_path, written_path = (path, other_path) if self._is_backward else (other_path, path)
        if not has_checksums:
            text = (
                f"{read_path}, which {reader} read, has the name, size and time of {written_path}, which {writer} wrote, and "
                "no checksum: it counts as this file, moved"
            )
        elif is_same_path:
            text = f"{path}, which {writer} wrote, had another modification time when {reader} read it, and the same checksum"
        elif is_exact:
            text = f"{read_path}, which {reader} read, is {written_path}, which {writer} wrote, moved: by size, time and checksum"
        else:
            text = f"{read_path}, which {reader} read, has the checksum of {written_path}, which {writer} wrote: it counts as its copy"
        return FileCopy(FileNode(file.app, file.node), other_path, is_exact, text)
