"""Which version of a table a batch made: the one that names it, whoever else writes, or it is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.recipe.document import File, Output
from lineage_emitter.dataframes import iceberg
from lineage_emitter.dataframes.delta import COMMITS_MAX, DeltaLog
from lineage_emitter.dataframes.iceberg import UnknownSnapshotError, snapshot_of_batch
from lineage_emitter.dataframes.stream_sinks import StreamSink, UnknownBatchError, Written

pytestmark = pytest.mark.unit

QUERY, OTHER = "8c29d3f1", "11112222"
NO_SPARK: Any = None


class Log(DeltaLog):
    """The log of a table: of each version what its commit did. ``first``: those before are cleaned up."""

    def __init__(self, commits: Sequence[Sequence[Mapping[str, Any]]], first: int = 0) -> None:
        self.folder = SimpleNamespace(path="file:/table")  # type: ignore[assignment]
        self.commits, self.first = list(commits), first

    def last(self) -> int:
        return len(self.commits) - 1

    def has(self, version: int) -> bool:
        return self.first <= version < len(self.commits)

    def commit(self, version: int) -> list[Mapping[str, Any]]:
        assert self.has(version)
        return list(self.commits[version])


def of_batch(query: str, number: int, operation: str = "STREAMING UPDATE") -> list[dict[str, Any]]:
    add = {"path": f"part-{query}-{number}.parquet", "size": 9, "modificationTime": 1_000 + number}
    return [
        {"commitInfo": {"operation": operation}},
        {"txn": {"appId": query, "version": number}},
        {"add": add},
    ]


OF_OTHERS: list[dict[str, Any]] = [
    {"commitInfo": {"operation": "WRITE"}},
    {"add": {"path": "x", "size": 1, "modificationTime": 1}},
]


def delta_sink(log: Log) -> StreamSink:
    execution = SimpleNamespace(sink=SimpleNamespace)
    sink = StreamSink(NO_SPARK, execution, QUERY)
    sink.__dict__ |= {"name": "DeltaSink", "_delta": log}
    return sink


def written(sink: StreamSink, number: int) -> Output | None:
    try:
        return sink.written(NO_SPARK, number, "start").output
    except UnknownBatchError:
        return None


def test_the_version_is_that_of_the_commit_that_names_the_batch() -> None:
    log = Log([OF_OTHERS, of_batch(OTHER, 0), of_batch(QUERY, 0), OF_OTHERS, of_batch(QUERY, 1)])
    sink = delta_sink(log)
    assert sink.writes_whole_batches
    for number, version in ((0, "2"), (1, "4"), (0, "2")):
        output = written(sink, number)
        assert output is not None
        path = f"file:/table/part-{QUERY}-{number}.parquet"
        assert (output.version, output.format) == (version, "delta")
        assert output.files == (File(path, 9, 1_000 + number),)
    assert sink.has(1)
    assert not sink.has(2)
    # A transaction of that name by other means, as a writer's options give it.
    log.commits.append(of_batch(QUERY, 2, "WRITE"))
    assert not sink.has(2)
    assert written(sink, 2) is None


def test_a_batch_that_is_far_behind_is_not_known() -> None:
    others = [OF_OTHERS] * (COMMITS_MAX + 1)
    sink = delta_sink(Log([of_batch(QUERY, 0), *others]))
    with pytest.raises(UnknownBatchError, match="not known"):
        sink.has(0)
    # With the next one near it goes on.
    near = delta_sink(Log([of_batch(QUERY, 0), *others, of_batch(QUERY, 1), OF_OTHERS]))
    found = written(near, 1)
    assert found is not None
    assert found.version == str(COMMITS_MAX + 2)


@given(
    st.lists(st.tuples(st.sampled_from([QUERY, OTHER, ""]), st.booleans()), max_size=30),
    st.lists(st.integers(0, 12), max_size=8),
    st.integers(0, 3),
)
def test_no_version_is_ever_mistaken(
    writers: list[tuple[str, bool]], asked: list[int], first: int
) -> None:
    numbers = {QUERY: 0, OTHER: 0}
    commits: list[Any] = []
    expected: dict[int, int] = {}
    for writer, skips in writers:
        if not writer:
            commits.append(OF_OTHERS)
            continue
        # A batch may leave no commit.
        numbers[writer] += 1 + skips
        if writer == QUERY:
            expected[numbers[QUERY]] = len(commits)
        commits.append(of_batch(writer, numbers[writer]))
    sink = delta_sink(Log(commits, min(first, len(commits))))
    for number in asked:
        found = written(sink, number)
        if found is not None:
            assert found.version == str(expected[number])
        elif number in expected:
            assert expected[number] < first
    for number in asked:
        try:
            assert sink.has(number) == (number in expected)
        except UnknownBatchError:
            assert first > 0


class Snapshot:
    def __init__(self, number: int, parent: int | None, summary: Mapping[str, str]) -> None:
        self._number, self._parent, self._summary = number, parent, summary

    def snapshotId(self) -> int:
        return self._number

    def parentId(self) -> int | None:
        return self._parent

    def summary(self) -> Mapping[str, str]:
        return self._summary

    def timestampMillis(self) -> int:
        return 1_000 + self._number


class Table:
    """Of Iceberg, with snapshots one behind the other."""

    def __init__(self, summaries: Sequence[Mapping[str, str]], expired: int = 0) -> None:
        every = [
            Snapshot(number, number - 1 if number else None, summary)
            for number, summary in enumerate(summaries)
        ]
        self._snapshots = {one.snapshotId(): one for one in every[expired:]}

    def table(self) -> Table:
        return self

    def branch(self) -> None:
        return None

    def name(self) -> str:
        return "db.orders"

    def currentSnapshot(self) -> Snapshot | None:
        return self._snapshots[max(self._snapshots)] if self._snapshots else None

    def snapshot(self, number: int) -> Snapshot | None:
        return self._snapshots.get(number)


def summary(query: str, number: int) -> dict[str, str]:
    return {
        iceberg.STREAM_QUERY: query,
        iceberg.STREAM_EPOCH: str(number),
        iceberg.APPLICATION: "app-1",
    }


def test_the_snapshot_is_the_one_that_names_the_batch() -> None:
    table = Table([{}, summary(QUERY, 0), summary(OTHER, 1), summary(QUERY, 1), {}])
    for number, snapshot in ((0, 1), (1, 3)):
        found = snapshot_of_batch(table, QUERY, number)
        assert found is not None
        assert (found.id, found.application, found.made_at_ms) == (
            snapshot,
            "app-1",
            1_000 + snapshot,
        )
    assert snapshot_of_batch(table, QUERY, 2) is None
    assert snapshot_of_batch(Table([]), QUERY, 0) is None
    # What has expired may have been it.
    with pytest.raises(UnknownSnapshotError):
        snapshot_of_batch(Table([summary(QUERY, 0), {}, {}], expired=2), QUERY, 0)
    with pytest.raises(UnknownSnapshotError):
        snapshot_of_batch(Table([summary(QUERY, 0), *[{}] * iceberg.SNAPSHOTS_MAX]), QUERY, 0)


def test_what_is_older_than_a_batch_is_of_an_earlier_run() -> None:
    assert Written(Output(), (1_000, 1_200)).is_younger(1_000)
    assert not Written(Output(), (999, 1_200)).is_younger(1_000)
    assert not Written(Output()).is_younger(0)
