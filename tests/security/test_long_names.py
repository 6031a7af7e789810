"""Names and reasons are as long as a program says: an answer repeats none of them beyond what its query may hold."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import httpx
import pytest

from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.message import Link, RecordSplit, RecordSplits, Register, Unknown
from lineage_core.contract.reasons import LISTED_CHARS_MAX, LISTED_MAX, ReasonList, listed_reasons
from lineage_core.contract.verdict import StoreCounts, judge
from lineage_core.tracing.budget import Budget, TooMuchError, use_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, NotQueried
from lineage_query.engine import QueryEngine
from lineage_query.exports import ExportOptions
from lineage_query.exports.exported import exported
from lineage_query.names import LABEL_MAX, Names
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.spool_builder import APP, Spool, block

pytestmark = pytest.mark.security
LONG = "\U0001f40d" * 30_000
"""Four bytes of memory and of UTF-8 a character."""
ROWS = 120
START = "3#0#0"
MIB = 1 << 20


def store_names(
    folder: Path, *, path: str = "/d/in", op: str = "read", alias: str | None = None,
    reasons: int = 0,
) -> str:  # fmt: skip
    """One output row, made of rows of several splits of a file; the address of its store."""
    spool = Spool(folder / "spool")
    spool.begin()
    spool.node("0", "source", op, path=path, alias=alias)
    spool.node("3", "sink", "collect")
    spool.send(Link(app=APP, src="0", dest="3"))
    split = RecordSplit(
        partition=0, path=path, start=0, length=1, first=0, file_size=ROWS, mtime=1.0
    )
    splits = [
        split.model_copy(update={"partition": at, "start": at, "first": at}) for at in range(ROWS)
    ]
    spool.send(RecordSplits(app=APP, node="0", whole=False, splits=tuple(splits)))
    blocks = [
        block(
            BlockId("3", 0, 0, at),
            f"0#{at}",
            [("3#0", [([0], 0)])],
            reason=f"{at} {LONG}" if at < reasons else "",
        )
        for at in range(ROWS)
    ]
    spool.task("3", 0, 0, blocks, flows=ROWS, rows=1)
    spool.job("3", n3=1)
    spool.end(blocks=ROWS, tasks=1)
    with SqliteStore(folder / "lineage.db") as store:
        ingest_all(store, folder / "spool")
    return f"sqlite:///{folder}/lineage.db"


@pytest.mark.parametrize("by", ["row", "split"])
def test_a_long_path_is_repeated_for_no_more_rows_and_splits_than_an_answer_may_hold(
    tmp_path: Path, by: str
) -> None:
    store_names(tmp_path, path=f"/d/{LONG}")
    query = TraceQuery(Direction.BACKWARD, (START,), limit=None, by=by)
    with SqliteStore(tmp_path / "lineage.db") as store:
        engine = QueryEngine(store, RowReader())
        with use_budget(Budget(text_bytes=5 * MIB)), pytest.raises(TooMuchError, match="names"):
            engine.ask(query)
        few = TraceQuery(Direction.BACKWARD, (START,), limit=5)
        with use_budget(Budget(text_bytes=5 * MIB)):
            (group,) = engine.ask(few).groups
        assert (group.count, len(group.items)) == (ROWS, 5)
        assert all(item.location == f"/d/{LONG}#{at}" for at, item in enumerate(group.items))


@pytest.mark.parametrize("by", ["row", "split"])
def test_names_as_they_usually_are_count_nothing(tmp_path: Path, by: str) -> None:
    store_names(tmp_path, path="/d/" + "n" * 900)
    query = TraceQuery(Direction.BACKWARD, (START,), limit=None, by=by)
    with SqliteStore(tmp_path / "lineage.db") as store, use_budget(Budget(text_bytes=0)):
        answer = QueryEngine(store, RowReader()).ask(query)
    assert answer.groups[0].count == ROWS
    assert by == "row" or answer.containers_total == ROWS


@pytest.mark.long
@pytest.mark.parametrize("form", ["csv", "parquet", "prov"])
@pytest.mark.parametrize("name", ["path", "op"])
def test_a_file_repeats_no_long_name_beyond_what_it_may_hold(
    tmp_path: Path, name: str, form: str
) -> None:
    if name == "path":
        store_names(tmp_path, path=f"/d/{LONG}")
    else:
        store_names(tmp_path, op=LONG)
    query = TraceQuery(Direction.BACKWARD, (START,))
    with SqliteStore(tmp_path / "lineage.db") as store, use_budget(Budget(text_bytes=5 * MIB)):
        trace = QueryEngine(store, RowReader()).trace(query)
        file = BytesIO()
        if (name, form) == ("op", "prov"):
            # It names an operation once.
            exported(trace, form, file, ExportOptions(texts=False))
            assert len(file.getvalue()) < 5 * MIB
        else:
            with pytest.raises(TooMuchError, match="names"):
                exported(trace, form, file, ExportOptions(texts=False))


def test_a_long_alias_is_in_no_address_and_names_its_node_all_the_same(tmp_path: Path) -> None:
    url = store_names(tmp_path, alias=LONG)
    with serving(url) as address:
        body = {"direction": "backward", "places": [START], "limit": ROWS}
        for by in ("row", "node"):
            answer = httpx.post(f"{address}/v1/answers", json=body | {"by": by}, timeout=120)
            assert answer.status_code == 200, answer.text
            assert len(answer.content) < MIB
            (group,) = answer.json()["sources"]
            assert group["name"] == "0"
        for path in ("graph", "nodes/0/items?limit=120"):
            shown = httpx.get(f"{address}/v1/applications/{APP}/{path}", timeout=120)
            assert shown.status_code == 200, shown.text
            assert len(shown.content) < MIB
        wrong = httpx.post(f"{address}/v1/answers", json=body | {"until": "nobody"}, timeout=120)
        assert wrong.status_code in {404, 422}
        assert len(wrong.content) < MIB
    nodes = [_node(str(at), alias) for at, alias in enumerate([LONG, "read", "a" * LABEL_MAX])]
    names = Names(nodes)
    assert [names.label(node.node) for node in nodes] == ["0", "read", "a" * LABEL_MAX]
    assert names.node(LONG) == "0"


def test_an_answer_has_few_reasons_however_many_blocks_give_one_each(tmp_path: Path) -> None:
    store_names(tmp_path, reasons=ROWS - 1)
    query = TraceQuery(Direction.BACKWARD, (START,))
    with SqliteStore(tmp_path / "lineage.db") as store:
        answer = QueryEngine(store, RowReader()).ask(query)
    assert not answer.exact
    assert len(answer.reasons) == LISTED_MAX
    assert answer.reasons[-1] == f"and {ROWS - LISTED_MAX:,} more reasons"
    assert all(len(reason) <= LISTED_CHARS_MAX for reason in answer.reasons)
    assert "[cut: " in answer.reasons[0]


def test_a_list_of_reasons_says_how_many_it_leaves_out() -> None:
    few = [f"reason {at}" for at in range(LISTED_MAX)]
    assert listed_reasons([*few, *few]) == tuple(few)
    many = [f"reason {at}" for at in range(5_000)]
    listed = listed_reasons([*many, *many])
    assert listed == (*many[: LISTED_MAX - 1], f"and {5_000 - LISTED_MAX + 1:,} more reasons")
    assert listed_reasons(listed) == listed
    both = listed_reasons([*(f"a: {text}" for text in listed), *(f"b: {text}" for text in listed)])
    assert len(both) == LISTED_MAX
    assert both[-1] == "and at least 101 more reasons"
    cut = listed_reasons([LONG])
    assert cut == listed_reasons(cut)
    assert cut[0].endswith("... [cut: 30,000 characters]")
    assert len(cut[0]) == LISTED_CHARS_MAX
    assert not ReasonList()


def test_warnings_and_gaps_beyond_the_bound_are_counted_and_claim_nothing() -> None:
    gaps = tuple(NotQueried(f"app-{at}", LONG) for at in range(3_000))
    answer = Answer(
        "app", Direction.BACKWARD, ("a",), (), True, (), (),
        tuple(f"warning {at}" for at in range(3_000)), False, False, not_queried=gaps,
    )  # fmt: skip
    assert len(answer.warnings) == LISTED_MAX
    assert answer.warnings[0] == "items may be missing"
    assert answer.warnings[-1] == "and 2,902 more reasons"
    assert len(answer.not_queried) == 1_000
    assert "2,000 others" in answer.not_queried[-1].reason
    assert Answer.from_json(answer.to_json()) == answer


def test_a_verdict_has_few_reasons_of_any_kind() -> None:
    said = [Unknown(app=APP, what=f"{at} {LONG}") for at in range(300)]
    nodes = [
        Register(app=APP, node="0", kind="source", op="read", exact=False, reason=LONG)
    ]  # fmt: skip
    inexact = {"0": tuple(f"reason {at}" for at in range(300))}
    verdict = judge([*nodes, *said], StoreCounts(0, 0, 0, 0, inexact=inexact), now=0.0)
    assert not verdict.complete
    for reasons in (verdict.reasons, verdict.unknown, verdict.superset["0"]):
        assert len(reasons) == LISTED_MAX
        assert reasons[-1].endswith(" more reasons")
        assert max(map(len, reasons)) <= LISTED_CHARS_MAX


def _node(node: str, alias: str) -> NodeRecord:
    return NodeRecord(node, "source", "read", "", "", "", alias, True, "", None, None)
