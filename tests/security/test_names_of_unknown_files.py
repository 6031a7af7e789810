"""A query of a folder names no files of applications that its caller does not see."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from lineage_core.contract.message import Begin, Register, SinkFile, SinkFiles
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
    # It says that there are some.
    assert "are left out" in reply.text
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
