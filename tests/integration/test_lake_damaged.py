"""A file of a lake that is lost or damaged harms its application alone: that is named, refused and never called complete."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lineage.doctor import _store as looked_at_by_doctor
from lineage.main import app as program
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS
from lineage_dataframes.spark.table_files import read_files
from lineage_store.errors import DamagedError
from lineage_store.lake import file_writing
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.columns import Kind, application_key
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.sqlite.store import SqliteStore
from tests.support.lake_writer import write_application
from tests.support.stored_lineage import StoredRun, store_run

pytestmark = pytest.mark.integration

APPS = ("app-1", "app-2", "app-3")
HARMED = "app-2"


@dataclass(frozen=True)
class Lake:
    """A lake of three applications, each in a folder of its own."""

    url: str
    folder: Path
    runs: dict[str, StoredRun]

    def file_of(self, app: str) -> Path:
        """The only file of an application."""
        (path,) = (self.folder / f"app={application_key(app)}").iterdir()
        return path

    def __call__(self, *arguments: str) -> Any:
        return CliRunner().invoke(program, arguments, env={"LINEAGE_STORE": self.url})

    def answer(self, *arguments: str) -> Any:
        """What a command prints as JSON, which ends well."""
        result = self(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def listed(self) -> dict[str, dict[str, Any]]:
        """The applications by id."""
        return {record["app"]: record for record in self.answer("apps")}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return filled(tmp_path)


def filled(tmp_path: Path) -> Lake:
    """A lake, as `lineage archive` makes it."""
    runs = {}
    for number, app in enumerate(APPS):
        (tmp_path / app).mkdir()
        url = f"sqlite:///{tmp_path}/lineage.db"
        runs[app] = store_run(
            url, tmp_path / app, app, started_at=1000.0 * (number + 1), summed=True
        )
    folder = tmp_path / "lake"
    with (
        SqliteStore(tmp_path / "lineage.db") as sqlite,
        LakeStore(LakeAddress(str(folder))) as store,
    ):
        for app in APPS:
            move_application(sqlite, store, app)
    return Lake(f"lake:{folder}", folder, runs)


def harm(path: Path, damage: str) -> None:
    """Damage a file as disks, networks and people do."""
    if damage == "missing":
        path.unlink()
        return
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    elif damage == "footer":
        data[-8:] = bytes(8)
    else:
        flip(path, data, Kind(damage))
    path.write_bytes(data)


def flip(path: Path, data: bytearray, kind: Kind) -> None:
    """One bit in the largest column of the rows of a kind, where no reader of Parquet alone would notice."""
    described = pq.ParquetFile(path).metadata
    of_kind = described.schema.names.index("kind")
    (group,) = (
        group
        for group in (described.row_group(at) for at in range(described.num_row_groups))
        if (stats := group.column(of_kind).statistics) is not None and stats.min == kind.value
    )
    column = max(
        (group.column(at) for at in range(group.num_columns)),
        key=lambda chunk: chunk.total_compressed_size,
    )
    data[column.data_page_offset + column.total_compressed_size - 3] ^= 1


def split(answer: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What was found, and beside it the other applications that may have read or written these files."""
    others: list[dict[str, Any]] = []
    found = dict(answer)
    for name in ("sources", "sinks", "start"):
        groups = [dict(group) for group in answer.get(name, ())]
        others += [job for group in groups for job in group.pop("next_jobs", ())]
        found[name] = groups
    return found, others


@pytest.mark.parametrize(
    "damage",
    [
        "missing",
        pytest.param("cut", marks=pytest.mark.long),
        pytest.param("footer", marks=pytest.mark.long),
        Kind.MESSAGE.value,
    ],
)
def test_one_damaged_application_harms_no_other(lake: Lake, damage: str) -> None:
    others = [app for app in APPS if app != HARMED]
    before = lake.listed()
    places = {app: f"{lake.runs[app].sink}:1" for app in APPS}
    answers = {app: lake.answer("back", places[app]) for app in others}
    sources = {app: f"{lake.runs[app].source}:1" for app in others}
    forwards = {app: lake.answer("forward", place) for app, place in sources.items()}
    harmed = lake.file_of(HARMED)
    kept = harmed.read_bytes()
    harm(harmed, damage)

    listed = lake.listed()
    assert {app: listed[app] for app in others} == {app: before[app] for app in others}
    assert listed[HARMED]["status"] == "damaged"
    assert f"app={application_key(HARMED)}/{harmed.name}" in listed[HARMED]["damage"]
    assert f"{HARMED} " in lake("apps").stdout

    # The others answer as before; who else may have used a file is said where that is not known any more.
    for app in others:
        now, earlier = split(lake.answer("back", places[app], "--app", app))
        assert now == split(answers[app])[0]
        now, later = split(lake.answer("forward", sources[app]))
        assert [gap["app"] for gap in now.pop("not_asked")] == [HARMED]
        assert (now["complete"], forwards[app]["complete"]) == (False, True)
        assert now["sinks"] == split(forwards[app])[0]["sinks"]
        for job in (*earlier, *later):
            assert job["app"] == HARMED
            assert "not known" in job["reason"]
        assert earlier
        assert later

    # What needs the file is refused, with the reason and the way out; it is not complete.
    for arguments in (["back", places[HARMED], "--app", HARMED], ["graph", HARMED]):
        refused = lake(*arguments)
        assert refused.exit_code != 0
        assert "is damaged" in refused.stderr
        assert (
            f"lineage verify {HARMED}" in refused.stderr or f"lineage rm {HARMED}" in refused.stderr
        )
    refused = lake("back", places[HARMED])
    assert refused.exit_code != 0
    assert "is damaged" in refused.stderr
    verdict = lake("verify", HARMED)
    assert verdict.exit_code == 1
    assert harmed.name in verdict.stdout
    assert f"lineage rm {HARMED}" in verdict.stdout
    assert verdict.stdout.startswith(f"{HARMED}: incomplete (damaged)")
    assert not json.loads(lake("verify", HARMED, "--json").stdout)["complete"]
    assert [app for app in others if lake("verify", app).exit_code] == []
    findings = [finding for finding in looked_at_by_doctor(lake.url) if finding.state != "ok"]
    assert [finding.state for finding in findings] == ["problem"]
    assert HARMED in findings[0].detail
    assert harmed.name in findings[0].detail
    assert lake("jobs").exit_code == lake("datasets").exit_code == 0

    # Put back, it is whole.
    harmed.write_bytes(kept)
    assert lake.listed() == before
    assert lake("verify", HARMED).exit_code == 0
    # Or it is given up.
    harm(harmed, damage)
    assert lake("rm", HARMED).exit_code == 0
    assert lake.listed() == {app: before[app] for app in others}
    assert lake.answer("forward", sources[APPS[0]]) == forwards[APPS[0]]


def test_flows_that_a_bit_changed_in_are_never_read(lake: Lake) -> None:
    """Packed columns are not compressed: what a bit changed in would be other rows."""
    place = f"{lake.runs[HARMED].sink}:1"
    lake.answer("back", place)
    harm(lake.file_of(HARMED), Kind.BLOCK.value)
    refused = lake("back", place)
    assert refused.exit_code != 0
    assert f"{HARMED} is damaged" in refused.stderr
    # No count of what was received needs them.
    assert lake.answer("verify", HARMED, "--received-only")["complete"]
    verdict = lake("verify", HARMED)
    assert verdict.exit_code == 1
    assert verdict.stdout.startswith(f"{HARMED}: incomplete (damaged)")
    assert lake("verify", "app-1").exit_code == 0
    assert lake.answer("back", f"{lake.runs['app-1'].sink}:1")["complete"]


def test_who_reads_meanwhile_notices_when_the_file_is_needed(lake: Lake) -> None:
    with LakeStore(LakeAddress(str(lake.folder))) as store:
        graph = store.graph(HARMED)
        refs = list(graph.blocks())
        lake.file_of(HARMED).unlink()
        with pytest.raises(DamagedError) as raised:
            graph.load(ref.block_id for ref in refs)
        assert raised.value.app == HARMED
        assert "missing" in raised.value.damage


def test_an_id_that_was_lost_with_the_files_is_that_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of earlier versions have names without it."""
    monkeypatch.setattr(file_writing, "_app_in", lambda _: "")
    lake = filled(tmp_path)
    lake.file_of(HARMED).unlink()
    name = f"app={application_key(HARMED)}"
    listed = lake.listed()
    assert listed.keys() == {"app-1", name, "app-3"}
    assert listed[name]["status"] == "damaged"
    # Whoever knows the id reaches it by that, too.
    for called in (HARMED, name):
        with LakeStore(LakeAddress(str(lake.folder))) as store, pytest.raises(DamagedError):
            store.graph(called).nodes()
    assert lake("rm", name).exit_code == 0
    assert lake.listed().keys() == {"app-1", "app-3"}


@pytest.fixture
def small_files(tmp_path: Path) -> Iterator[LakeStore]:
    with LakeStore(LakeAddress(str(tmp_path / "lake"))) as store:
        for part in range(3):
            for app in APPS:
                write_application(store, app, part)
        yield store


def test_files_of_others_are_merged(small_files: LakeStore, tmp_path: Path) -> None:
    folder = tmp_path / "lake" / f"app={application_key(HARMED)}"
    lost = sorted(folder.iterdir())[1]
    kept = lost.read_bytes()
    lost.unlink()
    with LakeStore(LakeAddress(str(tmp_path / "lake"))) as store:
        done = compact(store)
        assert (done.merged, done.written) == (6, 2)
        # What is left of it stays, beside what may be put back.
        with pytest.raises(DamagedError, match=f"{HARMED} is damaged: .* is missing"):
            store.graph(HARMED).nodes()
    lost.write_bytes(kept)
    with LakeStore(LakeAddress(str(tmp_path / "lake"))) as store:
        assert (compact(store).merged, store.application_ids()) == (
            3,
            small_files.application_ids(),
        )


@pytest.mark.long
def test_nor_by_spark(lake: Lake, spark_context: SparkContext) -> None:
    spark = SparkSession(spark_context)
    path = lake.file_of(HARMED)

    def read() -> list[Any]:
        return read_files(spark, "kind string, data binary", [str(path)]).collect()

    assert {row.kind for row in read() if row.data is not None} >= {"block"}
    harm(path, Kind.BLOCK.value)
    with pytest.raises(SPARK_ERRORS, match="CRC"):
        read()


def test_a_copy_in_the_database_is_not_given_up_with_the_damaged_one(tmp_path: Path) -> None:
    url, folder = f"sqlite:///{tmp_path}/lineage.db", tmp_path / "lake"
    run = store_run(url, tmp_path, HARMED)
    with (
        SqliteStore(tmp_path / "lineage.db") as sqlite,
        LakeStore(LakeAddress(str(folder))) as store,
    ):
        move_application(sqlite, store, HARMED, deletes=False)
    lake = Lake(f"{url},lake:{folder}", folder, {HARMED: run})
    lake.file_of(HARMED).unlink()
    assert lake.listed().keys() == {HARMED}
    refused = lake("back", f"{run.sink}:1", "--app", HARMED)
    assert refused.exit_code != 0
    assert f"lineage --store lake:{folder} rm {HARMED}" in refused.stderr
    removed = CliRunner().invoke(program, ["--store", f"lake:{folder}", "rm", HARMED])
    assert removed.exit_code == 0
    assert lake.answer("back", f"{run.sink}:1")["complete"]
