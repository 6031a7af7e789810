"""Which nodes wrote the version of a file that a node read, or read the one that it wrote.

One look-up in the store for each file, whatever the number of applications: no table's log is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import NotQueried
from lineage_query.copy_links import CopyLinks
from lineage_query.finding import UNREAD_REASON
from lineage_query.job_links import (
    NAMED_MAX,
    FileNode,
    JobLinks,
    others_text,
    refused_links,
)
from lineage_store.materialised import whose_rows
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, FileVersion, RecordedFiles


class VersionLinks:
    """Which nodes wrote the versions of files that others read.

    Args:
        store: has the applications.
        direction: backward, who wrote what was read; forward, who read what was written.
        spellings: of the answer.
    """

    def __init__(self, store: GraphStore, direction: Direction, spellings: Spellings) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._spellings = spellings
        self._ids = store.application_ids()
        self._copies = CopyLinks(store, direction, spellings, self._ids)

    def find(self, origin: FileNode, path: str, *, is_end: bool) -> JobLinks:
        """The nodes that wrote (backward) or read (forward) the version of a file that a node recorded.

        Args:
            origin: read the file (backward), or wrote it.
            path: of the file.
            is_end: whether ``origin`` is known to have read or written the file. If False and it has not, there are no links.

        Raises:
            RowsError: the path can't be the name of a file.
            BudgetError: the query exceeds its budget.
            StoreUnavailableError: the store does not answer.
        """
        recorded = self._recorded(origin, path, is_end=is_end)
        origin_versions: dict[FileVersion, None] = {}
        versions_by_node: dict[FileNode, dict[FileVersion, None]] = {}
        overwriting_versions: list[FileVersion] = []
        for file in recorded.items:
            if whose_rows(file.app, self._ids) is not None and file.app != origin.app:
                continue
            file_node = FileNode(file.app, file.node)
            if file.wrote != self._is_backward:
                if file_node == origin:
                    origin_versions[file.version] = None
                elif file.wrote:
                    overwriting_versions.append(file.version)
            elif file_node != origin:
                versions_by_node.setdefault(file_node, {})[file.version] = None
        others = {node: tuple(of_node) for node, of_node in versions_by_node.items()}
        if not origin_versions and not is_end:
            return JobLinks()
        verb = "wrote" if self._is_backward else "read"
        reason = f"whether it {verb} {path} is not known: {UNREAD_REASON}"
        unread_links = JobLinks(
            refused=tuple(NotQueried(app, reason) for app in recorded.unread if app != origin.app)
        )
        versions = tuple(origin_versions)
        copies = self._copies.find(origin, path, versions, others)
        if copies.copies:
            others = {
                node: of_node
                for node, of_node in others.items()
                if node not in {copy.node for copy in copies.copies}
            }
            if self._is_backward:
                return copies
        if others and self._is_backward and recorded.unread:
            # One of the unread applications may have written the same version later.
            links = refused_links(others, f"which other applications wrote {path} is not known")
        elif others:
            links = self._compare(origin.app, path, versions, others, overwriting_versions)
        else:
            links = JobLinks()
        refused = dict.fromkeys((*links.refused, *unread_links.refused, *copies.refused))
        return JobLinks(links.nodes, tuple(refused), copies.copies)

    def _compare(
        self,
        app: str,
        path: str,
        origin_versions: Sequence[FileVersion],
        others: Mapping[FileNode, Sequence[FileVersion]],
        overwriting_versions: Sequence[FileVersion],
    ) -> JobLinks:
        verb, other_verb = ("read", "wrote") if self._is_backward else ("wrote", "read")
        if len(origin_versions) != 1:
            reason = (
                f"{app} {verb} several versions of {path}; which of them holds these rows is not known"
                if origin_versions
                else f"which version of {path} {app} {verb} is not known"
            )
            return refused_links(others, reason)
        (version,) = origin_versions
        same_version_nodes = [
            node for node, versions in others.items() if any(map(version.is_same, versions))
        ]
        if self._is_backward and len(same_version_nodes) > 1:
            return refused_links(
                same_version_nodes,
                f"several nodes wrote {path} in the version that {app} read; which wrote it last is not known",
            )
        unsure = [node for node in same_version_nodes if len(others[node]) > 1]
        links = refused_links(
            unsure, f"it {other_verb} several versions of {path}, one of which {app} {verb}"
        )
        other_version_nodes = [
            node
            for node, versions in others.items()
            if node not in same_version_nodes
            and (
                self._is_backward
                or any(_may_hold(read, version, overwriting_versions) for read in versions)
            )
        ]
        if self._is_backward:
            # Of the writers of other versions, report the latest only, and none if some node wrote exactly this version.
            other_version_nodes = [] if same_version_nodes else other_version_nodes[:1]
        other_version_refusals = tuple(
            NotQueried(
                node.app,
                f"it {other_verb} {max(others[node], key=lambda seen_version: seen_version.mtime)} at {path}, and {app} {verb} {version}"
                + others_text(len(other_version_nodes)),
            )
            for node in other_version_nodes[:NAMED_MAX]
        )
        return JobLinks(
            tuple(node for node in same_version_nodes if node not in unsure),
            (*links.refused, *other_version_refusals),
        )

    def _recorded(self, origin: FileNode, path: str, *, is_end: bool) -> RecordedFiles:
        """The versions of a file that decide where a trace continues from a node.

        Backward, if some node wrote exactly the version that the node read, those are the versions of its application and
        of the writers': they are found in the same time however many files of that name the store has.
        """
        query = FileQuery(path, self._spellings)
        of_origin = self._store.recorded_files(replace(query, app=origin.app))
        versions = {
            file.version
            for file in of_origin.items
            if file.node == origin.node and file.wrote != self._is_backward
        }
        if not versions and not is_end:
            return of_origin
        if self._is_backward and len(versions) == 1:
            same_state = self._store.recorded_files(replace(query, state=versions.pop()))
            writers = dict.fromkeys(file.app for file in same_state.items if file.wrote)
            if writers:
                others = (
                    self._store.recorded_files(replace(query, app=app)).items
                    for app in writers
                    if app != origin.app
                )
                items = [*of_origin.items, *(file for files in others for file in files)]
                return RecordedFiles(items, same_state.unread)
        return self._store.recorded_files(query)


def _may_hold(
    read: FileVersion, written: FileVersion, overwriting_versions: Iterable[FileVersion]
) -> bool:
    """Whether a version that was read may hold rows of another version that was written.

    A program may have copied, appended to or edited the file. The version holds no rows if it is older, or if another
    application recorded that it wrote exactly this version: a write replaces the file.
    """
    current_budget().check()
    if read.is_unknown or written.is_unknown:
        return True
    is_older = read.mtime < written.mtime and not read.has_state_of(written)
    return not is_older and not any(map(read.is_same, overwriting_versions))
