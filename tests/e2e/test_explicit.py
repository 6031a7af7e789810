"""``LineageContext``: what a program sees, and what its lineage says of its actions."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark import SparkContext, StorageLevel

from lineage_core.contract.message import Commit, Unknown
from lineage_emitter import LineageContext, LineageRDD
from lineage_emitter.driver.rdd import _refused
from lineage_emitter.errors import SettingsError, TracingError, UnsupportedOperatorError
from lineage_store.url import open_store
from tests.support.drawn import drawn
from tests.support.job_runs import (
    STORE,
    judged,
    run_program,
    traced,
    traced_items,
    verify,
    write_job,
)

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]


@pytest.fixture
def lines(tmp_path: Path) -> str:
    """20,000 numbered lines."""
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{n % 7} {n}\n" for n in range(20_000)))
    return str(path)


def add(a: int, b: int) -> int:
    return a + b


def take_one(records: Iterable[Any]) -> None:
    next(iter(records))


def take_none(_: Iterable[Any]) -> None:
    """Reads nothing of its partition."""


def test_each_capture_of_one_context_is_an_application(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    apps = []
    for turn in range(3):
        with capture() as lc:
            lc.textFile(lines).filter(lambda line: line.endswith("99")).saveAsTextFile(
                str(tmp_path / f"out-{turn}")
            )
            apps.append(lc.app)
    assert len(set(apps)) == 3
    for turn, app in enumerate(apps):
        assert judged(tmp_path, app).reasons == ()
        rows = traced(tmp_path, tmp_path / f"out-{turn}", app)
        assert len(rows) == 200
        assert all(where == (f"lines.txt:{int(text.split()[1]) + 1}",) for text, where in rows)


def test_drivers_with_one_application_id_are_told_apart(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture(link=False) as first:
        pass
    spool = tmp_path / ".lineage" / "spool"
    # The id that Spark's next application has by chance is already another driver's.
    number = int(first.app.partition("-")[2].partition("-")[2] or 1) + 1
    taken = f"{first.applicationId}-{number}"
    (spool / taken).mkdir()
    (spool / taken / "driver.jsonl").write_text("another driver's")
    with capture() as lc:
        assert lc.textFile(lines).count() == 20_000
        assert lc.app == f"{taken}-2"
    assert judged(tmp_path, lc.app).complete
    assert (spool / taken / "driver.jsonl").read_text() == "another driver's"
    assert not (spool / lc.app).exists()


def test_it_stands_in_for_the_spark_context(capture: Capture, spark_context: SparkContext) -> None:
    with capture() as lc:
        assert lc.applicationId == spark_context.applicationId
        assert lc.defaultParallelism == spark_context.defaultParallelism
        broadcast, seen = lc.broadcast({"a": 1}), lc.accumulator(0)

        def look_up(word: str) -> int:
            seen.add(1)
            return int(broadcast.value.get(word, 0))

        rdd = lc.parallelize(["a", "b", "a"], 2).map(look_up)
        assert isinstance(rdd, LineageRDD)
        assert rdd.context is spark_context
        assert rdd.collect() == [1, 0, 1]
        assert (seen.value, rdd.reduce(add), seen.value) == (3, 2, 6)


def test_what_an_rdd_is_asked_about_itself_runs_nothing(capture: Capture) -> None:
    with capture() as lc:
        calls = lc.accumulator(0)
        rdd = lc.parallelize(range(4), 2).map(calls.add).setName("four")
        assert (rdd.name(), rdd.getNumPartitions(), rdd.id() > 0) == ("four", 2, True)
        assert rdd.toDebugString()
        assert not rdd.is_cached
        assert rdd.cache() is rdd
        assert rdd.is_cached
        assert rdd.getStorageLevel() == StorageLevel.MEMORY_ONLY
        assert rdd.unpersist() is rdd
        assert not rdd.isCheckpointed()
        assert calls.value == 0


@pytest.fixture
def unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    """``pipe`` as an operator of a later PySpark would be: this one has none without lineage."""
    monkeypatch.setattr(LineageRDD, "pipe", _refused("pipe"))


@pytest.mark.usefixtures("unsupported")
def test_an_operator_without_lineage_is_refused_by_name(capture: Capture) -> None:
    with capture() as lc:
        rdd = lc.parallelize([1, 2], 2)
        with pytest.raises(UnsupportedOperatorError) as refused:
            rdd.pipe("cat")
        assert refused.value.operator == "RDD.pipe"
        assert "RDD.pipe has no record-level lineage" in str(refused.value)
        assert "spark.lineage.unsupported=continue" in str(refused.value)
        assert rdd.collect() == [1, 2]


def test_a_plain_rdd_as_other_input_is_refused(
    capture: Capture, spark_context: SparkContext
) -> None:
    with capture() as lc:
        plain = spark_context.parallelize([(1, 2)])
        captured = lc.parallelize([(1, 3)])
        for combine in (
            *(captured.union, captured.join, captured.cogroup, captured.groupWith),
            *(captured.subtract, captured.subtractByKey, captured.intersection),
            *(captured.cartesian, captured.zip),
        ):
            with pytest.raises(UnsupportedOperatorError, match="textFile, parallelize"):
                combine(plain)


ONE_RESULT: dict[str, Callable[[Any], Any]] = {
    "count": lambda rdd: rdd.count(),
    "reduce": lambda rdd: rdd.reduce(add),
    "fold": lambda rdd: rdd.fold(0, add),
    "aggregate": lambda rdd: rdd.aggregate(0, add, add),
    "treeReduce": lambda rdd: rdd.treeReduce(add),
    "treeAggregate": lambda rdd: rdd.treeAggregate(0, add, add, depth=3),
    "sum": lambda rdd: rdd.sum(),
    "stats": lambda rdd: str(rdd.stats()),
    "histogram": lambda rdd: rdd.histogram(2),
    "countByValue": lambda rdd: rdd.countByValue(),
    "countApprox": lambda rdd: rdd.countApprox(60_000),
    "sumApprox": lambda rdd: rdd.sumApprox(60_000),
    "meanApprox": lambda rdd: rdd.meanApprox(60_000),
    "countApproxDistinct": lambda rdd: rdd.countApproxDistinct(),
    "reduceByKeyLocally": lambda rdd: rdd.map(lambda n: (n, 1)).reduceByKeyLocally(add),
}


@pytest.mark.long
def test_an_action_with_one_result_depends_on_every_record(
    capture: Capture, tmp_path: Path, spark_context: SparkContext
) -> None:
    numbers = [3, 1, 2, 2, 5, 1, 4, 1, 5, 9]
    plain = spark_context.parallelize(numbers, 4)
    with capture() as lc:
        rdd = lc.parallelize(numbers, 4)
        for name, action in ONE_RESULT.items():
            assert action(rdd) == action(plain), name
        empty = lc.parallelize([], 2)
        assert (empty.sum(), empty.fold(0, add), empty.countByValue()) == (0, 0, {})
        assert (rdd.mean(), rdd.stdev()) == (plain.mean(), plain.stdev())
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    everything = traced_items(tmp_path, app, "count#0#0")
    assert len(everything) == len(numbers)
    for name in ONE_RESULT:
        assert traced_items(tmp_path, app, f"{name}#0#0") == everything, name


def test_actions_on_pairs_give_items(capture: Capture, tmp_path: Path) -> None:
    with capture() as lc:
        pairs = lc.parallelize([("a", 1), ("b", 2), ("a", 3), ("c", 4)], 2)
        assert pairs.lookup("a") == [1, 3]
        assert pairs.collectAsMap() == {"a": 3, "b": 2, "c": 4}
        assert pairs.partitionBy(3, ord).lookup("b") == [2]
        assert pairs.countByKey() == {"a": 2, "b": 1, "c": 1}
        assert not pairs.isEmpty()
        assert lc.parallelize([], 2).isEmpty()
        pairs.foreachPartition(take_one)
        pairs.foreachPartition(take_none)
        assert lc.runJob(pairs, lambda _: [1]) == [1, 1]
        app = lc.app
    assert judged(tmp_path, app).reasons == ()

    def traced_to(*items: str) -> list[str]:
        return traced_items(tmp_path, app, *items)

    assert traced_to("collect#0#0") == ["parallelize#0#0"]
    assert traced_to("collect#1#0") == ["parallelize#1#0"]
    assert traced_to("collect:1#1#1") == ["parallelize#1#1"]
    assert traced_to(f"collect:2#{ord('b') % 3}#0") == ["parallelize#0#1"]
    assert len(traced_to("countByValue#0#0")) == 4
    assert traced_to("take#0#0") == ["parallelize#0#0"]
    assert traced_to("foreachPartition#0#0", "foreachPartition#1#0") == [
        "parallelize#0#0",
        "parallelize#1#0",
    ]


@pytest.mark.usefixtures("unsupported")
def test_going_on_without_an_operator_marks_that_part(
    capture: Capture, tmp_path: Path, spark_context: SparkContext
) -> None:
    with capture(unsupported="continue") as lc:
        rdd = lc.parallelize([1, 2, 3], 2)
        assert rdd.pipe("cat").collect() == ["1", "2", "3"]
        plain = spark_context.parallelize([4], 1)
        assert rdd.union(plain).collect() == [1, 2, 3, 4]
        assert sorted(plain.map(lambda n: (n, n)).join(rdd.keyBy(lambda n: n)).collect()) == []
        app = lc.app
    verdict = judged(tmp_path, app)
    assert any("RDD.pipe at test_explicit.py:" in one for one in verdict.unknown)
    assert any("an RDD without lineage as input" in one for one in verdict.unknown)
    assert not any("unsupported=continue" in one for one in verdict.unknown)
    assert [r for r in verdict.reasons if not r.startswith("unknown part")] == []
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        graph = store.graph(app)
        nodes = {node.node: node for node in graph.nodes()}
        unknown = {(nodes[one.src].op, nodes[one.dest].op) for one in graph.links()}
    assert ("parallelize", "RDD.pipe") in unknown
    pipe = next(node for node in nodes.values() if node.op == "RDD.pipe")
    assert (pipe.kind, pipe.exact) == ("unknown", False)
    assert pipe.call_site.startswith("test_explicit.py:")
    assert verdict.superset == {}


def test_capture_that_is_off_is_plain_spark(capture: Capture, tmp_path: Path) -> None:
    with capture(enabled=False) as lc:
        rdd = lc.parallelize([1, 2], 2)
        assert not isinstance(rdd, LineageRDD)
        assert lc.union([rdd, rdd]).glom().count() == 4
    assert not (tmp_path / ".lineage").exists()


def test_settings_of_a_second_context_come_too_late(
    capture: Capture, spark_context: SparkContext, caplog: pytest.LogCaptureFixture
) -> None:
    with capture(memory_mb=16) as lc:
        assert LineageContext(spark_context).session is lc.session
        assert LineageContext(spark_context, memory_mb=16).session is lc.session
        assert caplog.text == ""
        second = LineageContext(spark_context, memory_mb=8, on_error="fail")
        assert (second.session, second.app) == (lc.session, lc.app)
        assert "has begun with other settings: memory_mb, on_error ignored" in caplog.text
        with pytest.raises(SettingsError, match="stroe is not a setting"):
            LineageContext(spark_context, stroe="x")


def test_a_setting_that_can_not_be_used_is_refused(capture: Capture) -> None:
    with pytest.raises(SettingsError, match="stroe is not a setting"):
        capture(stroe="x")


def test_tracing_from_the_program_tells_what_is_missing(
    capture: Capture, tmp_path: Path, spark_context: SparkContext
) -> None:
    with capture() as lc:
        rdd: Any = lc.parallelize([1, 2, 0], 3)
        with pytest.raises(Exception, match="ZeroDivisionError"):
            rdd.map(lambda n: 1 // n).collect()
        doubled = rdd.map(lambda n: 2 * n)
        two = doubled.getLineage().filter(lambda n: n == 2)
        rows = two.goBackAll()
        assert [item.value for item in rows.collect()] == [1]
        assert not rows.complete
        assert "the action failed" in " ".join(rows.gaps)
        assert "<b>incomplete</b>: " in rows._repr_html_()
        app = lc.app
    # What was asked before the end can be asked after it.
    assert [item.value for item in two.goBackAll().collect()] == [1]
    with pytest.raises(TracingError, match="has ended"):
        rdd.map(str).getLineage()
    assert [one for one in judged(tmp_path, app).reasons if "unknown part" not in one] == []
    with pytest.raises(TracingError, match="not captured by this"):
        lc.getLineage(spark_context.parallelize([1]))
    with capture(enabled=False) as off, pytest.raises(TracingError, match="switched off"):
        off.getLineage(off.parallelize([1]))


# -- actions -----------------------------------------------------------------------------------


def messages(folder: Path, app: str, kind: str) -> list[Any]:
    with open_store(f"sqlite:///{folder / STORE}") as store:
        return list(store.messages(app, kind))


def test_take_reads_and_notes_just_what_it_takes(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture() as lc:
        one = lc.textFile(lines, 6)
        many = one.union(one.map(str.upper)).union(lc.parallelize(["x"] * 50_000, 3))
        assert many.take(3) == ["0 0", "1 1", "2 2"]
        assert many.first() == "0 0"
        found = many.filter(lambda line: line.split(" ")[-1] in ("17", "16000")).take(2)
        assert found == ["3 17", "5 16000"]
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert traced_items(tmp_path, app, "take#0#0") == ["lines.txt:1"]
    assert traced_items(tmp_path, app, "take#0#2") == ["lines.txt:3"]
    assert traced_items(tmp_path, app, "take:1#0#0") == ["lines.txt:1"]


def test_take_over_large_parents_reads_ahead_no_more_than_a_batch(
    capture: Capture, tmp_path: Path
) -> None:
    with capture() as lc:
        read = lc.accumulator(0)

        def noted(n: int) -> int:
            read.add(1)
            return n

        one = lc.parallelize(range(2_000_000), 2).map(noted)
        assert one.union(one.map(str)).union(one.filter(bool)).take(3) == [0, 1, 2]
        assert read.value < 500_000
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert traced_items(tmp_path, app, "take#0#0", "take#0#1", "take#0#2") == [
        "parallelize#0#0",
        "parallelize#0#1",
        "parallelize#0#2",
    ]
    taken = [m for m in messages(tmp_path, app, "commit") if isinstance(m, Commit)]
    assert 3 in [commit.rows for commit in taken]


def test_each_action_has_its_own_items(capture: Capture, tmp_path: Path, lines: str) -> None:
    with capture() as lc:
        rdd = lc.textFile(lines, 3).filter(lambda line: line.endswith("777"))
        seen = lc.accumulator(0)
        assert rdd.count() == 20
        assert rdd.reduce(max) == "6 8777"
        assert rdd.collect()[1] == "6 1777"
        rdd.foreach(lambda line: seen.add(1))
        app = lc.app
    assert seen.value == 20
    assert judged(tmp_path, app).reasons == ()
    wanted = sorted(f"lines.txt:{n + 1}" for n in range(777, 20_000, 1000))
    assert traced_items(tmp_path, app, "count#0#0") == wanted
    assert traced_items(tmp_path, app, "reduce#0#0") == wanted
    assert traced_items(tmp_path, app, "collect#0#1") == ["lines.txt:1778"]
    assert traced_items(tmp_path, app, "foreach#0#1") == ["lines.txt:1778"]


def test_an_action_that_fails_is_named_and_the_rest_is_there(
    capture: Capture, tmp_path: Path, lines: str
) -> None:
    with capture() as lc:
        rdd = lc.textFile(lines, 3)
        with pytest.raises(Exception, match="invalid literal"):
            rdd.map(int).collect()
        rdd.filter(lambda line: line == "0 7").saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    verdict = judged(tmp_path, app)
    assert not verdict.complete
    assert any("collect at test_explicit.py" in reason for reason in verdict.reasons)
    assert traced(tmp_path, tmp_path / "out", app) == {("0 7", ("lines.txt:8",)): 1}


# -- memory --------------------------------------------------------------------------------------


@pytest.fixture
def small_memory(spark_context: SparkContext) -> Iterator[None]:
    """Workers spill as soon as they look at their memory."""
    spark_context._conf.set("spark.python.worker.memory", "10m")
    yield
    spark_context._conf.set("spark.python.worker.memory", "512m")


SPILLING: dict[str, Callable[[Any], Any]] = {
    "reduceByKey": lambda pairs: pairs.reduceByKey(add, 3),
    "groupByKey": lambda pairs: pairs.groupByKey(3).mapValues(sorted),
    "aggregateByKey": lambda pairs: pairs.aggregateByKey(
        [], lambda seen, n: [*seen, n], list.__add__, 3
    ).mapValues(sorted),
    "sortByKey": lambda pairs: pairs.sortByKey(numPartitions=3),
    "partitionBy": lambda pairs: pairs.partitionBy(3),
    "join": lambda pairs: pairs.join(pairs.filter(lambda pair: pair[1] % 5 == 0), 3),
}


@pytest.mark.usefixtures("small_memory")
@pytest.mark.parametrize("operator", drawn(SPILLING, 3))
def test_what_spills_gives_the_same_and_is_traced(
    operator: str, capture: Capture, tmp_path: Path, lines: str, spark_context: SparkContext
) -> None:
    def pairs(ctx: Any) -> Any:
        return ctx.textFile(lines, 3).map(
            lambda line: (int(line.split(" ")[1]) % 4001, int(line.split(" ")[1]))
        )

    def keep(rdd: Any) -> Any:
        """A few rows to trace."""
        return rdd.filter(lambda pair: pair[0] in (0, 7, 4000))

    plain = SPILLING[operator](pairs(spark_context)).collect()
    with capture() as lc:
        captured = SPILLING[operator](pairs(lc))
        assert sorted(captured.collect()) == sorted(plain)
        keep(captured).saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    assert judged(tmp_path, app).reasons == ()
    assert judged(tmp_path, app).superset == {}
    rows = traced(tmp_path, tmp_path / "out", app)
    assert sum(rows.values()) == sum(pair[0] in (0, 7, 4000) for pair in plain)
    for text, where in rows:
        key = int(text[1:].split(",")[0])
        numbers = set(range(key, 20_000, 4001))
        if operator in ("sortByKey", "partitionBy"):
            numbers = {int(text.rstrip(")").split(", ")[1])}
        elif operator == "join":
            numbers = {int(n) for n in text.rstrip(")").replace("(", "").split(", ")[1:]}
        assert where == tuple(sorted(f"lines.txt:{n + 1}" for n in numbers)), text


def test_an_empty_take_and_empty_inputs_are_complete(capture: Capture, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    with capture() as lc:
        nothing = lc.textFile(str(tmp_path / "empty.txt"), 2)
        assert nothing.take(3) == []
        assert nothing.collect() == []
        assert nothing.count() == 0
        assert nothing.map(lambda x: (x, 1)).reduceByKey(add, 3).sortByKey().collect() == []
        assert lc.parallelize([1], 3).take(0) == []
        nothing.saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    assert judged(tmp_path, app).reasons == ()


@pytest.mark.usefixtures("unsupported")
def test_an_unknown_part_is_noted_once_for_each_place(capture: Capture, tmp_path: Path) -> None:
    with capture(unsupported="continue") as lc:
        rdd = lc.parallelize([1, 2], 1)
        for _ in range(3):
            rdd.pipe("cat").collect()
        rdd.collect()
        app = lc.app
    noted = [m.what for m in messages(tmp_path, app, "unknown") if isinstance(m, Unknown)]
    assert noted == ["RDD.pipe"]


@pytest.mark.usefixtures("unsupported")
def test_settings_of_the_spark_configuration_count(
    capture: Capture, spark_context: SparkContext
) -> None:
    spark_context._conf.set("spark.lineage.unsupported", "continue")
    try:
        with capture() as lc:
            assert lc.parallelize([1, 2], 2).pipe("cat").collect() == ["1", "2"]
        with capture(unsupported="refuse") as lc:
            rdd = lc.parallelize([1, 2], 2)
            with pytest.raises(UnsupportedOperatorError):
                rdd.pipe("cat")
    finally:
        # Spark's configuration has no way to take a key away.
        spark_context._conf.set("spark.lineage.unsupported", "refuse")


def test_actions_of_several_threads(capture: Capture, tmp_path: Path, lines: str) -> None:
    problems: list[BaseException] = []
    with capture() as lc:
        shared = lc.textFile(lines, 3).keyBy(lambda line: line.split(" ")[0]).cache()
        together = threading.Barrier(3)

        def work(digit: str) -> None:
            try:
                together.wait()
                one = shared.filter(lambda pair: pair[0] == digit).values()
                one.sortBy(lambda line: line, ascending=False).saveAsTextFile(
                    str(tmp_path / f"out-{digit}")
                )
                assert one.count() == sum(n % 7 == int(digit) for n in range(20_000))
            except BaseException as problem:
                problems.append(problem)

        running = [threading.Thread(target=work, args=(digit,)) for digit in "135"]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        app = lc.app
    assert problems == []
    assert judged(tmp_path, app).reasons == ()
    for digit in "135":
        part = tmp_path / f"out-{digit}" / "part-00001"
        number = int(part.read_text().splitlines()[0].split(" ")[1])
        assert number % 7 == int(digit)
        assert traced_items(tmp_path, app, f"{part}:1") == [f"lines.txt:{number + 1}"]


SUBMITTED = """
import sys
from pyspark import SparkContext
from lineage_emitter import LineageContext

sc = SparkContext(appName="submitted")
lc = LineageContext(sc)
with_python = lc.textFile("in.txt", 2).map(lambda line: f"{line} {sys.executable}")
with_python.saveAsTextFile("out")
print(sys.executable)
sc.stop()
"""


@pytest.mark.long
def test_under_spark_submit_with_workers_of_the_same_interpreter(tmp_path: Path) -> None:
    write_job(tmp_path, SUBMITTED)
    (tmp_path / "in.txt").write_text("a\nb\n")
    submit = Path(sys.executable).parent / "spark-submit"
    store = f"spark.lineage.store=sqlite:///{tmp_path / STORE}"
    path = f"{submit.parent}{os.pathsep}{os.environ['PATH']}"
    result = run_program(
        tmp_path,
        [str(submit), "--master", "local[2]", "--conf", store, "job.py"],
        {"PATH": path, "SPARK_HOME": str(Path(pyspark.__file__).parent)},
    )
    assert result.returncode == 0, result.stderr[-3000:]
    python = result.stdout.strip()
    assert verify(tmp_path)["reasons"] == []
    assert traced(tmp_path, tmp_path / "out") == {
        (f"a {python}", ("in.txt:1",)): 1,
        (f"b {python}", ("in.txt:2",)): 1,
    }
