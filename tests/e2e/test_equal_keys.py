"""Keys of different types that equal each other: no witness is lost."""

from __future__ import annotations

from operator import add
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_emitter import LineageContext
from tests.support.case_blind import CaseBlind
from tests.support.job_runs import STORE, judged, traced
from tests.support.own_keys import Colour, Point, User

pytestmark = pytest.mark.e2e


def blind(key: str) -> Any:
    return CaseBlind(key.upper())


def as_it_is(key: str) -> Any:
    return key


def blind_in_a_tuple(key: str) -> Any:
    return (1, CaseBlind(key.upper()))


def in_a_tuple(key: str) -> Any:
    return (1, key)


def portable(key: Any) -> int:
    return len(str(key))


@pytest.mark.parametrize(
    ("left", "right"),
    [(blind, as_it_is), (as_it_is, blind), (blind_in_a_tuple, in_a_tuple)],
)
def test_equal_keys_of_different_types(
    left: Any, right: Any, spark_context: SparkContext, tmp_path: Path
) -> None:
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("".join(f"k{n % 3}\n" for n in range(10)))
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}") as lc:
        one = lc.textFile(str(tmp_path / "a.txt"), 2).map(lambda line: (left(line), 1))
        two = lc.textFile(str(tmp_path / "b.txt"), 2).map(lambda line: (right(line), 1))
        summed = one.union(two).reduceByKey(add, 2, partitionFunc=portable)
        summed.map(lambda pair: str(pair[1])).saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    assert judged(tmp_path, app).complete
    witnesses = sorted(sources for _, sources in traced(tmp_path, tmp_path / "out"))
    assert witnesses == [
        tuple(sorted(f"{name}.txt:{line}" for name in "ab" for line in range(first, 11, 3)))
        for first in (1, 2, 3)
    ]
    assert any(
        "canonical" in reason
        for reasons in judged(tmp_path, app).superset.values()
        for reason in reasons
    )


def user(line: str) -> Any:
    return User(line, 1)


def point(line: str) -> Any:
    return Point(int(line[1:]))


def colour(line: str) -> Any:
    return Colour.RED if line == "k1" else Colour.BLUE


@pytest.mark.parametrize("key", [user, point, colour])
def test_keys_of_own_classes_are_exact(
    key: Any, spark_context: SparkContext, tmp_path: Path
) -> None:
    lines = [f"k{n % 3}" for n in range(12)]
    (tmp_path / "a.txt").write_text("".join(f"{line}\n" for line in lines))
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / STORE}") as lc:
        keyed = lc.textFile(str(tmp_path / "a.txt"), 3).map(lambda line: (key(line), line))
        grouped = keyed.groupByKey(2, partitionFunc=lambda found: len(repr(found)) % 2)
        grouped.map(lambda pair: sorted(pair[1])[-1]).saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    verdict = judged(tmp_path, app)
    assert verdict.complete
    assert not verdict.superset
    witnesses = sorted(sources for _, sources in traced(tmp_path, tmp_path / "out"))
    assert witnesses == sorted(
        tuple(sorted(f"a.txt:{n}" for n, line in enumerate(lines, 1) if key(line) == one))
        for one in set(map(key, lines))
    )
