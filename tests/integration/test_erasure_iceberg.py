"""Rows of persons are deleted from tables of Iceberg by the real thing: by position, once, whatever kills it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.job_runs import run_program
from tests.support.versions import only_in
from tests.tables.jars import HERE
from tests.tables.ran import Ran

pytestmark = [
    pytest.mark.integration,
    pytest.mark.long,
    only_in("Apache Iceberg", "4.1"),
]

CONF = """\
spark.sql.extensions org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.local org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.local.type hadoop
spark.sql.catalog.local.warehouse {home}/warehouse
"""


@pytest.fixture(scope="module")
def deletes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program of tests/tables saw."""
    ran = Ran(tmp_path_factory.mktemp("deletes"))
    ran.prepare("iceberg", CONF)
    done = run_program(ran.folder, [sys.executable, str(HERE / "iceberg_deletes.py")], ran.conf)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads((ran.folder / "deletes.json").read_text())
    return seen


@pytest.mark.parametrize("name", ["by_folder", "by_name", "marked"])
def test_just_the_rows_at_the_places_go_and_a_second_run_does_nothing(
    deletes: dict[str, Any], name: str
) -> None:
    seen = deletes[name]
    assert seen["as expected"]
    assert seen["again"]
    assert seen["deleted"] > 2
    assert any("expire_snapshots" in line for line in seen["left"])
    marked = any("rewrite_data_files" in line for line in seen["left"])
    assert marked == (name == "marked")
    assert "not in its current version" in seen["other"]


def test_what_keeps_the_rows_is_named_and_goes_by_the_commands(deletes: dict[str, Any]) -> None:
    assert "tag old" in deletes["tagged"][-1]
    assert deletes["expired"] == []


def test_what_is_not_where_it_was_is_refused(deletes: dict[str, Any]) -> None:
    reason, snapshots = deletes["moved"]
    assert "not in its current version" in reason
    assert snapshots == 4
    assert "only its catalog names" in deletes["of a catalog"]
    assert "SPARK_CONF_DIR" in deletes["of a catalog"]


def test_a_kill_between_the_commit_and_the_journal_deletes_once(tmp_path: Path) -> None:
    ran = Ran(tmp_path)
    ran.prepare("iceberg", CONF)
    program = [sys.executable, str(HERE / "iceberg_killed.py")]
    killed = run_program(tmp_path, program, ran.conf)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    metadata = {path.name for path in (tmp_path / "warehouse/db/people/metadata").iterdir()}
    assert "v3.metadata.json" in metadata
    done = run_program(tmp_path, [*program, "again"], ran.conf)
    assert done.returncode == 0, done.stderr
    said = json.loads((tmp_path / "deleted.json").read_text())
    assert (said["ids"], said["snapshots"]) == ([0, 1, 3], 2)
    (table,) = said["deleted"]
    assert (table["rows"], table["already"]) == (1, False)
    assert "expire_snapshots" in table["left"][0]
    assert metadata == {path.name for path in (tmp_path / "warehouse/db/people/metadata").iterdir()}
