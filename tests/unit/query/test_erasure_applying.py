"""What lineage itself keeps is erased by a plan: step by step, after any interruption, and nothing else is changed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Recipe, Unknown
from lineage_core.recipe.document import ERASED as ERASED_RECIPE
from lineage_core.recipe.document import File, Source
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.plan import Attribute, Literal, Values
from lineage_query.engine import QueryEngine
from lineage_query.erasure import applying
from lineage_query.erasure.applying import Applied, applied_lines, apply_plan, read_plan
from lineage_query.erasure.erased_texts import ERASED
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.journal import Journal, JournalError, Step
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.row_list import list_of, rows_of
from lineage_query.erasure.steps import ErasureError
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import Job, World, world_of_four_rows
from tests.support.stored_lineage import flows

pytestmark = pytest.mark.unit
AGO_MAX_S = 300


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A source of four rows, r1x to r4x, a copy and a count of it; texts of all items are stored."""
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield world_of_four_rows(tmp_path, store, "copy", "group")


def place_of(world: World) -> StorePlace:
    folder = world.folder
    return StorePlace(
        "sqlite:///x", folder / "rows", folder / "spool", folder / "index", False, False
    )


def query_of(world: World) -> SubjectQuery:
    return SubjectQuery(str(world.datasets[0].path), rows=(1,))


def plan_of(world: World) -> Plan:
    reader = RowReader()
    engine = QueryEngine(world.store, reader)
    return make_plan("erase", query_of(world), world.store, reader, engine, place_of(world))


def applied(world: World, document: dict[str, Any]) -> Applied:
    return apply_plan(
        document, query_of(world), lambda: plan_of(world), world.store, place_of(world)
    )


def texts(world: World) -> list[str]:
    found: list[str] = []
    for app in world.store.application_ids():
        graph = world.store.graph(app)
        for block in graph.load([ref.block_id for ref in graph.blocks()]).values():
            found += [text for text in block.values or () if text is not None]
    return found


def test_texts_of_the_rows_go_and_others_stay(world: World) -> None:
    assert sum("r1x" in text for text in texts(world)) == 2
    before = texts(world)
    document = plan_of(world).to_json()
    result = applied(world, document)
    assert not result.already
    after = texts(world)
    assert [text for text in before if "r1x" not in text] == [
        text for text in after if text != ERASED
    ]
    assert after.count(ERASED) == 2
    # The spools of its applications and indexes of files go, too.
    assert not any((world.folder / "spool").iterdir())
    lines = "\n".join(applied_lines(result, document, None))
    assert "2 rows of outputs are yours to delete" in lines
    assert "What this did not remove" in lines


def test_a_second_run_does_nothing_and_says_so(world: World) -> None:
    document = plan_of(world).to_json()
    applied(world, document)
    revisions = {app: world.store.revision(app) for app in world.store.application_ids()}
    # The source may be gone by then.
    world.datasets[0].path.unlink()
    result = applied(world, document)
    assert result.already
    assert "nothing to do" in next(applied_lines(result, document, None))
    assert revisions == {app: world.store.revision(app) for app in world.store.application_ids()}


def test_another_plan_is_refused_and_says_what_differs(world: World) -> None:
    document = plan_of(world).to_json()
    world.run(Job((2,), "copy", 1, "new", 0, lands_again=False), random.Random(0))
    with pytest.raises(ErasureError, match=r"rows: .*out4.* is new"):
        applied(world, document)
    assert ERASED not in texts(world)


def test_an_application_that_runs_is_refused(world: World) -> None:
    document = plan_of(world).to_json()
    app = world.store.application_ids()[0]
    world.store._db.execute("UPDATE application SET status = 'running', seen_at = 9e9")
    with pytest.raises(ErasureError, match=f"{app[:3]}.* still runs"):
        applied(world, document)


def test_files_that_are_no_plan_to_erase_are_refused(world: World, tmp_path: Path) -> None:
    plan = plan_of(world)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan.to_json()))
    assert read_plan(path, plan.digest)["digest"] == plan.digest
    with pytest.raises(ErasureError, match="and not 'sha256:1'"):
        read_plan(path, "sha256:1")
    changed = plan.to_json() | {"rows": []}
    for document, reason in (
        (json.dumps(changed), "was changed"),
        (json.dumps(replace(plan, purpose="access").to_json()), "access request"),
        ("[1]", "is no plan"),
        ("{", "is no plan"),
        (json.dumps(plan.to_json() | {"rows": 3}), "is no plan"),
    ):
        path.write_text(document)
        with pytest.raises(ErasureError, match=reason):
            read_plan(path)


def test_recipes_with_the_subjects_values_go(world: World) -> None:
    app = world.store.application_ids()[0]
    column = Attribute(1, "v", "string")
    recipes = {
        node: Document("3.5", {}, (), (Values((column,), ((Literal(text, "string"),),)),)).to_json()
        for node, text in (("f1", "a;r1x"), ("f2", "a;r2x"))
    }
    world.store.write(
        app, [Recipe(app=app, node=node, recipe=text) for node, text in recipes.items()]
    )
    applied(world, plan_of(world).to_json())
    graph = world.store.graph(app)
    assert graph.recipe("f1") == ERASED_RECIPE
    assert graph.recipe("f2") == recipes["f2"]


@pytest.mark.parametrize("is_readable", [True, False])
def test_rows_that_no_recipe_reads_go_with_what_a_task_left(
    world: World, is_readable: bool
) -> None:
    app = world.store.application_ids()[0]
    folder = place_of(world).rows / app
    folder.mkdir(parents=True)
    for name in ("read.parquet", "again.parquet", "killed.parquet.part"):
        (folder / name).write_bytes(b"")
    file = File((folder / "read.parquet").as_uri(), 0, 0)
    source = Source("parquet", (folder.as_uri(),), '{"type":"struct","fields":[]}', files=(file,))
    column = Attribute(1, "v", "string")
    text = Document("3.5", {}, (source,), (Values((column,), ()),)).to_json()
    if not is_readable:
        text = text.replace('"version":2', '"version":99')
    world.store.write(app, [Recipe(app=app, node="f1", recipe=text)])
    applied(world, plan_of(world).to_json())
    # A recipe that can't be read may hold the values, and goes.
    left = {"read.parquet"} if is_readable else set()
    assert {path.name for path in folder.iterdir()} == left


@pytest.mark.parametrize("torn", [False, True])
def test_an_interruption_between_any_two_steps_is_continued(
    world: World, monkeypatch: pytest.MonkeyPatch, torn: bool
) -> None:
    document = plan_of(world).to_json()
    append = Journal._append
    lines = 0
    for stop_at in range(20):
        written = 0

        def stopping(journal: Journal, entry: Any, stop_at: int = stop_at) -> Any:
            nonlocal written
            if entry["event"] == "restarted":
                return append(journal, entry)
            if written == stop_at % 2:
                if torn:
                    journal._file.write(b'{"event":"do')
                    journal._file.flush()
                raise InterruptedError
            written += 1
            return append(journal, entry)

        monkeypatch.setattr(Journal, "_append", stopping)
        try:
            applied(world, document)
        except InterruptedError:
            lines += written
            continue
        break
    assert lines == 4
    monkeypatch.undo()
    assert applied(world, document).already
    assert not any("r1x" in text for text in texts(world))
    assert sum("r2x" in text for text in texts(world)) == 1


KILLED = """
import os, signal, sys
from pathlib import Path
from lineage_query.erasure import applying
from lineage_store.sqlite.store import SqliteStore
from tests.unit.query.test_erasure_applying import applied, plan_of
from tests.oracle.erasure_chains import Dataset, World
folder = Path(sys.argv[1])
perform, steps = applying._perform, []
def killing(*arguments):
    result = perform(*arguments)
    steps.append(1)
    if len(steps) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
applying._perform = killing
with SqliteStore(folder / "lineage.db") as store:
    world = World(folder, store)
    world.datasets.append(Dataset(folder / "landed0.txt"))
    applied(world, plan_of(world).to_json())
"""


def test_a_kill_is_continued(world: World) -> None:
    document = plan_of(world).to_json()
    root = Path(__file__).parents[3]
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, str(world.folder)],
        env=os.environ | {"PYTHONPATH": str(root)},
        cwd=root,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert any("r1x" in text for text in texts(world)) is False
    (journal,) = (world.folder / "erasures").iterdir()
    assert (
        journal.read_text().count("\n") == 2
    )  # Begun, and one step; the second was not said to be done.
    result = applied(world, document)
    assert not result.already
    assert len(result.restarted) == 1
    assert abs(datetime.fromisoformat(result.restarted[0]).timestamp() - time.time()) < AGO_MAX_S
    said = "taken up again 1 times, at "
    assert any(line.startswith(said) for line in applied_lines(result, document, None))
    # Who finds nothing to do takes nothing up.
    lines = journal.read_text()
    again = applied(world, document)
    assert (again.already, again.restarted) == (True, result.restarted)
    assert journal.read_text() == lines


def test_a_store_that_was_played_back_is_erased_to_the_end_after_a_kill(world: World) -> None:
    """Its texts are erased again, and what is behind them in the plan is not yet."""
    document = plan_of(world).to_json()
    database = world.folder / "lineage.db"
    world.store.close()
    backup = database.read_bytes()
    with SqliteStore(database) as store:
        world.store = store
        applied(world, document)
    database.write_bytes(backup)
    index = place_of(world).caches
    index.mkdir()
    with SqliteStore(database) as store:
        world.store = store
        with pytest.MonkeyPatch.context() as patch:
            perform = applying._perform
            patch.setattr(applying, "_perform", partial(_interrupted_at, "caches", perform))
            with pytest.raises(InterruptedError):
                applied(world, document)
        assert not any("r1x" in text for text in texts(world))
        assert index.exists()
        result = applied(world, document)
        assert not result.already
        assert not index.exists()
        assert len(result.restarted) == 2
        assert applied(world, document).already


def _interrupted_at(kind: str, perform: Callable[..., Any], step: Step, *arguments: Any) -> Any:
    if step["kind"] == kind:
        raise InterruptedError
    return perform(step, *arguments)


def test_one_process_at_a_time_and_damage_is_told(world: World) -> None:
    document = plan_of(world).to_json()
    folder = place_of(world).journals
    with Journal(folder, document["digest"]), pytest.raises(JournalError, match="another process"):
        applied(world, document)
    (journal,) = folder.iterdir()
    assert journal.stat().st_mode & 0o77 == 0
    journal.write_text('{"event":"begun","plan":"other","version":1,"steps":[]}\n')
    with pytest.raises(JournalError, match="damaged"):
        applied(world, document)


def test_the_list_names_rows_of_outputs(world: World) -> None:
    document = plan_of(world).to_json()
    rows = list(rows_of(document))
    assert [(Path(row["path"]).parent.name, row["row"], row["kind"]) for row in rows] == [
        ("out2", 1, "carries"),
        ("out3", 1, "carries"),
    ]
    assert [json.loads(line) for line in list_of(document, as_csv=False).splitlines()] == rows
    header, *lines = list_of(document, as_csv=True).splitlines()
    assert header.startswith("path,row,unit,place")
    assert len(lines) == 2
    assert "r1x" not in list_of(document, as_csv=True)


def test_texts_of_an_incomplete_application_all_go(world: World) -> None:
    app = world.store.application_ids()[0]
    world.store.write(app, [Unknown(app=app, what="socketTextStream", reason="not captured")])
    extra = flows(BlockId("7", 0, 0, 0), "6#0", "7#0", [([0], 0)], app)
    world.store.write(app, blocks=[replace(extra, values=["a;r1x, by another way"])])
    plan = plan_of(world)
    assert not plan.complete
    result = applied(world, plan.to_json())
    assert any(step.get("whole") and step["app"] == app for step, _ in result.steps)
    assert not any("r1x" in text for text in texts(world))


def test_every_kind_of_step_is_known() -> None:
    step: dict[str, Any] = {"kind": "other"}
    with pytest.raises(ErasureError, match="'other' is no step"):
        applying._perform(step, "", None, None)  # type: ignore[arg-type]
