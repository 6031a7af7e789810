from __future__ import annotations

import pytest

from lineage_emitter.session.lazy_sinks import UNREAD_SINKS_MAX, LazySink, LazySinks
from lineage_emitter.session.nodes import Node

pytestmark = pytest.mark.unit


def lazy(name: str) -> LazySink:
    return LazySink("toDF", name, "job.py:1", Node(name))


def test_partitions_that_ran_are_told_once() -> None:
    sinks = LazySinks()
    assert not sinks
    one, other = lazy("1"), lazy("2")
    sinks.add(one)
    sinks.add(other)
    for node, partition in (("1", 3), ("1", 0), ("1", 3), ("9", 0)):
        sinks.record_run(node, partition)
    assert sinks.take_run() == [(one, (0, 3))]
    assert sinks.take_run() == []
    sinks.record_run("2", 0)
    sinks.record_run("1", 3)
    assert sinks.take_run() == [(one, (3,)), (other, (0,))]


def test_what_was_never_read_is_not_held_for_ever() -> None:
    sinks = LazySinks()
    many = [lazy(str(number)) for number in range(UNREAD_SINKS_MAX + 3)]
    for one in many:
        sinks.add(one)
    assert [one.sink is None for one in many] == [True] * 3 + [False] * UNREAD_SINKS_MAX
    sinks.record_run("0", 1)
    assert sinks.take_run() == [(many[0], (1,))]
