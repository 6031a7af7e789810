"""``LineageApi``: any program tells its lineage, and can ask for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_core.errors import AddressError, ConflictError, LineageError, RegionError
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageApi
from lineage_emitter.errors import CaptureFailedError, SettingsError
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import index_folder, open_store
from tests.support.job_runs import STORE, judged, lineage

pytestmark = pytest.mark.unit


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with the default store."""
    for name in list(os.environ):
        if name.startswith("LINEAGE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def graph_of(api: LineageApi) -> None:
    """Orders are read, kept and added up."""
    api.register("read", "orders.csv", kind="source")
    api.register("kept", "orders kept")
    api.register("total", "total per customer", "adds up amounts", kind="sink")
    api.link("read", "kept")
    api.link("kept", "total")


def tell(api: LineageApi) -> None:
    """Two partitions of orders, one of totals."""
    for partition in range(2):
        with api.task("kept", partition):
            for n in range(3):
                api.capture(f"f{n}", f"read#{partition}#{2 * n}", f"kept#{partition}#{n}", f"o{n}")
    with api.task("total"):
        api.capture("ann", "kept#0#0-1", "total#0#0", "ann,12")
        api.capture("ann/2", "kept#1#2", "total#0#0", "ann,12")
        api.capture("bob", "kept#1#0", "total#0#1")


def traced(folder: Path, *places: str, app: str | None = None, forward: bool = False) -> list[str]:
    """Addresses that can be reached; of opaque items their strings."""
    url = f"sqlite:///{folder / STORE}"
    direction = Direction.FORWARD if forward else Direction.BACKWARD
    with open_store(url) as store:
        query_engine = QueryEngine(store, RowReader(index_folder(url)))
        answer = query_engine.ask(TraceQuery(direction, places, app=app)).to_json()
    ends = answer["sinks" if forward else "sources"]
    items = [item for end in ends for item in end["items"]]
    return [item["text"] if item["address"].startswith("*@") else item["address"] for item in items]


def test_the_end_says_how_many_nodes_and_unknown_parts_there_were(here: Path) -> None:
    with LineageApi("nightly") as api:
        for _ in range(2):
            graph_of(api)
            api.unknown("a script", "not captured")
    assert api.ending is not None
    assert (api.ending.totals.nodes, api.ending.totals.unknown) == (3, 1)


def test_what_is_told_can_be_asked(here: Path) -> None:
    with LineageApi("nightly") as api:
        graph_of(api)
        tell(api)
    verdict = judged(here, api.app)
    assert verdict.reasons == ()
    assert (verdict.status, verdict.tasks_expected, verdict.flows) == ("ok", 3, 9)
    assert traced(here, "total#0#0") == ["read#0#0", "read#0#2", "read#1#4"]
    assert traced(here, "total#0#1") == ["read#1#0"]
    assert traced(here, "read#0#2", forward=True) == ["total#0#0"]
    assert not any((here / ".lineage" / "spool").iterdir())


def test_the_functional_form_is_the_same(here: Path) -> None:
    api = LineageApi("nightly")
    graph_of(api)
    api.begin("total")
    api.capture("f", "read#0#7", "total#0#0")
    api.commit()
    api.close()
    api.close()
    assert judged(here, api.app).reasons == ()
    assert traced(here, "total#0#0") == ["read#0#7"]


def test_opaque_strings_are_names(here: Path) -> None:
    awkward = ['a,b "c"\nd', "白 #1", "x" * 3000, "", "read#٣#1", "*@0#5", " read#0#1"]
    with LineageApi("opaque") as api:
        api.register("step", kind="sink")
        with api.task("step"):
            for n, name in enumerate(awkward):
                api.capture(str(n), name, f"out of {name}")
            api.capture("chain", f"out of {awkward[0]}", "the end", value="v")
            api.capture("mixed in", "step#9#4", "from an address")
            api.capture("mixed out", "to an address", "step#0#3")
    assert judged(here, api.app).reasons == ()
    for name in awkward:
        assert traced(here, f"out of {name}") == [name]
    assert traced(here, "the end") == [awkward[0]]
    assert traced(here, awkward[0], forward=True) == ["the end"]
    assert traced(here, "step#0#3") == ["to an address"]
    found = lineage(here, "back", "the end", "--json")
    assert found.returncode == 0, found.stderr


def test_the_same_flow_again_is_no_second_flow_and_another_is_an_error(here: Path) -> None:
    with LineageApi("twice") as api:
        graph_of(api)
        with api.task("total"):
            for _ in range(3):
                api.capture("f", "read#0#1", "total#0#0", "v")
            for other in (
                ("read#0#2", "total#0#0", "v"),
                ("read#0#1", "total#0#1", "v"),
                ("read#0#1", "total#0#0", None),
            ):
                with pytest.raises(ConflictError, match="'f' was captured before"):
                    api.capture("f", *other)
    verdict = judged(here, api.app)
    assert (verdict.reasons, verdict.flows) == ((), 1)


def test_an_exception_drops_the_task_and_a_second_attempt_counts(here: Path) -> None:
    with LineageApi("retry") as api:
        graph_of(api)
        with contextlib.suppress(ZeroDivisionError), api.task("total"):
            api.capture("f", "read#0#1", "total#0#0")
            raise ZeroDivisionError
        with api.task("total"):
            api.capture("f", "read#0#2", "total#0#0")
    assert judged(here, api.app).reasons == ()
    assert traced(here, "total#0#0") == ["read#0#2"]


def test_a_task_that_never_succeeds_is_missed(here: Path) -> None:
    with LineageApi("retry") as api:
        graph_of(api)
        with api.task("kept"):
            api.capture("f", "read#0#1", "kept#0#0")
        api.begin("total")
        api.capture("f", "kept#0#0", "total#0#0")
        api.fail("no luck today")
        api.begin("total", 1)
        api.capture("f", "kept#0#0", "total#1#0")  # left open
    verdict = judged(here, api.app)
    assert any("2 of 3 tasks sent no lineage: total#0, total#1" in r for r in verdict.reasons)


def test_an_application_that_fails_says_so(here: Path) -> None:
    with contextlib.suppress(KeyError), LineageApi("fails") as api:
        graph_of(api)
        tell(api)
        raise KeyError
    verdict = judged(here, api.app)
    assert (verdict.status, verdict.reasons) == ("failed", ())


def test_nothing_told_is_not_complete(here: Path) -> None:
    with LineageApi("empty") as api:
        graph_of(api)
    assert "nothing was captured" in judged(here, api.app).reasons


def test_columns_are_the_same_as_flow_by_flow(here: Path) -> None:
    rows = 200_000  # more than one block
    with LineageApi("columns") as api:
        graph_of(api)
        with api.task("kept"):
            every = np.arange(rows, dtype=np.uint64)
            api.capture_columns("read#0", every * 3, "kept#0", every)
        with api.task("total"):
            ptr = np.array([0, 1, 3, 3])
            first = np.array([0, 10, 199_999], dtype=np.uint64)
            last = np.array([4, 10, 199_999], dtype=np.uint64)
            out = np.array([0, 1, 2], dtype=np.uint64)
            api.capture_columns(
                "kept#0", first, "total#0", out, in_ptr=ptr, in_last=last, values=["a", None, "c"]
            )
    verdict = judged(here, api.app)
    assert (verdict.reasons, verdict.flows) == ((), rows + 3)
    assert traced(here, "total#0#0") == [f"read#0#{3 * n}" for n in range(5)]
    assert traced(here, "total#0#1") == ["read#0#30", "read#0#599997"]
    assert traced(here, "total#0#2") == []


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (([1, 2], [1]), {}),
        (([2, 1], [0]), {"in_ptr": np.array([0, 2])}),
        (([1, 2], [0]), {"in_ptr": np.array([0, 1])}),
        (([5], [0]), {"in_last": np.array([4], dtype=np.uint64)}),
        (([1], [0]), {"values": ["a", "b"]}),
    ],
)
def test_columns_that_do_not_fit_are_refused(
    here: Path, columns: tuple[list[int], list[int]], options: dict[str, Any]
) -> None:
    first, out = (np.array(column, dtype=np.uint64) for column in columns)
    with LineageApi("bad") as api:
        graph_of(api)
        with pytest.raises(LineageError), api.task("total"):
            api.capture_columns("read#0", first, "total#0", out, **options)
        with api.task("total"):
            api.capture("f", "read#0#1", "total#0#0")
    assert judged(here, api.app).reasons == ()


def test_a_flow_has_one_output(here: Path) -> None:
    with LineageApi("outs") as api:
        graph_of(api)
        with api.task("total"):
            for outs in ("total#0#0-1", "total#0#"):
                with pytest.raises(RegionError, match="one output"):
                    api.capture("f", "read#0#1", outs)
            api.capture("f", "read#0#1", "total#0#0")
            api.capture("from nothing", "read#0#", "total#0#1")
    assert judged(here, api.app).reasons == ()
    assert traced(here, "total#0#1") == []


def test_order_of_use_is_checked(here: Path) -> None:
    with LineageApi("order") as api:
        with pytest.raises(CaptureFailedError, match="no task has begun"):
            api.capture("f", "a", "b")
        task = api.begin("total")
        api.commit()
        for late in (api.commit, task.commit, task.fail, lambda: task.capture("f", "a", "b")):
            with pytest.raises(CaptureFailedError):
                late()
    with pytest.raises(SettingsError):
        LineageApi("x", stroe="x")


def test_a_node_may_have_a_long_name(here: Path) -> None:
    node = "a.b:c-" + "d" * 194
    with LineageApi("names") as api:
        api.register(node, kind="sink")
        with api.task(node, 2**31 - 1):
            api.capture("f", "a line", f"{node}#{2**31 - 1}#0")
    assert judged(here, api.app).reasons == ()
    assert traced(here, f"{node}#{2**31 - 1}#0") == ["a line"]


@pytest.mark.parametrize("node", ["", "*", "a b", "a/b", "x#1", "é", "a" * 201])
def test_a_node_that_can_not_be_named_is_refused_at_once(here: Path, node: str) -> None:
    with LineageApi("names") as api:
        with pytest.raises(AddressError, match="can't name a node"):
            api.register(node)
        with pytest.raises(AddressError, match="can't name a node"):
            api.begin(node)


def test_threads_have_tasks_of_their_own(here: Path) -> None:
    threads, flows = 8, 500
    problems: list[BaseException] = []
    with LineageApi("threads") as api:
        graph_of(api)
        together = threading.Barrier(threads)

        def work(partition: int) -> None:
            try:
                together.wait()
                for node, source in (("kept", "read"), ("total", "kept")):
                    with api.task(node, partition):
                        for n in range(flows):
                            where = f"{source}#{partition}#{n}"
                            api.capture(str(n), where, f"{node}#{partition}#{n}", str(partition))
            except BaseException as problem:
                problems.append(problem)

        running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    assert problems == []
    verdict = judged(here, api.app)
    assert (verdict.reasons, verdict.flows) == ((), 2 * threads * flows)
    for partition in range(threads):
        assert traced(here, f"total#{partition}#77") == [f"read#{partition}#77"]


def test_a_spool_that_is_linked_as_soon_as_its_end_is_there_is_not_missed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = LineageApi("quick", link=False)
    api.register("step")
    fsync = os.fsync

    def link_and_remove(descriptor: int) -> None:
        fsync(descriptor)
        shutil.rmtree(api.dispatcher.folder)

    monkeypatch.setattr(os, "fsync", link_and_remove)
    api.close()
    assert not api.dispatcher.folder.exists()


def test_programs_share_a_store(here: Path) -> None:
    apis = [LineageApi(f"program {n}") for n in range(3)]
    for api in apis:
        graph_of(api)
    for api in apis:
        tell(api)
    for api in apis:
        api.close()
    assert len({api.app for api in apis}) == 3
    for api in apis:
        assert judged(here, api.app).reasons == ()
        assert traced(here, "total#0#1", app=api.app) == ["read#1#0"]
