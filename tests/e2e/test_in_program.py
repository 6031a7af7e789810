"""Tracing from inside the program: moves, filters, rows and replays of captured RDDs."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark import RDD, SparkContext
from pyspark.sql import Row

from lineage_core.errors import AddressError
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext, LineageRDD, TracedItems
from lineage_emitter.errors import ChoiceError, TracingError
from lineage_emitter.program import replaying
from lineage_emitter.program.replaying import select_rows
from lineage_emitter.worker.spaces import EACH_RUN
from lineage_query.engine import QueryEngine
from lineage_query.rows.places import LocationError
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.drawn import drawn
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.e2e

ORDERS = "1,ann,5\n2,bob,7\n3,ann,100\n4,cy,1\n"
PEOPLE = "ann,F\nbob,M\ndee,F\n"


class Program:
    """A small program whose RDDs are traced by the tests."""

    def __init__(self, sc: SparkContext, folder: Path) -> None:
        self.folder = folder
        (folder / "orders.txt").write_text(ORDERS)
        (folder / "people.txt").write_text(PEOPLE)
        self.lc = LineageContext(sc, store=f"sqlite:///{folder / STORE}")
        self.lines: Any = self.lc.textFile(str(folder / "orders.txt"), 2)
        fields = self.lines.map(lambda line: line.split(","))
        self.orders: Any = fields.map(lambda field: (field[1], int(field[2])))
        people: Any = self.lc.textFile(str(folder / "people.txt"), 2)
        self.people: Any = people.map(lambda line: tuple(line.split(",")))
        self.joined: Any = self.orders.join(self.people, 2)
        by_sex = self.joined.map(lambda kv: (kv[1][1], kv[1][0]))
        self.totals: Any = by_sex.reduceByKey(add, 2)
        self.out = folder / "out"
        self.totals.saveAsTextFile(str(self.out))


@pytest.fixture(scope="module")
def program(
    spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Program]:
    made = Program(spark_context, tmp_path_factory.mktemp("program"))
    with made.lc:
        yield made
    verdict = judged(made.folder, made.lc.app)
    assert verdict.reasons == ()


def values(items: TracedItems) -> list[Any]:
    return [item.value for item in items.collect()]


def of(rdd: Any, value: object) -> TracedItems:
    """The one record that equals ``value``."""
    found: TracedItems = rdd.getLineage().filter(lambda record: record == value)
    assert (found.count, found.exact, found.complete) == (1, True, True)
    return found


# -- back ----------------------------------------------------------------------------------------


def test_back_step_by_step_and_all_the_way(program: Program) -> None:
    every = program.totals.getLineage()
    assert sorted(values(every)) == [("F", 105), ("M", 7)]
    assert every.node.operator == "reduceByKey"
    assert every.node.call_site.startswith("test_in_program.py:")
    assert program.totals.getLineage().collect() == every.collect()

    women = of(program.totals, ("F", 105))
    keys = women.goBack()
    assert (keys.node.operator, keys.count) == ("reduceByKey", 1)
    pairs = keys.goBack()
    assert (pairs.node.operator, pairs.count) == ("join", 2)
    with pytest.raises(ChoiceError, match="left side") as refused:
        pairs.goBack()
    assert [choice.partition(" at ")[0].split(": ")[1] for choice in refused.value.choices] == [
        "join",
        "join",
    ]
    number = refused.value.choices[1].partition(":")[0]
    assert pairs.goBack(number).node.id == number
    assert pairs.goBack(program.people).node.id == number
    assert pairs.goBack("read:people").node.id == number
    assert pairs.goBack(program.orders).count == 2
    with pytest.raises(TracingError, match="does not lie that way"):
        pairs.goBack(program.totals)
    assert values(pairs.goBack(program.people).goBack()) == ["ann,F"]

    rows = women.goBackAll()
    assert [node.label for node in rows.nodes] == ["read:orders", "read:people"]
    assert [(item.node, os.path.basename(str(item.location))) for item in rows.collect()] == [
        ("read:orders", "orders.txt:1"),
        ("read:orders", "orders.txt:3"),
        ("read:people", "people.txt:1"),
    ]
    assert values(women.goBackAll("read:people")) == ["ann,F"]
    assert values(rows.at("read:people")) == ["ann,F"]
    assert women.goBackAll(program.joined).count == 2
    with pytest.raises(ChoiceError, match="read:people"):
        _ = rows.node
    with pytest.raises(TracingError, match="nothing lies before read:orders"):
        rows.at(program.lines).goBack()
    with pytest.raises(TracingError, match="keeps no items of its own"):
        women.goBackAll(program.orders)
    with pytest.raises(AddressError, match="known: "):
        women.goBackAll("nothing")


def test_rows_are_the_records_of_the_source_as_a_plain_rdd(program: Program) -> None:
    women = of(program.totals, ("F", 105))
    rows = women.rows("read:orders")
    assert not isinstance(rows, LineageRDD)
    assert rows.getNumPartitions() == program.lines.getNumPartitions()
    assert rows.map(str.upper).collect() == ["1,ANN,5", "3,ANN,100"]
    assert women.goBackAll("read:people").rows().collect() == ["ann,F"]
    with pytest.raises(ChoiceError, match="read:orders"):
        women.rows()
    pairs: Any = program.lc.parallelize([(n, {n}) for n in range(25)], 3)
    (chosen,) = pairs.filter(lambda pair: pair[0] == 17).getLineage().rows().collect()
    assert chosen == (17, {17})


# -- forward -------------------------------------------------------------------------------------


def test_forward_from_a_source(program: Program) -> None:
    source = program.lines.getLineage()
    assert repr(source).startswith("<TracedItems: all rows")
    assert source.count == 4
    bob = program.lines.getLineage().filter(lambda line: "bob" in line)
    assert values(bob) == ["2,bob,7"]
    assert bob.goNext().node.operator == "join"
    (written,) = bob.goNextAll().collect()
    assert written.value == "('M', 7)"
    assert str(written.location).startswith(str(program.out / "part-"))
    with pytest.raises(TracingError, match="nothing lies after write"):
        bob.goNextAll().goNext()
    nothing = program.lines.getLineage().filter(lambda line: "cy" in line).goNextAll()
    assert (nothing.count, nothing.nodes, nothing.collect()) == (0, (), [])
    # What was numbered stands for the RDD: its records come with their values.
    of(program.joined, ("bob", (7, "M")))
    assert values(bob.goNextAll(program.joined)) == [("bob", (7, "M"))]


def test_forward_from_records_in_the_middle(program: Program) -> None:
    bob = of(program.joined, ("bob", (7, "M"))).goNextAll()
    assert (values(bob), bob.exact) == (["('M', 7)"], True)
    # Two pairs share Ann's row of the other side: on the way around both are met.
    ann = of(program.joined, ("ann", (5, "F"))).goNext()
    assert ann.node.operator == "reduceByKey"
    assert "forward starts at what they were made from" in ann.reasons[0]
    assert values(ann.goNextAll()) == ["('F', 105)"]
    assert not ann.goNextAll().exact
    # A computation that every reader shared is gone on from as it is.
    pairs = of(program.totals, ("M", 7)).goBack().goBack()
    assert pairs.goNextAll().exact
    words = program.lines.flatMap(lambda line: line.split(","))
    counts = words.map(lambda word: (word, 1)).reduceByKey(add, 2)
    assert len(counts.collect()) == 10
    ann_words = words.getLineage().filter(lambda word: word == "ann")
    reached = ann_words.goNextAll()
    assert (reached.node.operator, reached.count, reached.exact) == ("collect", 5, False)


# -- filters, places and what is shown -----------------------------------------------------------


def test_filters_take_ordinals_and_what_is_shown(program: Program) -> None:
    every = program.totals.getLineage()
    listed = values(every)
    assert values(every.filter(1)) == listed[1:]
    assert values(every.filter([1, 0])) == listed
    for wrong in (2, -1, [0, 7]):
        with pytest.raises(IndexError, match="no item"):
            every.filter(wrong)
    records: list[Any] = [
        (0, 1),
        Row(a=0, b=1),
        {0: 1},
        "1",
        True,
        [True, False],
        [0.5],
        [("F", 105)],
    ]
    for record in records:
        with pytest.raises(TypeError, match=r"a value is found by filter\(lambda"):
            every.filter(record)
    assert values(every.filter(range(2))) == listed == values(every.filter(np.array([0, 1])))
    lines = program.lc.getLineage(str(program.out / "part-00000:1")).goBackAll()
    assert values(lines.filter(lambda line: line.endswith("F"))) == ["ann,F"]
    keys = every.goBack()
    assert keys.filter(lambda address: address == values(keys)[0]).count == 1
    written = program.lines.getLineage().goNextAll()
    assert values(written.filter(lambda text: "105" in text)) == ["('F', 105)"]


def test_rows_that_a_file_names_are_traced_as_by_the_command(program: Program) -> None:
    for part in sorted(program.out.glob("part-*")):
        for number, _ in enumerate(part.read_text().splitlines(), start=1):
            place = f"{part}:{number}"
            rows = program.lc.getLineage(place).goBackAll()
            with open_store(f"sqlite:///{program.folder / STORE}") as store:
                query_engine = QueryEngine(store, RowReader())
                answer = query_engine.ask(
                    TraceQuery(Direction.BACKWARD, (place,), app=program.lc.app)
                )
            expected = [item.address for group in answer.groups for item in group.items]
            assert [item.address for item in rows.collect()] == expected
    orders = str(program.folder / "orders.txt")
    two = program.lc.getLineage(f"{orders}:2", "read:orders#0#0")
    assert values(two) == ["1,ann,5", "2,bob,7"]
    with pytest.raises(LocationError, match="read or written no such row"):
        program.lc.getLineage(f"{program.folder / STORE}:1")
    with pytest.raises(TracingError, match=r"say up to which RDD"):
        two.replay()
    with pytest.raises(TracingError, match="not captured"):
        two.replay(until=two.rows())


def test_what_is_shown(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    women = of(program.totals, ("F", 105))
    women.goBackAll().show()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("2 items of node read:orders: textFile at test_in_program.py:")
    assert shown[2].endswith("orders.txt:3: 3,ann,100")
    program.lines.getLineage().show(2)
    shown = capsys.readouterr().out.splitlines()
    assert [line.rpartition(": ")[2] for line in shown[1:3]] == ["1,ann,5", "2,bob,7"]
    assert shown[3] == "... and 2 more"
    evil: Any = program.lc.parallelize(["<script>alert(1)</script>", ("<b>", 2)], 2)
    html = evil.getLineage()._repr_html_()
    assert "&lt;script&gt;alert(1)" in html
    assert "(&#x27;&lt;b&gt;&#x27;, 2)" in html
    assert "<script" not in html
    assert html.count("<b>") == html.count("<b>exact</b>") == 1
    drawn = women.goBackAll().graph()
    assert drawn.marked == {node.id for node in women.goBackAll().nodes}
    assert drawn._repr_html_().count('stroke-width="3"') == 2
    assert "reduceByKey" in str(program.lc.graph())


# -- replay --------------------------------------------------------------------------------------


def grep(program: Program) -> RDD[Any]:
    found: RDD[Any] = program.lines.filter(lambda line: "ann" in line)
    return found


def union(program: Program) -> RDD[Any]:
    more = program.lc.parallelize([("zed", 3)], 2)
    both: RDD[Any] = program.lc.union([program.orders.filter(lambda kv: kv[1] < 6), more])
    return both


def ordered(program: Program) -> RDD[Any]:
    small = program.orders.filter(lambda kv: kv[1] < 50)
    found: RDD[Any] = small.sortBy(lambda kv: kv[1], ascending=False, numPartitions=2)
    return found


def grouped(program: Program) -> RDD[Any]:
    apart, rest = program.orders.filter(lambda kv: kv[1] > 1).randomSplit([1.0, 0.0])
    both = apart.union(rest).coalesce(1).cogroup(program.people, numPartitions=2)
    found: RDD[Any] = both.mapValues(lambda sides: [sorted(side) for side in sides])
    return found


REPLAYED: dict[str, Callable[[Program], Any]] = {
    "grep": grep,
    "reduceByKey": lambda program: program.totals,
    "join": lambda program: program.joined,
    "union": union,
    "sortBy": ordered,
    "cogroup": grouped,
}


@pytest.mark.parametrize("name", drawn(REPLAYED, 3))
def test_a_replay_from_the_witness_rows_makes_each_record_again(
    name: str, program: Program
) -> None:
    goal = REPLAYED[name](program)
    every = goal.getLineage()
    records = values(every)
    assert len(records) >= 2
    for at, record in enumerate(records):
        again = every.filter(at).replay()
        assert not isinstance(again, LineageRDD)
        assert again.getNumPartitions() == goal.getNumPartitions()
        assert record in again.collect()
    without = every.replay(exclude=every.filter(0)).collect()
    assert records.count(records[0]) == 1
    assert records[0] not in without


def test_replays_up_to_other_rdds_and_with_lineage_of_their_own(program: Program) -> None:
    pairs = program.joined.getLineage()
    ann = pairs.filter(lambda kv: kv[0] == "ann")
    assert ann.replay(until=program.orders).collect() == [("ann", 5), ("ann", 100)]
    assert ann.replay(until=program.people.node.name).collect() == [("ann", "F")]
    with pytest.raises(TracingError, match="names 3 RDDs"):
        ann.replay(until="map")
    nobody = pairs.filter(lambda kv: kv[0] == "X")
    assert (nobody.count, nobody.replay().collect()) == (0, [])
    # One source of two: the other is read whole.
    small = ann.goBackAll("read:orders").filter(lambda line: line.endswith(",5"))
    assert small.replay(exclude=0).collect() == []
    captured: Any = small.replay(capture=True)
    assert isinstance(captured, LineageRDD)
    again = captured.getLineage()
    assert values(again) == [("ann", (5, "F"))]
    assert values(again.goBackAll()) == ["1,ann,5", "ann,F"]
    assert again.replay(exclude=small).collect() == []


def test_titian_finds_the_row_that_made_an_average_wrong(program: Program) -> None:
    """The paper's way to debug: from a wrong number to its rows, and again without the bad one."""
    words = ["apple", "avocado", "banana", "a" * 90, "blueberry", "cherry", "apricot"]
    lengths = program.lc.parallelize(words, 3).map(lambda word: (word[0], (len(word), 1)))
    sums = lengths.reduceByKey(lambda a, b: (a[0] + b[0], a[1] + b[1]), 2)
    averages: Any = sums.mapValues(lambda pair: pair[0] / pair[1])
    wrong = averages.getLineage().filter(lambda kv: kv[1] > 20)
    assert values(wrong) == [("a", (5 + 7 + 90 + 7) / 4)]
    rows = wrong.goBackAll()
    assert sorted(rows.rows().collect()) == sorted(word for word in words if word[0] == "a")
    bad = rows.filter(lambda word: len(word) > 20)
    assert bad.goNextAll(averages).collect() == wrong.collect()
    assert wrong.replay(exclude=bad).collect() == [("a", (5 + 7 + 7) / 3)]


# -- what can go wrong ---------------------------------------------------------------------------


def test_a_superset_says_why(program: Program) -> None:
    buffered = program.lines.mapPartitions(list)
    rows = buffered.getLineage().filter(1).goBackAll()
    assert values(rows) == ["1,ann,5", "2,bob,7", "3,ann,100"]
    assert not rows.exact
    assert "may buffer" in rows.reasons[0]
    assert rows.filter(0).reasons == rows.reasons


def test_records_that_were_made_again_in_the_meantime_are_not_passed_off(
    program: Program,
) -> None:
    shuffled = program.orders.groupByKey(2).mapValues(list)
    every = shuffled.getLineage()
    listed = values(every)
    assert every.filter(0).goBackAll().count
    shuffled.numbered.persisted.unpersist()
    with pytest.raises(TracingError, match="getLineage"):
        every.collect()
    every.unpersist()
    assert values(shuffled.getLineage()) == listed
    assert values(shuffled.getLineage().filter(np.int64(0))) == listed[:1]
    with pytest.raises(TracingError, match="were dropped"):
        every.filter(bool)
    assert "were dropped" in every._repr_html_()
    cached = program.orders.map(lambda kv: kv[::-1]).cache()
    assert values(cached.getLineage()) == cached.collect()
    assert cached.numbered.persisted is cached
    cached.getLineage().unpersist()
    assert cached.is_cached


def test_rows_that_come_in_another_order_each_time_are_not_read_again(program: Program) -> None:
    session = program.lc.session
    assert session is not None
    node = session.nodes.register("source", "table", alias="table")
    plain = program.lc.sc.parallelize([("ann", 1), ("bob", 2)], 2)
    table: Any = LineageRDD.wrap(plain, session, node, node.name + EACH_RUN)
    assert values(table.getLineage()) == [("ann", 1), ("bob", 2)]
    both = table.map(lambda kv: kv).union(program.orders)
    ann = both.getLineage().filter([0, 2])
    rows = ann.goBackAll()
    assert [item.node for item in rows.collect()] == ["read:orders", "table"]
    assert (rows.exact, values(rows)[0]) == (True, "1,ann,5")
    for again in (rows.at("table").rows, rows.replay):
        with pytest.raises(TracingError, match="in another order each time"):
            again()
    alone = ann.goBackAll("read:orders").replay().collect()
    assert alone == [("ann", 1), ("bob", 2), ("ann", 5)]
    with pytest.raises(TracingError, match="numbers its rows anew"):
        table.getLineage().goNextAll()


def test_a_file_that_has_changed_is_not_read_again(program: Program) -> None:
    path = program.folder / "changing.txt"
    path.write_text("a\nb\n")
    lines: Any = program.lc.textFile(str(path), 1)
    b = lines.map(str.upper).getLineage().filter(lambda line: line == "B")
    assert b.rows().collect() == ["b"]
    path.write_text("b\na\nc\n")
    whole = lines.getLineage()
    for again in (b.rows, b.replay, lambda: whole.filter(bool), whole.collect):
        with pytest.raises(TracingError, match=r"changing.txt has changed"):
            again()
    assert "changed since" in b.goBackAll()._repr_html_()


SAMPLED: dict[str, Callable[[Any], list[Any]]] = {
    "sample": lambda rdd: rdd.sample(False, 0.5).collect(),
    "randomSplit": lambda rdd: [part.collect() for part in rdd.randomSplit([1, 2])],
    "sampleByKey": lambda rdd: rdd.keyBy(str).sampleByKey(False, {"1": 0.5, "2": 0.5}).collect(),
}


@pytest.mark.parametrize("name", SAMPLED)
def test_seeds_are_drawn_as_pyspark_draws_them(
    name: str, program: Program, spark_context: SparkContext
) -> None:
    numbers = [1, 2] * 20
    state = random.getstate()
    expected = SAMPLED[name](spark_context.parallelize(numbers, 2))
    after = random.getstate()
    random.setstate(state)
    assert SAMPLED[name](program.lc.parallelize(numbers, 2)) == expected
    assert random.getstate() == after


def test_lines_are_read_without_spark_where_they_surely_are_those_of_the_job(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "in.txt"
    path.write_bytes(
        "\ufeffa\r\nb\rc\n\n\n\u00e9 \u2028d".encode() + b"\n\xff\xfe e\n" + b"f" * 70_000 + b"\ng"
    )
    by_split = spark_context.textFile(str(path), 2).glom().collect()
    assert len(by_split) == 2
    assert all(by_split)
    rows = [row for split in by_split for row in split]
    by_spark: list[bool] = []

    def select(*arguments: Any) -> RDD[Any]:
        by_spark.append(True)
        return select_rows(*arguments)

    monkeypatch.setattr(replaying, "select_rows", select)
    odd = [n for n, row in enumerate(rows) if "\ufffd" in row or len(row) > 1_000]
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}") as lc:
        lines: Any = lc.textFile(str(path), 2)
        every = lines.getLineage()
        for left_out, is_by_spark in ((odd, False), (odd[1:], True), (odd[:1], True)):
            chosen = [n for n in range(len(rows)) if n not in left_out]
            kept, before = list[list[str]](), 0
            for split in by_split:
                kept.append([row for n, row in enumerate(split, before) if n in chosen])
                before += len(split)
            by_spark.clear()
            assert every.filter(chosen).replay().glom().collect() == kept
            assert bool(by_spark) == is_by_spark
        path.write_bytes(path.read_bytes().replace(b"a", b"A"))
        with pytest.raises(TracingError, match="has changed since"):
            every.filter(0).replay()
