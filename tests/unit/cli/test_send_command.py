"""``lineage send`` where no Kafka is needed to answer; tests/integration has the rest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage.main import app

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("LINEAGE_KAFKA", "LINEAGE_SPOOL", "LINEAGE_STORE", "LINEAGE_DISPATCHER"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_kafka_it_says_which_setting_is_missing() -> None:
    done = CliRunner().invoke(app, ["send"])
    assert done.exit_code == 2
    assert "LINEAGE_KAFKA" in done.output


def test_an_empty_spool_asks_no_kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "127.0.0.1:1")
    done = CliRunner().invoke(app, ["send"])
    assert (done.exit_code, done.output) == (
        0,
        f"nothing waits in {tmp_path / '.lineage' / 'spool'}\n",
    )
    done = CliRunner().invoke(app, ["send", "--spool", "elsewhere", "--json"])
    assert (done.exit_code, json.loads(done.output)) == (0, [])


def test_without_an_answer_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_KAFKA", "127.0.0.1:1")
    monkeypatch.setenv("LINEAGE_KAFKA_TIMEOUT_S", "0.5")
    folder = tmp_path / "spool" / "app-1"
    folder.mkdir(parents=True)
    (folder / "driver.jsonl").write_text('{"v": 1}\n', encoding="utf-8")
    done = CliRunner().invoke(app, ["send", "--spool", "spool"])
    assert done.exit_code == 2, done.output
    assert (folder / "driver.jsonl").exists()
