"""Answers at levels above rows: which containers the rows of an answer lie in, and how many rows each has.

Containers are one tree on the side of the data (split, file, dataset) and one on the side of the work (task, node,
application, job). What a container has is found from the traced rows. Positions stay ranges: the rows of records are never
listed. Rows of DataFrames come from a recomputation, which lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lineage_core.contract.address import parse_space
from lineage_core.contract.graph import RECIPE_NODE_KINDS, ContainerRecord
from lineage_core.contract.message import Begin, Commit
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError
from lineage_core.linking.linker import TaskId
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_core.tracing.trace_result import TraceError
from lineage_openlineage.datasets import dataset_name, paths_by_dataset
from lineage_query.answers import Answer, Container, Group, RowsOutside
from lineage_query.file_parts import region_of_parts
from lineage_query.jobs import full_dataset_name, job_name
from lineage_query.names import Names, TaskName
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.file_status import FileStatus, worst
from lineage_query.rows.locations import FilePart, Locations
from lineage_query.rows.places import (
    TOPICS,
    LocationError,
    parse_location,
    partition_and_offset,
    record_of_topic,
    split_name,
)
from lineage_query.trace import Trace
from lineage_query.trace_query import LEVELS
from lineage_store.materialised import whose_rows
from lineage_store.paths import plain_path, shown_path
from lineage_store.port import GraphStore

TYPES_NAMED = 20
START_ITEMS = 20
"""Items listed of those that the query names."""
CONTAINERS_MAX = 200_000
"""Maximum number of containers of an answer."""

_RowsKey: TypeAlias = tuple[object, ...]
"""Names rows that are numbered together: those of a version of a file, or of a space. Equal keys and numbers are one row."""
_ContainerKey: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class _Application:
    """What containers of one application are named by. ``cwd``: its working directory; ``name``: its own."""

    app: str
    names: Names
    locations: Locations
    kinds: Mapping[str, str]
    paths: Mapping[str, str | None]
    containers: Mapping[str, Sequence[ContainerRecord]]
    cwd: str
    name: str


@dataclass(slots=True)
class _Counted:
    """Rows of one container or, without a name, of a node that lie in none."""

    name: str
    app: str
    rows: dict[_RowsKey, list[Region]] = field(default_factory=dict)

    def add(self, key: _RowsKey, rows: Region) -> None:
        self.rows.setdefault(key, []).append(rows)

    @property
    def count(self) -> int:
        return sum(Region.union(regions).count for regions in self.rows.values())


@dataclass(slots=True)
class RowCounts:
    """Rows by container, and the rows that lie in none; counts of several applications can be put together."""

    containers: dict[_ContainerKey, _Counted] = field(default_factory=dict)
    outside: dict[_ContainerKey, _Counted] = field(default_factory=dict)
    uncounted: dict[_RowsKey, set[_RowsKey]] = field(default_factory=dict)
    """By version of a file, the keys of rows whose numbers in the file are not known."""
    counted: set[_RowsKey] = field(default_factory=set)
    """Versions of files some rows of which are known by their numbers."""
    paths: dict[_RowsKey, str] = field(default_factory=dict)

    def add_all(self, other: RowCounts) -> None:
        """Add other counts: rows that both have count once."""
        for mine, others in (
            (self.containers, other.containers),
            (self.outside, other.outside),
        ):
            for key, counted in others.items():
                of_key = mine.setdefault(key, _Counted(counted.name, counted.app))
                for rows_key, regions in counted.rows.items():
                    of_key.rows.setdefault(rows_key, []).extend(regions)
        for version, keys in other.uncounted.items():
            self.uncounted.setdefault(version, set()).update(keys)
        self.counted |= other.counted
        self.paths |= other.paths

    def shown(self, answer: Answer, level: str) -> Answer:
        """An answer at a level: with these containers instead of rows."""
        containers = sorted(
            (
                Container(counted.name, counted.count, counted.app)
                for counted in self.containers.values()
            ),
            key=lambda container: (-container.rows, container.name, container.app),
        )
        outside = (
            RowsOutside(counted.name, counted.count, counted.app)
            for counted in self.outside.values()
        )
        start = tuple(replace(group, items=group.items[:START_ITEMS]) for group in answer.start)
        return replace(
            answer,
            start=start,
            groups=tuple(replace(group, items=()) for group in answer.groups),
            warnings=tuple(dict.fromkeys((*answer.warnings, *self._warnings()))),
            by=level,
            containers=tuple(containers),
            containers_total=len(containers),
            outside=tuple(rows for rows in outside if rows.rows),
        )

    def _warnings(self) -> Iterator[str]:
        for version, keys in self.uncounted.items():
            if len(keys) > 1 or version in self.counted:
                yield (
                    f"{self.paths[version]}: rows that several nodes read may count more than once, because the rows "
                    "before them can't be counted"
                )


class LevelCounter:
    """Counts the rows of the traces of one query by the containers of one level."""

    def __init__(
        self, level: str, store: GraphStore, locations_of: Callable[[str], Locations]
    ) -> None:
        """A counter of one query.

        Args:
            level: one of `LEVELS`, or a type of containers that programs registered.
            store: has the applications.
            locations_of: rows of the files of an application, as they are now.
        """
        self.level = level
        self._store = store
        self._ids = frozenset(store.application_ids())
        self._locations_of = locations_of
        self._applications: dict[str, _Application] = {}
        self._datasets: dict[tuple[str, str], dict[str, tuple[str, str]]] = {}
        self._tasks: dict[str, dict[str, dict[TaskId, list[Region]]]] = {}
        self._stages: dict[str, dict[TaskId, int]] = {}

    def check_level(self, apps: Iterable[str]) -> None:
        """Refuse a level that does not exist in the applications of an answer.

        Raises:
            TraceError: there is none of this name.
        """
        if self.level in LEVELS:
            return
        types = {
            container.type
            for app in apps
            for containers in self._application(app).containers.values()
            for container in containers
        }
        if self.level not in types:
            known = ", ".join((*LEVELS, *sorted(set(types).difference(LEVELS))[:TYPES_NAMED]))
            raise TraceError(f"there is no level {self.level!r:.80}: rows are counted by {known}")

    def remember_tasks(self, trace: Trace) -> None:
        """Remember the tasks that led to the records of a trace: listed rows don't say which tasks they are of."""
        records = trace.records
        # Materialised flows were written by queries, and not by tasks of the job.
        if records is None or whose_rows(records.app, self._ids) is not None:
            return
        for space, regions in records.result.tasks.items():
            of_space = self._tasks.setdefault(records.app, {}).setdefault(space, {})
            for task, region in regions.items():
                of_space.setdefault(task, []).append(region)

    def count_records(self, records: RecordTrace, answer: Answer) -> tuple[RowCounts, Answer]:
        """The rows that a trace of records found, and its answer with the status of all files that they lie in."""
        counts, application = RowCounts(), self._application(records.app)
        statuses = {
            node: self._add_regions(counts, application, node, items.spaces)
            for node, items in records.result.found.items()
        }
        groups = tuple(
            replace(group, file_status=worst((group.file_status, statuses.get(group.node, "same"))))
            for group in answer.groups
        )
        changed = answer.changed or any(group.changed for group in groups)
        return counts, replace(answer, groups=groups, changed=changed)

    def count_answer(self, answer: Answer) -> RowCounts:
        """The rows that an answer lists.

        Raises:
            TooMuchError: it does not list all of them.
        """
        counts = RowCounts()
        for group in answer.groups:
            if len(group.items) != group.count:
                raise TooMuchError(
                    f"{group.count:,} rows of {group.path or group.node} are more than are listed, which DataFrames need to "
                    f"be counted by {self.level}",
                    "ask for fewer rows",
                )
            application = self._application(group.app or answer.app)
            self._add_group(counts, application, group)
        return counts

    # -- rows ----------------------------------------------------------------------------------

    def _add_group(self, counts: RowCounts, application: _Application, group: Group) -> None:
        if is_file_node(group.node):
            region = region_of_parts(item.address for item in group.items)
            self._add_regions(counts, application, group.node, {f"{group.node}#0": region})
            return
        spaces: dict[str, list[int]] = {}
        placed: dict[_RowsKey, tuple[str, str, list[int]]] = {}
        unplaced = 0
        is_recipe = application.kinds.get(group.node) in RECIPE_NODE_KINDS
        for item in group.items:
            current_budget().check()
            address = None if is_recipe else self._space_of(application, group.node, item.address)
            if address is not None:
                spaces.setdefault(address[0], []).append(address[1])
                continue
            record = None if item.location is None else record_of_topic(item.location)
            if record is not None:
                partition, number = partition_and_offset(record)
                path = f"{record.of}[{partition}]"
                placed.setdefault(("file", path), (path, path, []))[2].append(number)
                continue
            try:
                location = None if item.location is None else parse_location(item.location)
            except LocationError:
                location = None
            if location is None:
                unplaced += 1
                continue
            path = application.locations.spelled(location.path)
            versions = application.locations.versions(group.node, path)
            number = location.number or 0
            if len(versions) == 1:
                ((size, mtime),) = versions
                key = _version_key(path, size, mtime, location.unit)
                # People count lines from 1.
                number -= location.unit == "line"
                counts.counted.add(key)
                counts.paths[key] = location.path
            else:
                key = ("file", path, versions, location.unit)
            placed.setdefault(key, (path, location.path, []))[2].append(number)
        if spaces:
            regions = {space: Region.from_positions(at) for space, at in spaces.items()}
            self._add_regions(counts, application, group.node, regions)
        for key, (path, shown, numbers) in placed.items():
            rows = Region.from_positions(numbers)
            self._add_located(counts, application, group.node, key, rows, path, shown, None)
        if unplaced:
            key = ("rows", application.app, group.node)
            rows = Region.from_positions(range(unplaced))
            self._add_unlocated(counts, application, group.node, key, rows)

    @staticmethod
    def _space_of(application: _Application, node: str, address: str) -> tuple[str, int] | None:
        """The space and position of a record of a node, from its address as answers show it."""
        label = application.names.label(node)
        if not address.startswith((f"{label}#", f"{label}@")):
            return None
        space, _, position = (node + address[len(label) :]).rpartition("#")
        try:
            parse_space(space)
        except AddressError:
            return None
        return space, int(position)

    def _add_regions(
        self, counts: RowCounts, application: _Application, node: str, spaces: Mapping[str, Region]
    ) -> FileStatus:
        statuses: set[FileStatus] = set()
        for space, region in spaces.items():
            current_budget().check()
            rest = region
            for part in application.locations.parts_of(space, region):
                statuses.add(application.locations.file_status(node, part.canonical_path))
                rest -= part.items
                if self._is_by_task(application):
                    continue
                key, rows = self._rows_of(counts, application, node, part)
                split = part.split
                shown = shown_path(part.path, application.paths.get(node))
                self._add_located(
                    counts, application, node, key, rows, part.canonical_path, shown, split
                )
            if self._is_by_task(application):
                self._add_tasks(counts, application, node, space, region)
            elif rest:
                key = ("space", application.app, node, space)
                self._add_unlocated(counts, application, node, key, rest)
        return worst(statuses)

    @staticmethod
    def _rows_of(
        counts: RowCounts, application: _Application, node: str, part: FilePart
    ) -> tuple[_RowsKey, Region]:
        """Rows of a file, by their numbers in it if these are known: rows that two nodes read are the same rows then."""
        version = _version_key(part.canonical_path, part.size, part.mtime, part.unit)
        counts.paths[version] = part.path
        if part.rows is not None:
            counts.counted.add(version)
            return version, part.rows
        key = (*version, application.app, node, part.split)
        counts.uncounted.setdefault(version, set()).add((application.app, node))
        return key, part.items

    def _is_by_task(self, application: _Application) -> bool:
        """Whether rows are counted by the tasks that they went through: stages may also be containers of another engine."""
        return self.level == "task" or (
            self.level == "stage"
            and not any(
                container.type == self.level
                for containers in application.containers.values()
                for container in containers
            )
        )

    def _add_tasks(
        self, counts: RowCounts, application: _Application, node: str, space: str, region: Region
    ) -> None:
        rest = region
        label = application.names.label
        key = ("space", application.app, space)
        for task, regions in self._tasks.get(application.app, {}).get(space, {}).items():
            rows = Region.union(regions) & region
            if rows:
                task_name = TaskName(label(task.node), task.partition, task.attempt)
                container: tuple[object, str] = task, str(task_name)
                if self.level == "stage":
                    stage = self._stage_of(application.app, task, task_name)
                    container = stage, f"stage {stage}"
                group, name = container
                self._add(counts, (application.app, group), name, application.app, key, rows)
                rest -= rows
        if rest:
            self._add_outside(counts, application, node, (*key, node), rest)

    def _stage_of(self, app: str, task: TaskId, name: TaskName) -> int:
        """Spark's stage that a task was of.

        Raises:
            TraceError: it is not recorded.
        """
        if app not in self._stages:
            self._stages[app] = {
                TaskId(message.node, message.partition, message.attempt): message.stage
                for message in self._store.messages(app, "commit")
                if isinstance(message, Commit) and message.stage is not None
            }
        stage = self._stages[app].get(task)
        if stage is None:
            raise TraceError(
                f"{app} recorded no stage of its task {name}: older versions did not record stages, and other engines than Spark "
                "have none; count by task instead"
            )
        return stage

    def _add_located(
        self,
        counts: RowCounts,
        application: _Application,
        node: str,
        key: _RowsKey,
        rows: Region,
        path: str,
        shown: str,
        split: tuple[int, int] | None,
    ) -> None:
        """Add rows of a file. ``path``: canonical; ``shown``: as people read it; ``split``: start and length, if known."""
        match self.level:
            case "split":
                name = shown if split is None else split_name(shown, *split)
                self._add(counts, (path, split), name, "", key, rows)
            case "file":
                self._add(counts, (path,), shown, "", key, rows)
            case "dataset":
                dataset = self._dataset(application, node, path)
                self._add(counts, dataset, full_dataset_name(*dataset), "", key, rows)
            case _:
                self._add_unlocated(counts, application, node, key, rows)

    def _add_unlocated(
        self, counts: RowCounts, application: _Application, node: str, key: _RowsKey, rows: Region
    ) -> None:
        """Add rows to the containers that have them wherever they lie."""
        match self.level:
            case "node":
                label = application.names.label(node)
                self._add(counts, (application.app, node), label, application.app, key, rows)
            case "application":
                app = self._base(application.app)
                self._add(counts, (app,), app, "", key, rows)
            case "job":
                self._add(counts, (application.name,), application.name, "", key, rows)
            case _:
                registered = [
                    container.handle
                    for container in application.containers.get(node, ())
                    if container.type == self.level
                ]
                for handle in registered:
                    container = application.app, handle
                    self._add(counts, container, handle, application.app, key, rows)
                if not registered:
                    self._add_outside(counts, application, node, key, rows)

    def _add(
        self,
        counts: RowCounts,
        container: _ContainerKey,
        name: str,
        app: str,
        key: _RowsKey,
        rows: Region,
    ) -> None:
        current_budget().check()
        if container not in counts.containers:
            current_budget().count_name(name)
            if len(counts.containers) >= CONTAINERS_MAX:
                raise TooMuchError(
                    f"the rows lie in more than {CONTAINERS_MAX:,} {self.level}s",
                    "ask for fewer rows",
                )
        counted = counts.containers.setdefault(container, _Counted(name, app and self._base(app)))
        counted.add(key, rows)

    def _add_outside(
        self, counts: RowCounts, application: _Application, node: str, key: _RowsKey, rows: Region
    ) -> None:
        app, label = self._base(application.app), application.names.label(node)
        counts.outside.setdefault((app, node), _Counted(label, app)).add(key, rows)

    # -- names ---------------------------------------------------------------------------------

    def _base(self, app: str) -> str:
        """The application itself, for one that holds its materialised lineage."""
        return whose_rows(app, self._ids) or app

    def _application(self, app: str) -> _Application:
        if app not in self._applications:
            nodes = self._store.graph(app).nodes()
            cwd = name = ""
            if self.level in {"dataset", "job"}:
                base = self._base(app)
                for message in self._store.messages(base, "begin"):
                    if isinstance(message, Begin):
                        cwd, name = message.cwd, job_name(message.name, base)
            self._applications[app] = _Application(
                app,
                Names(nodes),
                self._locations_of(app),
                {node.node: node.kind for node in nodes},
                {node.node: node.path for node in nodes},
                {node.node: node.containers for node in nodes},
                cwd,
                name or app,
            )
        return self._applications[app]

    def _dataset(self, application: _Application, node: str, path: str) -> tuple[str, str]:
        """The dataset that a file (its canonical path) of a node belongs to, as `lineage datasets` names it."""
        if path.startswith(TOPICS):
            # Of the partition of a topic.
            return dataset_name(path.rpartition("[")[0])
        key = application.app, node
        if key not in self._datasets:
            recorded = application.locations.recorded_paths(node)
            canonical_paths = {text: at for at, texts in recorded.items() for text in texts}
            self._datasets[key] = {
                canonical_paths[text]: dataset
                for dataset, texts in paths_by_dataset(
                    application.paths.get(node) or "", canonical_paths, application.cwd
                ).items()
                for text in texts
            }
        return self._datasets[key].get(path) or dataset_name(plain_path(path))


def _version_key(path: str, size: int, mtime: float, unit: str) -> _RowsKey:
    """Names the rows of a version of a file that are numbered by their place in it; its time counts by milliseconds."""
    return "file", path, size, round(mtime * 1000), unit


def merged(counts: Iterable[RowCounts]) -> RowCounts:
    """Several counts together: rows that several have count once."""
    together = RowCounts()
    for part in counts:
        together.add_all(part)
    return together
