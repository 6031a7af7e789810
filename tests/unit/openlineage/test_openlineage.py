"""What OpenLineage is told: datasets by its naming rules, events by its client's model."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from openlineage.client.naming import dataset as naming
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.contract.graph import SinkFileRecord, SplitRecord
from lineage_core.contract.message import (
    Begin,
    End,
    Heartbeat,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    SinkFile,
    Totals,
)
from lineage_emitter import LineageApi
from lineage_openlineage import events as events_module
from lineage_openlineage.datasets import RunDataset, dataset_name, inputs_of, outputs_of
from lineage_openlineage.errors import OpenLineageError
from lineage_openlineage.events import FACET, RecordLineageRunFacet, run_events
from lineage_openlineage.facts import RunFacts, facts_of
from lineage_openlineage.naming import Naming
from lineage_openlineage.sending import Endpoint, lines_of, read_endpoint
from lineage_store.dataset_paths import UnfiledDataset
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.memory_graph import MemoryGraph, node
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit

NOW = 5_000.0


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory whose default store holds a word count."""
    monkeypatch.chdir(tmp_path)
    for name in ("LINEAGE_STORE", "LINEAGE_OPENLINEAGE_URL", "LINEAGE_OPENLINEAGE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / ".lineage").mkdir()
    store_run("sqlite:///.lineage/lineage.db", tmp_path)
    return tmp_path


def facts(app_id: str = "app-1", now: float = NOW, **named: Any) -> RunFacts:
    with SqliteStore(Path(".lineage/lineage.db")) as store:
        return facts_of(store, app_id, naming=Naming(**named), now=now)


def told(found: RunFacts) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines_of(run_events(found))]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data/in.txt", naming.LocalFileSystem(path="/data/in.txt")),
        ("file:/data/in.txt", naming.LocalFileSystem(path="/data/in.txt")),
        ("file:///data//out/", naming.LocalFileSystem(path="/data/out")),
        ("hdfs://nn:8020/data/in", naming.HDFS("nn", "8020", "/data/in")),
        ("s3a://bucket/data/in", naming.S3("bucket", "data/in")),
        ("s3://bucket/data/in", naming.S3("bucket", "data/in")),
        ("gs://bucket/data/in", naming.GCS("bucket", "data/in")),
        ("abfss://box@account.dfs.core.windows.net/in", naming.ABFSS("box", "account", "/in")),
    ],
)
def test_paths_are_named_as_the_specification_has_them(
    path: str, expected: naming.DatasetNaming
) -> None:
    assert dataset_name(path) == (expected.get_namespace(), expected.get_name())


def test_a_bucket_and_a_name_node_that_is_not_named() -> None:
    assert dataset_name("s3a://bucket") == ("s3a://bucket".replace("s3a", "s3"), "/")
    assert dataset_name("s3a://bucket/") == ("s3://bucket", "/")
    assert dataset_name("hdfs:///data/in") == ("hdfs://", "/data/in")
    assert dataset_name("hdfs:/data/in") == ("hdfs://", "/data/in")


def read(named: str | None, *paths: str, cwd: str = "/home/ann") -> list[tuple[str, str]]:
    splits = [SplitRecord("0", at, path, 0, 10, 10, 1.0, False, 5) for at, path in enumerate(paths)]
    graph = MemoryGraph([node("0", "source", path=named)], [], [], split_list=splits)
    return [(one.namespace, one.name) for one in inputs_of(graph, cwd)]


@pytest.mark.parametrize(
    ("named", "files", "expected"),
    [
        ("in.txt", ["file:/home/ann/in.txt"], ["/home/ann/in.txt"]),
        ("out", ["file:/home/ann/out/part-0", "file:/home/ann/out/part-1"], ["/home/ann/out"]),
        ("../bob/out", ["file:/home/bob/out/part-0"], ["/home/bob/out"]),
        ("./out/", ["file:/home/ann/out/part-0"], ["/home/ann/out"]),
        # Not started where the driver says it was.
        ("data/out", ["file:/srv/data/out/part-0"], ["/srv/data/out"]),
        ("/srv/out", ["file:/srv/out/part-0"], ["/srv/out"]),
        ("file:///srv/out", ["file:/srv/out/part-0"], ["/srv/out"]),
        (
            "a.txt,b",
            ["file:/home/ann/a.txt", "file:/home/ann/b/x"],
            ["/home/ann/a.txt", "/home/ann/b"],
        ),
        ("logs/*.txt", ["file:/home/ann/logs/1.txt"], ["/home/ann/logs/1.txt"]),
        (None, ["file:/home/ann/1.txt"], ["/home/ann/1.txt"]),
        # A folder of the same beginning is another one.
        ("/srv/ou", ["file:/srv/out/part-0"], ["/srv/out/part-0"]),
        ("in.txt", [], []),
    ],
)
def test_a_dataset_is_what_the_program_named(
    named: str | None, files: list[str], expected: list[str]
) -> None:
    assert read(named, *files) == [("file", name) for name in expected]


def test_datasets_elsewhere() -> None:
    assert read("/in", "hdfs://nn:8020/in/part-0") == [("hdfs://nn:8020", "/in")]
    assert read("hdfs://nn:8020/in", "hdfs://nn:8020/in/part-0") == [("hdfs://nn:8020", "/in")]
    assert read("s3a://b/in", "s3a://b/in/p0", "s3a://b/in/p1") == [("s3://b", "in")]
    assert read("in", "hdfs://nn:8020/user/ann/in/p0") == [("hdfs://nn:8020", "/user/ann/in")]
    assert read("s3a://c/in", "s3a://b/in/p0") == [("s3://b", "in/p0")]


def test_of_a_pattern_that_fits_many_files_their_folders_are_named() -> None:
    files = [f"file:/logs/{at % 2}/{at}.txt" for at in range(101)]
    assert read("/logs/*/*", *files) == [("file", "/logs/0"), ("file", "/logs/1")]


def test_rows_and_sizes_of_datasets() -> None:
    splits = [
        SplitRecord("0", 0, "file:/a", 0, 5, 10, 1.0, False, 3),
        SplitRecord("0", 1, "file:/a", 5, 5, 10, 1.0, False, 4),
        SplitRecord("1", 0, "file:/a", 0, 10, 10, 1.0, False, None),
        SplitRecord("2", 0, "file:/b", 0, 5, 9, 1.0, False, None),
    ]
    files = [SinkFileRecord("3", at, f"/out/part-{at}", 7, 1.0, 2, ()) for at in range(3)]
    nodes = [*(node(name, "source", path="/") for name in "012"), node("3", "sink", path="/out")]
    graph = MemoryGraph(nodes, [], [], split_list=splits, file_list=files)
    plain = replace_paths(graph)
    assert inputs_of(plain) == [
        RunDataset("file", "/a", 7, 10, 1),
        RunDataset("file", "/b", None, 9, 1),
    ]
    assert outputs_of(plain) == [RunDataset("file", "/out", 6, 21, 3)]


def test_what_data_frames_read_and_wrote_are_datasets() -> None:
    splits = [SplitRecord("0.0", 0, "file:/in/a", 0, 5, 5, 1.0, False, None)]
    files = [SinkFileRecord(name, 0, f"/{name}/part-0", 7, 1.0, None, ()) for name in ("0", "1")]
    nodes = [
        node("0.0", "frame-source", path="/in"),
        node("0", "frame", path="/0"),
        # No trace goes through it, and it wrote this all the same.
        node("1", "unknown", path="/1"),
        node("2", "unknown"),
    ]
    graph = MemoryGraph(nodes, [], [], split_list=splits, file_list=files)
    assert inputs_of(graph) == [RunDataset("file", "/in", None, 5, 1)]
    assert outputs_of(graph) == [
        RunDataset("file", "/0", None, 7, 1),
        RunDataset("file", "/1", None, 7, 1),
    ]


def replace_paths(graph: MemoryGraph) -> MemoryGraph:
    """Sources that the program did not name."""
    graph.node_list = [
        replace(one, path=None) if one.kind == "source" else one for one in graph.node_list
    ]
    return graph


def test_a_run_is_told_at_its_beginning_and_its_end(here: Path) -> None:
    start, end = told(facts(link="https://lineage.corp/apps/"))
    assert (start["eventType"], end["eventType"]) == ("START", "COMPLETE")
    assert start["eventTime"] == "1970-01-01T00:16:40.000+00:00"
    for event in (start, end):
        assert event["job"]["namespace"] == "lineage-master"
        assert event["job"]["name"] == "job"
        assert uuid.UUID(event["run"]["runId"]).version == 5
        assert event["producer"].startswith("urn:lineage-master:producer:")
        assert event["schemaURL"].endswith("#/$defs/RunEvent")
        (source,), (sink,) = event["inputs"], event["outputs"]
        assert (source["namespace"], source["name"]) == ("file", f"{here}/in.txt")
        assert (sink["namespace"], sink["name"]) == ("file", f"{here}/out")
    assert FACET not in start["run"]["facets"]
    facet = end["run"]["facets"][FACET]
    assert facet.pop("_schemaURL").endswith(
        "/LineageMasterRecordLineageRunFacet.json#/$defs/LineageMasterRecordLineageRunFacet"
    )
    assert facet.pop("_producer") == end["producer"]
    assert facet == {
        "applicationId": "app-1",
        "status": "ok",
        "flows": 10,
        "associations": 12,
        "blocks": 3,
        "complete": True,
        "final": True,
        "exact": True,
        "reasons": [],
        "link": "https://lineage.corp/apps/app-1",
    }
    statistics = end["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["fileCount"]) == (4, 1)


def test_telling_twice_is_the_same_run_and_others_are_others(here: Path) -> None:
    assert told(facts()) == told(facts(now=NOW + 9))
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2000.0)
    assert facts("app-2").run_id != facts().run_id


def test_an_incomplete_run_says_why(here: Path) -> None:
    store_run("sqlite:///.lineage/lineage.db", here, "app-2", started_at=2000.0, committed=False)
    facet = told(facts("app-2"))[1]["run"]["facets"][FACET]
    assert (facet["complete"], facet["reasons"] != []) == (False, True)


@pytest.mark.parametrize(
    ("silent_s", "state", "at"), [(20.0, "RUNNING", "16:50"), (999.0, "ABORT", "16:50")]
)
def test_what_runs_and_what_was_abandoned(here: Path, silent_s: float, state: str, at: str) -> None:
    with SqliteStore(Path(".lineage/lineage.db"), clock=lambda: time.time() - silent_s) as store:
        store.write(
            "app-3",
            [
                Begin(app="app-3", name="", started_at=1_000.0, spark_version="4.1.0"),
                Heartbeat(app="app-3", at=1_010.0),
            ],
        )
    start, end = told(facts("app-3"))
    assert (start["eventType"], end["eventType"]) == ("START", state)
    assert end["eventTime"] == f"1970-01-01T00:{at}.000+00:00"
    assert end["job"]["name"] == "app-3"
    assert end["run"]["facets"]["processing_engine"]["version"] == "4.1.0"
    assert "link" not in end["run"]["facets"][FACET]


def test_a_failed_run_fails(here: Path) -> None:
    spool = Spool(here / "spool", "app-4")
    spool.begin(500.0)
    spool.send(End(app="app-4", ended_at=400.0, status="failed", totals=Totals()))
    with SqliteStore(Path(".lineage/lineage.db")) as store:
        ingest_all(store, here / "spool")
    start, end = told(facts("app-4"))
    assert end["eventType"] == "FAIL"
    # Clocks may differ; an end before the beginning would be refused.
    assert end["eventTime"] == start["eventTime"]


def test_tables_of_databases_and_topics_are_told(here: Path) -> None:
    table = UnfiledDataset("jdbc:postgresql://db:5432/shop", ("public", "orders")).path
    topic = UnfiledDataset("kafka://broker:9092", ("clicks",)).path
    read = RecordSplit(partition=0, path=table, start=0, length=0, file_size=0, mtime=1.0)
    written = SinkFile(partition=0, path=topic, size=0, mtime=1.0)
    with SqliteStore(Path(".lineage/lineage.db")) as store:
        store.write(
            "app-6",
            [
                Begin(app="app-6", name="", started_at=1_000.0),
                RecordSplits(app="app-6", node="0", whole=False, splits=(read, read)),
                RecordFiles(app="app-6", node="1", path=topic, files=(written,)),
            ],
        )
    event = told(facts("app-6"))[-1]
    (source,), (output,) = event["inputs"], event["outputs"]
    expected = naming.Postgres("db", "5432", "shop", "public", "orders")
    assert source["namespace"] == expected.get_namespace()
    assert source["name"] == expected.get_name()
    assert output["namespace"] == naming.Kafka("broker", "9092", "clicks").get_namespace()
    assert output["name"] == "clicks"


def test_without_a_beginning_there_is_no_event(here: Path) -> None:
    with SqliteStore(Path(".lineage/lineage.db")) as store:
        store.write("app-5", [Heartbeat(app="app-5", at=1.0)])
        with pytest.raises(OpenLineageError, match="beginning of app-5 was never received"):
            facts_of(store, "app-5")


def test_the_facet_is_as_its_schema_says(here: Path) -> None:
    name = "LineageMasterRecordLineageRunFacet"
    path = Path(events_module.__file__).with_name(f"{name}.json")
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert schema["$id"] == RecordLineageRunFacet._get_schema().partition("#")[0]
    own = schema["$defs"][name]["allOf"][1]
    facet = told(facts(link="https://x"))[1]["run"]["facets"][FACET]
    given = {key: value for key, value in facet.items() if not key.startswith("_")}
    kinds = {"string": str, "integer": int, "boolean": bool, "array": list}
    assert given.keys() == own["properties"].keys()
    assert set(own["required"]) == given.keys() - {"link"}
    for key, value in given.items():
        assert type(value) is kinds[own["properties"][key]["type"]], key


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("ftp://there", "no URL of a backend"),
        ("there:5000", "no URL of a backend"),
        ("http://", "no URL of a backend"),
        ("http://there:x", "no URL of a backend"),
        ("http://ann:secret@there", "must not hold credentials"),
    ],
)
def test_urls_that_can_not_be_used(url: str, message: str) -> None:
    with pytest.raises(OpenLineageError, match=message) as error:
        read_endpoint(url, {})
    assert "secret" not in str(error.value)


def test_a_key_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from file\n")
    names = {"LINEAGE_OPENLINEAGE_API_KEY": "plain"}
    assert read_endpoint("http://there", names).api_key == "plain"
    names["LINEAGE_OPENLINEAGE_API_KEY_FILE"] = str(file)
    assert read_endpoint("http://there", names) == Endpoint("http://there", "from file")
    assert "from file" not in repr(read_endpoint("http://there", names))
    with pytest.raises(OpenLineageError, match="can't read"):
        read_endpoint("http://there", {"LINEAGE_OPENLINEAGE_API_KEY_FILE": str(tmp_path)})


def test_producer_and_schemas_are_whose_they_are_said_to_be(here: Path) -> None:
    for event in told(facts(producer="https://p", schemas="https://s/")):
        assert event["producer"] == "https://p"
        assert "urn:" not in json.dumps(event)
    facet = event["run"]["facets"][FACET]
    assert facet["_schemaURL"].startswith("https://s/LineageMasterRecordLineageRunFacet.json#/")


def tell_one(api: LineageApi) -> None:
    api.register("read", "in", kind="source")
    api.register("write", "out", kind="sink")
    api.link("read", "write")
    with api.task("write", partition=0):
        api.capture("f1", "read#0#0", "write#0#0")


def test_a_program_tells_of_itself_when_it_is_linked(here: Path) -> None:
    url, file = f"sqlite:///{here}/told.db", here / "events.ndjson"
    with LineageApi("told", store=url, openlineage_file=str(file)) as api:
        tell_one(api)
    start, end = (json.loads(line) for line in file.read_text().splitlines())
    assert [start["eventType"], end["eventType"]] == ["START", "COMPLETE"]
    facet = end["run"]["facets"][FACET]
    assert (facet["applicationId"], facet["flows"], facet["final"]) == (api.app, 1, True)
    printed = lineage("--store", url, "openlineage", api.app, "--file", "-").stdout
    assert printed == file.read_text()


def test_who_can_not_be_told_does_no_harm(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"sqlite:///{here}/told.db"
    with LineageApi("told", store=url, openlineage_file=str(here)) as api:
        tell_one(api)
    assert f"`lineage openlineage {api.app}` sends them" in caplog.text
    assert lineage("--store", url, "verify", api.app).exit_code == 0


def test_what_is_linked_later_is_told_of_then(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, file = f"sqlite:///{here}/told.db", here / "events.ndjson"
    with LineageApi("told", store=url, link=False) as api:
        tell_one(api)
    monkeypatch.setenv("LINEAGE_OPENLINEAGE_FILE", str(file))
    linked = lineage("--store", url, "link")
    assert linked.exit_code == 0, linked.output
    assert [json.loads(line)["eventType"] for line in file.read_text().splitlines()] == [
        "START",
        "COMPLETE",
    ]
    monkeypatch.setenv("LINEAGE_OPENLINEAGE_FILE", str(here))
    with LineageApi("again", store=url, link=False) as api:
        tell_one(api)
    linked = lineage("--store", url, "link")
    assert linked.exit_code == 0
    assert f"no OpenLineage events were sent for {api.app}" in linked.stderr


def lineage(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def test_the_command_adds_to_a_file_or_prints(here: Path) -> None:
    printed = lineage("openlineage", "app-1", "--file", "-").stdout.splitlines()
    assert [json.loads(line) for line in printed] == told(facts())
    for times in (1, 2):
        result = lineage("openlineage", "--file", "events.ndjson", "--json")
        assert result.exit_code == 0, result.output
        assert Path("events.ndjson").read_text().splitlines() == printed * times
        assert json.loads(result.stdout) == {
            "app": "app-1",
            "run": facts().run_id,
            "events": ["START", "COMPLETE"],
            "to": "events.ndjson",
        }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "LINEAGE_OPENLINEAGE_URL"),
        (("--file", "-", "--json"), "leave out --json"),
        (("--file", "no/such/folder"), "No such file or directory"),
        (("--url", "there"), "no URL"),
        (("nobody", "--file", "-"), "there is no application 'nobody'"),
    ],
)
def test_the_command_refuses(here: Path, arguments: tuple[str, ...], message: str) -> None:
    result = lineage("openlineage", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
