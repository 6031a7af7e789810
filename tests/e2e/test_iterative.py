"""Programs of loops, long chains and threads: each row's lineage against brute force.

A program is written once and run twice: on captured RDDs, and on :class:`Rows`, which computes the
same by the operators' definitions and carries the input lines of every row along.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from operator import add
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage.tables import graph_json
from lineage_core.tracing.folding import fold_by_call
from lineage_emitter import LineageContext
from lineage_query.flowchart import mermaid_text
from lineage_store.url import open_store
from tests.support.job_runs import STORE, Row, judged, traced, traced_items

pytestmark = pytest.mark.e2e

Lines = frozenset[int]
PARTITIONS = 2


@dataclass(frozen=True)
class Rows:
    """Rows with the input lines that made them; methods as an RDD has them."""

    rows: list[tuple[Any, Lines]]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Rows:
        return cls([(line, frozenset([number])) for number, line in enumerate(lines, start=1)])

    def flatMap(self, function: Callable[[Any], Iterable[Any]]) -> Rows:
        return Rows([(made, lines) for value, lines in self.rows for made in function(value)])

    def map(self, function: Callable[[Any], Any]) -> Rows:
        return self.flatMap(lambda value: [function(value)])

    def filter(self, function: Callable[[Any], bool]) -> Rows:
        return self.flatMap(lambda value: [value] if function(value) else [])

    def mapValues(self, function: Callable[[Any], Any]) -> Rows:
        return self.map(lambda kv: (kv[0], function(kv[1])))

    def union(self, other: Rows) -> Rows:
        return Rows(self.rows + other.rows)

    def groupByKey(self, partitions: int) -> Rows:
        grouped: dict[Any, tuple[list[Any], Lines]] = {}
        for (key, value), lines in self.rows:
            values, known = grouped.get(key, ([], frozenset()))
            grouped[key] = ([*values, value], known | lines)
        return Rows([((key, values), lines) for key, (values, lines) in grouped.items()])

    def reduceByKey(self, function: Callable[[Any, Any], Any], partitions: int) -> Rows:
        def reduced(values: list[Any]) -> Any:
            total = values[0]
            for value in values[1:]:
                total = function(total, value)
            return total

        return self.groupByKey(partitions).mapValues(reduced)

    def distinct(self, partitions: int) -> Rows:
        return self.map(lambda value: (value, None)).groupByKey(partitions).map(lambda kv: kv[0])

    def join(self, other: Rows, partitions: int) -> Rows:
        return Rows(
            [
                ((key, (value, partner)), lines | more)
                for (key, value), lines in self.rows
                for (other_key, partner), more in other.rows
                if key == other_key
            ]
        )

    def cache(self) -> Rows:
        return self

    def collect(self) -> list[Any]:
        return [value for value, _ in self.rows]

    def count(self) -> int:
        return len(self.rows)

    def located(self, name: str) -> Counter[Row]:
        """(text, input lines) of every row, as ``traced`` has them."""
        return Counter(
            (str(value), tuple(sorted(f"{name}:{line}" for line in lines)))
            for value, lines in self.rows
        )


class Run:
    """One captured application over a file of lines."""

    def __init__(self, sc: SparkContext, folder: Path, lines: list[str]) -> None:
        self.folder = folder
        self.brute = Rows.of(lines)
        source = folder / "in.txt"
        source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        self.lc = LineageContext(sc, store=f"sqlite:///{folder / STORE}", link=True)
        self.lines: Any = self.lc.textFile(str(source), PARTITIONS)

    def end(self) -> None:
        """Close the application: its lineage is complete."""
        self.lc.close()
        verdict = judged(self.folder, self.lc.app)
        assert (verdict.complete, verdict.reasons, verdict.superset) == (True, (), {})

    def holds(self, name: str, rows: Rows) -> None:
        """What was saved as ``name`` has just these rows, each from just these lines."""
        found = traced(self.folder, self.folder / name, self.lc.app)
        assert found == rows.located("in.txt")

    def groups(self) -> dict[str, int]:
        """Operators that a loop made, and how often."""
        with open_store(f"sqlite:///{self.folder / STORE}") as store:
            graph = store.graph(self.lc.app)
            nodes, links = graph.nodes(), graph.links()
        found = [fold for fold in fold_by_call(nodes) if fold.nodes[1:]]
        told = graph_json(self.lc.app, nodes, links)["nodes"]
        assert sum(node["group"] is not None for node in told) == sum(len(f.nodes) for f in found)
        drawn = mermaid_text(fold_by_call(nodes), links)
        assert all(f"{fold.first.name} x{len(fold.nodes)}<br/>" in drawn for fold in found)
        return {fold.first.name: len(fold.nodes) for fold in found}


def pair(line: str) -> tuple[str, str]:
    left, right = line.split()
    return (left, right)


def pagerank(lines: Any, turns: int) -> Any:
    """Ranks as fractions: their sums do not depend on the order."""
    links = lines.map(pair).distinct(PARTITIONS).groupByKey(PARTITIONS).cache()
    ranks = links.mapValues(lambda _: Fraction(1))
    for _ in range(turns):
        shares = links.join(ranks, PARTITIONS).flatMap(
            lambda page: [(to, page[1][1] / len(page[1][0])) for to in page[1][0]]
        )
        ranks = shares.reduceByKey(add, PARTITIONS).mapValues(lambda rank: (3 + 17 * rank) / 20)
    return ranks


@pytest.mark.long
def test_pagerank(spark_context: SparkContext, tmp_path: Path) -> None:
    path = [f"p{n} p{n + 1}" for n in range(13)]  # ten turns reach ten edges back, no further
    ring = ["a b", "b c", "c a", "a c", "a b", "d a"]
    run = Run(spark_context, tmp_path, path + ring)
    pagerank(run.lines, 10).saveAsTextFile(str(tmp_path / "ranks"))
    run.end()
    ranks = pagerank(run.brute, 10)
    assert {len(lines) for _, lines in ranks.rows} == {6, 10}
    run.holds("ranks", ranks)
    assert run.groups() == dict.fromkeys(("join", "flatMap", "reduceByKey", "mapValues"), 10)


def nearest(point: tuple[int, ...], centres: list[tuple[float, float]]) -> int:
    return min(
        range(len(centres)),
        key=lambda k: (point[0] - centres[k][0]) ** 2 + (point[1] - centres[k][1]) ** 2,
    )


def kmeans(lines: Any, turns: int) -> list[list[Any]]:
    """Cluster sums of every turn; the centres go through the driver."""
    points = lines.map(lambda line: tuple(map(int, line.split()))).cache()
    centres: list[tuple[float, float]] = [(0, 0), (50, 50), (90, 10)]
    told = []
    for _ in range(turns):
        here = list(centres)
        near = points.map(lambda p, here=here: (nearest(p, here), (*p, 1)))
        sums = near.reduceByKey(lambda a, b: tuple(map(add, a, b)), len(centres)).collect()
        for k, (x, y, count) in sums:
            centres[k] = (x / count, y / count)
        told.append(sorted(sums))
    return told


def test_kmeans(spark_context: SparkContext, tmp_path: Path) -> None:
    run = Run(spark_context, tmp_path, [f"{n * 37 % 101} {n * 53 % 97}" for n in range(60)])
    told = kmeans(run.lines, 4)
    run.end()
    assert told == kmeans(run.brute, 4)
    centres: list[tuple[float, float]] = [(0, 0), (50, 50), (90, 10)]
    for turn, sums in enumerate(told):
        label = "collect" if turn == 0 else f"collect:{turn}"
        for k in range(3):  # a cluster is the one row of its partition
            mine = [
                f"in.txt:{number}"
                for number, (line, _) in enumerate(run.brute.rows, start=1)
                if nearest(tuple(map(int, line.split())), centres) == k
            ]
            assert traced_items(tmp_path, run.lc.app, f"{label}#{k}#0") == sorted(mine)
        centres = [(x / count, y / count) for _, (x, y, count) in sums]
    assert run.groups() == dict.fromkeys(("map", "reduceByKey", "collect"), 4)


def components(lines: Any) -> tuple[Any, int]:
    """Every node with the least node that it hangs together with, and the turns that it took."""
    ways = lines.map(pair).flatMap(lambda way: [way, way[::-1]]).cache()
    labels = ways.map(lambda way: (way[0], way[0])).distinct(PARTITIONS).cache()
    turns, before = 0, None
    while (now := sorted(labels.collect())) != before:
        told = ways.join(labels, PARTITIONS).map(lambda kv: kv[1])
        labels = labels.union(told).reduceByKey(min, PARTITIONS).cache()
        turns, before = turns + 1, now
    return labels, turns


@pytest.mark.long
def test_connected_components(spark_context: SparkContext, tmp_path: Path) -> None:
    run = Run(spark_context, tmp_path, ["a b", "c b", "d c", "f g", "g h", "h f", "i j"])
    labels, turns = components(run.lines)
    labels.saveAsTextFile(str(tmp_path / "labels"))
    run.end()
    wanted, same_turns = components(run.brute)
    assert turns == same_turns == 4
    run.holds("labels", wanted)


def test_two_hundred_operators_in_a_row(spark_context: SparkContext, tmp_path: Path) -> None:
    def chained(rows: Any) -> Any:
        rows = rows.map(int).map(lambda n: n + 1)  # two calls of a line are no loop
        for turn in range(100):
            rows = rows.filter(lambda n, turn=turn: n % 101 != turn).map(lambda n: n + 1)
        return rows

    run = Run(spark_context, tmp_path, [str(n) for n in range(300)])
    chained(run.lines).saveAsTextFile(str(tmp_path / "left"))
    run.end()
    left = chained(run.brute)
    assert 0 < len(left.rows) < 300
    run.holds("left", left)
    assert run.groups() == {"filter": 100, "map": 100}


def test_threads_share_a_parent(spark_context: SparkContext, tmp_path: Path) -> None:
    def by_rest(rows: Any) -> Any:
        return rows.map(int).map(lambda n: (n % 7, n)).cache()

    def child(rows: Any, number: int) -> Any:
        kept = rows.filter(lambda kv: kv[0] <= number)
        if number % 2:
            kept = kept.union(rows.mapValues(lambda n: n + number))
        return kept.reduceByKey(add, PARTITIONS)

    def save(number: int) -> int:
        made = child(parent, number)
        made.saveAsTextFile(str(tmp_path / f"out-{number}"))
        return int(made.count())

    run = Run(spark_context, tmp_path, [str(n) for n in range(40)])
    parent = by_rest(run.lines)
    with ThreadPoolExecutor(max_workers=4) as threads:
        counts = list(threads.map(save, range(4)))
    run.end()
    wanted = [child(by_rest(run.brute), number) for number in range(4)]
    assert counts == [rows.count() for rows in wanted]
    for number, rows in enumerate(wanted):
        run.holds(f"out-{number}", rows)
    assert run.groups()["reduceByKey"] == 4
