"""Ids of applications and nodes are whatever a program says: none of them is a way to files of whoever uses its lineage."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from lineage import materialising
from lineage.main import app as command_line
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.message import SinkFile, SinkFiles, Split, Splits
from lineage_core.environment.private_files import folder_named
from lineage_core.recipe.document import Output, Recipe
from lineage_dataframes.errors import RefusedError
from lineage_emitter import LineageApi
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.paths import RowsError
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
FORGED = ["{there}", "../../../there", "app/../../../../there", "..", ".", "../..", "app\0", "a/b", "%2E%2E"]  # fmt: skip


def spooled(spool: Path, app: str) -> None:
    """What a job may leave in a spool that it shares."""
    folder = spool / "any"
    (folder / "blocks").mkdir(parents=True)
    said = [
        {"type": "begin", "name": "job", "started_at": 4e9},
        {"type": "end", "ended_at": 4e9, "status": "ok"},
    ]
    (folder / "driver.jsonl").write_text(
        "".join(json.dumps({"v": 1, "app": app, **one}) + "\n" for one in said)
    )


@pytest.mark.parametrize("app", FORGED)
def test_removing_an_application_removes_no_folder_that_its_id_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    there, work = tmp_path / "there", tmp_path / "work"
    spool, rows = work / ".lineage" / "spool", work / ".lineage" / "rows"
    for kept in (there, spool / "other", rows / "other"):
        kept.mkdir(parents=True)
        (kept / "file").write_text("of somebody")
    spooled(spool, app.format(there=there))
    monkeypatch.chdir(work)
    for command in (["link"], ["rm", "latest"]):
        done = CliRunner().invoke(command_line, command)
        assert done.exit_code == 0, done.output
    for kept in (there, spool / "other", rows / "other"):
        assert (kept / "file").read_text() == "of somebody"


@pytest.mark.parametrize("app", FORGED)
def test_a_folder_for_a_name_lies_right_below_its_root(tmp_path: Path, app: str) -> None:
    root = tmp_path / "root"
    assert Path(folder_named(root, app.format(there=tmp_path)).absolute()).parent == root
    names = [*FORGED, "", "%", "app", "%2E"]
    assert len({folder_named(root, name) for name in names}) == len(names)
    assert folder_named(root, "local-1 größe.2") == root / "local-1 größe.2"


def test_what_an_application_of_any_id_spools_stays_in_the_spool_and_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with LineageApi(
        "job", app="../../up", store=f"sqlite:///{tmp_path}/.lineage/lineage.db"
    ) as api:
        folder = api.dispatcher.folder
        assert folder.parent == tmp_path / ".lineage" / "spool"
    assert sorted(one.name for one in tmp_path.iterdir()) == [".lineage"]
    done = CliRunner().invoke(command_line, ["rm", "../../up"])
    assert done.exit_code == 0, done.output
    assert not folder.exists()


def test_materialising_writes_nothing_where_a_nodes_id_leads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch, used = tmp_path / "scratch", list[Path]()
    scratch.mkdir()
    forged = [str(tmp_path / "there"), "../../there", "a\0"]
    nodes = [NodeRecord(one, "frame", "", "", "", "", None, True, "", None, None) for one in forged]
    recipe = Recipe("4.1.0", {}, (), (), Output(kind="files"))

    @contextmanager
    def no_spark() -> Any:
        yield None

    def relations(_: object, __: object, folder: Path) -> None:
        used.append(folder)
        raise RefusedError("enough")

    monkeypatch.setattr(materialising, "_chosen", lambda *_: [(one, recipe) for one in nodes])
    monkeypatch.setattr(materialising, "spark_session", no_spark)
    monkeypatch.setattr(materialising, "written_folder", lambda: scratch)
    monkeypatch.setattr(materialising, "check_recipe_allowed", lambda *_: None)
    monkeypatch.setattr(materialising, "Relations", relations)
    url = f"sqlite:///{tmp_path}/lineage.db"
    with SqliteStore(tmp_path / "lineage.db") as store:
        monkeypatch.setattr(store, "graph", lambda _: None)
        monkeypatch.setattr(materialising, "_check_ends", lambda *_: None)
        made = materialising.materialise(store, url, "app")
    assert set(made.refused) == set(forged)
    assert len(set(used)) == len(forged)
    assert all(one.parent.parent == scratch for one in used)


NO_PATHS = ["~\0/{name}", "/a\0b/{name}", "{folder}/\0/{name}", "{name}\0"]


@pytest.mark.parametrize("path", NO_PATHS)
@pytest.mark.parametrize("kind", ["source", "sink", "frame", "frame-source"])
def test_a_path_that_is_none_ends_no_question_about_applications_of_others(
    tmp_path: Path, path: str, kind: str
) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    run = store_run(url, tmp_path)
    forged = Spool(tmp_path / "other", "forged")
    forged.begin(2000.0)
    for number, of in enumerate((run.source, run.sink)):
        noted = path.format(folder=of.parent, name=of.name)
        node = str(number)
        forged.node(node, kind, path=noted)
        read = Split(partition=0, path=noted, start=0, length=1, file_size=1, mtime=1.0)
        wrote = SinkFile(partition=0, path=noted, size=1, mtime=1.0)
        forged.send(
            Splits(app="forged", node=node, splits=(read,)),
            SinkFiles(app="forged", node=node, path=noted, files=(wrote,)),
        )
    with SqliteStore(tmp_path / "lineage.db") as store:
        ingest_all(store, tmp_path / "other")
        settings = read_settings(api_roots=str(tmp_path), api_open=True)
        with TestClient(create_app(store, settings), base_url="http://127.0.0.1:8484") as client:
            for direction, of in (("forward", run.source), ("backward", run.sink)):
                asked = {"direction": direction, "places": [f"{of}:1"]}
                told = client.post("/v1/answers", json=asked)
                assert (told.status_code, told.json().get("app")) == (200, run.app), told.text
                of_values = client.post(
                    "/v1/answers", json=asked | {"places": [f"{tmp_path}/nobody#a=1"]}
                )
                assert of_values.status_code == 404, of_values.text


@pytest.mark.parametrize("reader", [RowReader(), RootedReader(["/"])])
def test_a_path_that_is_none_is_not_read(reader: RowReader, tmp_path: Path) -> None:
    for path in ("~\0/a", f"{tmp_path}\0", f"{tmp_path}/\0.parquet", f"file:{tmp_path}/\0"):
        assert not reader.may_read(path)
        assert not reader.is_folder(path)
        for read in (reader.state, reader.opened, reader.files_below, reader.index):
            with pytest.raises(RowsError):
                read(path)
