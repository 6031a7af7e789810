"""Names that applications began under."""

from __future__ import annotations

import json
import time

import pytest

from lineage_store.recipes import names_in

pytestmark = pytest.mark.unit

FEW, TIMES = 2_000, 16


def test_names_are_those_of_each_application() -> None:
    rows = [("a", "x"), ("b", "y"), ("a", "z"), ("a", "x")]
    bodies = [(app, json.dumps({"name": name})) for app, name in rows]
    others = [("c", "[]"), ("c", '{"name":1}'), ("c", "{}")]
    assert names_in([*bodies, *others]) == {"a": {"x", "z"}, "b": {"y"}}


def test_very_many_names_of_one_application_take_no_more_than_their_number() -> None:
    """Gathered one after the other into a new set each, they took sixteen times as much for four times as many."""

    def seconds(number: int) -> float:
        rows = [("forged", json.dumps({"name": f"name-{n}"})) for n in range(number)]
        took = []
        for _ in range(3):
            begun = time.process_time()
            assert len(names_in(rows)["forged"]) == number
            took.append(time.process_time() - begun)
        return min(took)

    assert seconds(FEW * TIMES) < 4 * TIMES * seconds(FEW)
