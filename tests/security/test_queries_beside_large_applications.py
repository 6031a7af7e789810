"""An application may record any number of nodes and reasons: queries about others are answered beside it, and verdicts are bounded."""

from __future__ import annotations

import dataclasses
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.message import Begin, Message, Register
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.budget import (
    Budget,
    MessageRoom,
    TimeUpError,
    TooManyMessagesError,
    use_budget,
)
from lineage_core.tracing.trace_result import Direction
from lineage_query import outputs
from lineage_query.finding import NotFoundError
from lineage_query.outputs import is_called
from lineage_query.planning import Plan, plan_of
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_query_api.lineages import CACHED_REASONS_MAX, Lineages
from lineage_query_api.settings import read_settings
from lineage_store.recorded_files import PATH_MAX
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.security
ROOM = 1 << 20
BY_VALUE = TraceQuery(Direction.BACKWARD, ("/out#a=1",))
FORWARD = TraceQuery(Direction.FORWARD, ("/in#a=1",))
WHERE = TraceQuery(Direction.BACKWARD, ("/out",), where="a = 1")


def begun(app: str, at: float) -> list[Message]:
    return [Begin(app=app, name=app, started_at=at)]


def too_many(app: str) -> list[Message]:
    nodes = (
        Register(app=app, node=f"{at}", kind="sink", op="x", path=f"/{at}" + "y" * 60_000)
        for at in range(40)
    )
    return [*begun(app, 9e9), *nodes]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "lineage.db") as opened:
        own = [
            Register(app="own", node="0", kind="frame", op="save", path="/out"),
            Register(app="own", node="1", kind="frame-source", op="load", path="/in"),
        ]
        opened.write("own", [*begun("own", 1.0), *own])
        opened.write("large", too_many("large"))
        yield opened


def plan(store: SqliteStore, query: TraceQuery) -> Plan:
    with use_budget(Budget(seconds=60, messages=MessageRoom(ROOM))):
        return plan_of(store, RowReader(), query)


@pytest.mark.parametrize("query", [BY_VALUE, FORWARD, WHERE], ids=["values", "forward", "where"])
def test_rows_by_values_are_found_beside_an_application_with_more_than_fits(
    store: SqliteStore, query: TraceQuery
) -> None:
    found = plan(store, query)
    assert [part.query.app for part in found.parts] == ["own"]
    assert {left.app for left in found.not_queried} == {"large"}
    assert all("more than a query may hold" in left.reason for left in found.not_queried)
    named = plan(store, dataclasses.replace(query, app="own"))
    assert [part.query.app for part in named.parts] == ["own"]
    assert named.not_queried == ()
    with pytest.raises(TooManyMessagesError):
        plan(store, dataclasses.replace(query, app="large"))


def test_an_output_that_only_the_unread_application_may_have_is_not_said_to_be_none(
    store: SqliteStore,
) -> None:
    with pytest.raises(NotFoundError, match="whether large has it is not known"):
        plan(store, dataclasses.replace(WHERE, places=("/other",)))


def node(path: str) -> NodeRecord:
    return NodeRecord("0", "frame", "save", "", "", "", None, True, "", None, path=path)


def test_names_of_very_many_nodes_are_compared_within_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    with use_budget(Budget(seconds=1, clock=lambda: now)):
        assert is_called(node("/a/../out"), "out", "/out")
        assert not is_called(node("/a"), "out", "/out")
        now = 2.0
        with pytest.raises(TimeUpError):
            is_called(node("/a"), "out", "/out")

    def no_path(path: str) -> str:
        raise AssertionError(path)

    monkeypatch.setattr(outputs, "canonical", no_path)
    long = "/a" * PATH_MAX
    assert not is_called(node(long), "out", "/out")
    assert is_called(node(long), long, "/out")


def reasoned(number: int, reason: str) -> FlowBlock:
    zero = np.zeros(1, np.uint64)
    return FlowBlock(
        BlockId("1", 0, 0, number),
        Relation.ROWS,
        "0#0",
        (Section("1@0", 0, 1),),
        zero,
        zero,
        np.array([0, 1], np.int64),
        app="own",
        exact=False,
        reason=reason,
    )


def test_reasons_of_very_many_blocks_are_named_as_far_as_a_verdict_needs(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "reasons.db") as store:
        store.write(
            "own", begun("own", 1.0), [reasoned(at, f"{at} " + "r" * 60_000) for at in range(300)]
        )
        tracemalloc.start()
        try:
            with use_budget(Budget(seconds=60, messages=MessageRoom(ROOM))):
                verdict = verdict_of(store, "own")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    (reasons,) = verdict.superset.values()
    assert len(reasons) == 21
    assert reasons[-1] == "and 280 more reasons"
    assert max(map(len, reasons)) == 1_000
    assert peak < 4 << 20


def test_reasons_of_more_nodes_than_fit_are_counted(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "reasons.db") as store:
        blocks = [
            dataclasses.replace(
                reasoned(0, f"{at} " + "r" * 900), block_id=BlockId(f"{at}", 0, 0, 0)
            )
            for at in range(2_000)
        ]
        store.write("own", begun("own", 1.0), blocks)
        with (
            use_budget(Budget(seconds=60, messages=MessageRoom(ROOM))),
            pytest.raises(TooManyMessagesError),
        ):
            verdict_of(store, "own")


@pytest.mark.parametrize("reasons", [1, 200])
def test_verdicts_with_very_many_reasons_are_not_kept(tmp_path: Path, reasons: int) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    with SqliteStore(tmp_path / "lineage.db") as store:
        lineages = Lineages(store, RowReader(), read_settings(store=url, api_token="t" * 20))
        verdict = Verdict(
            *(True, "ok", 0, 0, 0, 0, 0, 0, 0, 0, 0, ()),
            superset={f"{at}": ("r" * 1_000,) for at in range(reasons)},
            limited={},
            reasons=(),
            final=True,
            blocks_written=0,
            stubs=0,
        )
        assert (verdict.reason_chars > CACHED_REASONS_MAX) == (reasons == 200)
        lineages._cache_verdict("own", verdict, 0)
        assert (len(lineages._cache.verdicts) == 1) == (reasons == 1)
