"""Neighbours of jobs and datasets by an index, against the graph of all jobs and datasets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path

import pytest

from lineage_core.contract.message import Message
from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
from lineage_query.dataset_index import DatasetIndex
from lineage_query.dataset_uses import DatasetUses
from lineage_query.finding import NotFoundError
from lineage_query.job_graph import JobGraph, build_job_graph
from lineage_query.job_neighbours import (
    GraphName,
    GraphSide,
    JobGraphNode,
    Neighbourhood,
    find_neighbours,
)
from lineage_query.jobs import StoredRuns, find_datasets
from lineage_store.port import ApplicationRecord
from lineage_store.sqlite.store import SqliteStore
from tests.unit.query.test_jobs import run

pytestmark = pytest.mark.unit

NAMED = [
    "/a",
    "/a/b",
    "/a/b/c",
    "/a/bc",
    "/a/b/c/1",
    "/a/b/2",
    "/",
    "s3://x/",
    "s3://x/a",
    "s3://x/a/b",
    "s3://y/a",
]
FILES = [
    "/a/b/c/1",
    "/a/b/c/2",
    "/a/b/1",
    "/a/b/2",
    "/a/bc/1",
    "/a/1",
    "/1",
    "s3://x/a/b/1",
    "s3a://x/a/1",
    "s3://x/1",
    "s3://y/a/1",
]


class VisibleRuns(StoredRuns):
    """Some runs are listed, and some of these say nothing of their datasets."""

    def __init__(self, store: SqliteStore, listed: Collection[str], told: Collection[str]) -> None:
        super().__init__(store)
        self._listed, self._told = listed, told

    def applications(self) -> Sequence[ApplicationRecord]:
        return [record for record in super().applications() if record.app in self._listed]

    def messages(self, app: str, *more: str) -> Sequence[Message] | None:  # type: ignore[override]
        return super().messages(app, *more) if app in self._told else None


def _random_run(random_: random.Random, app: str) -> list[Message]:
    def used() -> dict[str, list[str]]:
        return {
            random_.choice(NAMED): random_.sample(FILES, random_.randint(0, 3))
            for _ in range(random_.randint(0, 2))
        }

    job = f"job {random_.randint(0, 4)}"
    return run(app, job, random_.uniform(0, 100), used(), used(), mtime=random_.random())


def _expected(
    graph: JobGraph, start: str, *, is_job: bool, side: GraphSide, depth: int
) -> tuple[set[str], set[tuple[str, str]]]:
    links = {(f"d {source}", f"j {target}") for source, target in graph.reads}
    links |= {(f"j {source}", f"d {target}") for source, target in graph.writes}
    first = f"{'j' if is_job else 'd'} {start}"
    reached = {first}
    for backward in (True, False):
        if side is (GraphSide.DOWNSTREAM if backward else GraphSide.UPSTREAM):
            continue
        frontier = {first}
        for _ in range(depth):
            frontier = {
                source if backward else target
                for source, target in links
                if (target if backward else source) in frontier
            }
            reached |= frontier
    return reached, {link for link in links if set(link) <= reached}


def _shown(found: Neighbourhood) -> tuple[set[str], set[tuple[str, str]]]:
    names = [f"{node.kind[0]} {node.full_name}" for node in found.nodes]
    assert len(set(names)) == len(names)
    links = {(names[link.source], names[link.target]) for link in found.links}
    assert len(links) == len(found.links)
    return set(names), links


def _check(
    index: DatasetIndex,
    store: SqliteStore,
    listed: Collection[str],
    told: Mapping[str, Hashable] | None,
    random_: random.Random,
) -> None:
    runs = VisibleRuns(store, listed, listed if told is None else told.keys())
    datasets = find_datasets(runs)
    graph = build_job_graph(datasets)
    names = {dataset.full_name: (dataset.namespace, dataset.name) for dataset in datasets.items}
    starts = [GraphName(None, job) for job in graph.jobs]
    starts += [GraphName(*names[name]) for name in graph.datasets]
    for start in starts:
        side, depth = random_.choice(list(GraphSide)), random_.randint(1, 4)
        found = find_neighbours(index, start, listed, told, side=side, depth=depth, limit=1000)
        full = start.name if start.namespace is None else _full(names, start)
        expected = _expected(graph, full, is_job=start.namespace is None, side=side, depth=depth)
        assert _shown(found) == expected
        assert not found.truncated
        assert (found.runs, found.runs_total) == (datasets.runs, datasets.runs_total)
        assert found.runs_withheld == datasets.runs_withheld
        for node in found.nodes:
            _check_counts(node, graph)
    for name in {*NAMED} - {name for _, name in names.values()}:
        with pytest.raises(NotFoundError):
            find_neighbours(index, GraphName("file", name), listed, told)


def _full(names: Mapping[str, tuple[str, str]], start: GraphName) -> str:
    return next(full for full, name in names.items() if name == tuple(start))


def _check_counts(node: JobGraphNode, graph: JobGraph) -> None:
    if node.kind == "job":
        assert node.upstream == sum(job == node.name for _, job in graph.reads)
        assert node.downstream == sum(job == node.name for job, _ in graph.writes)
    else:
        assert node.upstream == sum(name == node.full_name for _, name in graph.writes)
        assert node.downstream == sum(name == node.full_name for name, _ in graph.reads)


@pytest.mark.parametrize("seed", range(12))
def test_neighbours_are_those_of_the_whole_graph_while_runs_come_change_and_go(
    tmp_path: Path, seed: int
) -> None:
    random_ = random.Random(seed)
    with SqliteStore(tmp_path / "store.db") as store:
        index = DatasetIndex(store)
        for step in range(8):
            for _ in range(3):
                # The same id again is a run with more messages.
                app = f"app-{random_.randint(0, 9)}"
                if random_.random() < 0.3:
                    store.delete(app)
                store.write(app, _random_run(random_, app))
            if step % 2 and (ids := store.application_ids()):
                store.delete(random_.choice(ids))
            index.update(60.0, fresh_s=0.0)
            ids = store.application_ids()
            _check(index, store, ids, None, random_)
            listed = [app for app in ids if random_.random() < 0.8]
            told = {app: store.revision(app) for app in listed if random_.random() < 0.7}
            _check(index, store, listed, told, random_)
        for app in store.application_ids():
            store.delete(app)
        index.update(60.0, fresh_s=0.0)
        assert _is_empty(index.uses)


def _is_empty(uses: DatasetUses) -> bool:
    return not (uses.by_run or uses.by_dataset or uses.named_by or uses.memory)


def test_a_run_that_changed_after_its_visibility_was_decided_says_nothing(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("a", run("a", "job", 1.0, {"/in": ["/in/1"]}))
        index = DatasetIndex(store)
        visible = {"a": store.revision("a")}
        store.write("a", run("a", "job", 1.0, {"/secret": ["/secret/1"]}))
        index.update(60.0)
        found = find_neighbours(index, GraphName(None, "job"), ["a"], visible)
        assert [node.full_name for node in found.nodes] == ["job"]
        assert found.runs_withheld == 1
        found = find_neighbours(index, GraphName(None, "job"), ["a"], {"a": store.revision("a")})
        assert len(found.nodes) == 3


def test_a_run_whose_id_was_given_to_another_one_names_neither_its_job_nor_its_datasets(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("a", run("a", "secret job", 1.0, {"/secret": ["/secret/1"]}))
        index = DatasetIndex(store)
        index.update(60.0)
        store.delete("a")
        store.write("a", run("a", "job", 1.0, {"/in": ["/in/1"]}))
        # Another query updates the index, so this one does not.
        revisions = store.revisions(["a"])
        for start in (GraphName(None, "secret job"), GraphName("file", "/secret")):
            found = find_neighbours(index, start, ["a"], revisions, revisions=revisions)
            assert (found.nodes, found.runs, found.runs_total) == ((), 0, 1)
        index.update(60.0, fresh_s=0.0)
        found = find_neighbours(
            index, GraphName(None, "job"), ["a"], revisions, revisions=revisions
        )
        assert {node.name for node in found.nodes} == {"job", "/in"}


def test_what_is_not_read_in_time_is_read_by_the_next_call(tmp_path: Path) -> None:
    now = [0.0]

    def bounded(read: Callable[[], None]) -> bool:
        now[0] += 1.0
        read()
        return True

    with SqliteStore(tmp_path / "store.db") as store:
        for at in range(6):
            store.write(f"a{at}", run(f"a{at}", f"job {at}", float(at), {f"/{at}": [f"/{at}"]}))
        index = DatasetIndex(store, bounded, clock=lambda: now[0])
        ids = store.application_ids()
        index.update(2.0, lambda record: record.app == "a1")
        found = find_neighbours(index, GraphName(None, "job 1"), ids)
        assert (len(found.nodes), found.runs, found.runs_total) == (2, 2, 6)
        # Neither is known not to be there: runs that name it may be among the others.
        missing = find_neighbours(index, GraphName("file", "/0"), ids)
        assert (missing.nodes, missing.runs) == ((), 2)
        index.update(60.0)
        assert len(find_neighbours(index, GraphName("file", "/0"), ids).nodes) == 2
        with pytest.raises(NotFoundError, match="no job or dataset 'file:/none'"):
            find_neighbours(index, GraphName("file", "/none"), ids)


def test_the_job_asked_for_is_read_however_long_it_takes_to_look_for_changes(
    tmp_path: Path,
) -> None:
    ticks = itertools.count()
    with SqliteStore(tmp_path / "store.db") as store:
        for at in range(3):
            store.write(f"a{at}", run(f"a{at}", f"job {at}", float(at), {f"/{at}": [f"/{at}"]}))
        index = DatasetIndex(store, clock=lambda: float(next(ticks)))
        ids = store.application_ids()
        for seconds, runs in ((0.0, 0), (0.1, 1), (0.0, 1), (0.1, 2)):
            index.update(seconds, lambda record: record.app == "a1")
            found = find_neighbours(index, GraphName(None, "job 1"), ids)
            assert (found.runs, len(found.nodes)) == (runs, 1 + bool(runs))


def test_nodes_beyond_the_limit_are_left_out_and_counted(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        for at in range(30):
            name = f"r{at:02}"
            store.write(name, run(name, name, float(at), {"/in": ["/in/1"]}))
            store.write(f"w{name}", run(f"w{name}", f"w{name}", 0.0, {}, {"/in": ["/in/1"]}))
        index = DatasetIndex(store)
        index.update(60.0)
        found = find_neighbours(index, GraphName("file", "/in"), store.application_ids(), limit=11)
        assert found.truncated
        assert [node.name for node in found.nodes] == [
            "/in",
            *(f"wr{at:02}" for at in range(5)),
            *(f"r{at:02}" for at in range(5)),
        ]
        assert (found.nodes[0].upstream, found.nodes[0].downstream) == (30, 30)
        assert (found.nodes[0].runs, found.nodes[0].last_app) == (60, "r29")


def test_the_oldest_runs_are_left_out_of_an_index_that_is_full(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        for at in range(6):
            store.write(f"a{at}", run(f"a{at}", "job", float(at), {f"/{at}": [f"/{at}/1"]}))
        alone = DatasetIndex(store)
        alone.update(60.0)
        index = DatasetIndex(store, bytes_max=alone.uses.memory // 2)
        index.update(60.0)
        found = find_neighbours(index, GraphName(None, "job"), store.application_ids())
        assert {node.name for node in found.nodes} == {"job", "/3", "/4", "/5"}
        assert (found.runs, found.runs_withheld) == (6, 3)
        store.write("b", run("b", "job", 9.0, {"/9": ["/9/1"]}))
        index.update(60.0, fresh_s=0.0)
        found = find_neighbours(index, GraphName(None, "job"), store.application_ids())
        assert {node.name for node in found.nodes} == {"job", "/4", "/5", "/9"}
        index = DatasetIndex(store, run_bytes_max=1)
        index.update(60.0)
        assert not index.uses.by_run
        assert len(index.unread) == 7


def test_a_query_whose_time_is_over_leaves_the_index_whole(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("a", run("a", "job", 1.0, {"/in": [f"/in/{at}" for at in range(50)]}))
        index = DatasetIndex(store)
        ticks = iter(range(1_000_000))
        budget = Budget(seconds=20, clock=lambda: float(next(ticks)))
        with use_budget(budget), pytest.raises(TimeUpError):
            index.update(60.0)
        assert _is_empty(index.uses)
        index.update(60.0)
        assert len(find_neighbours(index, GraphName(None, "job"), ["a"]).nodes) == 2


def test_names_are_found_whether_folders_come_and_go_one_by_one_or_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for moved in (0, 1_000):
        monkeypatch.setattr("lineage_query.dataset_uses.MOVED_MAX", moved)
        random_ = random.Random(moved)
        with SqliteStore(tmp_path / f"{moved}.db") as store:
            index = DatasetIndex(store)
            for _ in range(4):
                app = f"app-{random_.randint(0, 4)}"
                store.delete(app)
                files = [f"/a/{random_.randint(0, 9)}/{at}/1" for at in range(40)]
                store.write(app, run(app, app, 1.0, {"/a": files}))
                store.write(
                    "b", run("b", "b", 1.0, {"/a/b": [f"/a/{at}/{at}/1" for at in range(9)]})
                )
                index.update(60.0, fresh_s=0.0)
                _check(index, store, store.application_ids(), None, random_)
