"""Functions over a partition go on without the records that they fail on: against the same functions over the others alone."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_emitter.code.one_record import from_record_read_last
from lineage_emitter.worker import quarantine
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.guarded_partitions import PartitionOrSetAside
from lineage_emitter.worker.operators import OneRecord, OpaqueFunction
from lineage_emitter.worker.quarantine import QuarantineRule
from lineage_emitter.worker.segment import Numbering

pytestmark = pytest.mark.unit

OverPartition = Callable[[Iterable[Any]], Iterable[Any]]


def spread(records: Iterable[Any]) -> Iterable[Any]:
    base = 60
    for record in records:
        yield record
        yield base // record
        if record == 7:
            continue
        yield -record


def until(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        if record == 5:
            yield "last"
            break
        yield 60 // record


def until_end(records: Iterable[Any]) -> Iterable[Any]:
    """Gives what it changed before."""
    for record in records:
        if record == 5:
            return
        row: dict[str, Any] = {}
        for n in range(3):
            row[str(n)] = 60 // (record - n)
        size = 0
        yield row
        size += 1
        yield size
    return


def broken_ahead(records: Iterable[Any]) -> Iterable[Any]:
    base = 1 // 0
    for record in records:
        yield base // record


def nested(records: Iterable[Any]) -> Iterable[Any]:
    return (60 // (record - n) for record in records for n in range(3))


def divided(record: Any) -> Any:
    return 60 // record


def mapped(records: Iterable[Any]) -> Iterable[Any]:
    return map(divided, records)


def filtered(records: Iterable[Any]) -> Iterable[Any]:
    return filter(divided, records)


FUNCTIONS: list[OverPartition] = [
    spread,
    until,
    until_end,
    broken_ahead,
    nested,
    mapped,
    filtered,
]


class Taken:
    """What a quarantine is asked to take; it takes it."""

    def __init__(self, cell: list[int]) -> None:
        self.cell = cell
        self.places: list[int] = []

    def __call__(self, *_: Any) -> Taken:
        return self

    def takes(self, problem: Exception, *, is_repaired: bool) -> bool:
        self.places.append(self.cell[0])
        return True


def read(records: Iterable[Any], cell: list[int]) -> Iterator[Any]:
    for place, record in enumerate(records):
        cell[0] = place
        yield record


def outcome(run: Callable[[], Iterable[Any]]) -> tuple[list[Any], str]:
    """What it gives, and the error that it ends with."""
    given_so_far: list[Any] = []
    try:
        given_so_far.extend(run())
    except Exception as problem:
        return [], f"{type(problem).__name__}: {problem}"
    return given_so_far, ""


def guarded(
    function: OverPartition, records: list[Any], repair: Any = None
) -> tuple[list[Any], str, list[int], list[int], Numbering]:
    """What it gives, its error, the places set aside, the place at which each output came, and the numbering."""
    numbering = Numbering.of_space("read#0")
    taken = Taken(numbering.cell)
    operator = OneRecord(lambda _, given_records: function(given_records), is_declared=False)
    rule = QuarantineRule(1_000, says_errors=True, repair=repair)
    places: list[int] = []

    def run() -> Iterator[Any]:
        step = PartitionOrSetAside(operator, rule, "1", "mapPartitions")
        for output in step(0, read(records, numbering.cell)):
            places.append(numbering.cell[0])
            yield output

    with pytest.MonkeyPatch.context() as patch:
        segment = SimpleNamespace(numbering=numbering)
        patch.setattr(segments, "current_segment", lambda: segment)
        patch.setattr(quarantine, "Quarantine", taken)
        outputs, error = outcome(run)
    return outputs, error, taken.places, places, numbering


def test_the_functions_are_proved() -> None:
    for function in FUNCTIONS:
        proof = from_record_read_last(function)
        assert proof.holds, (function, proof)
        assert not proof.not_apart, (function, proof)


def broken_behind(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        if record == 5:
            return
        yield 60 // record
    raise ValueError("behind the loop")


def of_some(records: Iterable[Any]) -> Iterable[Any]:
    record = None
    for record in records:
        yield 60 // record
    if record is None:
        raise ValueError("no records")


def of_the_last(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        if record == 5:
            break
        yield 60 // record
    else:
        if record > 1:
            raise ValueError("the last one")


def of_some_partitions(index: int, records: Iterable[Any]) -> Iterable[Any]:
    if index == 0:
        return
    for record in records:
        yield 60 // record


def changing(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        row = {}
        row["a"] = 60 // record
        yield row
        row["b"] = 1
        yield row


def changing_in_a_loop(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        parts: list[Any] = []
        for _ in range(3):
            parts.append(record)
            yield parts


def changing_behind_a_failure(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        parts = [record]
        try:
            yield parts
            yield 60 // record
        except ZeroDivisionError:
            parts += [0]


def changing_between(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        row: dict[str, Any] = {}
        yield from (row for name in "ab" if row.update({name: record}) is None)


def grown(record: Any) -> Iterable[Any]:
    parts = [record]
    while len(parts) < 3:
        yield parts
        parts *= 2


def changing_in_a_helper(records: Iterable[Any]) -> Iterable[Any]:
    return (part for record in records for part in grown(record))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (broken_behind, "behind the loop"),
        (of_some, "behind the loop"),
        (of_the_last, "behind the loop"),
        (of_some_partitions, "before it reads"),
        (changing, "row['b'] may change"),
        (changing_in_a_loop, "parts.append(record) may change"),
        (changing_behind_a_failure, "parts += [0] may change"),
        (changing_between, "row.update({name: record}) may change"),
        (changing_in_a_helper, "parts *= 2 may change"),
    ],
)
def test_functions_that_do_something_else_on_each_record_by_itself(
    function: Any, reason: str
) -> None:
    proof = from_record_read_last(function, int(function is of_some_partitions))
    assert proof.holds, proof
    assert reason in proof.not_apart


SEEN: list[Any] = []


def keeping_behind(records: Iterable[Any]) -> Iterable[Any]:
    for record in records:
        if record == 5:
            break
        yield record, len(SEEN)
    else:
        SEEN.append(1)


def test_what_runs_when_the_loop_ends_is_looked_into() -> None:
    assert "SEEN.append" in from_record_read_last(keeping_behind).reason


@given(function=st.sampled_from(FUNCTIONS), records=st.lists(st.integers(-1, 8), max_size=12))
def test_it_gives_what_it_gives_of_the_others_alone(
    function: OverPartition, records: list[int]
) -> None:
    outputs, error, set_aside, places, numbering = guarded(function, records)
    others = [record for place, record in enumerate(records) if place not in set_aside]
    assert (outputs, error) == outcome(lambda: function(iter(others)))
    assert not numbering.opaque
    for place in set_aside:
        # It fails on each of them.
        assert outcome(partial(function, iter([records[place]])))[1]
    assert places == sorted(places)
    assert not set(places) & set(set_aside)


@settings(max_examples=20)
@given(records=st.lists(st.integers(-1, 8), max_size=12))
def test_repaired_records_are_read_in_the_place_of_those_that_fail(records: list[int]) -> None:
    outputs, error, _, _, _ = guarded(spread, records, lambda record, problem: 7)
    assert (outputs, error) == outcome(lambda: spread(iter([r or 7 for r in records])))


class Own:
    """A record of the program's own class."""

    def __rfloordiv__(self, other: Any) -> Any:
        return self

    def __neg__(self) -> Any:
        return self


def test_from_a_record_on_that_the_proof_is_not_of_all_are_read_as_without_quarantine() -> None:
    own = Own()
    outputs, error, set_aside, _, numbering = guarded(spread, [0, 1, own, 2])
    assert (outputs, error, set_aside) == ([1, 60, -1, own, own, own, 2, 30, -2], "", [0])
    assert numbering.opaque
    _, error, set_aside, _, _ = guarded(spread, [0, own, 0])
    assert (error.split(":")[0], set_aside) == ("ZeroDivisionError", [0])
    # Nor is one tried in the place of another.
    outputs, _, set_aside, _, _ = guarded(spread, [0, 1], lambda record, problem: own)
    assert (outputs, set_aside) == ([1, 60, -1], [0])
    plain = guarded(spread, [decimal.Decimal(0), 1])
    assert plain[0] == [1, 60, -1]


def test_a_record_that_a_repair_changed_is_looked_at_again() -> None:
    def first(records: Iterable[Any]) -> Iterable[Any]:
        for record in records:
            yield 60 // record[0]

    def repaired(record: Any, problem: Exception) -> Any:
        record[0] = Own()
        return record

    assert guarded(first, [[0], [3]], repaired)[:3] == ([20], "", [0])


def test_a_function_that_is_proved_no_more_sets_nothing_aside() -> None:
    rule = QuarantineRule(9, says_errors=True)
    opaque = SimpleNamespace(calls=0)

    class Counted(OpaqueFunction):
        def __call__(self, split: int, iterator: Any) -> Any:
            opaque.calls += 1
            return iterator

    with pytest.MonkeyPatch.context() as patch:
        segment = SimpleNamespace(numbering=Numbering.of_space("read#0"))
        patch.setattr(segments, "current_segment", lambda: segment)
        step = PartitionOrSetAside(Counted(lambda _, records: records), rule, "1", "mapPartitions")
        assert list(step(0, iter([1, 2]))) == [1, 2]
    assert opaque.calls == 1
