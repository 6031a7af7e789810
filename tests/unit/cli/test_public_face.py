"""``import lineage``: what it offers, and that it costs next to nothing."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lineage
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer
from lineage_store.errors import StoreError

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]


def test_every_public_name_is_there_once() -> None:
    assert sorted(lineage.__all__) == sorted(lineage._HOMES)
    assert {name for name in lineage.__all__ if getattr(lineage, name, None) is None} == set()
    assert set(lineage.__all__) <= set(dir(lineage))
    with pytest.raises(AttributeError, match="has no attribute 'Lineage'"):
        _ = lineage.Lineage


def test_import_alone_loads_nothing_but_itself() -> None:
    code = "import sys; before = set(sys.modules); import lineage; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names == {"lineage"}


def test_the_version_is_that_of_every_member() -> None:
    files = [ROOT / "pyproject.toml", *ROOT.glob("*/*/pyproject.toml"), ROOT / "cli/pyproject.toml"]
    projects = [tomllib.loads(file.read_text(encoding="utf-8"))["project"] for file in files]
    assert len(projects) > 10
    assert {project["version"] for project in projects} == {lineage.__version__}


def test_trace_says_what_it_can_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LINEAGE_STORE", raising=False)
    with pytest.raises(StoreError, match=r"\.lineage/lineage\.db"):
        lineage.trace("out/part-00000:1")
    with pytest.raises(ValueError, match="sideways"):
        lineage.trace("out/part-00000:1", direction="sideways")  # type: ignore[arg-type]


def test_trace_answers_as_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    with lineage.LineageApi("totals", store=url) as api:
        api.register("read", "orders.csv", kind="source")
        api.register("total", "total per customer", kind="sink")
        api.link("read", "total")
        with api.task("total", partition=0):
            api.capture("f1", "read#0#6", "total#0#1")
            api.capture("f2", "read#0#7", "total#0#1")
    answer = lineage.trace("total#0#1", store=url)
    assert isinstance(answer, Answer)
    (group,) = answer.groups
    assert [item.address for item in group.items] == ["read#0#6", "read#0#7"]
    monkeypatch.setenv("LINEAGE_STORE", url)
    (forward,) = lineage.trace("read#0#6", direction="forward", limit=0).groups
    assert (forward.count, forward.items) == (1, ())
    by_task = lineage.trace("total#0#1", by="task")
    assert [(one.name, one.rows) for one in by_task.containers] == [("total#0.0", 2)]
    by_file = lineage.trace("total#0#1", by="file", all_jobs=True)
    assert (by_file.containers, [one.rows for one in by_file.outside]) == ((), [2])
    assert "from 0 files\nin no file: 2 rows of read\n" in by_file._repr_mimebundle_()["text/plain"]
    with pytest.raises(TraceError, match=r"rows are counted by row, split, file.*, job$"):
        lineage.trace("total#0#1", by="folder")


def test_containers_that_a_program_registers_are_levels(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    with lineage.LineageApi("totals", store=url) as api:
        job = api.register("nightly", kind="container", node_type="pipeline")
        stages = [
            api.register(name, kind="container", parent=job, node_type="stage")
            for name in ("load", "sum")
        ]
        orders = api.register("orders", kind="source", parent=stages[0])
        rates = api.register("rates", kind="source", parent=job)
        total = api.register("total", kind="sink", parent=stages[1])
        api.link(orders, total)
        api.link(rates, total)
        with api.task(total, partition=0):
            api.capture("f1", f"{orders}#0#0", f"{total}#0#1")
            api.capture("f2", f"{orders}#0#1", f"{total}#0#1")
            api.capture("f3", f"{rates}#0#7", f"{total}#0#1")

    def levels(by: str, **more: str) -> tuple[dict[str, int], dict[str, int]]:
        answer = lineage.trace(more.pop("place", f"{total}#0#1"), by=by, store=url, **more)  # type: ignore[arg-type]
        return (
            {container.name: container.rows for container in answer.containers},
            {rows.node: rows.rows for rows in answer.outside},
        )

    assert levels("stage") == ({"nightly:load": 2}, {rates: 1})
    assert levels("pipeline") == ({"nightly": 3}, {})
    forward = levels("stage", place=f"{rates}#0#7", direction="forward")
    assert forward == ({"nightly:sum": 1}, {})
    with pytest.raises(
        TraceError,
        match=r"there is no level 'load': .* row, split, .*, stage, node, application, job, pipeline$",
    ):
        levels("load")
