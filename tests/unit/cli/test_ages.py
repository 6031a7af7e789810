"""How old applications are, as `expire` and `archive` choose them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage.ages import older_than
from lineage.main import app as program
from lineage_core.contract.message import Begin, End, Register
from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_store.port import ApplicationRecord
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.unit


def record(app: str, started_at: float, ended_at: float | None) -> ApplicationRecord:
    return ApplicationRecord(app, "job", started_at, ended_at, "abandoned", 0, 0)


def test_applications_are_old_by_their_end_or_their_beginning() -> None:
    now = time.time()
    records = [
        record("new", now, None),
        record("ended now", 1.0, now),
        record("old", 2.0, None),
        record("older", 2.0, 1.0),
        record("never heard when", 0.0, None),
        record("ended, and never heard when it began", 0.0, 3.0),
    ]
    assert [one.app for one in older_than(records, "1h")] == [
        "older",
        "old",
        "ended, and never heard when it began",
    ]


def test_an_application_without_its_beginning_does_not_expire(tmp_path: Path) -> None:
    """Its messages may be on their way, or one was a dead letter: it may have run a minute ago."""
    path = tmp_path / "lineage.db"
    heard_at = time.time() - 2 * ABANDONED_AFTER_S
    with SqliteStore(path, clock=lambda: heard_at) as store:
        store.write("cut", [Register(app="cut", node="1", kind="source", op="textFile")])
        store.write("old", [Begin(app="old", name="job", started_at=1.0), End(app="old", ended_at=2.0, status="ok")])  # fmt: skip
    url = {"LINEAGE_STORE": f"sqlite:///{path}"}
    said = CliRunner().invoke(
        program, ["expire", "--older-than", "1h", "--dry-run", "--json"], env=url
    )
    report = json.loads(said.stdout)
    assert ([one["app"] for one in report["removed"]], report["without_age"]) == (["old"], ["cut"])
    done = CliRunner().invoke(program, ["expire", "--older-than", "1h"], env=url)
    assert (done.exit_code, "cut: when it began and ended is not known" in done.stderr) == (0, True)
    with SqliteStore(path) as store:
        assert store.application_ids() == ["cut"]
        assert [one.status for one in store.applications()] == ["abandoned"]
