"""The completeness verdict: nothing is called complete that is not known to be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Expected,
    Heartbeat,
    Job,
    Message,
    Register,
    SetAside,
    Totals,
    Unknown,
)
from lineage_core.contract.verdict import QUARANTINE, StoreCounts, Verdict, judge

pytestmark = pytest.mark.unit

APP = "app"
BEGIN = Begin(app=APP, name="job", started_at=10.0)
SINK = Register(app=APP, node="9", kind="sink", op="collect", call_site="job.py:7")
JOB = Job(
    app=APP,
    job=1,
    action="collect",
    sink="9",
    expected=(Expected(node="4", partitions=(0, 1)), Expected(node="9", partitions=(0,))),
)
END = End(app=APP, ended_at=20.0, status="ok", totals=Totals(tasks=3, blocks=4))
ALL = StoreCounts(received=4, unlinked=0, unmatched=0, flows=70)


def commit(node: str, partition: int, attempt: int = 0, blocks: int = 1, **more: object) -> Commit:
    fields = {"node": node, "partition": partition, "attempt": attempt, "blocks": blocks}
    return Commit.model_validate({"app": APP, **fields, **more})


COMMITS = (commit("4", 0), commit("4", 1, blocks=2), commit("9", 0))
WHOLE: tuple[Message, ...] = (BEGIN, SINK, *COMMITS, JOB, END)


def verdict(*messages: Message, counts: StoreCounts = ALL, now: float = 1000.0) -> Verdict:
    return judge(messages, counts, now=now)


def test_an_action_that_failed_is_named_once() -> None:
    failed = Unknown(app=APP, what="collect", reason="it failed: ValueError", call_site="job.py:7")
    found = verdict(BEGIN, SINK, *COMMITS, failed, END)
    assert found.reasons == ("unknown part: collect at job.py:7: it failed: ValueError",)
    other = failed.model_copy(update={"call_site": "job.py:8"})
    assert any("did not finish" in r for r in verdict(BEGIN, SINK, *COMMITS, other, END).reasons)


def test_registrations_and_unknown_parts_that_got_lost_are_missed() -> None:
    """Else a trace ends where a source was never heard of, and the lineage is called complete."""
    end = END.model_copy(update={"totals": Totals(tasks=3, blocks=4, nodes=2, unknown=1)})
    unknown = Unknown(app=APP, what="RDD.glom", reason="not captured")
    source = Register(app=APP, node="1", kind="source", op="textFile")
    lost = verdict(BEGIN, SINK, *COMMITS, JOB, end)
    assert lost.reasons == (
        "1 of 2 registrations of nodes never arrived",
        "1 of 1 notes of unknown parts never arrived",
    )
    assert not lost.final
    found = verdict(BEGIN, SINK, source, *COMMITS, unknown, unknown, JOB, end)
    assert found.reasons == ("unknown part: RDD.glom: not captured",)
    assert found.final


def test_an_unknown_node_is_no_superset() -> None:
    unknown = Register(
        app=APP, node="5", kind="unknown", op="RDD.glom", exact=False, reason="not captured"
    )
    superset = Register(app=APP, node="6", kind="operator", op="x", exact=False, reason="wider")
    found = verdict(*WHOLE[:2], unknown, superset, *WHOLE[2:])
    assert found.superset == {"6": ("wider",)}


def test_an_action_over_nothing_is_complete_and_no_action_is_not() -> None:
    job = Job(
        app=APP, job=1, action="collect", sink="9", expected=(Expected(node="9", partitions=()),)
    )
    end = END.model_copy(update={"totals": Totals()})
    nothing = StoreCounts(received=0, unlinked=0, unmatched=0, flows=0)
    assert verdict(BEGIN, SINK, job, end, counts=nothing).complete
    assert "nothing was captured" in verdict(BEGIN, end, counts=nothing).reasons
    assert "nothing was captured" in verdict(BEGIN, SINK, end, counts=nothing).reasons


def test_all_that_was_expected_is_there() -> None:
    found = verdict(*WHOLE)
    assert found.complete
    assert found.to_json() == {
        "complete": True,
        "received": True,
        "answerable": True,
        "refusals": [],
        "unchecked": 0,
        "status": "ok",
        "final": True,
        "tasks": {"expected": 3, "committed": 3},
        "blocks": {"expected": 4, "written": 4, "received": 4, "linked": 4, "stubs": 0},
        "recipes": {"expected": 0, "received": 0},
        "flows": 70,
        "unmatched": 0,
        "collisions": 0,
        "dead_letters": 0,
        "unknown": [],
        "superset": {},
        "limited": {},
        "set_aside": {},
        "repaired": {},
        "reasons": [],
        "earlier": [],
        "streams": [],
    }


FRAMES = tuple(
    Register(app=APP, node=node, kind="frame", op="DataFrame.count", call_site=f"job.py:{node}")
    for node in ("20", "21")
)
NONE = StoreCounts(received=0, unlinked=0, unmatched=0, flows=0)


def test_what_was_set_aside_counts_once_and_is_no_gap() -> None:
    def aside(partition: int, attempt: int, **records: int) -> Commit:
        parts = tuple(SetAside(node=node[1:], records=count) for node, count in records.items())
        return commit("9", partition, attempt, 0, set_aside=parts, repaired=parts[:1])

    again = (aside(0, 7, _2=3), aside(0, 8, _2=2, _4=1), aside(1, 7, _2=1))
    quarantine = Register(app=APP, node="2:quarantine", kind="sink", op=QUARANTINE)
    end = END.model_copy(update={"totals": Totals(tasks=6, blocks=4)})
    found = verdict(*WHOLE[:2], quarantine, *again, *WHOLE[2:-1], end)
    assert found.complete
    assert found.set_aside == {"2": 4, "4": 1}
    assert found.repaired == {"2": 4}
    older = found.to_json()
    del older["repaired"]
    assert Verdict.from_json(older).repaired == {}
    assert Verdict.from_json(found.to_json()) == found
    # What is set aside is no output by itself.
    assert "nothing was captured" in verdict(BEGIN, quarantine, END).reasons


def test_recipes_are_lineage_of_their_own() -> None:
    end = END.model_copy(update={"totals": Totals(recipes=2)})
    both = replace(NONE, recipes=frozenset({"20", "21"}))
    found = verdict(BEGIN, *FRAMES, end, counts=both)
    assert (found.complete, found.final, found.reasons) == (True, True, ())
    assert (found.recipes_expected, found.recipes_received) == (2, 2)
    assert Verdict.from_json(found.to_json()) == found
    older = found.to_json()
    del older["recipes"]
    assert Verdict.from_json(older).recipes_received == 0


def test_a_recipe_that_got_lost_is_missed() -> None:
    end = END.model_copy(update={"totals": Totals(recipes=2)})
    one = replace(NONE, recipes=frozenset({"20"}))
    found = verdict(BEGIN, *FRAMES, end, counts=one)
    assert not found.final
    assert found.reasons == ("1 of 2 recipes are missing: DataFrame.count at job.py:21",)
    # Its registration may be lost, too: then the end alone tells of it.
    found = verdict(BEGIN, FRAMES[0], end, counts=one)
    assert found.reasons == ("1 of 2 recipes are missing",)
    # Before the end the registrations tell, so that a killed driver's last one is missed as well.
    found = verdict(BEGIN, *FRAMES, counts=one)
    assert "1 of 2 recipes are missing: DataFrame.count at job.py:21" in found.reasons


def test_repeated_messages_and_jobs_count_once() -> None:
    again = JOB.model_copy(update={"job": 2})
    assert verdict(*WHOLE, *WHOLE, again).tasks_expected == 3
    assert verdict(*WHOLE, *WHOLE, again).complete


@pytest.mark.parametrize("left_out", range(len(WHOLE)))
def test_no_message_can_be_missing(left_out: int) -> None:
    if WHOLE[left_out] is SINK:
        return  # the job names the sink as well
    found = verdict(*WHOLE[:left_out], *WHOLE[left_out + 1 :])
    assert not found.complete
    assert found.reasons


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        (commit("7", 0, 5, blocks=0, failed="disk full"), "task 7#0.5: capture failed: disk full"),
        (commit("7", 0, 5, blocks=0, undelivered=3), "task 7#0.5: 3 blocks could not be delivered"),
        (commit("7", 0, 5), "1 of 5 blocks are missing"),
        (
            Unknown(app=APP, what="toDF", reason="a DataFrame", call_site="job.py:3"),
            "unknown part: toDF at job.py:3: a DataFrame",
        ),
        (
            SINK.model_copy(update={"node": "12", "op": "saveAsTextFile", "call_site": ""}),
            "saveAsTextFile did not finish: its lineage may be partial",
        ),
        (
            Job(app=APP, job=3, action="count", expected=(Expected(node="4", partitions=(5, 6)),)),
            "2 of 5 tasks sent no lineage: 4#5, 4#6",
        ),
    ],
)
def test_what_is_missing_is_named(more: Message, reason: str) -> None:
    found = verdict(*WHOLE, more)
    assert not found.complete
    assert reason in found.reasons


@pytest.mark.parametrize(
    ("counts", "reason"),
    [
        (StoreCounts(3, 0, 0, 60), "1 of 4 blocks are missing"),
        (
            StoreCounts(4, 2, 7, 70),
            "2 blocks are not fully linked: 7 input positions that no block puts out",
        ),
        (StoreCounts(4, 0, 0, 70, problems={"4-0-1.lmf": "torn"}), "4-0-1.lmf: torn"),
    ],
)
def test_what_the_store_lacks_is_named(counts: StoreCounts, reason: str) -> None:
    found = verdict(*WHOLE, counts=counts)
    assert not found.complete
    assert found.reasons == (reason,)


def test_a_claimed_task_counts_as_committed() -> None:
    messages = [message for message in WHOLE if message is not COMMITS[1]]
    messages[-1] = END.model_copy(update={"totals": Totals(tasks=2)})
    counts = StoreCounts(3, 0, 0, 70, claimed=frozenset({("4", 1)}), claimed_blocks=1)
    found = verdict(*messages, counts=counts)
    assert found.complete, found.reasons
    assert (found.tasks_committed, found.blocks_expected) == (3, 3)


@pytest.mark.parametrize(
    ("now", "status", "reason"),
    [
        (85.0, "running", "the application is still running: the verdict is final when it ends"),
        (86.0, "abandoned", "the application never ended: no message was received for 61 s"),
    ],
)
def test_an_application_without_an_end(now: float, status: str, reason: str) -> None:
    found = verdict(*WHOLE[:-1], Heartbeat(app=APP, at=25.0), now=now)
    assert not found.complete
    assert (found.status, found.reasons) == (status, (reason,))


def test_a_failed_application_whose_actions_returned_is_complete() -> None:
    found = verdict(*WHOLE[:-1], END.model_copy(update={"status": "failed"}))
    assert (found.complete, found.status) == (True, "failed")


@pytest.mark.parametrize("messages", [(), (BEGIN, END), (BEGIN, SINK, JOB, END)])
def test_an_empty_graph_is_never_complete(messages: tuple[Message, ...]) -> None:
    found = verdict(*messages, counts=StoreCounts(0, 0, 0, 0))
    assert not found.complete
    assert "nothing was captured" in found.reasons


def test_an_output_without_rows_can_be_complete() -> None:
    commits = [commit("9", 0, blocks=0)]
    job = JOB.model_copy(update={"expected": (Expected(node="9", partitions=(0,)),)})
    end = END.model_copy(update={"totals": Totals(tasks=1)})
    found = verdict(BEGIN, SINK, *commits, job, end, counts=StoreCounts(0, 0, 0, 0))
    assert found.complete, found.reasons


def test_supersets_and_collisions_are_told_but_complete() -> None:
    node = Register(app=APP, node="4", kind="operator", op="mapPartitions", exact=False, reason="a")
    more = commit("4", 0, collisions=2, superset_reasons=("b", "a"))
    messages = [more if message is COMMITS[0] else message for message in WHOLE]
    counts = StoreCounts(4, 0, 0, 70, inexact={"4": ("c",), "5": ("d",)})
    found = verdict(node, *messages, counts=counts)
    assert found.complete
    assert found.collisions == 2
    assert found.superset == {"4": ("a", "b", "c"), "5": ("d",)}


def test_a_verdict_is_final_when_all_that_was_sent_is_there() -> None:
    assert verdict(*WHOLE).final
    assert not verdict(*WHOLE[:-1], now=20.0).final
    for missing in COMMITS:
        assert not verdict(*(one for one in WHOLE if one is not missing)).final
    assert not verdict(*WHOLE, counts=replace(ALL, received=3)).final


def test_a_verdict_on_a_dead_application_is_final() -> None:
    assert verdict(*WHOLE[:-1], counts=replace(ALL, received=3), now=1000.0).final


def test_blocks_that_are_linked_to_and_did_not_arrive() -> None:
    found = verdict(*WHOLE, counts=replace(ALL, stubs=2))
    assert not found.complete
    assert not found.final
    assert found.reasons == ("2 blocks are linked to and did not arrive",)
    assert found.to_json()["blocks"]["stubs"] == 2


def test_blocks_that_wait_for_their_commit_are_written() -> None:
    assert verdict(*WHOLE, counts=replace(ALL, written=6)).to_json()["blocks"]["written"] == 6


def test_blocks_in_a_spool_are_named_with_their_place_until_they_have_come() -> None:
    file = "host-1:/spool/app/blocks/4-1-0.lmf"
    waiting = commit("4", 1, blocks=2, spooled=2, file=file, spooled_reason="Kafka is away")
    messages = (BEGIN, SINK, COMMITS[0], waiting, COMMITS[2], JOB, END)
    found = verdict(*messages, counts=replace(ALL, received=2, stubs=2))
    assert found.reasons[:2] == (
        "2 of 4 blocks are missing",
        "2 blocks are linked to and did not arrive",
    )
    assert found.reasons[2:] == (
        "2 blocks wait in the spool at host-1:/spool (Kafka is away): lineage send",
    )
    assert found.final, "nobody but a person can bring them"
    assert not verdict(*messages, counts=replace(ALL, received=1, stubs=3)).final
    assert verdict(*messages).complete


def test_two_runs_of_one_id_are_not_complete() -> None:
    again = BEGIN.model_copy(update={"started_at": BEGIN.started_at + 1})
    reasons = judge([BEGIN, BEGIN, again], ALL, now=20.0).reasons
    assert any("2 runs have this id" in reason for reason in reasons)
    assert not any("runs have" in text for text in judge([BEGIN, BEGIN], ALL, now=20.0).reasons)
