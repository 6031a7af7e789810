"""A function of the job fails on a record: the rows it was working on are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD, SparkContext

from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.e2e

Action = Callable[[RDD[Any], Path], Any]


def second(pair: Any) -> Any:
    return int(pair[1])


def add(a: Any, b: Any) -> int:
    return int(a) + int(b)


def total(values: Any) -> int:
    return sum(map(int, values))


def totals(records: Any) -> list[int]:
    return [sum(map(second, records))]


def key_of(pair: Any) -> Any:
    return pair[0]


def second_of_both(joined: Any) -> int:
    return int(joined[1][1])


ONE, BOTH = ["b,x"], ["b,2", "b,x"]
PROGRAMS: dict[str, tuple[Action, list[str]]] = {
    "map": (lambda pairs, _: pairs.mapValues(int).collect(), ONE),
    "map side": (
        lambda pairs, _: pairs.map(second).map(lambda n: (1, n)).groupByKey().count(),
        ONE,
    ),
    "reduce side": (lambda pairs, _: pairs.reduceByKey(add, 2).collect(), BOTH),
    "save": (lambda p, out: p.groupByKey(2).mapValues(total).saveAsTextFile(str(out)), BOTH),
    "foreach": (lambda pairs, _: pairs.foreach(second), ONE),
    "join": (lambda pairs, _: pairs.join(pairs).map(second_of_both).count(), BOTH),
    "sort": (lambda pairs, _: pairs.sortBy(key_of).map(second).count(), ONE),
    "sort in place": (lambda p, _: p.coalesce(1).sortByKey(True, 1).map(second).count(), ONE),
    "partition": (lambda pairs, _: pairs.mapPartitions(totals).collect(), ONE),
    "glom": (lambda p, _: p.glom().map(totals).collect(), ["b,x", "c,6"]),
    "cache": (lambda pairs, _: pairs.cache().map(second).count(), ONE),
    "exchange": (lambda pairs, _: pairs.partitionBy(2, ord).map(second).count(), ONE),
}


@pytest.mark.parametrize("detailed", [False, pytest.param(True, marks=pytest.mark.long)])
def test_rows_that_a_task_died_on_are_named(
    detailed: bool, spark_context: SparkContext, tmp_path: Path
) -> None:
    source = tmp_path / "in.txt"
    source.write_text("a,1\nb,2\nc,3\na,4\nb,x\nc,6\n")
    url = f"sqlite:///{tmp_path / STORE}"
    with LineageContext(spark_context, store=url, detailed=detailed) as lc:
        for action, _ in PROGRAMS.values():
            pairs = lc.textFile(str(source), 2).map(lambda line: tuple(line.split(",")))
            with pytest.raises(Exception, match="lineage: while working on"):
                action(pairs, tmp_path / "out")
            pairs.unpersist()
        # The program goes on: what follows is captured, and what failed stays said.
        assert lc.textFile(str(source), 2).count() == 6
    with open_store(url) as store:
        crashes = [node.node for node in store.graph(lc.app).nodes() if node.op == "crash"]
        query_engine = QueryEngine(store, RowReader(tmp_path / "index"))
        answers = [
            query_engine.ask(TraceQuery(Direction.BACKWARD, (f"{node}#0#0",), app=lc.app))
            for node in crashes
        ]
    found = [[item.text for group in one.groups for item in group.items] for one in answers]
    assert dict(zip(PROGRAMS, found, strict=True)) == {
        name: rows for name, (_, rows) in PROGRAMS.items()
    }
    reasons = judged(tmp_path, lc.app).reasons
    assert any("the action failed: ValueError" in reason for reason in reasons), reasons
    assert not any("crash" in reason for reason in reasons), reasons


def test_a_later_task_that_is_not_captured_is_not_said_to_work_on_them(
    spark_context: SparkContext, tmp_path: Path
) -> None:
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}") as lc:
        assert lc.parallelize(["1", "2"], 2).map(int).collect() == [1, 2]
    with pytest.raises(Exception, match="invalid literal") as raised:
        spark_context.parallelize(["x"], 2).map(int).collect()
    assert "while working on" not in str(raised.value)
