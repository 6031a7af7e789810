"""Operators of captured bags: records that carry their place say what each result is made from."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import dask
import pytest
from dask import bag
from dask.bag.core import Bag, reify
from dask.highlevelgraph import HighLevelGraph
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_emitter.errors import UnsupportedOperatorError
from lineage_emitter.sdk.dask_bags import TracedBag, bag_of_batches, concatenated
from lineage_emitter.sdk.dask_rows import joined_rows, numbered

pytestmark = pytest.mark.property

SIZE = 4
"""Records in a partition of the source."""
Program = Callable[[Any, Callable[..., Any]], Any]
Traced = list[tuple[Any, frozenset[str]]]


def records(values: list[int]) -> list[dict[str, Any]]:
    return [
        {"row": (value, f"s#{n // SIZE}#{n % SIZE}"), "v": value} for n, value in enumerate(values)
    ]


def plain(values: list[int]) -> Bag:
    return bag.from_sequence(records(values), partition_size=SIZE)


def traced(values: list[int]) -> TracedBag:
    source = plain(values)
    name = f"numbered-{source.name}"
    graph = {
        (name, n): (reify, (numbered, f"s#{n}", (source.name, n)))
        for n in range(source.npartitions)
    }
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[source])
    return TracedBag(layers, name, source.npartitions)


def computed(collection: Bag) -> Any:
    (result,) = dask.compute(collection, scheduler="synchronous")
    return result


def rows_of(collection: TracedBag) -> Traced:
    rows = joined_rows(computed(bag_of_batches(collection)))
    return list(zip(rows.values, rows.origins.ids(), strict=True))


def captured_concat(bags: list[Any]) -> Any:
    return concatenated(bag.concat, bags)


def large(row: tuple[int, str]) -> bool:
    return row[0] > 1


STEPS: dict[str, Program] = {
    "filter": lambda b, _: b.filter(large),
    "twice": lambda b, _: b.map(lambda row: [row] * (row[0] % 3)).flatten(),
    "concat": lambda b, concat: concat([b, b.filter(large), b]),
    "first": lambda b, _: b.take(3, compute=False, warn=False),
    "first of two": lambda b, _: b.take(
        5, npartitions=min(2, b.npartitions), compute=False, warn=False
    ),
    "first of all": lambda b, _: b.take(6, npartitions=-1, compute=False, warn=False),
    "none": lambda b, _: b.take(0, compute=False),
    "sample": lambda b, _: b.random_sample(0.6, 7),
    "pluck": lambda b, _: b.map(lambda row: {0: row}).pluck(0),
    "pluck several": lambda b, _: b.pluck([0, 1]),
    "pluck with default": lambda b, _: b.map(lambda row: [row]).pluck(0, "none"),
}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=18),
    st.lists(st.sampled_from(sorted(STEPS)), max_size=4),
)
def test_records_are_those_of_plain_dask_and_made_from_themselves(
    values: list[int], names: list[str]
) -> None:
    expected, actual = plain(values).pluck("row"), traced(values).pluck("row")
    for name in names:
        expected = STEPS[name](expected, bag.concat)
        actual = STEPS[name](actual, captured_concat)
    rows = rows_of(actual)
    assert [row for row, _ in rows] == list(computed(expected))
    assert all(ids == frozenset([row[1]]) for row, ids in rows)


def parity(row: tuple[int, str]) -> int:
    return row[0] % 2


def longer(total: str, row: tuple[int, str]) -> str:
    return f"({total}{row[0]})"


def both(total: str, other: str) -> str:
    return f"[{total}|{other}]"


def pair(total: tuple[int, str], row: tuple[int, str]) -> tuple[int, str]:
    return (2 * total[0] + row[0], "")


FOLDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Callable[[Any], Any]]] = {
    "distinct": (
        lambda b: b.pluck(0).distinct(),
        lambda row: row[0],
        lambda value: value,
    ),
    "no initial": (lambda b: b.foldby(parity, pair), parity, lambda value: value[0]),
    "initial": (lambda b: b.foldby(parity, longer, "i", both), parity, lambda value: value[0]),
    "both initial": (
        lambda b: b.foldby(parity, longer, "i", both, "c", split_every=2),
        parity,
        lambda value: value[0],
    ),
    "key by item": (
        lambda b: b.foldby(0, longer, str, both, split_every=2),
        lambda row: row[0],
        lambda value: value[0],
    ),
}


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=24),
    st.sampled_from(["filter", "sample", "concat", "first of two"]),
    st.sampled_from(sorted(FOLDS)),
)
def test_totals_are_those_of_plain_dask_and_made_from_all_records_of_their_key(
    values: list[int], step: str, name: str
) -> None:
    fold, key_of_row, key_of_total = FOLDS[name]
    before = STEPS[step](plain(values).pluck("row"), bag.concat)
    ids: dict[Any, set[str]] = {}
    for row in computed(before):
        ids.setdefault(key_of_row(row), set()).add(row[1])
    rows = rows_of(fold(STEPS[step](traced(values).pluck("row"), captured_concat)))
    assert [value for value, _ in rows] == list(computed(fold(before)))
    assert {key_of_total(value): ids_of_total for value, ids_of_total in rows} == ids


def test_take_asks_for_no_more_records_than_it_gives() -> None:
    asked: list[int] = []

    def count_from(record: dict[str, Any]) -> Any:
        asked.append(record["v"])
        return count(record["v"])

    taken = traced([3, 8]).map(count_from).flatten().take(3, compute=False)
    assert rows_of(taken) == [(n, frozenset(["s#0#0"])) for n in (3, 4, 5)]
    assert asked == [3]


def test_take_warns_of_fewer_records_and_checks_partitions_as_dask_does() -> None:
    with pytest.warns(UserWarning, match="5 elements requested, only 4"):
        assert len(rows_of(traced([1] * 6).take(5, compute=False))) == 4
    with pytest.raises(ValueError, match="only 2 partitions"):
        traced([1] * 6).take(5, npartitions=3)
    with pytest.raises(ValueError, match="interval"):
        traced([1]).random_sample(2)


def test_bags_that_are_not_captured_are_not_concatenated() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"concat.*captured block"):
        captured_concat([traced([1]), plain([1])])
    with pytest.raises(UnsupportedOperatorError, match=r"distinct by a key.*compute the bag"):
        traced([1]).distinct("v")
