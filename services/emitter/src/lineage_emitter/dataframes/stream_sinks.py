"""What micro-batches wrote: files by the log of the sink, tables by the commit or snapshot that names the query and the batch.

Delta Lake writes the query's id and the batch's number into the commit (`txn`), Iceberg into the snapshot's summary. Neither depends on
who else writes the table, nor on when it is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

from lineage_core.recipe.document import File, Output
from lineage_core.recipe.names import DELTA
from lineage_emitter.dataframes import iceberg
from lineage_emitter.dataframes.delta import COMMITS_MAX, DeltaLog
from lineage_emitter.dataframes.files import Folder
from lineage_emitter.dataframes.jvm import pairs_of
from lineage_emitter.dataframes.outputs import READABLE_OPTIONS
from lineage_emitter.dataframes.stream_plans import columns_of, helper, split
from lineage_emitter.dataframes.topic_sinks import SINK, TopicSink, options_of_query
from lineage_emitter.dataframes.topics import named_by_rows

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Commit: TypeAlias = tuple[int, Sequence[Mapping[str, Any]]]
"""A version of a table of Delta Lake, and what its commit did."""
FOREACH_BATCH = "ForeachBatchSink"
_FILES = "FileStreamSink"
_DELTA = re.compile(r"DeltaSink\[(.*)\]", re.DOTALL)
_DELTA_OPERATION = "STREAMING UPDATE"
_LOCAL = "file:"


class UnknownBatchError(Exception):
    """What a batch read or wrote is not known; the message says why."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch wrote. ``output``: with its files and version, where it may have rows that can be asked for.

    ``made_at_ms``: when it was written, in ms since 1970, by the clock of the application that wrote it; empty: not known by that of this one.
    ``without_tasks``: a sink that has the batch already runs no tasks of it.
    """

    output: Output
    made_at_ms: tuple[int, ...] = ()
    without_tasks: bool = True

    def is_younger(self, at_ms: int) -> bool:
        """Whether all of it was certainly written at a time, or later."""
        return bool(self.made_at_ms) and min(self.made_at_ms) >= at_ms


class StreamSink:
    """The sink of a query. ``execution``: the query (Spark's object). ``query``: its id. ``topic``: as it was before the query began; None: not known."""

    def __init__(
        self, sc: SparkContext, execution: Any, query: str, topic: TopicSink | None = None
    ) -> None:
        self._sc = sc
        self._topic = topic
        self._execution = execution
        self._query = query
        self._sink = execution.sink()
        self._found = -1, -1
        """Of a table of Delta Lake the batch that was last found in its log, and the version that it made."""

    @cached_property
    def name(self) -> str:
        """Its class."""
        return str(self._sink.getClass().getName()).rpartition(".")[2]

    @cached_property
    def writes_whole_batches(self) -> bool:
        """Whether a batch is there with all of its rows or with none, and `has` says which."""
        return self.name == _FILES or self._delta is not None or self._is_iceberg

    def has(self, number: int) -> bool:
        """Whether it has the rows of a batch, where it writes whole ones.

        Raises:
            UnknownBatchError: that is not known.
            py4j.protocol.Py4JError: its log can't be read.
        """
        if self.name == _FILES:
            return helper().written(self._sink, number) is not None
        if self._delta is not None:
            return self._commit(self._delta, number) is not None
        return self._snapshot(number) is not None

    def written(
        self, spark: SparkSession, number: int, action: str, began_at: float | None = None
    ) -> Written:
        """What a batch that is committed wrote. ``began_at``: a time before it did, in unix seconds; None: not known.

        Raises:
            UnknownBatchError: that is not known.
            py4j.protocol.Py4JError: its log can't be read.
        """
        if self.name == _FILES:
            return self._files(number, action)
        if self._delta is not None:
            return self._delta_version(self._delta, number, action)
        if self._is_iceberg:
            return self._iceberg_snapshot(spark, number, action)
        output = Output(kind="table", action=action, table=str(self._sink.toString())[:200])
        if self.name != SINK:
            return Written(output)
        if self._topic is None:
            options = options_of_query(self._execution)
            self._topic = TopicSink.of(spark, options)
            if self._topic is None:
                return Written(named_by_rows(output, options))
        return Written(self._topic.written(spark, action, began_at))

    # -- files ------------------------------------------------------------------------------------

    def _files(self, number: int, action: str) -> Written:
        text = helper().written(self._sink, number)
        if text is None:
            raise UnknownBatchError(f"batch {number} is not in the log of the query's sink")
        files = [File(path, int(size), int(time)) for size, time, path in split(text, 3)]
        files.sort(key=lambda file: file.path)
        return _of_files(replace(self._folder, action=action, files=tuple(files)))

    @cached_property
    def _folder(self) -> Output:
        """What all batches write to."""
        options = pairs_of(helper().field(self._sink, "options"))
        readable = {name.lower(): value for name, value in options.items()}
        return Output(
            kind="files",
            # Spark 3.5 keeps it as the program gave it.
            path=Folder(self._sc, str(helper().field(self._sink, "basePath").toString())).path,
            format=str(helper().field(self._sink, "fileFormat").toString()).lower(),
            options={name: value for name, value in readable.items() if name in READABLE_OPTIONS},
        )

    # -- tables of Delta Lake ---------------------------------------------------------------------

    @cached_property
    def _delta(self) -> DeltaLog | None:
        path = _DELTA.fullmatch(str(self._sink.toString())) if self.name == "DeltaSink" else None
        return None if path is None else DeltaLog(self._sc, Folder(self._sc, path[1]))

    def _delta_version(self, log: DeltaLog, number: int, action: str) -> Written:
        found = self._commit(log, number)
        if found is None:
            raise UnknownBatchError(f"no commit to {log.folder.path} is that of batch {number}")
        version, actions = found
        output = Output(
            kind="files",
            action=action,
            path=log.folder.path,
            format=DELTA,
            files=log.added(actions),
            version=str(version),
        )
        return _of_files(output)

    def _commit(self, log: DeltaLog, number: int) -> Commit | None:
        """The version that a batch made, and what its commit did; None: it made none.

        Batches make versions in their order: what is behind that of one before is looked at, else the latest versions.
        """
        known, version = self._found
        if number >= known >= 0:
            found, is_all = self._search(log, _from(log, version), number)
            if found is not None or is_all:
                return found
        last = log.last()
        first = max(last - COMMITS_MAX + 1, 0)
        kept = (version for version in range(first, last + 1) if log.has(version))
        found, is_all = self._search(log, kept, number)
        if found is None and not is_all and last >= 0:
            raise UnknownBatchError(
                f"which version of {log.folder.path} batch {number} made is not known: it is not among the latest {COMMITS_MAX}"
            )
        return found

    def _search(
        self, log: DeltaLog, versions: Iterable[int], number: int
    ) -> tuple[Commit | None, bool]:
        """The commit of a batch among versions, and whether no other version may be it: they begin before it, and end with the latest."""
        count, begins_before = 0, False
        for version in versions:
            actions = log.commit(version)
            batch = _batch_of(actions, self._query)
            if batch == number:
                self._found = number, version
                return (version, actions), True
            if not count:
                begins_before = version == 0
            begins_before = begins_before or (batch is not None and batch < number)
            count += 1
        return None, begins_before and count <= COMMITS_MAX

    # -- tables of Iceberg ------------------------------------------------------------------------

    @cached_property
    def _is_iceberg(self) -> bool:
        return iceberg.is_table_of_rows(self._sink)

    def _snapshot(self, number: int) -> iceberg.BatchSnapshot | None:
        try:
            return iceberg.snapshot_of_batch(self._sink, self._query, number)
        except iceberg.UnknownSnapshotError as problem:
            raise UnknownBatchError(str(problem)) from problem

    def _iceberg_snapshot(self, spark: SparkSession, number: int, action: str) -> Written:
        snapshot = self._snapshot(number)
        if snapshot is None:
            raise UnknownBatchError(f"no snapshot of {self._sink.name()} is that of batch {number}")
        output = Output(kind="table", action=action, table=str(self._sink.name()))
        try:
            output = iceberg.output_of_snapshot(spark, self._sink, snapshot.id, output)
        except iceberg.UnknownSnapshotError as problem:
            raise UnknownBatchError(str(problem)) from problem
        names = {
            str(field["name"]).lower()
            for field in json.loads(columns_of(self._execution))["fields"]
        }
        if not names <= {str(name).lower() for name in self._sink.schema().fieldNames()}:
            # Its columns hold those of the batch under other names.
            output = replace(output, format=None)
        is_own = snapshot.application == str(self._sc.applicationId)
        # Spark runs the tasks of a batch that the table has, and Iceberg drops what they wrote.
        return Written(output, (snapshot.made_at_ms,) if is_own else (), without_tasks=False)


def _of_files(output: Output) -> Written:
    # The clock of another machine would say nothing.
    is_local = all(file.path.startswith(_LOCAL) for file in output.files)
    return Written(output, tuple(file.mtime for file in output.files) if is_local else ())


def _from(log: DeltaLog, version: int) -> Iterator[int]:
    """Versions from one on, up to the latest, or one more than are searched."""
    for one in range(version, version + COMMITS_MAX + 1):
        if not log.has(one):
            return
        yield one


def _batch_of(actions: Sequence[Mapping[str, Any]], query: str) -> int | None:
    """The batch of a query whose rows a commit wrote; None: it is of none."""
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    if any(info.get("operation") != _DELTA_OPERATION for info in infos):
        return None
    numbers = [
        int(action["txn"]["version"])
        for action in actions
        if "txn" in action and action["txn"].get("appId") == query
    ]
    return numbers[0] if len(numbers) == 1 else None
