"""Traces through jobs that are linked by tables with versions, by the real thing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

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


def test_traces_go_through_the_versions_of_tables_that_were_read(tmp_path: Path) -> None:
    """RDDs to Delta Lake (two that append), to Iceberg, to lines; and what others put into other files ends a trace."""
    jars = ",".join(map(str, sorted(table_jars().glob("*.jar"))))
    (tmp_path / "conf").mkdir()
    settings = f"{SMALL_SPARK}spark.jars {jars}\n{CONF.format(home=tmp_path)}"
    (tmp_path / "conf/spark-defaults.conf").write_text(settings)
    shutil.copy(HERE / "chain_job.py", tmp_path)
    env = {"SPARK_CONF_DIR": str(tmp_path / "conf")}
    done = run_plain(tmp_path, "chain_job.py", f"sqlite:///{tmp_path / STORE}", env=env)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads((tmp_path / "chain.json").read_text())
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
        ends = {place.split("/")[-2] for place, _ in trace["found"] if place is not None}
        assert ends == {"chained"} | ({"busied"} if number == 1 else set())
        assert not trace["complete"]
        assert {app for app, _ in trace["refused"]} == {apps["packed"], apps["totals"]} | (
            # It read a table of which another commit was made as this one wrote.
            {apps["busied"]} if number == 2 else set()
        )

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

    def used(name: str) -> list[tuple[str, bool, list[str]]]:
        of_app = {app: name for name, app in apps.items()}
        return [(of_app[app], wrote, versions) for app, wrote, versions in said["versions"][name]]

    assert used("orders") == [
        ("packed", False, ["2"]),
        ("totals", False, ["1"]),
        ("append 2", True, ["1"]),
        ("append 1", True, ["0"]),
    ]
    assert used("busy") == [("busied", False, ["2"]), ("busy 2", True, []), ("busy 1", True, ["0"])]
    (written,) = [versions for _, wrote, versions in used("warehouse/db/totals") if wrote]
    assert used("warehouse/db/totals")[1] == ("chained", False, written)
    assert said["orders@2"] == [orders]
