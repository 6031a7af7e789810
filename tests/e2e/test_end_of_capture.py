"""The end of capture waits for what is still being recorded, and what looks at lineage is no part of the job."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lineage_core.contract.verdict import Verdict
from lineage_emitter import LineageContext
from lineage_emitter.dataframes import hooks, plan_text, plans, recorder
from tests.support.job_runs import applications, judged, run_captured, write_job

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
WAIT_S = 60.0


class Gate:
    """What passes it waits until it is opened."""

    def __init__(self, around: Callable[..., Any]) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self._around = around

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.reached.set()
        assert self.opened.wait(WAIT_S)
        return self._around(*given, **named)


def begun(work: Callable[[], Any]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_the_end_waits_for_a_slow_recorder(
    capture: Capture, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Gate(plans.recipe_of)
    monkeypatch.setattr(plans, "recipe_of", slow)
    context = capture()
    assert spark.range(3).count() == 3
    assert slow.reached.wait(WAIT_S)
    # Waits behind the first one.
    assert spark.range(4).count() == 4
    closing = begun(context.close)
    slow.opened.set()
    closing.join(WAIT_S)
    verdict = judged(tmp_path, context.app)
    assert verdict.complete, verdict.reasons
    assert (verdict.recipes_expected, verdict.recipes_received) == (2, 2)


def test_threads_that_note_at_once_compile_what_they_need_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_text, "_compiled", {})
    made: list[str] = []

    def make(gateway: Any, name: str, loader: Any) -> tuple[object, object]:
        made.append(name)
        return object(), object()

    slow = Gate(make)
    monkeypatch.setattr(plan_text, "_compile", slow)
    given: list[Any] = []
    threads = [begun(lambda: given.append(plan_text.compiled("lineage.X"))) for _ in range(2)]
    assert slow.reached.wait(WAIT_S)
    slow.opened.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert made == ["lineage.X"]
    assert given[0] is given[1]


AT_ONCE = """
    import threading
    from pyspark.sql import SparkSession, functions as F
    from pyspark import InheritableThread

    spark = SparkSession.builder.getOrCreate()
    read = spark.read.csv("in.csv", header=True)
    begin = threading.Barrier(4)

    def look(number):
        frame = read.where(F.col("amount") > number)
        begin.wait()
        for turn in range(3):
            frame = frame.withColumn(f"c{turn}", F.lit(turn))
            assert len(frame.collect()) == 3 - number
            assert frame.lineage().recipe.sources

    threads = [InheritableThread(target=look, args=(number,)) for number in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
"""


def test_lineage_asked_for_at_once_loses_no_recipe(tmp_path: Path) -> None:
    """In a Spark where nothing has been compiled: the program's threads and the recorder's need the same."""
    (tmp_path / "in.csv").write_text("city,amount\nOslo,1\nRome,2\nOslo,3\n")
    write_job(tmp_path, AT_ONCE)
    ran = run_captured(tmp_path, "job.py")
    assert "Exception in thread" not in ran.stderr, ran.stderr
    (app,) = applications(tmp_path)
    verdict = judged(tmp_path, app["app"])
    assert verdict.complete, verdict.reasons
    assert (verdict.recipes_expected, verdict.recipes_received) == (12, 12)


def test_what_is_not_recorded_in_time_is_named(
    capture: Capture, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck = Gate(plans.recipe_of)
    monkeypatch.setattr(plans, "recipe_of", stuck)
    monkeypatch.setattr(recorder, "CLOSE_S", 0.1)
    context = capture()
    assert context.parallelize([1], 1).collect() == [1]
    assert spark.range(3).count() == 3
    context.close()
    stuck.opened.set()
    verdict = judged(tmp_path, context.app)
    assert not verdict.complete
    (reason,) = verdict.unknown
    assert reason.startswith("DataFrame.count at test_end_of_capture.py:")
    assert recorder.NOT_IN_TIME in reason


def test_an_action_that_returns_while_capture_ends_is_named(
    capture: Capture, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returning = Gate(hooks._versions)
    monkeypatch.setattr(hooks, "_versions", returning)
    context = capture()
    assert context.parallelize([1], 1).collect() == [1]
    other = begun(lambda: spark.range(3).count())
    assert returning.reached.wait(WAIT_S)
    context.close()
    returning.opened.set()
    other.join(WAIT_S)
    verdict = judged(tmp_path, context.app)
    assert not verdict.complete
    assert any(recorder.UNDER_WAY in one for one in verdict.unknown), verdict.reasons


def looked_at(spark: SparkSession, folder: Path) -> None:
    """Trace a row, and look at the answer as people do in a notebook."""
    (folder / "in.csv").write_text("city,amount\nOslo,1\nRome,2\nOslo,3\n")
    read = spark.read.csv(f"{folder}/in.csv", header=True, inferSchema=True)
    totals: Any = read.groupBy("city").sum("amount")
    row = next(one for one in totals.collect() if one.city == "Oslo")
    answer = totals.lineage().back(row)
    answer.show()
    rows = answer.rows()
    rows.show()
    assert rows.filter("amount > 1").count() == 1
    assert len(rows.toPandas()) == len(rows.rdd.collect()) == 2
    rows.stat.freqItems(["city"]).collect()


def test_looking_at_an_answer_is_no_part_of_the_job(
    capture: Capture, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture() as context:
        looked_at(spark, tmp_path)
        app = context.app
    assert "Oslo" in capsys.readouterr().out
    verdict: Verdict = judged(tmp_path, app)
    assert verdict.complete, verdict.reasons
    assert verdict.recipes_received == 1


def test_what_is_written_of_an_answer_is_recorded(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in.csv").write_text("city,amount\nOslo,1\nRome,2\n")
    with capture() as context:
        read: Any = spark.read.csv(f"{tmp_path}/in.csv", header=True)
        answer = read.lineage().back(where="city = 'Rome'").rows()
        answer.write.parquet(f"{tmp_path}/out")
        app = context.app
    verdict = judged(tmp_path, app)
    assert verdict.recipes_received == 1 or not verdict.complete
