"""Traces through jobs that are linked by tables with versions, by the real thing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.support.job_runs import STORE, run_plain
from tests.support.versions import only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE, table_jars

pytestmark = [pytest.mark.integration, only_in("Apache Iceberg", "4.1")]

CONF = """\
spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension,org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.databricks.delta.snapshotPartitions 1
spark.sql.catalog.local org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.local.type hadoop
spark.sql.catalog.local.warehouse {home}/warehouse
"""


Said: TypeAlias = dict[str, Any]
"""What the jobs say, and what traces through them do."""


def ran(folder: Path, *parts: str) -> Said:
    jars = ",".join(map(str, sorted(table_jars().glob("*.jar"))))
    (folder / "conf").mkdir()
    settings = f"{SMALL_SPARK}spark.jars {jars}\n{CONF.format(home=folder)}"
    (folder / "conf/spark-defaults.conf").write_text(settings)
    shutil.copy(HERE / "chain_job.py", folder)
    env = {"SPARK_CONF_DIR": str(folder / "conf")}
    done = run_plain(folder, "chain_job.py", f"sqlite:///{folder / STORE}", *parts, env=env)
    assert done.returncode == 0, done.stderr
    said: Said = json.loads((folder / "chain.json").read_text())
    return said


def used(said: Said, name: str) -> list[tuple[str, bool, list[str]]]:
    """Who used a dataset: its application, whether it wrote, versions."""
    of_app = {app: name for name, app in said["apps"].items()}
    return [(of_app[app], wrote, versions) for app, wrote, versions in said["versions"][name]]


def ends(trace: dict[str, Any]) -> set[str]:
    """The folders of what a forward trace found."""
    return {place.split("/")[-2] for place, _ in trace["found"] if place is not None}


@pytest.mark.long
def test_traces_go_through_the_versions_of_tables_that_were_read(tmp_path: Path) -> None:
    """RDDs to Delta Lake (two that append), to Iceberg, to lines; and what others put into other files ends a trace."""
    said = ran(tmp_path)
    apps, traces = said["apps"], said["traces"]

    lines = {
        text.split(",")[1]: (f"{tmp_path}/in{number}.txt:{at}", text)
        for number in (1, 2)
        for at, text in enumerate((tmp_path / f"in{number}.txt").read_text().splitlines(), 1)
    }
    chained = {name: trace for name, trace in traces.items() if name.startswith("chained")}
    assert len(chained) == 3
    for name, trace in chained.items():
        ids = re.findall(r"\d+", name)[:-1]
        assert sorted(map(tuple, trace["found"])) == sorted(lines[one] for one in ids)
        assert (trace["exact"], trace["complete"], trace["refused"]) == (True, True, [])

    orders, totals = f"{tmp_path}/orders", f"{tmp_path}/warehouse/db/totals"
    packed = traces["packed"]
    assert not packed["complete"]
    assert {app for app, _ in packed["refused"]} == {apps["append 1"], apps["append 2"]}
    for app, reason in packed["refused"]:
        version = 0 if app == apps["append 1"] else 1
        assert f"it wrote version {version} of {orders}" in reason
        assert f"{apps['packed']} read version 2: " in reason
    for name, trace in traces.items():
        if name.startswith("updated"):
            # Which application of the same Spark application ran the UPDATE is not known, either.
            reason = dict(trace["refused"])[apps["totals"]]
            assert not trace["complete"]
            assert re.search(rf"it wrote snapshot \d+ of {re.escape(totals)}", reason)
            assert re.search(rf"{apps['updated']} read snapshot \d+", reason)

    for number in (1, 2):
        trace = traces[f"forward {number}"]
        # Only what certainly holds the row is found, and who else may have read it is named.
        assert ends(trace) == {"chained"}
        assert not trace["complete"]
        assert {app for app, _ in trace["refused"]} == {apps["packed"], apps["totals"]}

    assert used(said, "orders") == [
        ("packed", False, ["2"]),
        ("totals", False, ["1"]),
        ("append 2", True, ["1"]),
        ("append 1", True, ["0"]),
    ]
    (written,) = [versions for _, wrote, versions in used(said, "warehouse/db/totals") if wrote]
    assert used(said, "warehouse/db/totals")[1] == ("chained", False, written)
    assert said["orders@2"] == [orders]


@pytest.mark.long
def test_a_version_that_may_be_another_programs_is_not_taken(tmp_path: Path) -> None:
    """A program commits to a table of Delta Lake while a job writes it, with a Delta Lake that does not say which commits it begins."""
    said = ran(tmp_path, "busy")
    apps, traces = said["apps"], said["traces"]
    # The second job wrote version 1 or 2, as another program made the other one meanwhile.
    busy = {name: trace for name, trace in traces.items() if name.startswith("busied")}
    assert len(busy) == 6
    led_on = [trace for trace in busy.values() if trace["complete"]]
    assert sorted(text for trace in led_on for _, text in trace["found"]) == [
        "a,11",
        "a,13",
        "b,12",
    ]
    for trace in busy.values():
        if not trace["complete"]:
            ((app, reason),) = trace["refused"]
            assert app == apps["busy 2"]
            assert f"it wrote one of the versions 1 to 2 of {tmp_path}/busy" in reason

    assert used(said, "busy") == [
        ("busied", False, ["2"]),
        ("busy 2", True, []),
        ("busy 1", True, ["0"]),
    ]
    assert ends(traces["forward 1"]) == {"busied"}
    # It read a table of which another commit was made as the job wrote.
    assert ends(traces["forward 2"]) == set()
    assert {app for app, _ in traces["forward 2"]["refused"]} == {apps["busied"]}
    assert traces["forward 1"]["complete"]
    assert not traces["forward 2"]["complete"]
