"""Parts of tracing from the program that need no Spark: waiting, showing, drawing."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.message import Begin, Commit, Expected, Job, Message, Register
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import StoreCounts
from lineage_core.tracing.trace_result import NodeItems
from lineage_emitter.errors import NotLinkedError, TracingError
from lineage_emitter.program.drawing import ProgramGraph
from lineage_emitter.program.progress import SHOWN_AFTER_S, progress_bar
from lineage_emitter.program.selecting import at_ordinals
from lineage_emitter.program.waiting import UNCHANGED_S, store_url, wait_for
from lineage_emitter.settings import read_settings
from lineage_query.showing import ItemGroup, Showing, html_of, shown_text
from lineage_store.errors import StoreUnavailableError
from tests.support.memory_graph import node

pytestmark = pytest.mark.unit

APP = "app-1"
EVIL = "<script>alert('1')</script>"
BEGIN: list[Message] = [
    Begin(app=APP, name="a program", started_at=1.0),
    Register(app=APP, node="0", kind="sink", op="collect"),
]
JOB = Job(
    app=APP, job=1, action="collect", sink="0", expected=(Expected(node="0", partitions=(0,)),)
)
COMMIT = Commit(app=APP, node="0", partition=0, attempt=7, blocks=2)


class Arriving:
    """A store in which the next state is seen at each look, the last one ever after; a clock."""

    def __init__(self, *states: tuple[Sequence[Message], int] | Exception) -> None:
        self.states = list(states)
        self.now = 0.0
        self.shown: list[tuple[int, int]] = []

    def messages(self, app: str) -> Sequence[Message]:
        assert app == APP
        self.state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        if isinstance(self.state, Exception):
            raise self.state
        return self.state[0]

    def counts(self, app: str) -> StoreCounts:
        assert not isinstance(self.state, Exception)
        return StoreCounts(received=self.state[1], unlinked=0, unmatched=0, flows=0)

    def wait(self, jobs: int = 1, timeout_s: float = 60.0) -> None:
        store: Any = self
        show = lambda done, total: self.shown.append((done, total))  # noqa: E731
        clock, sleep = lambda: self.now, self._sleep
        wait_for(store, APP, jobs, timeout_s, show, clock=clock, sleep=sleep)

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds


def test_what_has_arrived_is_not_waited_for() -> None:
    whole = Arriving(([*BEGIN, JOB, COMMIT], 2))
    whole.wait()
    assert whole.now == 0.0
    nothing_ran = Arriving((BEGIN, 0))
    nothing_ran.wait(jobs=0)
    assert nothing_ran.now == 0.0


def test_the_lineage_of_the_last_action_is_waited_for() -> None:
    late = Arriving(
        KeyError(APP),
        StoreUnavailableError("not now"),
        (BEGIN, 0),
        ([*BEGIN, COMMIT], 2),
        ([*BEGIN, COMMIT, JOB], 1),
        ([*BEGIN, COMMIT, JOB], 2),
    )
    late.wait()
    assert late.states == [([*BEGIN, COMMIT, JOB], 2)]
    assert late.shown[-1] == (1, 2)


def test_what_does_not_come_is_an_error_that_says_what_is_missing() -> None:
    with pytest.raises(NotLinkedError, match=r"of app-1 up to action 1 after 9 s: nothing has"):
        Arriving(KeyError(APP)).wait(timeout_s=9)
    with pytest.raises(NotLinkedError, match=r"0 of 1 tasks and 1 of 0 blocks"):
        Arriving(([*BEGIN, JOB], 1)).wait(timeout_s=UNCHANGED_S / 2)
    stays = Arriving(([*BEGIN, JOB, COMMIT], 1))
    stays.wait()
    assert UNCHANGED_S <= stays.now < 2 * UNCHANGED_S


def test_what_goes_to_kafka_is_read_from_the_store_that_is_named() -> None:
    def url(**settings: Any) -> str:
        session: Any = SimpleNamespace(settings=read_settings(**settings))
        return store_url(session)

    assert url(store="sqlite:////tmp/x.db") == "sqlite:////tmp/x.db"
    kafka = {"dispatcher": "kafka", "kafka": "127.0.0.1:9092"}
    assert url(store="neo4j://127.0.0.1:7687", **kafka) == "neo4j://127.0.0.1:7687"
    with pytest.raises(TracingError, match="LINEAGE_STORE=neo4j"):
        url(**kafka)
    assert url(store="lake:/data", **kafka) == "lake:/data"


@pytest.mark.parametrize("closed", [False, True])
def test_a_program_asks_the_lake_when_its_session_is_over(closed: bool) -> None:
    """Until then its lineage is linked beside the lake."""
    session: Any = SimpleNamespace(settings=read_settings(store="lake:/data/a"), closed=closed)
    wanted = "lake:/data/a" if closed else "sqlite:////data/a.staging/lineage.db"
    assert store_url(session) == wanted


def test_no_text_of_a_record_is_taken_for_html() -> None:
    rows = [(f"{EVIL}.txt:1", f"{EVIL}\nsecond line"), ("4#0#1", None)]
    showing = Showing([ItemGroup(f"2 items of {EVIL}", rows, 1_000)], [EVIL], [EVIL], [EVIL])
    html = html_of(showing)
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 6
    assert "... and 1,000 more" in html
    ET.fromstring(html)
    lines = shown_text(showing, width=20).splitlines()
    assert lines[1] == f"{EVIL[:19]}…"
    assert lines[2:4] == ["4#0#1", "... and 1,000 more"]
    assert lines[4].startswith("warning: ")
    assert lines[5].startswith("superset: ")
    assert lines[6].startswith("incomplete: ")
    assert shown_text(Showing([], (), (), ())) == "no items\nexact\n"
    assert "<b>exact</b>" in html_of(Showing([], (), (), ()))
    assert "exact" not in html


def test_a_drawn_graph_is_svg_with_a_box_for_each_node() -> None:
    nodes = [
        node("0", "source", op="textFile", path=f"{EVIL}.txt"),
        node("1", "source", op="textFile"),
        node("2", "operator", op=EVIL * 9),
        node("3", "sink", op="collect", reason='"why" & how'),
    ]
    links = [LinkRecord("0", "2"), LinkRecord("1", "2"), LinkRecord("2", "3"), LinkRecord("9", "3")]
    graph = ProgramGraph.of(nodes, links, {"2"})
    svg = ET.fromstring(graph.svg())
    space = "{http://www.w3.org/2000/svg}"
    boxes = [(box.get("x"), box.get("y")) for box in svg.iter(f"{space}rect")]
    assert len(set(boxes)) == 4
    assert [box.get("stroke-width") for box in svg.iter(f"{space}rect")] == [None, None, "3", None]
    assert len(list(svg.iter(f"{space}path"))) == 3
    columns = [int(x or "") for x, _ in boxes]
    assert columns[0] == columns[1] < columns[2] < columns[3]
    assert '"why" & how' in "".join(svg.itertext())
    assert "<script" not in graph._repr_html_()
    assert str(graph).splitlines()[2].startswith("* 2: ")
    assert ET.fromstring(ProgramGraph.of([], []).svg()) is not None
    turns = [replace(node(str(turn)), call_path="loop") for turn in range(3)]
    loop = ProgramGraph.of(turns, [LinkRecord("0", "1"), LinkRecord("1", "2")], {"2"})
    assert str(loop) == "* 0: map x3"


def test_ordinals_count_over_all_partitions() -> None:
    order = [("0#0", Region.from_text("3-5")), ("0#2", Region.from_text("0 9"))]
    assert at_ordinals(order, [4, 1, 1]) == {
        "0#0": Region.from_text("4"),
        "0#2": Region.from_text("9"),
    }
    assert at_ordinals(order, []) == {}
    with pytest.raises(IndexError, match="no item 5: 5 items"):
        at_ordinals(order, [5])


def test_only_work_that_takes_long_shows_progress_and_only_where_somebody_looks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for terminal, expected in (("", False), ("1", True)):
        monkeypatch.setenv("FORCE_COLOR", terminal)
        times = iter([0.0, 0.0, SHOWN_AFTER_S])
        with progress_bar("linking", clock=times.__next__) as show:
            show(1, 2)
            assert capsys.readouterr().err == ""
            show(2, 2)
        assert ("linking" in capsys.readouterr().err) is expected


def test_a_record_that_a_shuffle_moved_is_counted_once() -> None:
    moved, arrived = Region.from_positions([1 << 36, 7]), Region.from_positions([0, 3])
    both = NodeItems("2", {"2#*": moved, "2#0.6": arrived})
    assert (both.count, both.once()) == (4, NodeItems("2", {"2#0.6": arrived}))
    # Some were left out where they arrived: all that set out are more.
    fewer = NodeItems("2", {"2#*": moved, "2#0.6": Region.from_positions([0])})
    assert fewer.once().spaces == {"2#*": moved}
    for one in ({"2#*": moved}, {"2#0.6": arrived, "2@1": arrived}):
        assert NodeItems("2", one).once().spaces == one
