"""``LineageApi``: any program tells its lineage, and can ask for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_core.contract.region import Region
from lineage_core.errors import AddressError, ConflictError, LineageError, RegionError
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_emitter import LineageApi
from lineage_emitter.dispatch.spool import TaskSpool
from lineage_emitter.errors import CaptureFailedError, SettingsError
from lineage_emitter.sdk import containers, flow_columns, paired_buffer, pairing
from lineage_emitter.sdk.pairing import Spaces
from lineage_emitter.worker import recorders
from lineage_query.engine import QueryEngine
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.tables import batches
from lineage_query.finding import NotFoundError
from lineage_query.next_job_search import with_next_jobs
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import index_folder, open_store
from tests.support.job_runs import STORE, judged, lineage, stored

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
    with LineageApi("twice", on_error="fail") as api:
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
    with LineageApi("bad", on_error="fail") as api:
        graph_of(api)
        with pytest.raises(LineageError), api.task("total"):
            api.capture_columns("read#0", first, "total#0", out, **options)
        with api.task("total"):
            api.capture("f", "read#0#1", "total#0#0")
    assert judged(here, api.app).reasons == ()


def test_a_flow_has_one_output(here: Path) -> None:
    with LineageApi("outs", on_error="fail") as api:
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
    with LineageApi("order", on_error="fail") as api:
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


# -- containers ----------------------------------------------------------------------------------


def links_of(api: LineageApi) -> set[tuple[str, str]]:
    with open_store(api.settings.store) as store:
        return {(link.src, link.dest) for link in store.graph(api.app).links()}


def test_a_handle_is_the_path_of_containers_in_each_run(here: Path) -> None:
    handles = []
    for _ in range(2):
        with LineageApi("runs") as api:
            job = api.register("nightly", kind="container")
            stage = api.register("stage-1", kind="container", parent=job)
            handles.append(api.register("map", parent=stage, kind="sink"))
            with api.task(handles[-1]):
                api.capture("f", "a line", f"{handles[-1]}#0#0")
        assert judged(here, api.app).reasons == ()
        assert traced(here, "nightly:stage-1:map#0#0", app=api.app) == ["a line"]
    assert set(handles) == {"nightly:stage-1:map"}


def test_an_archetype_links_all_nodes_of_two_types_inside_its_container(here: Path) -> None:
    with LineageApi("types") as api:
        job = api.register("job", kind="container")
        stages = [api.register(f"stage{n}", kind="container", parent=job) for n in range(2)]
        api.register("read0", parent=stages[0], node_type="read")
        api.flow_link("read", "sort", within=stages[0])
        for stage in stages:
            for n in range(2):
                api.register(f"sort{n}", parent=stage, node_type="sort")
        api.register("read1", parent=stages[0], node_type="read")
        api.register("read0", parent=stages[1], node_type="read")
    reads, sorts = (
        ("job:stage0:read0", "job:stage0:read1"),
        ("job:stage0:sort0", "job:stage0:sort1"),
    )
    assert links_of(api) == {(src, dest) for src in reads for dest in sorts}


def test_an_archetype_of_too_many_links_is_a_reason_of_the_verdict(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containers, "LINKS_MAX", 3)
    with LineageApi("many") as api:
        job = api.register("job", kind="container")
        api.flow_link("read", "sort", within=job)
        for n in range(2):
            api.register(f"read{n}", parent=job, node_type="read")
            api.register(f"sort{n}", parent=job, node_type="sort")
    assert any("more than 3 links" in reason for reason in judged(here, api.app).reasons)


def test_misuse_at_registration_is_an_error(here: Path) -> None:
    with LineageApi("misuse") as api:
        for wrong in (
            lambda: api.register("map", parent="job"),
            lambda: api.flow_link("a", "b", within="job"),
            lambda: api.commit("job"),
            lambda: api.location("x", -1, 1),
            lambda: api.location("x", 0, 0),
        ):
            with pytest.raises(AddressError):
                wrong()


def test_a_container_is_committed_without_what_is_open_in_it_and_with_what_failed(
    here: Path,
) -> None:
    with LineageApi("clean") as api:
        job = api.register("job", kind="container")
        read = api.register("read", parent=job, kind="source")
        total = api.register("total", parent=job, kind="sink")
        api.link(read, total)
        good = api.begin(total, 0)
        good.capture("f", "a line", f"{total}#0#0")
        good.commit()
        slow = api.begin(total, 1)
        slow.capture("f", "another line", f"{total}#1#0")
        with api.task(read):
            pass
        api.commit(job)
        slow.commit()
        late = api.begin(total, 2)
        late.capture("f", "a late line", f"{total}#2#0")
    verdict = judged(here, api.app)
    assert len(verdict.reasons) == 1
    assert "its container is committed" in verdict.reasons[0]
    assert verdict.tasks_expected == 2
    assert traced(here, f"{total}#0#0") == ["a line"]
    with pytest.raises(NotFoundError):
        traced(here, "another line", forward=True)

    with LineageApi("failed") as api:
        job = api.register("job", kind="container")
        total = api.register("total", parent=job, kind="sink")
        api.begin(total).fail("no luck")
        unlinked = api.begin(total, 1)
        api.commit(job)
        unlinked.commit()
    reasons = judged(here, api.app).reasons
    assert any("2 of 2 tasks sent no lineage: job:total#0, job:total#1" in r for r in reasons)


# -- the host ------------------------------------------------------------------------------------


def test_what_can_not_be_captured_is_a_reason_and_nothing_of_its_task_counts(here: Path) -> None:
    with LineageApi("host") as api:
        graph_of(api)
        with api.task("total"):
            api.capture("f", "read#0#1", "total#0#0")
            api.capture("g", "read#0#04", "total#0#0")
            api.capture("h", "read#0#2", "total#0#1")
        with api.task("total", 5) as empty:
            pass
        empty.capture("late", "a", "b")
        with api.task("total", 1):
            api.add_input("read#0#1")
            api.add_output("total#1#0 2")
        with api.task("total", 2):
            api.add_input(5)  # type: ignore[arg-type]
        with api.task("total", 3):
            api.add_input("read#0#1", tag=[])  # type: ignore[arg-type]
        with api.task("total", 4):
            api.add_inputs("read#0", np.array([1], np.uint64), tags=np.array([1, 2]))
        for number, of_item in ((6, [1]), (7, [0, 0])):
            with api.task("total", number):
                spaces = Spaces(("read#0",), np.array(of_item))
                api.add_inputs(spaces, np.array([1], np.uint64))
        api.capture("outside", "a", "b")
    verdict = judged(here, api.app)
    for text in (
        "total#0.0: capture failed: RegionError",
        "total#1.0: capture failed: RegionError",
    ):
        assert any(text in reason for reason in verdict.reasons)
    for number in (2, 3, 4, 6, 7):
        text = f"total#{number}.0: capture failed"
        assert any(text in reason for reason in verdict.reasons), verdict.reasons
    assert any(
        "task total#5.0: CaptureFailedError: the task has ended" in r for r in verdict.reasons
    )
    assert any("capture outside of a task" in reason for reason in verdict.reasons)
    assert verdict.flows == 0


def test_a_full_disk_costs_lineage_and_not_the_host(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with LineageApi("full") as api:
        graph_of(api)
        with monkeypatch.context() as patch:
            patch.setattr(TaskSpool, "write", full)
            with api.task("total"):
                api.add_input("read#0#1")
                api.add_output("total#0#0")
            patch.setattr(TaskSpool, "create", full)
            with api.task("total", 1):
                api.add_output("total#1#0")
    reasons = judged(here, api.app).reasons
    assert any("total#0.0: capture failed: OSError: no space left" in r for r in reasons)
    assert any("task total#1: OSError: no space left" in reason for reason in reasons)


def test_an_engine_that_is_not_configured_does_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(api: LineageApi) -> None:
        with api:
            graph_of(api)
            api.capture("outside", "a", "b")
            with api.task("total") as task:
                api.add_input(api.location("in", 0, 5))
                task.add_outputs("total#0", np.zeros(1, np.uint64))
                api.fail("no luck")

    use(LineageApi.if_configured("engine"))
    assert list(here.iterdir()) == []
    (here / "file").touch()
    api = LineageApi.if_configured("engine", spool=str(here / "file" / "spool"))
    assert not api.settings.enabled
    use(api)
    monkeypatch.setenv("LINEAGE_STORE", f"sqlite:///{here / STORE}")
    api = LineageApi.if_configured("engine")
    use(api)
    assert "total#0" in "".join(judged(here, api.app).reasons)


@pytest.mark.parametrize("is_output", [False, True])
def test_items_behind_the_end_of_a_dropped_task_are_a_problem(here: Path, is_output: bool) -> None:
    with LineageApi("late") as api:
        api.register("job", kind="container")
        step = api.register("step", kind="sink", parent="job")
        task = api.begin(step)
        task.add_input("read#0#1")
        api.commit("job")
        task.fail("too late")
        if is_output:
            task.add_output(f"{step}#0#0")
        else:
            task.add_input("read#0#2")
    assert any("the task has ended" in reason for reason in judged(here, api.app).reasons)


def test_a_failure_keeps_the_inputs_that_were_at_work(here: Path) -> None:
    with LineageApi("crash") as api:
        graph_of(api)
        with contextlib.suppress(ZeroDivisionError), api.task("total"):
            api.add_input("read#0#1", reset=True)
            api.add_output("total#0#0")
            api.add_input("read#0#2", reset=True)
            raise ZeroDivisionError
        api.begin("total", 1).fail("no luck", inputs=["read#1#3", "read#1#5"])
        with api.task("total", 0):
            api.add_input("read#0#1")
            api.add_output("total#0#0")
    assert traced(here, "total:crash#0#0") == ["read#0#2"]
    assert traced(here, "total:crash#1#0") == ["read#1#3", "read#1#5"]
    assert any("total#1" in reason for reason in judged(here, api.app).reasons)


# -- paired --------------------------------------------------------------------------------------


def test_tags_that_hold_too_much_end_the_capture_of_a_task(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairing, "OPEN_INPUTS_MAX", 10)
    with LineageApi("tags") as api:
        graph_of(api)
        with api.task("total"):
            for n in range(11):
                api.add_input(f"read#0#{n}", tag=n)
    assert any("more than 10 tags hold inputs" in r for r in judged(here, api.app).reasons)


@pytest.mark.parametrize(("reset", "numbered"), [(True, 0), (False, 1)])
def test_inputs_are_numbered_where_many_outputs_may_share_them(
    here: Path, monkeypatch: pytest.MonkeyPatch, reset: bool, numbered: int
) -> None:
    for module in (pairing, recorders, flow_columns):
        monkeypatch.setattr(module, "RUNS_MAX", 4)
    with LineageApi("wide") as api:
        graph_of(api)
        with api.task("total"):
            for n in range(11):
                api.add_input(f"read#0#{3 * n}", tag="wide")
            api.add_output("total#0#0", tag="wide", reset=reset)
    assert traced(here, "total#0#0") == [f"read#0#{3 * n}" for n in range(11)]
    with open_store(api.settings.store) as store:
        nodes = store.graph(api.app).nodes()
        assert sum(node.node == "total:inputs" for node in nodes) == numbered


def test_inputs_that_are_added_again_wait_once(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "OPEN_INPUTS_MAX", 3)
    with LineageApi("again") as api:
        graph_of(api)
        with api.task("total"):
            lines = np.repeat(np.arange(4, dtype=np.uint64) * 2, [6, 1, 5, 2])
            api.add_inputs("read#0", lines[lines < 4], last=lines[lines < 4] + np.uint64(1))
            api.add_inputs("read#0", lines[lines > 2])
            api.add_output("total#0#0")
    assert traced(here, "total#0#0") == [f"read#0#{n}" for n in (0, 1, 2, 3, 4, 6)]
    with open_store(api.settings.store) as store:
        assert "total:inputs" not in {node.node for node in store.graph(api.app).nodes()}


def test_memory_of_paired_capture_does_not_grow(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paired_buffer, "EVENTS_MAX", 1_000)
    monkeypatch.setattr(pairing, "OPEN_INPUTS_MAX", 1_000)
    monkeypatch.setattr(pairing, "DIRECT_RUNS_MAX", 10_000)
    monkeypatch.setattr(pairing, "SPARE_TAGS", 100)
    peaks = []
    with LineageApi("memory", link=False) as api:
        graph_of(api)
        with api.task("total"):
            tracemalloc.start()
            for turn in range(3):
                for n in range(turn * 5_000, (turn + 1) * 5_000):
                    api.add_input(f"read#0#{3 * n}", tag="open")
                    api.add_input(f"read#0#{3 * n}", tag=n)
                    api.add_output(f"total#0#{n}", tag=n, reset=True)
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
            tracemalloc.stop()
    assert peaks[2] < peaks[1] * 1.2


def test_bytes_of_files_are_linked_where_they_overlap(here: Path) -> None:
    with LineageApi("files") as api:
        api.register("copy")
        api.register("parse", kind="sink")
        with api.task("copy"):
            for start in (0, 100):
                api.add_input(api.location("in.bin", start, 100), reset=True)
                api.add_output(api.location("out.bin", start // 2, 50))
        with api.task("parse"):
            api.add_input(api.location(f"{here}/out.bin", 40, 5), tag=1)
            api.add_output("parse#0#0", tag=1)
            api.add_input(api.location("./out.bin", 49, 2), tag=2)
            api.add_output("parse#0#1", tag=2)
            api.add_input(api.location("out.bin", 95, 10), tag=3)
            api.add_output("parse#0#2", tag=3)
        in_file = api.location("in.bin", 0, 1).partition("#")[0]
    found = {}
    with open_store(api.settings.store) as store:
        tracer = Tracer(store.graph(api.app))
        for row in range(3):
            answer = tracer.trace(Direction.BACKWARD, {"parse#0": Region.from_positions([row])})
            found[row] = (answer.found[in_file].spaces[f"{in_file}#0"].to_text(), answer.exact)
    # The last bytes of the third were written by nobody: that is said.
    assert found == {0: ("0-99", True), 1: ("0-199", True), 2: ("100-199", False)}


def test_bytes_of_files_that_were_never_there_end_a_trace_which_is_said(here: Path) -> None:
    def copied(read: str, written: str) -> tuple[str, str, str]:
        with LineageApi("copy") as api:
            api.register("copy", kind="sink")
            with api.task("copy"):
                api.add_input(api.location(read, 0, 9), reset=True)
                api.add_output(api.location(written, 0, 9))
            return api.app, api.location(read, 0, 1), api.location(written, 0, 1)

    copied("in.bin", "mid.bin")
    app, read_byte, written_byte = copied("mid.bin", "out.bin")
    for direction, byte, end, verb in (
        (Direction.BACKWARD, written_byte, "mid.bin", "wrote"),
        (Direction.FORWARD, read_byte, "out.bin", "read"),
    ):
        with stored(here) as access:
            of_app, of_all = (
                access.ask(TraceQuery(direction, (byte,), app=app, all_jobs=all_jobs))
                for all_jobs in (False, True)
            )
        assert [group.what for group in (*of_app.groups, *of_all.groups)] == [end, end]
        # Of one application it is all.
        assert (of_app.complete, of_all.complete) == (True, False)
        (gap,) = of_all.not_queried
        assert gap.app == app
        assert f"whether another application {verb} these parts" in gap.reason


def test_parts_that_a_program_reads_again_go_on_elsewhere_too(here: Path) -> None:
    out = here / "out.bin"
    with LineageApi("copy") as copy:
        copy.register("copy")
        copy.register("parse", kind="sink")
        with copy.task("copy"):
            copy.add_input(copy.location("in.bin", 0, 10))
            copy.add_output(copy.location("out.bin", 0, 100))
            out.write_bytes(bytes(100))
        with copy.task("parse"):
            copy.add_input(copy.location("out.bin", 0, 50))
            copy.add_output("parse#0#0")
    with LineageApi("look") as look:
        look.register("look", kind="sink")
        with look.task("look"):
            look.add_input(look.location("out.bin", 40, 30))
            look.add_output("look#0#0")
    start, _, _ = copy.location("in.bin", 0, 1).partition("-")
    with stored(here) as access:
        answer = access.ask(TraceQuery(Direction.FORWARD, (start,), app=copy.app, all_jobs=True))
        of_all = access.ask(TraceQuery(Direction.BACKWARD, ("look#0#0",), all_jobs=True))
        step = with_next_jobs(
            access.ask(query := TraceQuery(Direction.BACKWARD, ("look#0#0",))), query, access.store
        )
        traced = QueryEngine(access.store, RowReader()).trace(query)
        assert traced.records is not None
        (batch,) = batches(traced.records, traced.records.composer(), ExportOptions())
    assert [item.location for item in batch.items] == [f"{out.resolve()}@40+30"]
    assert batch.exact == [True]
    found = {item.location or item.address for group in answer.groups for item in group.items}
    assert found == {"parse#0#0", "look#0#0", f"{out.resolve()}@70+30"}
    assert (answer.exact, answer.complete) == (True, True)
    # Of the file that was never there no state is known.
    assert [group.what for group in of_all.groups] == ["in.bin"]
    assert not of_all.complete
    (command,) = (job.command(Direction.BACKWARD) for job in step.groups[0].next_jobs)
    assert command == f"lineage back {out.resolve()}@40+30 --app {copy.app}"


def test_versions_of_files_are_those_of_the_commits_of_tasks(here: Path) -> None:
    def read(name: str) -> LineageApi:
        with LineageApi("look") as api:
            api.register("look", kind="sink")
            with api.task("look"):
                api.add_input(api.location(name, 0, 4))
                api.add_output("look#0#0")
                if name == "changes":
                    (here / name).write_bytes(b"now it is longer")
        return api

    def reasons(api: LineageApi) -> str:
        with stored(here) as access:
            answer = access.ask(
                TraceQuery(Direction.BACKWARD, ("look#0#0",), app=api.app, all_jobs=True)
            )
        assert not answer.complete
        return " ".join(gap.reason for gap in answer.not_queried)

    with LineageApi("write") as api:
        api.register("write", kind="sink")
        with api.task("write"):
            for name in ("late", "changes", "moved"):
                api.add_output(api.location(name, 0, 4))
                (here / name).write_bytes(name[:4].encode())
            (here / "moved").rename(here / "away")
        (here / "late").write_bytes(b"and more, which nobody wrote")
        (here / "away").rename(here / "moved")
    # What was written after the task was committed is not of it.
    assert "it wrote 4 bytes of" in reasons(read("late"))
    assert "it wrote a version of unknown size and time" in reasons(read("moved"))
    assert "read several versions of" in reasons(read("changes"))


def test_a_file_that_is_written_after_it_was_read_is_refused(here: Path) -> None:
    (here / "a").write_bytes(b"before")
    with LineageApi("in turn") as api:
        for node in ("look", "edit"):
            api.register(node, kind="sink")
        with api.task("look"):
            api.add_input(api.location("a", 0, 6))
            api.add_output("look#0#0")
        with api.task("edit"):
            api.add_output(api.location("a", 0, 6))
    reasons = judged(here, api.app).reasons
    assert any("is written after parts of it were read" in reason for reason in reasons)


def test_a_file_that_is_read_and_written_in_place_is_refused(here: Path) -> None:
    with LineageApi("in place") as api:
        api.register("edit", kind="sink")
        with api.task("edit"):
            api.add_input(api.location("a", 0, 9))
            api.add_output(api.location("a", 0, 9))
    reasons = judged(here, api.app).reasons
    assert any("its versions can't be distinguished" in reason for reason in reasons)


def test_a_file_that_is_written_while_a_task_reads_it_is_refused(here: Path) -> None:
    (here / "a").write_bytes(b"before")
    with LineageApi("at once") as api:
        for node in ("source", "look", "later", "edit"):
            api.register(node, kind="source" if node == "source" else "sink")
        api.link("source", "edit")
        with api.task("look") as look:
            look.add_input(look_at := api.location("a", 0, 6))
            look.add_output("look#0#0")
            with api.task("edit") as edit:
                edit.add_input("source#0#1")
                edit.add_output(api.location("a", 0, 6))
                (here / "a").write_bytes(b"behind")
        with api.task("later") as later:
            later.add_input(look_at)
            later.add_output("later#0#0")
    with stored(here) as access:
        verdict = access.verdict(api.app)
        answer = access.ask(TraceQuery(Direction.BACKWARD, ("later#0#0",), app=api.app))
    assert any("a was written while parts of it were read" in one for one in verdict.reasons)
    (item,) = (item for group in answer.groups for item in group.items)
    assert item.address == "source#0#1"
