"""Where a trace continues from a file that was moved, copied or touched between two applications."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import NotQueried
from lineage_query.finding import UNREAD_REASON
from lineage_query.job_links import FileCopy, FileNode, JobLinks, refused_links
from lineage_store.materialised import whose_rows
from lineage_store.paths import MTIME_TOLERANCE_S, Spellings, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFile, RecordedFiles

VERSIONS_MAX = 16
"""Maximum number of versions of a file of which copies are looked for, where a node recorded several: each takes queries of the store."""


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
        A file of which some node recorded exactly the version that is looked for is no copy. Where a node recorded several versions of
        the file, copies of each are refused.
        """
        if len(versions) == 1:
            return self._of_one_content(*self._of_version(origin, path, versions[0], others), path)
        verb = "read" if self._is_backward else "wrote"
        reason = f"{origin.app} {verb} several versions of {path}; which of them holds these rows is not known"
        if len(versions) > VERSIONS_MAX:
            more = f"{reason}; who used copies of so many is not looked for"
            return JobLinks(refused=(NotQueried(origin.app, more),))
        refused: dict[NotQueried, None] = {}
        for version in versions:
            copies, of_version = self._of_version(origin, path, version, others)
            of_copies = refused_links((copy.node for copy in copies), reason).refused
            refused |= dict.fromkeys((*of_version, *of_copies))
        return JobLinks(refused=tuple(refused))

    def _of_version(
        self,
        origin: FileNode,
        path: str,
        version: FileVersion,
        others: Mapping[FileNode, Sequence[FileVersion]],
    ) -> tuple[Mapping[FileCopy, RecordedFile], tuple[NotQueried, ...]]:
        """The copies of a version, and who is refused."""
        if self._is_backward and any(map(version.is_same, chain.from_iterable(others.values()))):
            return {}, ()
        recorded = self._of_same_content(path, version)
        same_content = [
            file
            for file in recorded.items
            if file.version.size == version.size and whose_rows(file.app, self._ids) is None
        ]
        writes = _Writes.of((file for file in same_content if file.wrote), self._spellings)
        candidates = [
            file
            for file in same_content
            if file.wrote == self._is_backward
            and FileNode(file.app, file.node) != origin
            and self._may_be_copy(file, version, path, writes)
        ]
        # A job that changes nothing makes the content that it reads: which file of the two was there first does not show.
        copies: dict[FileCopy, RecordedFile] = {}
        own: list[FileNode] = []
        for file in candidates:
            if file.app == origin.app and not file.version.has_state_of(version):
                own.append(FileNode(file.app, file.node))
            else:
                copy = self._copy_of(file, version, path, origin)
                if copy.exact and not self._is_backward:
                    copy = self._among_several(copy, file, path, origin, writes)
                copies[copy] = file
        refused = refused_links(
            own,
            f"{origin.app} itself {'wrote' if self._is_backward else 'read'} a file of the content of {path}; whether one was copied from "
            "the other is not known",
        ).refused
        if not self._is_backward:
            reason = f"whether it read {path} is not known: {UNREAD_REASON}"
            refused += tuple(
                NotQueried(app, reason) for app in recorded.unread if app != origin.app
            )
            return copies, refused
        # The same file, moved, is more than another of the same content.
        best = [copy for copy in copies if copy.exact] or list(copies)
        if len(best) > 1 or (best and recorded.unread):
            several = refused_links(
                (copy.node for copy in best),
                f"{origin.app} read {path}, which no captured application wrote; several files have its "
                f"{'checksum' if version.checksum else 'name, size and time'}, and which of them it was copied from is not known",
            )
            return {}, several.refused
        return {copy: copies[copy] for copy in best}, () if best else refused

    def _of_one_content(
        self,
        copies: Mapping[FileCopy, RecordedFile],
        refused: tuple[NotQueried, ...],
        path: str,
    ) -> JobLinks:
        """The copies whose nodes read or wrote them in one version alone; others are refused."""
        verb = "wrote" if self._is_backward else "read"
        kept, gaps = list[FileCopy](), list(refused)
        for copy, file in copies.items():
            if self._has_other_content(file):
                reason = f"it {verb} several versions of {copy.path}, one of which has the content of {path}"
                gaps.append(NotQueried(copy.node.app, reason))
            else:
                kept.append(copy)
        return JobLinks(refused=tuple(gaps), copies=tuple(kept))

    def _has_other_content(self, file: RecordedFile) -> bool:
        """Whether the node that read or wrote a file did so in a version of other content, too."""
        query = FileQuery(file.path, self._spellings, app=file.app)
        return any(
            (other.node, other.wrote) == (file.node, file.wrote)
            and not (other.version.checksum and other.version.checksum == file.version.checksum)
            and not other.version.is_same(file.version)
            for other in self._store.recorded_files(query).items
        )

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
        writes: _Writes,
    ) -> bool:
        """Whether what was read may be a copy of what was written: the one is not older, and nobody wrote it where it was read."""
        current_budget().check()
        if self._is_backward:
            return file.version.mtime <= version.mtime or file.version.has_state_of(version)
        canonical_path = self._spellings.of(file.path)
        if canonical_path == self._spellings.of(path) and file.version.has_state_of(version):
            return False
        is_older = file.version.mtime < version.mtime and not file.version.has_state_of(version)
        return not is_older and not any(writes.of_state(file.version, canonical_path))

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

    def _among_several(
        self, copy: FileCopy, file: RecordedFile, path: str, origin: FileNode, writes: _Writes
    ) -> FileCopy:
        """An exact copy that was read, which is not exact where a trace back from it finds other files, too, that it may be."""
        own = origin, self._spellings.of(path)
        others = (
            write
            for write in chain(
                writes.of_state(file.version),
                writes.until(file.version, self._spellings.of(file.path)),
            )
            if (write.node, write.path) != own and write.has_checksum and file.version.checksum
        )
        if next(others, None) is None:
            return copy
        text = (
            f"{copy.path}, which {file.app} read, has the checksum of {path}, which {origin.app} wrote, and of others that were written; "
            "which of them it is, is not known"
        )
        return replace(copy, exact=False, text=text)


@dataclass(frozen=True, slots=True)
class _Write:
    """That a node wrote a file of some content. ``path``: canonical."""

    mtime: float
    node: FileNode
    path: str
    has_checksum: bool


@dataclass(frozen=True)
class _Writes:
    """All files of some content that were written, by time; and by their paths."""

    all: Sequence[_Write]
    by_path: Mapping[str, Sequence[_Write]]

    @classmethod
    def of(cls, files: Iterable[RecordedFile], spellings: Spellings) -> _Writes:
        """Of files that were written, each of which has the content."""
        writes = list[_Write]()
        for file in files:
            current_budget().check()
            node, path = FileNode(file.app, file.node), spellings.of(file.path)
            writes.append(_Write(file.version.mtime, node, path, bool(file.version.checksum)))
        writes.sort(key=_time)
        by_path: dict[str, list[_Write]] = {}
        for write in writes:
            by_path.setdefault(write.path, []).append(write)
        return cls(writes, by_path)

    def of_state(self, version: FileVersion, path: str | None = None) -> Iterator[_Write]:
        """Those of the time of a version; ``path``: those to this one alone."""
        writes = self.all if path is None else self.by_path.get(path, ())
        first = bisect_left(writes, version.mtime - MTIME_TOLERANCE_S, key=_time)
        last = version.mtime + MTIME_TOLERANCE_S
        of_time = (writes[at] for at in range(first, len(writes)))
        return takewhile(lambda write: write.mtime <= last, of_time)

    def until(self, version: FileVersion, path: str) -> Iterator[_Write]:
        """Those to a path that are not later than a version."""
        last = version.mtime + MTIME_TOLERANCE_S
        return takewhile(lambda write: write.mtime <= last, self.by_path.get(path, ()))


def _time(write: _Write) -> float:
    return write.mtime
