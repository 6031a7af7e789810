"""A function over a partition is looked into again when it is sent to the workers."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator

import pytest
from pyspark import cloudpickle

from lineage_emitter.driver.partition_rule import exact, one_record_rule, still_holds
from lineage_emitter.worker.operators import OneRecord, OpaqueFunction

pytestmark = pytest.mark.unit

KEPT: list[str] = []


def helper(line: str) -> str:
    return line.strip()


def keeping(line: str) -> str:
    KEPT.append(line)
    return "".join(KEPT)


def parts(index: int, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield helper(line)


@exact
def declared(index: int, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield helper(line)


def runs(
    function: Callable[[int, Iterable[str]], Iterator[str]], *, apart: bool = False
) -> OneRecord:
    """As an operator runs it."""
    rule = one_record_rule(function)
    assert rule.holds, rule.reason
    return OneRecord(
        function,
        is_declared=rule.is_declared,
        still_holds=functools.partial(still_holds, apart=apart),
    )


def sent(operator: OneRecord) -> object:
    """What the workers get."""
    return cloudpickle.loads(cloudpickle.dumps(operator))


def test_what_still_holds_is_sent_as_it_is() -> None:
    assert isinstance(sent(runs(parts)), OneRecord)


def test_a_helper_that_was_defined_anew_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = runs(parts)
    monkeypatch.setattr(sys.modules[__name__], "helper", keeping)
    assert isinstance(sent(operator), OpaqueFunction)


def words(line: str) -> list[str]:
    return line.split()


def growing(line: str) -> Iterator[str]:
    row: list[str] = []
    for word in line.split():
        yield word
        row.append(word)


def all_words(index: int, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from words(line)


def test_a_helper_is_looked_into_for_what_its_function_is_called_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apart, together = runs(all_words, apart=True), runs(all_words)
    assert isinstance(sent(apart), OneRecord)
    monkeypatch.setattr(sys.modules[__name__], "words", growing)
    assert isinstance(sent(apart), OpaqueFunction)
    assert isinstance(sent(together), OneRecord)


def test_what_is_declared_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = runs(declared)
    monkeypatch.setattr(sys.modules[__name__], "helper", keeping)
    assert isinstance(sent(operator), OneRecord)


def test_a_mark_is_of_the_marked_function_alone() -> None:
    @functools.wraps(declared)
    def totals(index: int, lines: Iterable[str]) -> Iterator[str]:
        before = ""
        for line in declared(index, lines):
            before += line
            yield before

    assert one_record_rule(declared).is_declared
    assert one_record_rule(cloudpickle.loads(cloudpickle.dumps(declared))).is_declared
    assert not one_record_rule(totals).holds
