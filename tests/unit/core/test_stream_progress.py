"""How far streaming queries are complete: never further than what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.message import Begin, DeadLetter, End, Message, Register, Stream, Totals
from lineage_core.contract.stream_progress import StreamProgress
from lineage_core.contract.verdict import StoreCounts, Verdict, judge

pytestmark = pytest.mark.unit

APP = "app"
QUERY, RUN = "8c29d3f1-aaaa", "run-1"
BEGIN = Begin(app=APP, name="job", started_at=10.0)
STARTED = Stream(app=APP, query=QUERY, run=RUN, state="started")


def frame(number: int) -> Register:
    return Register(app=APP, node=str(number), kind="frame", op="DataStreamWriter.start")


def batch(number: int, complete_to: int | None, state: str = "batch", reason: str = "") -> Stream:
    fields = {"app": APP, "query": QUERY, "run": RUN, "state": state, "reason": reason}
    return Stream.model_validate({**fields, "number": number, "complete_to": complete_to})


def verdict(*messages: Message, recipes: int = 0, **more: object) -> Verdict:
    counts = StoreCounts(received=0, unlinked=0, unmatched=0, flows=0, silent_s=0.0)
    found = frozenset(map(str, range(recipes)))
    return judge(messages, replace(counts, recipes=found, **more), now=11.0)  # type: ignore[arg-type]


def progress(found: Verdict) -> tuple[int, int | None, str]:
    (run,) = found.streams
    assert (run.query, run.run) == (QUERY, RUN)
    return run.committed, run.complete_to, run.state


def test_a_query_that_runs_is_complete_up_to_a_batch() -> None:
    messages: list[Message] = [BEGIN, STARTED]
    assert progress(verdict(*messages)) == (-1, -1, "running")
    for number in range(3):
        messages += [frame(number), batch(number, number)]
        found = verdict(*messages, recipes=number + 1)
        assert progress(found) == (number, number, "running")
        assert not found.complete
    # What comes next is under way.
    assert progress(verdict(*messages, frame(3), recipes=3)) == (2, 2, "running")
    end = End(app=APP, ended_at=20.0, status="ok", totals=Totals(recipes=3))
    found = verdict(*messages, batch(2, 2, "over"), end, recipes=3)
    assert (progress(found), found.complete) == ((2, 2, "over"), True)
    assert Verdict.from_json(found.to_json()) == found
    older = found.to_json()
    del older["streams"]
    assert Verdict.from_json(older).streams == ()


def test_it_stays_complete_up_to_the_batch_before_one_that_is_not_known() -> None:
    messages: list[Message] = [
        BEGIN,
        STARTED,
        frame(0),
        batch(0, 0),
        frame(2),
        batch(1, 0),
        batch(2, 0),
    ]
    assert progress(verdict(*messages, recipes=3)) == (2, 0, "running")
    lost = verdict(*messages, batch(2, 0, "lost", "Spark went away"), recipes=3)
    assert lost.streams[0].text == (
        "query 8c29d3f1: complete up to batch 0 of 2 (lost): Spark went away"
    )


@pytest.mark.parametrize(
    "lost",
    [
        {"recipes": 1},
        {"recipes": 2, "problems": {"blocks/1": "torn"}},
    ],
)
def test_what_was_lost_on_the_way_is_not_called_complete(lost: dict[str, object]) -> None:
    messages: list[Message] = [BEGIN, STARTED, frame(0), batch(0, 0), frame(1), batch(1, 1)]
    found = verdict(*messages, **lost)  # type: ignore[arg-type]
    assert progress(found) == (1, None, "running")
    assert "not known" in found.streams[0].text


def test_a_dead_letter_may_have_been_of_a_batch() -> None:
    messages: list[Message] = [BEGIN, STARTED, frame(0), batch(0, 0)]
    dead = DeadLetter(app=APP, place="topic/0/1", reason="broken")
    assert progress(verdict(*messages, dead, recipes=1)) == (0, None, "running")
    replayed = dead.model_copy(update={"resolved": True})
    assert progress(verdict(*messages, dead, replayed, recipes=1)) == (0, 0, "running")


def test_emitters_of_before_say_nothing_of_it() -> None:
    assert progress(verdict(BEGIN, STARTED, batch(4, None))) == (4, None, "running")


@given(st.permutations(range(6)), st.integers(0, 5))
def test_messages_that_come_again_change_nothing(order: list[int], again: int) -> None:
    batches = [batch(number, min(number, 3)) for number in range(6)]
    messages: list[Message] = [
        BEGIN,
        STARTED,
        *batches,
        *(batches[place] for place in order[:again]),
    ]
    assert verdict(*messages).streams == (
        StreamProgress(QUERY, RUN, "running", committed=5, complete_to=3),
    )
