"""What is tried in the place of a record that a function fails on, and what the settings of that need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lineage_emitter.errors import SettingsError
from lineage_emitter.session.quarantined import quarantine_rule
from lineage_emitter.settings import Settings
from lineage_emitter.worker.by_record import FlatMap, Map
from lineage_emitter.worker.quarantine import OrSetAside, QuarantineRule
from tests.support import repairs

pytestmark = pytest.mark.unit


def parsed(line: str) -> tuple[str, int]:
    key, value = line.split()
    return key, int(value)


def stopping(record: Any, problem: Exception) -> Any:
    raise StopIteration


@pytest.mark.parametrize(
    ("repair", "outputs", "note"),
    [
        (repairs.mended, (("x", 1),), ""),
        (None, None, ""),
        (lambda record, problem: None, None, ""),
        (repairs.useless, None, "not enough values to unpack"),
        (repairs.failing, None, "ValueError: it was"),
        (stopping, None, "StopIteration"),
    ],
)
def test_a_record_is_repaired_or_set_aside(
    repair: Callable[[Any, Exception], Any] | None, outputs: Any, note: str
) -> None:
    rule = QuarantineRule(3, says_errors=True, repair=repair)
    problem = ValueError("it was")
    assert OrSetAside(Map(parsed), rule, "1", "map")._repaired("x", problem) == outputs
    assert note in "".join(getattr(problem, "__notes__", []))


def test_what_a_repaired_record_gives_is_gathered() -> None:
    def spread(line: str) -> Any:
        yield line
        yield parsed(line)

    rule = QuarantineRule(3, says_errors=True, repair=repairs.mended)
    operator = OrSetAside(FlatMap(spread), rule, "1", "flatMap")
    assert operator._repaired("x", ValueError()) == ("x 1", ("x", 1))


def test_a_repair_needs_a_bound_and_a_function() -> None:
    mend = "tests.support.repairs:mended"
    with pytest.raises(SettingsError, match="needs LINEAGE_QUARANTINE"):
        quarantine_rule(Settings(repair=mend))
    with pytest.raises(SettingsError, match="can't be loaded"):
        quarantine_rule(Settings(repair="tests.support.repairs:none", quarantine=1))
    rule = quarantine_rule(Settings(repair=mend, quarantine=2))
    assert rule.repair is not None
    assert (rule.records_max, rule.repair("x", ValueError())) == (2, "x 1")
    assert quarantine_rule(Settings()).repair is None
