"""Times are whatever a program says: none that no calendar has ends what shows it beside applications of others."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage.tables import moment_text
from lineage_core.contract.message import CALENDAR_TIME_MAX, CALENDAR_TIME_MIN, parse_message
from lineage_query_api.app import create_app
from lineage_query_api.settings import read_settings
from lineage_store.paths import file_time_text
from lineage_store.recorded_files import FileVersion
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
NO_TIMES = [1e15, 2**63, 1e300, 253_402_300_800, -62_135_596_801, -1e15]


@pytest.mark.parametrize("at", NO_TIMES)
@pytest.mark.parametrize(
    ("kind", "field", "more"),
    [
        ("begin", "started_at", {"name": "job"}),
        ("heartbeat", "at", {}),
        ("end", "ended_at", {"status": "ok"}),
    ],
)
def test_a_clock_that_no_calendar_has_is_at_an_end_of_it(
    kind: str, field: str, more: dict[str, str], at: float
) -> None:
    said = {"v": 1, "app": "forged", "type": kind, **more}
    assert getattr(parse_message(json.dumps(said | {field: 1e9})), field) == 1e9
    told = getattr(parse_message(json.dumps(said | {field: at})), field)
    assert told == (CALENDAR_TIME_MIN if at < 0 else CALENDAR_TIME_MAX)
    assert datetime.fromtimestamp(told, UTC).year == (1 if at < 0 else 9999)


@pytest.mark.parametrize("at", NO_TIMES)
def test_applications_of_others_are_listed_beside_one_of_no_time(tmp_path: Path, at: float) -> None:
    run = store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path)
    folder = tmp_path / "other" / "forged"
    (folder / "blocks").mkdir(parents=True)
    said = {"v": 1, "app": "forged", "type": "begin", "name": "job", "started_at": at}
    (folder / "driver.jsonl").write_text(json.dumps(said) + "\n")
    with SqliteStore(tmp_path / "lineage.db") as store:
        ingest_all(store, tmp_path / "other")
    listed = CliRunner().invoke(
        command_line, ["--store", f"sqlite:///{tmp_path}/lineage.db", "apps"]
    )
    assert listed.exit_code == 0, listed.output
    assert {run.app, "forged"} <= set(listed.output.split())
    with SqliteStore(tmp_path / "lineage.db") as store:
        server = create_app(store, read_settings(api_open=True))
        with TestClient(server, base_url="http://127.0.0.1:8484") as client:
            found = client.get("/v1/applications").json()["items"]
            assert {one["app"] for one in found} == {run.app, "forged"}
            years = {datetime.fromisoformat(one["started_at"]).year for one in found}
            assert years == {1970, 1 if at < 0 else 9999}
            for path in ("/v1/records", "/v1/jobs", "/v1/runs?job=job"):
                assert client.get(path).status_code == 200, path
            events = client.get("/v1/applications/forged/openlineage")
            assert events.status_code == 200, events.text


@pytest.mark.parametrize("at", NO_TIMES)
def test_what_is_no_time_is_told_all_the_same(at: float) -> None:
    assert moment_text(at, "%Y-%m-%d") == "?"
    assert file_time_text(int(at) * 1000) == f"{int(at) * 1000} ms since 1970"
    assert "ms since 1970" in str(FileVersion(1, at))
