"""Traces through tables that track rows (Delta Lake, Iceberg), which others change between the jobs, by the real thing."""

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

pytestmark = [pytest.mark.integration, pytest.mark.long]

CONF = {
    "delta": """\
spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.databricks.delta.snapshotPartitions 1
""",
    "iceberg": """\
spark.sql.extensions org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions
spark.sql.catalog.local org.apache.iceberg.spark.SparkCatalog
spark.sql.catalog.local.type hadoop
spark.sql.catalog.local.warehouse {home}/warehouse
""",
}
"""Settings by the tables' format."""
DRAWN = 8
"""Tables that are drawn with what is done to them, each in a Spark of its own."""
FEW_STEPS = "append,optimize,update,report"
STEPS = "append,append,optimize,update,delete,merge,report"
DRAWS = [
    pytest.param(kind, traced, id=f"{kind}, {name}", marks=only_in(title, "4.1"))
    for kind, title in (("delta", "Delta Lake"), ("iceberg", "Apache Iceberg"))
    for traced, name in (
        (("2", f"3={FEW_STEPS}"), "few"),
        (("4", f"3={STEPS}"), "named"),
        *((("8", str(seed)), f"drawn {seed}") for seed in range(1, DRAWN + 1)),
    )
]
"""The format, how many rows are traced of a table, and what is done to it."""


def run(folder: Path, kind: str, *arguments: str) -> list[dict[str, Any]]:
    jars = ",".join(map(str, sorted(table_jars().glob(f"{kind}*.jar"))))
    (folder / "conf").mkdir()
    settings = f"{SMALL_SPARK}spark.jars {jars}\n{CONF[kind].format(home=folder)}"
    (folder / "conf/spark-defaults.conf").write_text(settings)
    shutil.copy(HERE / "tracked_job.py", folder)
    env = {"SPARK_CONF_DIR": str(folder / "conf")}
    arguments = f"sqlite:///{folder / STORE}", kind, *arguments
    done = run_plain(folder, "tracked_job.py", *arguments, env=env)
    assert done.returncode == 0, done.stderr
    tables: list[dict[str, Any]] = json.loads((folder / "tracked.json").read_text())
    return tables


def lines_of(trace: dict[str, Any], beginning: str) -> list[str]:
    return sorted(place for place, _ in trace["found"] if place and place.startswith(beginning))


@pytest.mark.parametrize(("kind", "drawn"), DRAWS)
def test_rows_are_followed_through_what_others_did_to_the_table(
    tmp_path: Path, kind: str, drawn: tuple[str, ...]
) -> None:
    """Each row says which line made it, and how often it was changed: what traces say is held against that."""
    complete = 0
    for table in run(tmp_path, kind, *drawn):
        told, inputs = table["steps"], f"{tmp_path}/{table['name']}."
        places: dict[str, list[str]] = {}
        changed: set[str] = set()
        for place, line in table["lines"].items():
            ids, changes = line.split(",")
            places.setdefault(ids, []).append(place)
            changed |= {ids} if int(changes) else set()
        for place, trace in table["back"].items():
            line = table["lines"][place]
            ids, changes = line.split(",")
            name, _, number = ids.rpartition(".")
            found = lines_of(trace, inputs)
            expected = [f"{tmp_path}/{name}.txt:{number}"] if ids in table["appended"] else []
            assert set(found) <= set(expected), (told, line)
            if trace["complete"]:
                assert found == expected, (told, line, trace)
                assert not (expected and int(changes)), (told, line)
                complete += bool(expected)
            assert trace["exact"], (told, line)
            if table["is_tracked"] and expected:
                # Whatever was done to it, a row that kept its id is followed.
                assert found == expected, (told, line, trace)
                assert trace["complete"] is not bool(int(changes)), (told, line, trace)
        for ids, trace in table["forward"].items():
            found, expected = (
                lines_of(trace, f"{tmp_path}/{table['name']}-out"),
                sorted(places.get(ids, [])),
            )
            assert set(found) <= set(expected), (told, ids, trace)
            if trace["complete"]:
                assert found == expected, (told, ids, trace)
                assert ids not in changed, (told, ids, trace)
                complete += bool(expected)
            if table["keeps_ids"]:
                assert found == expected, (told, ids, trace)
    assert complete or not table["is_tracked"]


@only_in("Delta Lake", "4.1")
def test_a_row_whose_first_file_was_deleted_ends_at_the_job_that_wrote_it(tmp_path: Path) -> None:
    (table,) = run(tmp_path, "delta", "4", "5=append,append,optimize,vacuum,report")
    assert len(table["back"]) == 4
    for trace in table["back"].values():
        assert not trace["complete"]
        (place,) = [place for place, _ in trace["found"]]
        assert f"{tmp_path}/t5/" in place
        ((_, reason),) = trace["refused"]
        assert re.search(
            r"wrote the row in version [12] of .*/t5, and .* read it in another file in version 5",
            reason,
        )
    for trace in table["forward"].values():
        assert not trace["complete"]
        assert trace["refused"]


@only_in("Apache Iceberg", "4.1")
def test_a_row_whose_first_snapshot_has_expired_is_refused_with_both(tmp_path: Path) -> None:
    (table,) = run(tmp_path, "iceberg", "2", "5=append,optimize,expire,report")
    assert len(table["back"]) == 2
    both = (
        r"it wrote snapshot \d+ of .*/t5, which the metadata that (\S+) read do not list, "
        r"and \1 read snapshot \d+, in which .* may hold its rows"
    )
    for trace in table["back"].values():
        assert not trace["complete"]
        assert not lines_of(trace, f"{tmp_path}/t5.0.txt")
        assert any(re.search(both, reason) for _, reason in trace["refused"]), trace["refused"]
    # The file in which the job wrote the row is deleted with the snapshot.
    no_place = r"that (\S+) wrote have no place in its files now, so whether it read them"
    for trace in table["forward"].values():
        assert not trace["complete"]
        named = [(app, re.search(no_place, reason)) for app, reason in trace["refused"]]
        assert any(found and app != found[1] for app, found in named), trace["refused"]
