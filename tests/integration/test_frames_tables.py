"""Rows of tables with versions, traced in the version that the job read, by the real thing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lineage_query.rows.reader import ForbiddenRowsError, RootedReader, RowReader
from lineage_query.rows.table_commits import EARLIER, commits_of
from lineage_store.paths import RowsError
from tests.support.versions import only_in
from tests.tables.ran import Ran

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("Delta Lake", "3.5", "4.1")]

CONF = """\
spark.sql.extensions io.delta.sql.DeltaSparkSessionExtension
spark.sql.catalog.spark_catalog org.apache.spark.sql.delta.catalog.DeltaCatalog
spark.databricks.delta.snapshotPartitions 1
spark.databricks.delta.retentionDurationCheck.enabled false
"""


def added(ran: Ran, table: str, version: int) -> str:
    """The one file that a version of a table added."""
    log = (ran.folder / table / f"_delta_log/{version:020}.json").read_text()
    (add,) = (one["add"] for one in map(json.loads, log.splitlines()) if "add" in one)
    return f"{ran.folder / table}/{add['path']}"


def forge(table: Path, told: dict[str, Any]) -> None:
    """Say something else of the second column of a table in its log."""
    log = table / f"_delta_log/{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    (metadata,) = (action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1] |= told
    metadata["schemaString"] = json.dumps(schema)
    log.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    made = Ran(tmp_path_factory.mktemp("delta"))
    made.run("delta_job.py", "delta", CONF)
    # A table is made anew where one was: same versions, other files.
    shutil.rmtree(made.folder / "anew" / "_delta_log")
    shutil.copytree(made.folder / "vacuumed", made.folder / "anew", dirs_exist_ok=True)
    home, kept = str(made.folder), "spark-warehouse/kept"
    kind = {"type": "udt", "pyClass": "named_by_a_log.Kind", "sqlType": "string"}
    forge(made.folder / "classes", {"type": kind | {"serializedClass": "gASVAAA="}})
    (made.folder / "named_by_a_log.py").write_text("open('imported', 'w').close()")
    made.conf["PYTHONPATH"] = home
    forge(made.folder / "defaults", {"metadata": {"EXISTS_DEFAULT": "current_user()"}})
    first = added(made, "totals", 0)
    made.ask(
        {
            "by condition": (f"{home}/totals", "city = 'Oslo'", "backward"),
            "row": (f"{first}#0", None, "backward"),
            "appended": (f"{added(made, 'orders', 1)}#0", None, "backward"),
            "named": (f"{home}/named", "id < 9", "backward"),
            "figures": ("5", "n = 7", "backward"),
            "marked": (f"{home}/{kept}", "true", "backward"),
            "marked row": (f"{added(made, kept, 0)}#1", None, "backward"),
            "deleted row": (f"{added(made, 'spark-warehouse/marked', 1)}#3", None, "forward"),
            "vacuumed": (f"{home}/lost", "true", "backward"),
            "made anew": (f"{home}/old", "true", "backward"),
            "packed": (f"{home}/packed", "id < 4", "backward"),
            "packed first": (f"{home}/packed", "id = 1", "backward"),
            "forward": (f"{added(made, 'orders', 1)}#0", None, "forward"),
            "class": (f"{home}/of_classes", "id < 9", "backward"),
            "default": (f"{home}/of_defaults", "id < 9", "backward"),
            "listed": (f"{home}/orders", "0", "list"),
            "listed appended": (f"{home}/orders", "1", "list"),
        }
    )
    return made


def test_delta_rows_of_the_version_that_was_read(ran: Ran) -> None:
    assert ran.ids("by condition") == [0, 2, 4]
    ((_, text),) = ran.answers["row"]["start"]
    assert json.loads(text) in ({"city": "Oslo", "total": 6}, {"city": "Rome", "total": 9})
    assert ran.ids("row") == ([0, 2, 4] if "Oslo" in text else [1, 3, 5])
    assert ran.ids("named") == [0, 1, 2, 3, 4, 5]


def test_delta_table_that_is_read_and_written_by_one_write(ran: Ran) -> None:
    assert ran.ids("appended") == [1]


def test_delta_figures_of_the_log_are_traced_to_rows(ran: Ran) -> None:
    """Delta Lake answers counts and greatest values without reading a row."""
    assert ran.ids("figures") == [0, 1, 2, 3, 4, 5, 101]


def test_delta_version_that_is_not_certain_is_refused(ran: Ran) -> None:
    (said,) = ran.answers["named"]["warnings"]
    assert "DataFrameWriter.parquet" in said
    assert "had version 0 when the frame was made and 1 after the action" in said


def test_delta_rows_keep_their_places_where_others_are_deleted(ran: Ran) -> None:
    """Row 5 is deleted since, rows 0 and 3 were before."""
    assert ran.ids("marked") == [4, 5, 6, 7]
    places = sorted(int(place.rpartition("#")[2]) for place, _ in ran.answers["marked"]["rows"])
    assert places == [4, 5, 6, 7]
    ((_, text),) = ran.answers["marked row"]["start"]
    assert ran.ids("marked row") == [json.loads(text)["id"]]
    assert ran.ids("deleted row") == []
    told = ran.answers["deleted row"]["warnings"]
    said = "#3 is not among the rows that were read: it is deleted in version 2"
    assert any(said in warning for warning in told), told


def test_delta_version_that_is_gone_is_said(ran: Ran) -> None:
    assert "is gone: VACUUM deletes files" in ran.answers["vacuumed"]["error"]
    assert "was made anew: its version 0 is another" in ran.answers["made anew"]["error"]


def test_code_that_a_log_names_is_not_run(ran: Ran) -> None:
    assert "a column of a class, 'named_by_a_log.Kind'" in ran.answers["class"]["error"]
    assert not (ran.folder / "imported").exists()
    assert "a default that is no constant" in ran.answers["default"]["error"]


def test_delta_rows_of_an_output_are_listed(ran: Ran) -> None:
    """Those of the version that it wrote, which later writes replaced."""
    assert ran.ids("listed") == [0, 1, 2, 3, 4, 5]
    assert ran.ids("listed appended") == [101]


def test_delta_rows_that_were_moved_to_other_files_are_traced(ran: Ran) -> None:
    assert not Path(added(ran, "packed", 0)).exists()
    assert ran.ids("packed") == [0, 1, 2, 3]
    assert ran.ids("packed first") == [1]
    assert ran.gaps(str(ran.folder / "packed")) == ()


def test_delta_rows_are_traced_forward(ran: Ran) -> None:
    """The row was appended: the figures counted it."""
    rows = [json.loads(text) for _, text in ran.answers["forward"]["rows"]]
    assert rows == [{"n": 7, "max(id)": 101}]


def test_delta_commits_that_no_known_write_made_are_told(ran: Ran) -> None:
    orders, home = str(ran.folder / "orders"), ran.folder
    assert ran.gaps(orders) == ()
    # The third one wrote the table anew.
    assert ran.gaps(orders, "0", "1") == ()
    (said,) = ran.gaps(orders, "2")
    assert said == f"{orders}: of its versions, 2 was not written by any known DataFrame"
    totals = str(home / "totals")
    assert ran.gaps(totals) == ()
    (said,) = ran.gaps(totals, "0")
    assert "of its versions, 0 was" in said
    # VACUUM changes no rows, DELETE does.
    assert strange(home / "vacuumed", "0", "1") == ()
    marked = home / "spark-warehouse/marked"
    assert strange(marked, "1") == ("3", "2")
    assert strange(marked) == ("3", "2", "1")
    log = home / "cleaned/_delta_log"
    shutil.copytree(orders, log.parent)
    known = {version: [names_in(log, version)] for version in ("0", "1")}
    for version in (0, 2):
        (log / f"{version:020}.json").unlink()
    assert commits_of(RowReader(), str(log.parent), known, "0").foreign_versions == ()
    assert strange(log.parent, "1") == (EARLIER,)
    for odd in (b"{", b"[]", b'{"add": 1}', b"\xff"):
        (log / f"{3:020}.json").write_bytes(odd)
        with pytest.raises(RowsError):
            strange(log.parent, "1")
    with pytest.raises(ForbiddenRowsError):
        commits_of(RootedReader([str(home / "in")]), orders, {})
    with pytest.raises(RowsError, match="not on this machine"):
        commits_of(RowReader(), "s3a://there/orders", {})
    with pytest.raises(RowsError, match="no log"):
        strange(home / "named")


def strange(table: Path, *known: str) -> tuple[str, ...]:
    """The versions of a table that are not among the known ones."""
    files = {version: [names_in(table / "_delta_log", version)] for version in known}
    return commits_of(RowReader(), str(table), files).foreign_versions


def names_in(log: Path, version: str) -> frozenset[str]:
    """The names of the files that a version added."""
    lines = (log / f"{int(version):020}.json").read_text().splitlines()
    actions = [json.loads(line) for line in lines]
    return frozenset(Path(action["add"]["path"]).name for action in actions if "add" in action)
