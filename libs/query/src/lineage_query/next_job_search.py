"""Which applications wrote the files of an answer's rows, or read them: what a trace of one application says of the others.

It looks up recorded versions of files, as a trace through all jobs does, and opens neither files nor logs of tables. An answer is
the same with and without it: where it fails or takes too long, the group says that it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from lineage_core.contract.message import Begin, Message
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.reasons import cut_text
from lineage_core.contract.verdict import ARRAY
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import Budget, current_budget, use_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, NotQueried
from lineage_query.job_links import NAMED_MAX, FileNode, JobLinks, location_of
from lineage_query.next_jobs import ALL_JOBS, NextJob
from lineage_query.rows.places import Location, record_of_topic
from lineage_query.trace_query import TraceQuery
from lineage_query.version_links import VersionLinks
from lineage_store.errors import DamagedError
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery

if TYPE_CHECKING:
    from lineage_query.topic_links import TopicLinks

FILES_MAX = 20
"""Maximum number of files of one answer that are looked up."""
ITEMS_MAX = 10_000
"""Maximum number of items of a group whose files are looked up."""
LOOK_UP_S = 3.0
"""Seconds that one answer spends on it at most."""
NAME_MAX = 200
"""Characters of a job's name that are shown."""
AMONG_OFFSETS = "it wrote to the topic at such offsets; whether this record, its trace tells"


def with_next_jobs(answer: Answer, query: TraceQuery, store: GraphStore) -> Answer:
    """Name the applications that wrote the files of the rows of an answer (backward), or read them (forward).

    Args:
        answer: to ``query``. Of groups whose items are not all listed, the files of those that are count.
        query: one that goes through all jobs has gone on already, and its answer stays as it is, as does one that lists no rows.
        store: has the applications.
    """
    if query.all_jobs or query.by != "row":
        return answer
    is_end = query.until is None and query.steps is None
    search = _Search(store, answer.direction, is_end=is_end)
    budget = current_budget()
    with use_budget(Budget(seconds=min(LOOK_UP_S, budget.left_s), messages=budget.messages)):
        groups = [
            replace(group, next_jobs=search.of_group(group.app or answer.app, group))
            for group in answer.groups
        ]
    return replace(answer, groups=tuple(groups))


class _Search:
    """Looks up the files of one answer."""

    def __init__(self, store: GraphStore, direction: Direction, *, is_end: bool) -> None:
        self._store = store
        self._direction = direction
        self._is_backward = direction is Direction.BACKWARD
        self._is_end = is_end
        self._spellings = Spellings()
        self._files_left = FILES_MAX
        self._names: dict[str, str] = {}

    @cached_property
    def _links(self) -> VersionLinks:
        return VersionLinks(self._store, self._direction, self._spellings)

    @cached_property
    def _topics(self) -> TopicLinks:
        # Answers without records of topics do not load this.
        from lineage_query.topic_links import TopicLinks
        from lineage_query.unfiled_uses import UnfiledUses

        uses = UnfiledUses(self._store, self._spellings)
        return TopicLinks(self._store, self._direction, uses)

    def of_group(self, app: str, group: Group) -> tuple[NextJob, ...]:
        """The applications, each once for all of the files that it used in the same way."""
        rows = _first_rows(group)
        looked_up = list(rows.items())[: self._files_left]
        self._files_left -= len(looked_up)
        jobs: dict[tuple[str, bool, bool], NextJob] = {}
        for path, row in looked_up:
            of_file: dict[tuple[str, bool, bool], NextJob] = {}
            for job in self._of_file(FileNode(app, group.node), path, row):
                of_file.setdefault((job.app, job.same_version, bool(job.place)), job)
            for key, job in of_file.items():
                known = jobs.get(key)
                jobs[key] = job if known is None else replace(known, files=known.files + 1)
        listed = list(jobs.values())[:NAMED_MAX]
        if len(jobs) > len(listed):
            reason = f"{len(jobs) - len(listed):,} more {self._verb} them, which are left out here"
            listed.append(NextJob("", "", group.path or "", reason=reason))
        left_out = list(rows)[len(looked_up) :]
        if left_out or len(group.items) > ITEMS_MAX:
            reason = f"who {self._verb} the other files of these rows is not looked up; --all-jobs looks up all"
            listed.append(NextJob("", "", next(iter(left_out), ""), reason=reason))
        return tuple(listed)

    @property
    def _verb(self) -> str:
        return "wrote" if self._is_backward else "read"

    def _of_file(self, origin: FileNode, path: str, row: Location) -> list[NextJob]:
        record = record_of_topic(path)
        try:
            if record is not None:
                links = self._topics.find(origin, record, is_end=self._is_end)
                return list(self._users_of_record(links, path))
            return list(self._next_jobs(self._links.find(origin, path, is_end=self._is_end), row))
        except LineageError as problem:
            reason = cut_text(str(problem))
        except Exception as problem:  # The rows were found, whatever a store does here.
            reason = type(problem).__name__
        return [NextJob("", "", path, reason=f"who {self._verb} {path} is not known: {reason}")]

    def _users_of_record(self, links: JobLinks, record: str) -> Iterator[NextJob]:
        apps = list(dict.fromkeys(node.app for node in links.nodes))
        for app in apps[: NAMED_MAX + 1]:
            job = NextJob(app, self._name(app), record, place=record)
            if self._is_backward:
                yield replace(job, reason=AMONG_OFFSETS)
            else:
                yield replace(job, same_version=True)
        # Of those that are named it is said already that their traces tell.
        unsure = [refusal for refusal in links.unsure if refusal.app not in apps]
        yield from self._not_known((*links.refused, *unsure), record)

    def _not_known(self, refused: Iterable[NotQueried], path: str) -> Iterator[NextJob]:
        for refusal in refused:
            reason = cut_text(refusal.reason)
            yield NextJob(refusal.app, self._name(refusal.app), path, reason=reason)

    def _next_jobs(self, links: JobLinks, row: Location) -> Iterator[NextJob]:
        path = row.path
        node_by_app = {node.app: node for node in links.nodes}
        for app, node in list(node_by_app.items())[: NAMED_MAX + 1]:
            place = str(row) if self._is_named_by_place(node, row) else ""
            yield NextJob(app, self._name(app), path, same_version=True, place=place)
        for copy in links.copies[: NAMED_MAX + 1]:
            app, of_copy = copy.node.app, replace(row, path=copy.path)
            if self._is_named_by_place(copy.node, of_copy):
                place, reason = str(of_copy), copy.text
            else:
                place, reason = "", f"{copy.text}; {ALL_JOBS}"
            yield NextJob(app, self._name(app), path, place=place, reason=reason)
        yield from self._not_known(links.refused, path)

    def _is_named_by_place(self, node: FileNode, row: Location) -> bool:
        """Whether a place in a file names rows of a node, whatever else its application did with the file.

        Cells of arrays have places of their own, and bytes name no lines.
        """
        if row.unit == "byte" and not is_file_node(node.node):
            return False
        recorded = self._store.recorded_files(FileQuery(row.path, self._spellings, app=node.app))
        versions = [file.version for file in recorded.items if file.wrote == self._is_backward]
        is_only_use = not recorded.unread and len(versions) == len(recorded.items) > 0
        if not (is_only_use and all(map(versions[0].is_same, versions))):
            return False
        nodes = self._store.graph(node.app).nodes()
        return all(record.op != ARRAY for record in nodes if record.node == node.node)

    def _name(self, app: str) -> str:
        if app not in self._names:
            begins: Sequence[Message] = ()
            # Of a damaged one no name is known.
            with suppress(DamagedError):
                begins = self._store.messages(app, "begin")
            names = [message.name for message in begins if isinstance(message, Begin)]
            self._names[app] = cut_text(names[0], NAME_MAX) if names else ""
        return self._names[app]


def _first_rows(group: Group) -> Mapping[str, Location]:
    """By file, the first of the listed rows."""
    rows: dict[str, Location] = {}
    for location in map(location_of, group.items[:ITEMS_MAX]):
        if location is not None:
            rows.setdefault(location.path, location)
    return rows
