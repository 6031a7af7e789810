"""What ``take`` read ahead is not lineage, however the action ends and whatever runs beside it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD

from lineage_core.contract.message import Commit, parse_message
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import trace
from lineage_emitter import LineageContext
from lineage_emitter.driver import actions
from lineage_emitter.session import commit_thread
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged, traced_items

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
DEADLINE_S = 120.0


def kept(folder: Path, app: str, sink: str) -> dict[int, tuple[int, int | None]]:
    """(rows, keep) of a sink's commits by partition; ``sink``: its alias."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        nodes = {m.alias: m.node for m in store.messages(app, "register")}  # type: ignore[union-attr]
        commits = [m for m in store.messages(app, "commit") if isinstance(m, Commit)]
    return {m.partition: (m.rows, m.keep) for m in commits if m.node == nodes[sink]}


def sinks_of(folder: Path, app: str, source: str, *rows: tuple[int, int]) -> set[str]:
    """Spaces of sinks that some (partition, ordinal) of a source reached; ``source``: its alias."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        nodes = {m.alias: m.node for m in store.messages(app, "register")}  # type: ignore[union-attr]
        begins = {f"{nodes[source]}#{p}": Region.from_positions([row]) for p, row in rows}
        found = trace(store.graph(app), Direction.FORWARD, begins).found
    return {space for node in found.values() for space, region in node.spaces.items() if region}


def wait_for(what: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + DEADLINE_S
    while not what():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


def passing(gate: Path) -> Callable[[int], int]:
    """A function for workers: number 10 waits until ``gate`` is there."""

    def pass_on(number: int) -> int:
        if number == 10:
            gate.with_suffix(".reached").touch()
            give_up_at = time.monotonic() + DEADLINE_S
            while not gate.exists() and time.monotonic() < give_up_at:
                time.sleep(0.02)
        return number

    return pass_on


@contextmanager
def taking(rdd: RDD[Any], num: int, gate: Path) -> Iterator[list[Any]]:
    """``take`` in a thread; the body runs while its second round is under way."""
    answers: list[Any] = []

    def work() -> None:
        try:
            answers.append(rdd.take(num))
        except BaseException as problem:
            answers.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        wait_for(lambda: gate.with_suffix(".reached").exists() or answers)
        assert answers == []
        yield answers
    finally:
        gate.touch()
        thread.join()


def test_rows_read_ahead_are_cut_when_the_action_has_ended(
    capture: Capture, tmp_path: Path
) -> None:
    with capture() as lc:
        numbers = lc.parallelize(range(6), 6)
        assert numbers.take(3) == [0, 1, 2]
        assert numbers.take(3) == [0, 1, 2]
        assert lc.parallelize(range(40), 2).take(5) == [0, 1, 2, 3, 4]
        assert numbers.first() == 0
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    for sink in ("take", "take:1"):
        assert kept(tmp_path, app, sink) == {0: (1, None), 1: (1, None), 2: (1, None), 3: (1, 0)}
    assert kept(tmp_path, app, "take:2") == {0: (5, None)}
    assert kept(tmp_path, app, "take:3") == {0: (1, None)}
    assert traced_items(tmp_path, app, "take:1#2#0") == ["parallelize#2#0"]
    assert len(sinks_of(tmp_path, app, "parallelize", (2, 0))) == 2
    assert sinks_of(tmp_path, app, "parallelize", (3, 0), (4, 0)) == set()


def test_an_action_that_fails_commits_what_it_read(capture: Capture, tmp_path: Path) -> None:
    def below_one(number: int) -> int:
        if number > 0:
            raise ValueError("no number")
        return number

    with capture() as lc:
        with pytest.raises(Exception, match="no number"):
            lc.parallelize(range(6), 6).map(below_one).take(3)
        (driver,) = tmp_path.rglob(f"{lc.app}/driver.jsonl")
        assert b'"commit"' in driver.read_bytes()
        assert lc.parallelize(range(6), 6).take(3) == [0, 1, 2]
        app = lc.app
    assert kept(tmp_path, app, "take")[0] == (1, None)
    assert kept(tmp_path, app, "take:1")[3] == (1, 0)
    reasons = judged(tmp_path, app).reasons
    assert any("take" in reason and "the action failed" in reason for reason in reasons)


def test_an_interrupted_action_commits_what_it_read(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = actions._tries

    def interrupted(items: list[Any], num: int, scanned: int) -> int:
        if scanned:
            raise KeyboardInterrupt
        return tries(items, num, scanned)

    with capture() as lc:
        monkeypatch.setattr(actions, "_tries", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lc.parallelize(range(6), 6).take(3)
        monkeypatch.undo()
        assert lc.parallelize(range(6), 6).take(3) == [0, 1, 2]
        app = lc.app
    assert kept(tmp_path, app, "take") == {0: (1, None)}
    assert kept(tmp_path, app, "take:1")[3] == (1, 0)
    assert any("did not finish" in reason for reason in judged(tmp_path, app).reasons)


def test_the_end_in_the_middle_of_an_action_commits_what_it_read(
    capture: Capture, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    lc = capture()
    app = lc.app
    rows = lc.parallelize([0, 10, 11, 12], 4).map(passing(gate))
    with taking(rows, 3, gate) as answers:
        lc.close()
        held = kept(tmp_path, app, "take")
        assert held[0] == (1, None)
        assert 1 not in held
        assert {keep for _, keep in held.values()} == {None}
        assert traced_items(tmp_path, app, "take#0#0") == ["parallelize#0#0"]
    assert answers == [[0, 10, 11]]
    verdict = judged(tmp_path, app)
    assert any("did not finish" in reason for reason in verdict.reasons)
    assert verdict.blocks_received == verdict.blocks_expected


def test_linking_and_heartbeats_go_on_while_commits_are_held_back(
    capture: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commit_thread, "LINK_BYTES", 1)
    gate = tmp_path / "gate"
    with capture(heartbeat_s=0.2) as lc:
        (driver,) = tmp_path.rglob(f"{lc.app}/driver.jsonl")
        pairs = lc.parallelize([0, 10, 11, 12], 2).map(lambda number: (number, number))
        rows = pairs.reduceByKey(max, 4, lambda number: max(number - 9, 0)).keys()
        with taking(rows.map(passing(gate)), 3, gate):

            def messages() -> list[Any]:
                whole = driver.read_bytes().rpartition(b"\n")[0]
                return [parse_message(line) for line in whole.splitlines()]

            def beats() -> int:
                return sum(message.type == "heartbeat" for message in messages())

            seen = beats()
            wait_for(lambda: beats() > seen)
            sent = {message.node for message in messages() if isinstance(message, Commit)}
            sinks = [message.node for message in messages() if message.type == "register"]
            assert sent
            assert sinks[-1] not in sent
            wait_for((tmp_path / STORE).exists)
            with open_store(f"sqlite:///{tmp_path / STORE}") as store:
                wait_for(lambda: any(store.messages(lc.app, "commit")))
            another = lc.parallelize([1, 2], 2)
            assert another.collect() == [1, 2]
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert kept(tmp_path, app, "take")[3] == (1, 0)
    assert traced_items(tmp_path, app, "take#1#0") == ["parallelize#0#1"]


def test_actions_of_several_threads_on_one_rdd(capture: Capture, tmp_path: Path) -> None:
    problems: list[BaseException] = []
    with capture() as lc:
        shared = lc.parallelize(range(8), 8).map(str).cache()
        together = threading.Barrier(4)

        def work(num: int) -> None:
            try:
                together.wait()
                assert shared.take(num) == [str(number) for number in range(num)]
                assert shared.first() == "0"
                assert shared.count() == 8
                assert shared.take(num + 1) == [str(number) for number in range(num + 1)]
            except BaseException as problem:
                problems.append(problem)

        running = [threading.Thread(target=work, args=(num,)) for num in range(2, 6)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        app = lc.app
    assert problems == []
    verdict = judged(tmp_path, app)
    assert verdict.reasons == ()
    aliases = ["take"] + [f"take:{number}" for number in range(1, 12)]
    reached = []
    for alias in aliases:
        commits = kept(tmp_path, app, alias)
        reached.append(sum(rows if keep is None else keep for rows, keep in commits.values()))
    assert sorted(reached) == [1, 1, 1, 1, 2, 3, 3, 4, 4, 5, 5, 6]
