"""Jobs, their runs, and the datasets that they read and wrote.

A run is an application, and a job is all runs of the same program. Jobs and datasets are named as
OpenLineage events name them (:mod:`lineage_openlineage`).
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import ParamSpec, Protocol, TypeAlias, TypeVar

from lineage_core.contract.message import Begin, Message, RecordFiles, RecordSplits, Register
from lineage_core.contract.times import JsonTime, parse_time, time_text
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.budget import (
    MEMORY_OF_MESSAGES,
    SMALL_MESSAGES,
    Budget,
    BusyError,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_openlineage.datasets import dataset_name, paths_by_dataset
from lineage_query.finding import NotFoundError
from lineage_query.run_amounts import UNKNOWN, Amount, bytes_used, rows_read, rows_written
from lineage_query.verdicts import verdict_of
from lineage_store.dataset_paths import is_no_file, is_table_log
from lineage_store.errors import DamagedError
from lineage_store.materialised import whose_rows
from lineage_store.port import ApplicationRecord, GraphStore
from lineage_store.recorded_files import FileVersion, file_versions
from lineage_store.records import FILES, SPLITS

DATASET_MESSAGE_TYPES = ("begin", "register", *SPLITS, *FILES)
"""Types of the messages that say what an application read and wrote."""

NAME_BYTES = 200
"""Memory of the name of a file, beyond its characters."""
COPIES = 3
"""How many times an answer holds the names that it lists: as they are, as JSON and while they become that."""
SMALL_CONTENT = SMALL_MESSAGES // 1_000
"""Size, as that of messages, of what one run read and wrote that is always listed: a page has at most 1,000 runs."""
JOB_NAME_MAX = 512
"""Characters of a job's name; a longer one is cut, with a hash of all of it. Lists repeat it for each dataset."""

TABLE_VERSIONS_MAX = 20
"""Versions of a table that are listed of one run, the latest."""
RUN_S = 1.0
"""Seconds that it may take to find out what one run of a list read and wrote, where the time of the query is bounded."""
RUN_SHARE = 10
"""The part of the time that is left which it may take, at most."""
AHEAD_S = 86_400.0
"""Seconds that clocks of programs may be ahead of ours."""

T = TypeVar("T")
P = ParamSpec("P")
DatasetName: TypeAlias = tuple[str, str]
"""Namespace and name."""
_Versions: TypeAlias = dict[str, set[FileVersion]]
"""The versions of files, by path."""


@dataclass(slots=True)
class _UsedFiles:
    """Files of a dataset that a run used, and the versions of a table that they are of, in order."""

    versions: _Versions = field(default_factory=dict)
    table_versions: dict[str, None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DatasetUse:
    """A dataset that a run read or wrote.

    ``files``: how many files of it. ``versions``: how many versions of these; more than ``files`` where a file
    changed in between. ``table_versions``: of a table of Delta Lake or Iceberg, the versions or snapshots that it read or made; of a table
    of a database, when reads of it had ended and when writes began; of a topic, offsets such as ``0:5-10 1:0-7``; at most `TABLE_VERSIONS_MAX`, the latest last.
    """

    namespace: str
    name: str
    files: int
    versions: int
    table_versions: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name after the namespace."""
        return full_dataset_name(self.namespace, self.name)


@dataclass(frozen=True)  # without slots: budgets refer to it weakly
class RunContent:
    """What a run read and wrote, as far as its lineage tells.

    ``reads_without_files`` and ``writes_without_files``: paths and tables of which no file is known, such as queries that a
    database runs. They belong to no dataset. ``read`` and ``written``: how much, of all of it. Rows that were read are counted for
    lists of the runs of one job alone.
    """

    reads: tuple[DatasetUse, ...]
    writes: tuple[DatasetUse, ...]
    reads_without_files: tuple[str, ...] = ()
    writes_without_files: tuple[str, ...] = ()
    read: Amount = UNKNOWN
    written: Amount = UNKNOWN


@dataclass(frozen=True, slots=True)
class Run:
    """One application. Times in unix seconds (in JSON as text); ``ended_at`` is None while it runs.

    ``status``: running, ok, failed or abandoned. ``complete``: whether all of its lineage was received; where it was not,
    reads and writes may be missing. ``exact``: whether no node names more inputs than it used. None: not known; rows
    of DataFrames are traced by queries, which say so themselves. ``content``: None where it is withheld.
    """

    app: str
    job: str
    started_at: JsonTime
    ended_at: JsonTime | None
    status: str
    complete: bool | None
    exact: bool | None
    content: RunContent | None

    @property
    def duration_s(self) -> float | None:
        """Seconds that it took, by its times in JSON; None while it runs, and where it is not known when it ended."""
        if self.ended_at is None:
            return None
        started_at, ended_at = (
            parse_time(time_text(at)) for at in (self.started_at, self.ended_at)
        )
        return max(round(ended_at - started_at, 3), 0.0)


@dataclass(frozen=True, slots=True)
class Job:
    """All runs of the same program. ``runs``: how many; ``last_run``: the latest of them."""

    name: str
    runs: int
    last_run: Run


@dataclass(frozen=True, slots=True)
class DatasetRun:
    """A run that read or wrote (``wrote``) files of a dataset.

    ``use``: the dataset as the run named it: a part of it, or a folder that it lies in.
    """

    app: str
    job: str
    started_at: JsonTime
    status: str
    wrote: bool
    use: DatasetUse


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset, and how many times runs read or wrote files of it.

    ``writers`` and ``readers``: jobs, those that did so latest first. ``last_write``: None where no run wrote it.
    """

    namespace: str
    name: str
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    last_write: DatasetRun | None
    runs: int

    @property
    def full_name(self) -> str:
        """The name after the namespace."""
        return full_dataset_name(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class Datasets:
    """Datasets by name, of the latest ``runs`` of ``runs_total``.

    ``runs_withheld``: how many of these do not say what they read and wrote.
    """

    items: tuple[Dataset, ...]
    runs: int
    runs_total: int
    runs_withheld: int = 0


@dataclass(frozen=True, slots=True)
class DatasetRuns:
    """The runs that read or wrote files of a dataset, the latest first; other fields as those of :class:`Datasets`."""

    items: tuple[DatasetRun, ...]
    runs: int
    runs_total: int
    runs_withheld: int = 0


class RunSource(Protocol):
    """Applications, their messages and verdicts, from which jobs and datasets are listed."""

    def applications(self) -> Sequence[ApplicationRecord]:
        """All applications, the latest first."""

    def messages(self, app: str, *more: str) -> Sequence[Message] | None:
        """Messages of `DATASET_MESSAGE_TYPES` and ``more`` types of an application; None: the caller may not see them.

        Raises:
            KeyError: there is no such application.
        """

    def verdict(self, app: str) -> Verdict | None:
        """The verdict of an application; None: the caller may not see it.

        Raises:
            KeyError: there is no such application.
        """


class StoredRuns:
    """Implements :class:`RunSource` over a store."""

    def __init__(self, store: GraphStore) -> None:
        self._store = store

    def applications(self) -> Sequence[ApplicationRecord]:
        return self._store.applications()

    def messages(self, app: str, *more: str) -> Sequence[Message]:
        return self._store.messages(app, *DATASET_MESSAGE_TYPES, *more)

    def verdict(self, app: str) -> Verdict:
        return verdict_of(self._store, app)


def jobs_of(source: RunSource) -> dict[str, list[ApplicationRecord]]:
    """The runs of each job, the latest first, by the jobs' names: those that ran latest come first.

    An application that holds the materialised lineage of another one is no run.
    """
    records = latest_first(source.applications())
    ids = {record.app for record in records}
    runs: dict[str, list[ApplicationRecord]] = {}
    for record in records:
        if whose_rows(record.app, ids) is None:
            runs.setdefault(job_of_run(record), []).append(record)
    return runs


def latest_first(records: Iterable[ApplicationRecord]) -> list[ApplicationRecord]:
    """Runs, the latest first; those that say that they begin in the future come last, and push out no others."""
    latest = time.time() + AHEAD_S
    return sorted(
        records,
        key=lambda record: (record.started_at <= latest, record.started_at, record.app),
        reverse=True,
    )


def job_of_run(record: ApplicationRecord) -> str:
    """The name of the job that a run is of."""
    return job_name(record.name, record.app)


def job_name(application_name: str, app: str) -> str:
    """The name of the job that an application is a run of.

    Args:
        application_name: its name; empty: it has none.
        app: its id.
    """
    # OpenLineage events name the job of a run in the same way.
    name = application_name or app
    if len(name) <= JOB_NAME_MAX:
        return name
    whole = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[:JOB_NAME_MAX]}...{whole[:16]}"


def list_jobs(source: RunSource, limit: int | None = None) -> list[Job]:
    """Jobs with their last runs, those that ran latest first."""
    return [job_of(source, records) for records in list(jobs_of(source).values())[:limit]]


def job_of(source: RunSource, runs: Sequence[ApplicationRecord]) -> Job:
    """The job whose runs are ``runs``, the latest first."""
    last_run = run_of(source, runs[0])
    return Job(last_run.job, len(runs), last_run)


def list_runs(source: RunSource, job: str, limit: int | None = None) -> list[Run]:
    """Runs of a job, the latest first.

    Raises:
        NotFoundError: there is no such job.
    """
    return runs_in_full(source, runs_of_job(source, job)[:limit])


def runs_in_full(source: RunSource, records: Sequence[ApplicationRecord]) -> list[Run]:
    """Runs with what they read and wrote, and as far as there is time for it with the rows that they read.

    Raises:
        BudgetError: it takes more than the question may.
    """
    runs = [run_of(source, record) for record in records]
    # Who asks waits for the list, and not for these numbers.
    reserved_s = current_budget().left_s / 2
    for at, run in enumerate(runs):
        if current_budget().left_s < reserved_s:
            break
        content = run.content
        if content is None or not content.reads or content.reads_without_files:
            continue
        rows = _within_run_time(_rows_read, source, run.app)
        read = replace(content.read, rows=rows)
        runs[at] = replace(run, content=replace(content, read=read))
    return runs


def _rows_read(source: RunSource, app: str) -> int | None:
    try:
        messages = source.messages(app, "commit")
    except (KeyError, TooMuchError, BusyError):
        # It was deleted meanwhile, or has very many tasks.
        return None
    return None if messages is None else rows_read(messages)


def runs_of_job(source: RunSource, job: str) -> list[ApplicationRecord]:
    """The runs of a job, the latest first.

    Raises:
        NotFoundError: there is no such job.
    """
    records = jobs_of(source).get(job)
    if records is None:
        raise NotFoundError(f"there is no job {job!r:.200}; `lineage jobs` lists them")
    return records


def run_of(source: RunSource, record: ApplicationRecord) -> Run:
    """A run with what it read and wrote, and its verdict.

    Raises:
        BudgetError: it takes more than the question may.
    """
    run = Run(
        record.app,
        job_of_run(record),
        record.started_at,
        record.ended_at,
        record.status,
        None,
        None,
        None,
    )
    try:
        verdict = source.verdict(record.app)
        messages = None if record.damage else source.messages(record.app)
    except KeyError:
        # The application was deleted meanwhile.
        return run
    return replace(
        run,
        complete=None if verdict is None else verdict.complete,
        exact=None if verdict is None else _exactness(verdict),
        content=None if messages is None else _content_in_list(messages),
    )


def find_datasets(source: RunSource, text: str = "", runs: int | None = None) -> Datasets:
    """Datasets whose names hold a text, by name. ``NAME@VERSION`` is the name of a table in a version that a run read or wrote.

    A run counts as a reader or writer of each dataset that its files lie in: a run that wrote ``out`` is a writer of
    ``out/part-00000`` if it wrote that file, and a run that read ``out/part-*`` is a reader of ``out``.

    Args:
        source: the applications.
        text: part of namespace and name, or all of it.
        runs: how many of the latest runs are read; None: all. Fewer are read if half of the time of the query is over.

    Raises:
        BudgetError: it takes more than the question may.
    """
    dataset_uses = _find_dataset_uses(source, runs)
    items = tuple(
        _dataset(name, dataset_uses.uses[name])
        for name in sorted(dataset_uses.uses)
        if any(text in called for called in _names_of(name, dataset_uses.uses[name]))
    )
    return Datasets(items, dataset_uses.runs, dataset_uses.runs_total, dataset_uses.runs_withheld)


def _names_of(name: DatasetName, runs: Iterable[DatasetRun]) -> Iterator[str]:
    """What a dataset is searched by."""
    yield name[1]
    yield full_dataset_name(*name)
    for run in runs:
        if (run.use.namespace, run.use.name) == name:
            yield from (f"{run.use.full_name}@{version}" for version in run.use.table_versions)


def find_dataset_runs(
    source: RunSource, namespace: str, name: str, runs: int | None = None
) -> DatasetRuns:
    """The runs that read or wrote files of a dataset, the latest first, as :func:`find_datasets` counts them.

    Raises:
        NotFoundError: none of the runs that were read did so.
        BudgetError: it takes more than the question may.
    """
    dataset_uses = _find_dataset_uses(source, runs)
    found = dataset_uses.uses.get((namespace, name))
    if found is None:
        raise NotFoundError(
            f"none of {dataset_uses.runs - dataset_uses.runs_withheld:,} runs read or wrote a dataset "
            f"{full_dataset_name(namespace, name)}; `lineage datasets` lists them"
        )
    return DatasetRuns(
        tuple(found), dataset_uses.runs, dataset_uses.runs_total, dataset_uses.runs_withheld
    )


@dataclass(frozen=True, slots=True)
class _DatasetUses:
    """By dataset the runs that used it, and how many runs were read."""

    uses: dict[DatasetName, list[DatasetRun]]
    runs: int
    runs_total: int
    runs_withheld: int


def _find_dataset_uses(source: RunSource, runs: int | None) -> _DatasetUses:
    jobs = jobs_of(source)
    in_order = latest_first(record for records in jobs.values() for record in records)
    uses = _RunUses()
    runs_read = runs_not_read = 0
    budget = current_budget()
    # Half of the time is for reading messages: a list of the latest runs is better than none.
    reserved_s = budget.left_s / 2
    for record in in_order[:runs]:
        budget.check()
        if budget.left_s < reserved_s:
            break
        runs_read += 1
        try:
            messages = source.messages(record.app)
        except (KeyError, DamagedError):
            # The application was deleted meanwhile, is damaged, or one of its datasets is hidden.
            messages = None
        used = None if messages is None else _within_run_time(dataset_runs, record, messages)
        if used is None or not uses.add(used):
            runs_not_read += 1
    by_name: dict[DatasetName, list[DatasetRun]] = {
        (run.use.namespace, run.use.name): [] for run, _ in uses.items
    }
    lengths: dict[str, set[int]] = {}
    for namespace, name in by_name:
        lengths.setdefault(namespace, set()).add(len(name))
    for run, files in uses.items:
        own = (run.use.namespace, run.use.name)
        for dataset in {own} | datasets_containing(files, by_name, lengths):
            by_name[dataset].append(run)
    return _DatasetUses(by_name, runs_read, len(in_order), runs_not_read)


class _RunUses:
    """Datasets that runs used, with the names of their files, counted as the messages that take as much memory."""

    def __init__(self) -> None:
        self.items: list[tuple[DatasetRun, list[DatasetName]]] = []

    def add(self, used: list[tuple[DatasetRun, list[DatasetName]]]) -> bool:
        """Add what a run used; False: it exceeds the memory of the query, and is not added."""

        def count_bytes() -> int:
            memory = sum(sys.getsizeof(name) + NAME_BYTES for _, files in used for _, name in files)
            return memory // MEMORY_OF_MESSAGES

        try:
            current_budget().hold_messages(self, count_bytes, small=0)
        except (TooMuchError, BusyError):
            return False
        self.items += used
        return True


def datasets_containing(
    files: Iterable[DatasetName],
    datasets: Collection[DatasetName],
    lengths: Mapping[str, Collection[int]],
) -> set[DatasetName]:
    """The ``datasets`` that files are, or lie in.

    ``lengths``: of the names of ``datasets``, by namespace. A path may have very many folders, so only folders of
    such a length are looked up, and once for all files of a folder.
    """
    found: set[DatasetName] = set()
    folders: set[DatasetName] = set()
    for namespace, name in files:
        current_budget().check()
        if (namespace, name) in datasets:
            found.add((namespace, name))
        # The name of a bucket is "/", and the names of its objects don't begin with a slash.
        if (namespace, "/") in datasets:
            found.add((namespace, "/"))
        folder = namespace, name[: max(name.rfind("/"), 0)]
        if folder in folders:
            continue
        folders.add(folder)
        name_lengths = lengths.get(namespace, ())
        end = name.find("/", 1)
        while end != -1:
            if end in name_lengths and (namespace, name[:end]) in datasets:
                current_budget().check()
                found.add((namespace, name[:end]))
            end = name.find("/", end + 1)
    return found


def _dataset(name: DatasetName, runs: Sequence[DatasetRun]) -> Dataset:
    return Dataset(
        *name,
        writers=tuple(dict.fromkeys(run.job for run in runs if run.wrote)),
        readers=tuple(dict.fromkeys(run.job for run in runs if not run.wrote)),
        last_write=next((run for run in runs if run.wrote), None),
        runs=len(runs),
    )


def full_dataset_name(namespace: str, name: str) -> str:
    """The name of a dataset after its namespace, as lists show it."""
    return f"file:{name}" if namespace == "file" else f"{namespace}/{name.removeprefix('/')}"


def dataset_runs(
    record: ApplicationRecord, messages: Sequence[Message]
) -> list[tuple[DatasetRun, list[DatasetName]]]:
    """The datasets that a run used, each with its files as OpenLineage names them."""
    recorded = _RecordedFiles(messages)
    return [
        (
            DatasetRun(
                record.app,
                job_of_run(record),
                record.started_at,
                record.status,
                wrote,
                _dataset_use(name, used),
            ),
            [dataset_name(path) for path in used.versions],
        )
        for wrote in (True, False)
        for name, used in recorded.datasets(wrote=wrote).items()
    ]


def content_of_run(messages: Sequence[Message]) -> RunContent:
    """What the messages of a run say that it read and wrote."""
    recorded = _RecordedFiles(messages)
    reads, writes = (
        tuple(_dataset_use(name, used) for name, used in recorded.datasets(wrote=wrote).items())
        for wrote in (False, True)
    )
    reads_without = recorded.without_files("source", "frame-source")
    writes_without = recorded.without_files("sink", "frame")
    return RunContent(
        reads,
        writes,
        reads_without,
        writes_without,
        Amount(None if reads_without else bytes_used(messages, wrote=False)),
        UNKNOWN
        if writes_without
        else Amount(bytes_used(messages, wrote=True), rows_written(messages)),
    )


def _dataset_use(name: DatasetName, used: _UsedFiles) -> DatasetUse:
    return DatasetUse(
        *name,
        sum(not is_no_file(path) for path in used.versions),
        sum(len(seen) for path, seen in used.versions.items() if not is_table_log(path)),
        tuple(used.table_versions)[-TABLE_VERSIONS_MAX:],
    )


def _within_run_time(read: Callable[P, T], *given: P.args, **named: P.kwargs) -> T | None:
    """What is found out of one run of a list; None: it takes longer than it may, and the list is there without it.

    Raises:
        BudgetError: the query has no time left.
    """
    budget = current_budget()
    if math.isinf(budget.left_s):
        return read(*given, **named)
    seconds = min(RUN_S, budget.left_s / RUN_SHARE)
    try:
        with use_budget(Budget(seconds=seconds, messages=budget.messages)):
            return read(*given, **named)
    except TimeUpError:
        budget.check()
        return None


def _content_in_list(messages: Sequence[Message]) -> RunContent | None:
    """What a run read and wrote; None: it takes more time or memory than a list has for it."""
    content = _within_run_time(content_of_run, messages)
    return None if content is None else _held_content(content)


def _held_content(content: RunContent) -> RunContent | None:
    """What a run read and wrote, counted until the answer is sent; None: it exceeds the memory of the query."""

    def count_bytes() -> int:
        uses = (*content.reads, *content.writes)
        texts = (*content.reads_without_files, *content.writes_without_files)
        names = (*(use.namespace + use.name for use in uses), *texts)
        return (
            COPIES * sum(sys.getsizeof(name) + NAME_BYTES for name in names) // MEMORY_OF_MESSAGES
        )

    try:
        current_budget().hold_messages(content, count_bytes, SMALL_CONTENT)
    except (TooMuchError, BusyError):
        return None
    return content


def _exactness(verdict: Verdict) -> bool | None:
    if not verdict.exact:
        return False
    by_recipes = verdict.recipes_expected or verdict.recipes_received
    return None if by_recipes or not verdict.complete else True


class _RecordedFiles:
    """The files that the messages of one application name, by node."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._cwd = ""
        self._nodes: dict[str, Register] = {}
        self._files: dict[tuple[str, bool], _Versions] = {}
        self._table_versions: dict[tuple[str, bool], dict[str, None]] = {}
        for message in messages:
            current_budget().check()
            match message:
                case Begin():
                    self._cwd = message.cwd
                case Register():
                    self._nodes[message.node] = message
                case _:
                    if isinstance(message, RecordSplits | RecordFiles) and message.version:
                        key = message.node, isinstance(message, RecordFiles)
                        self._table_versions.setdefault(key, {})[message.version] = None
                    for node, path, version, wrote in file_versions(message):
                        files = self._files.setdefault((node, wrote), {})
                        files.setdefault(path, set()).add(version)

    def datasets(self, *, wrote: bool) -> dict[DatasetName, _UsedFiles]:
        """Files and their versions by dataset, of all nodes together."""
        datasets: dict[DatasetName, _UsedFiles] = {}
        for (node, node_wrote), versions in self._files.items():
            if node_wrote != wrote:
                continue
            register = self._nodes.get(node)
            node_path = "" if register is None else register.path or ""
            for name, paths in paths_by_dataset(node_path, versions, self._cwd).items():
                dataset = datasets.setdefault(name, _UsedFiles())
                dataset.table_versions |= self._table_versions.get((node, wrote), {})
                for path in paths:
                    dataset.versions.setdefault(path, set()).update(versions[path])
        return datasets

    def without_files(self, *kinds: str) -> tuple[str, ...]:
        """Paths of nodes of these kinds for which no file is recorded."""
        with_files = {node for node, _ in self._files}
        return tuple(
            dict.fromkeys(
                register.path
                for node, register in self._nodes.items()
                if register.kind in kinds and register.path and node not in with_files
            )
        )
