"""Answers over HTTP hold what the command line prints, key by key."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from lineage_core.contract.verdict import Refusal, StoreCounts, judge
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item, NotQueried
from lineage_query.comparing import (
    ComparedTrace,
    Difference,
    NodeDifference,
)
from lineage_query.next_jobs import NextJob
from lineage_query.suspects.answer import Rank, SuspectKey, SuspectRow, Suspects, SuspectTask
from lineage_query.suspects.health import Deviation
from lineage_query_api.answer_models import (
    difference,
    ranked_inputs,
    trace_answer,
    verdict_model,
)

pytestmark = pytest.mark.unit

ITEM = Item("read#0#6", "in.csv:7", "7,Oslo", "checksum")
BARE = Item("3#0#1", None, None)
NEXT = NextJob("app-0", "clean.py", "in.csv", 2, True, "in.csv:7", "")
GROUP = Group("0", "read", "textFile", "in.csv", 2, (ITEM, BARE), "changed", "app-2", (NEXT,))
EMPTY = Group("3", "3", "", None, 0, ())
ANSWER = Answer(
    "app-1",
    Direction.BACKWARD,
    ("out/part-0:1",),
    (EMPTY,),
    exact=False,
    reasons=("3: a sort",),
    groups=(GROUP,),
    warnings=("in.csv has changed since",),
    changed=True,
    complete=False,
    apps=("app-1", "app-2"),
    not_queried=(NotQueried("app-3", "it takes too long", "4"),),
)
COMPARED = ComparedTrace(("out/part-0:1",), 2, (GROUP,))
DIFFERENCE = Difference(
    "app-1",
    Direction.FORWARD,
    COMPARED,
    COMPARED,
    exact=True,
    reasons=(),
    complete=True,
    changed=False,
    groups=(NodeDifference(GROUP, EMPTY, 3),),
    warnings=("a warning",),
)
DEVIATION = Deviation("outputs a record", 2.5, "tasks", 6, 1.0, 4.5, ("Grubbs",), ("read", "5"))
RANKED = Suspects(
    "app-1",
    ("out/part-0:1", "out/part-0:2"),
    (SuspectRow("0", "read", ITEM, 2, 1, Rank(1, 3, 0.5)),),
    total=9,
    exact=True,
    reasons=("none",),
    complete=True,
    changed=False,
    warnings=("a warning",),
    good_places=("out/part-0:3",),
    formula="dstar",
    suspected=4,
    tasks=(SuspectTask("5", "5", 2, "read to 5", 2, 1, (DEVIATION,), Rank(1, 1, None)),),
    tasks_total=1,
    keys=(SuspectKey("5", "5", "5@0#7", DEVIATION, (BARE,), 3),),
    keys_total=2,
)


def sent(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True)


@pytest.mark.parametrize("direction", Direction)
def test_an_answer_is_sent_as_it_is_printed(direction: Direction) -> None:
    answer = replace(ANSWER, direction=direction)
    assert sent(trace_answer(answer)) == answer.to_json()


def test_comparisons_are_sent_as_they_are_printed() -> None:
    assert sent(difference(DIFFERENCE)) == DIFFERENCE.to_json()
    assert sent(ranked_inputs(RANKED)) == RANKED.to_json()
    assert Suspects.from_json(RANKED.to_json()) == RANKED


def test_a_verdict_is_sent_as_it_is_printed() -> None:
    counts = StoreCounts(received=1, unlinked=0, unmatched=0, flows=3)
    verdict = replace(
        judge([], counts, now=0.0).answered([Refusal("4", "show", "sort", "ties")], 2),
        superset={"3": ("a sort",)},
        limited={"1": (10, 4)},
        unknown=("a socket",),
        earlier=("app-0",),
    )
    assert sent(verdict_model("app-1", verdict)) == {"app": "app-1", **verdict.to_json()}
