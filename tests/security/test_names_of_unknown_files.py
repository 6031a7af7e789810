"""A query of a folder names no files of applications that its caller does not see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.message import Begin, Register, SinkFile, SinkFiles, Split, Splits
from lineage_query.folders import FILES_MAX
from lineage_query.outputs import output_state, writes_to
from lineage_query.rows.reader import RowReader
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
SECRET = "TOPSECRET"
GRANT = '[[grant]]\ncallers = ["token:ann"]\napplications = ["shop *"]\nrows = true\n'


@pytest.mark.parametrize("rule", ["", '[[hide]]\ndatasets = ["{root}/data/other/*"]\n'])
def test_a_folder_with_files_of_others_names_none_of_them(tmp_path: Path, rule: str) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    for name in ("shop", "other"):
        (tmp_path / "data" / name).mkdir(parents=True)
    store_run(url, tmp_path / "data" / "shop", "nightly", name="shop sales")
    store_run(url, tmp_path / "data" / "other", "other", name="secret job")
    (tmp_path / "data" / "other" / SECRET).write_text("x\n")
    token, line = new_token("ann", "reader", rows=True)
    (tmp_path / "tokens.toml").write_text(line)
    (tmp_path / "grants.toml").write_text(GRANT + rule.format(root=tmp_path))
    settings = read_settings(
        store=url,
        api_tokens=str(tmp_path / "tokens.toml"),
        api_grants=str(tmp_path / "grants.toml"),
        api_roots=str(tmp_path),
    )
    with TestClient(create_app(SqliteStore(tmp_path / "lineage.db"), settings)) as client:
        reply = client.post(
            "/v1/answers",
            headers={"Authorization": f"Bearer {token}"},
            json={"direction": "backward", "places": [f"{tmp_path}/data"]},
        )
    assert reply.status_code == 200, reply.text
    # It says that there are some, and not how many.
    assert "their rows are left out" in reply.text
    assert not re.search(r"\d+ files?\b", reply.text)
    assert SECRET not in reply.text
    assert "data/other" not in reply.text


@pytest.mark.parametrize("named", [True, False])
def test_an_output_with_files_of_others_names_none_of_them(tmp_path: Path, named: bool) -> None:
    (tmp_path / "out").mkdir()
    for name in ("part-0", SECRET):
        (tmp_path / "out" / name).write_text("x\n")
    state = (tmp_path / "out" / "part-0").stat()
    file = SinkFile(
        partition=0, path=f"file:{tmp_path}/out/part-0", size=2, mtime=state.st_mtime, rows=1
    )
    output = f"{tmp_path}/out"
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write(
            "own",
            [
                Begin(app="own", name="own", started_at=1.0),
                Register(app="own", node="0", kind="frame", op="save", path=output),
                SinkFiles(app="own", node="0", path=output, files=(file,)),
            ],
        )
        reader = RowReader() if named else RowReader().without_unknown_files()
        (gap,) = output_state(reader, output, writes_to(store, reader, output, ["own"])).gaps
    assert (SECRET in gap) == named
    assert "not written by any known DataFrame" in gap


@pytest.mark.parametrize("direction", ["backward", "forward"])
@pytest.mark.parametrize("files", [3, FILES_MAX + 1])
def test_a_folder_of_others_is_as_one_that_nobody_knows_however_many_files_it_has(
    tmp_path: Path, direction: str, files: int
) -> None:
    folders = {}
    for folder, app in (("others", "secret"), ("nobodys", None), ("own", "mine")):
        path = folders[folder] = tmp_path / folder
        path.mkdir()
        for at in range(3 if folder == "nobodys" else files):
            (path / f"part-{at:05}").write_text("x\n")
        if app is not None:
            _store_files(tmp_path, app, "secret job" if app == "secret" else "shop mine", path)
    token, line = new_token("ann", "reader", rows=True)
    (tmp_path / "tokens.toml").write_text(line)
    (tmp_path / "grants.toml").write_text(GRANT)
    settings = read_settings(
        store=f"sqlite:///{tmp_path}/lineage.db",
        api_tokens=str(tmp_path / "tokens.toml"),
        api_grants=str(tmp_path / "grants.toml"),
        api_roots=str(tmp_path),
    )
    replies = {}
    with TestClient(create_app(SqliteStore(tmp_path / "lineage.db"), settings)) as client:
        for folder, path in folders.items():
            reply = client.post(
                "/v1/answers",
                headers={"Authorization": f"Bearer {token}"},
                json={"direction": direction, "places": [str(path)]},
            )
            replies[folder] = (
                reply.status_code,
                reply.json().get("detail", "").replace(str(path), ""),
            )
    assert replies["others"] == replies["nobodys"]
    if files > FILES_MAX:
        assert replies["own"][0] == 422
        assert f"more than {FILES_MAX:,} files" in replies["own"][1]


def _store_files(folder: Path, app: str, name: str, path: Path) -> None:
    """An application that read and wrote the first file of a folder."""
    first = path / "part-00000"
    state = first.stat()
    read = Split(partition=0, path=str(first), start=0, length=2, file_size=2, mtime=state.st_mtime)
    wrote = SinkFile(partition=0, path=str(first), size=2, mtime=state.st_mtime, rows=1)
    with SqliteStore(folder / "lineage.db") as store:
        store.write(
            app,
            [
                Begin(app=app, name=name, started_at=1.0),
                Register(app=app, node="0", kind="source", op="textFile", path=str(path)),
                Register(app=app, node="1", kind="sink", op="save", path=str(path)),
                Splits(app=app, node="0", splits=(read,)),
                SinkFiles(app=app, node="1", path=str(path), files=(wrote,)),
            ],
        )
