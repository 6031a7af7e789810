"""Which commits to tables a write takes for its own while others write to them, by the real thing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_table_chains import CONF
from tests.support.job_runs import STORE, run_plain
from tests.support.versions import only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE, table_jars

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("Apache Iceberg", "4.1")]


def test_a_write_has_its_own_commits_and_no_others(tmp_path: Path) -> None:
    jars = ",".join(map(str, sorted(table_jars().glob("*.jar"))))
    (tmp_path / "conf").mkdir()
    settings = f"{SMALL_SPARK}spark.jars {jars}\n{CONF.format(home=tmp_path)}"
    (tmp_path / "conf/spark-defaults.conf").write_text(settings)
    shutil.copy(HERE / "own_commits_job.py", tmp_path)
    env = {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    done = run_plain(tmp_path, "own_commits_job.py", f"sqlite:///{tmp_path / STORE}", env=env)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads((tmp_path / "commits.json").read_text())
    outputs, traces = said["outputs"], said["traces"]

    # Each row says who wrote it: it leads there, or nowhere where that was another program.
    assert {table: set(rows) for table, rows in traces.items()} == {
        "empty": {"empty-first", "foreign"},
        "both": {"both-first", "foreign", "both-job"},
        "ignored": {"ignored-first"},
        "threads": {"threads-first", "threads-slow", "threads-quick"},
        "threads-empty": {"threads-empty-first", "threads-empty-quick"},
        "ice": {"ice-slow", "ice-quick"},
        "ice-empty": {"ice-empty-quick"},
    }
    for rows in traces.values():
        for row, trace in rows.items():
            wanted = [] if row == "foreign" else [row]
            assert trace == {"found": wanted, "exact": True, "complete": True, "refused": []}, row

    nothing: list[Any] = [0, None, []]
    assert outputs["empty-job"] == [nothing]
    assert outputs["ignored-job"] in ([], [nothing])
    assert outputs["both-job"] == [[1, "2", []]]
    assert sorted(outputs["threads"], key=str) == [[1, "1", []], [1, "2", []]]
    assert sorted(outputs["threads-empty"], key=str) == [nothing, [1, "1", []]]
    assert sorted(files for files, _, _ in outputs["ice"]) == [1, 1]
    assert sorted(files for files, _, _ in outputs["ice-empty"]) == [0, 1]
    # Which version it read is not certain, so none is recorded.
    assert said["own"] == []
