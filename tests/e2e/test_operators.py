"""What pairs, chooses, hands over and keeps records: pairs, the best ones, iterators, checkpoints."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import BarrierTaskContext

from lineage_core.contract.message import Job, Register
from lineage_emitter import LineageContext
from lineage_query.rows.places import LocationError
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged, traced, traced_items

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """Eleven lines, each with its own number."""
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n} {n * 4 % 11}\n" for n in range(11)))
    return str(path)


def second(line: str) -> int:
    return int(line.split()[1])


def shout(line: str) -> str:
    return line.upper()


def assert_no_item(folder: Path, app: str, item: str) -> None:
    with pytest.raises(LocationError, match="there is no item"):
        traced_items(folder, app, item)


# -- pairs ---------------------------------------------------------------------------------------

PAIRED: dict[str, Callable[[Any], Any]] = {
    "sources": lambda text: text.cartesian(text),
    "pipelined": lambda text: text.map(shout).cartesian(text.filter(len)),
    "cached": lambda text: text.map(shout).cache().cartesian(text.cache()),
    "moved": lambda text: text.repartition(2).cartesian(text.map(shout).coalesce(1)),
    "by key": lambda text: (
        text.keyBy(len).partitionBy(2).cartesian(text.union(text.map(shout))).mapValues(str)
    ).map(lambda pair: (pair[0][1], pair[1])),
    "zipped": lambda text: text.zip(text.map(shout)),
    "zipped sources": lambda text: text.zip(text),
    "zipped pairs": lambda text: text.zip(text.map(shout)).keys().zip(text.map(shout)),
    "crossed pairs": lambda text: (
        text.map(shout).zip(text).cartesian(text).map(lambda pair: (pair[0][1], pair[1]))
    ),
}


@pytest.mark.long
def test_a_pair_comes_from_its_two_records(capture: Capture, tmp_path: Path, lines: str) -> None:
    with capture() as lc:
        for name, build in PAIRED.items():
            pairs = build(lc.textFile(lines, 2))
            pairs.map("|".join).saveAsTextFile(str(tmp_path / name))
        app = lc.app
    verdict = judged(tmp_path, app)
    assert (verdict.reasons, verdict.superset) == ((), {})
    for name in PAIRED:
        rows = traced(tmp_path, tmp_path / name, app)
        assert len(rows) == (11 if "zipped" in name else 121), name
        for text, where in rows:
            numbers = {int(side.split()[0]) for side in text.split("|")}
            assert where == tuple(sorted(f"lines.txt:{n + 1}" for n in numbers)), (name, text)


def test_pairs_that_were_taken_early_are_traced(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        many = lc.parallelize(range(40_000), 2).map(str)
        assert many.cartesian(many.filter(bool)).take(3)[2] == ("0", "2")
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert traced_items(tmp_path, app, "take#0#2") == ["parallelize#0#0", "parallelize#0#2"]


@pytest.mark.long
def test_many_runs_of_one_side_are_told_apart(capture: Capture, tmp_path: Path) -> None:
    """Each batch of the left side, here a record, runs the right side again."""
    with capture() as lc:
        left = lc.parallelize([str(n) for n in range(20)], 20).coalesce(1)
        crossed = left.cartesian(lc.parallelize([1, 2], 1).map(str))
        assert crossed.count() == 40
        assert crossed.collect()[-1] == ("19", "2")
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert traced_items(tmp_path, app, "collect#0#39") == ["parallelize#19#0", "parallelize:1#0#1"]


@pytest.mark.long
def test_runs_of_one_side_that_give_nothing_are_told_apart(
    capture: Capture, tmp_path: Path
) -> None:
    """A run without a record has a number of its own, as the others have."""
    has_run = tmp_path / "has run"

    def after_first_run(_: str) -> bool:
        if has_run.exists():
            return True
        has_run.touch()
        return False

    with capture() as lc:
        left = lc.parallelize([str(n) for n in range(5)], 5).coalesce(1)
        ones = lc.parallelize([1, 2], 2).map(str)
        assert left.cartesian(ones.filter(lambda text: text == "2")).count() == 5
        assert left.cartesian(ones.filter(lambda text: text == "3")).count() == 0
        late = left.cartesian(lc.parallelize(["late"], 1).filter(after_first_run))
        assert late.collect() == [(str(n), "late") for n in range(1, 5)]
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    for place in range(4):
        found = traced_items(tmp_path, app, f"collect#0#{place}")
        assert found == [f"parallelize#{place + 1}#0", "parallelize:2#0#0"]


# -- actions that choose ---------------------------------------------------------------------------


def test_what_was_chosen_comes_from_the_very_records(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture() as lc:
        text: Any = lc.textFile(lines, 3)
        given = {
            "max": [text.max(second)],
            "min": [text.map(shout).min(lambda line: second(line) // 6)],
            "top": text.top(4, second),
            "top:1": text.sortBy(second).top(3, len),
            "takeOrdered": text.takeOrdered(20, key=second),
            "takeSample": text.takeSample(False, 4, seed=5),
            "takeSample:1": text.takeSample(True, 14, seed=5),
            "takeSample:2": text.takeSample(False, 99, seed=5),
        }
        assert (text.takeOrdered(0), text.takeSample(False, 0)) == ([], [])
        app = lc.app
    verdict = judged(tmp_path, app)
    assert (verdict.reasons, verdict.superset) == ((), {})
    assert [len(given[name]) for name in ("takeOrdered", "takeSample:1", "takeSample:2")] == [
        11,
        14,
        11,
    ]
    # Of equal ones the first that PySpark compares: in the order of partitions.
    assert given["min"] == ["0 0"]
    for name, records in given.items():
        for place, record in enumerate(records):
            found = traced_items(tmp_path, app, f"{name}#0#{place}")
            assert found == [f"lines.txt:{int(record.split()[0]) + 1}"], (name, record)
        assert_no_item(tmp_path, app, f"{name}#0#{len(records)}")


# -- toLocalIterator -------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [False, True])
def test_an_iterator_gives_what_was_taken_of_it(
    ahead: bool, capture: Capture, tmp_path: Path, lines: str
) -> None:
    lc = capture()
    text: Any = lc.textFile(lines, 3)
    assert sum(1 for _ in text.toLocalIterator(ahead)) == 11
    for number, _ in enumerate(text.map(shout).toLocalIterator(ahead)):
        if number == 6:
            break
    left_open = text.union(text).toLocalIterator(ahead)
    assert [next(left_open) for _ in range(13)][-1] == "1 4"
    untouched = text.toLocalIterator(ahead)
    lc.close()
    # The program may go on.
    assert (next(left_open), next(untouched)) == ("2 8", "0 0")
    assert judged(tmp_path, lc.app).reasons == ()

    def where(item: str) -> list[str]:
        return traced_items(tmp_path, lc.app, item)

    assert where("toLocalIterator#0#10") == ["lines.txt:11"]
    assert where("toLocalIterator:1#0#6") == ["lines.txt:7"]
    assert where("toLocalIterator:2#0#12") == ["lines.txt:2"]
    for item in ("toLocalIterator:1#0#7", "toLocalIterator:2#0#13", "toLocalIterator:3#0#0"):
        assert_no_item(tmp_path, lc.app, item)


def test_an_iterator_that_fails_is_named(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        halves = lc.parallelize([2, 1, 0], 3).map(lambda n: 2 / n).toLocalIterator()
        assert (next(halves), next(halves)) == (1.0, 2.0)
        with pytest.raises(Exception, match="division by zero"):
            next(halves)
        app = lc.app
    assert any("the action failed: ZeroDivisionError" in r for r in judged(tmp_path, app).reasons)
    assert traced_items(tmp_path, app, "toLocalIterator#0#1") == ["parallelize#1#0"]


def test_jobs_of_iterators_are_told_where_they_were_asked_for(
    capture: Capture, tmp_path: Path
) -> None:
    with capture() as lc:
        iterator = lc.parallelize([1], 1).toLocalIterator()
        assert list(iterator) == [1]
        app = lc.app
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        messages = list(store.messages(app))
    (sink,) = (m for m in messages if isinstance(m, Register) and m.kind == "sink")
    (job,) = (m for m in messages if isinstance(m, Job))
    assert job.call_site == sink.call_site != ""


# -- pipe and barrier ------------------------------------------------------------------------------


def in_another_thread(records: Iterable[Any]) -> Iterator[Any]:
    """Reads ahead, as a function that waits for something may."""
    read: list[Any] = []
    reader = threading.Thread(target=lambda: read.extend(records))
    reader.start()
    reader.join()
    yield from read


def in_barrier(records: Iterable[Any]) -> Iterator[Any]:
    BarrierTaskContext.get().barrier()
    yield from records


def in_order(records: Iterable[Any]) -> Iterator[Any]:
    yield from records


def test_functions_that_may_buffer_are_supersets(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        numbers = lc.parallelize(list(range(8)), 2)
        assert numbers.pipe("tac").collect() == [str(n) for n in (3, 2, 1, 0, 7, 6, 5, 4)]
        assert (
            numbers.sortBy(lambda n: -n, numPartitions=1).mapPartitions(in_another_thread).collect()
            == list(range(8))[::-1]
        )
        assert numbers.map(str).barrier().mapPartitions(in_barrier).collect()[-1] == "7"
        assert numbers.mapPartitions(in_order).max() == 7
        app = lc.app
    verdict = judged(tmp_path, app)
    assert verdict.reasons == ()
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        nodes = {node.node: node for node in store.graph(app).nodes()}
    inexact = {nodes[node].name for node in verdict.superset if not nodes[node].exact}
    assert inexact == {"pipe", "mapPartitions", "barrier"}
    assert len(traced_items(tmp_path, app, "collect#1#0")) == 4
    assert len(traced_items(tmp_path, app, "collect:1#0#0")) == 8
    assert "parallelize#1#2" in traced_items(tmp_path, app, "collect:2#1#2")
    assert traced_items(tmp_path, app, "max#0#0") == [f"parallelize#1#{n}" for n in range(4)]


def test_a_rule_leaves_what_a_buffering_function_read(capture: Capture, tmp_path: Path) -> None:
    with capture(rules='[{"node": "mapPartitions", "sample": 0.999999}]') as lc:
        assert lc.parallelize([5, 6, 7], 1).mapPartitions(in_order).collect() == [5, 6, 7]
        app = lc.app
    assert len(traced_items(tmp_path, app, "collect#0#2")) == 3


# -- checkpoints -----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["checkpoint", "localCheckpoint"])
def test_records_of_a_checkpoint_keep_their_names(
    method: str, capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture() as lc:
        text: Any = lc.textFile(lines, 3)
        counts = text.keyBy(len).mapValues(second).reduceByKey(max, 2)
        for rdd in (text, counts):
            getattr(rdd, method)()
        assert not counts.isCheckpointed()
        assert counts.isLocallyCheckpointed() == (method == "localCheckpoint")
        assert (len(text.collect()), len(counts.collect())) == (11, 2)
        assert text.isCheckpointed()
        assert counts.isCheckpointed()
        assert (counts.getCheckpointFile() is None) == (method == "localCheckpoint")
        assert counts.union(text.map(lambda line: (line, 0))).collect()[-1] == ("10 7", 0)
        assert counts.map(repr).max() == "(4, 10)"
        app = lc.app
    verdict = judged(tmp_path, app)
    assert (verdict.reasons, verdict.superset) == ((), {})
    assert traced_items(tmp_path, app, "collect#1#0") == traced_items(
        tmp_path, app, "collect:2#3#0"
    )
    assert traced_items(tmp_path, app, "collect:2#4#2") == ["lines.txt:11"]
    assert traced_items(tmp_path, app, "max#0#0") == ["lines.txt:11", "lines.txt:9"]
