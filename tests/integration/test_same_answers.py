"""Questions to a lineage in Neo4j, in a lake, or in a database with a lake behind it are answered as from SQLite, by the library and by commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.copying import copy_application
from lineage_store.dump import dump_application
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.port import GraphStore
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import index_folder, open_store
from tests.faults.test_ingest_killed import eventful
from tests.support.servers import Neo4jUnderTest
from tests.support.spool_builder import APP, contents
from tests.support.stored_lineage import store_run
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.integration

PLACES = [
    *(f"out/part-00000:{line}" for line in range(1, 7)),
    *(f"in.txt:{line}" for line in range(1, 7)),
    *("write#0#0", "write#0#1", "read#0#1", "read#1#3", "2@0#9", "3#0#9", "nothing#0#1", "a text"),
]
COMMANDS = [
    ("apps",),
    ("jobs",),
    ("jobs", "job"),
    ("jobs", "nothing"),
    ("datasets",),
    ("datasets", "part-"),
    ("datasets", "out"),
    ("graph",),
    ("back", "out/part-00000:2"),
    ("back", "out/part-00000:2", "--step"),
    ("forward", "in.txt:1"),
    ("forward", "in.txt:1", "--to", "2"),
    ("back", "out/part-00000:2", "--by", "task"),
    ("back", "out/part-00000:2", "--by", "dataset", "--all-jobs"),
    ("forward", "in.txt:1", "--by", "job"),
    ("back", "out/part-00000:2", "--by", "split", "--limit", "1"),
    ("back", "out/part-00000:2", "--by", "nothing"),
    ("back", "out"),
    ("back", "out/part-00000", "--by", "split"),
    ("forward", "in.txt@0+5"),
    ("forward", "in.txt@0+4"),
    ("back", "2#0.0", "--app", "app-1"),
    ("back", "nowhere.txt:1"),
    ("verify",),
    ("verify", "app-2"),
]


@dataclass(frozen=True)
class Other:
    """A store of another kind, empty, and how commands find it."""

    store: GraphStore
    url: str
    settings: dict[str, str]


@pytest.fixture(params=["neo4j", "lake", "tiers"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Other]:
    if request.param == "lake":
        with LakeStore(LakeAddress(str(tmp_path / "lake"))) as lake:
            yield Other(lake, f"lake:{tmp_path}/lake", {})
        return
    if request.param == "tiers":
        SqliteStore(tmp_path / "hot.db").close()
        LakeStore(LakeAddress(str(tmp_path / "lake"))).close()
        url = f"sqlite:///{tmp_path}/hot.db,lake:{tmp_path}/lake"
        with open_store(url) as tiers:
            yield Other(tiers, url, {})
        return
    neo4j: Neo4jUnderTest = request.getfixturevalue("neo4j")
    with empty_neo4j(neo4j) as opened:
        yield Other(opened, neo4j.uri, neo4j.settings)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(store: GraphStore, question: TraceQuery) -> dict[str, Any]:
    """What is answered, or the error."""
    try:
        return QueryEngine(store, RowReader()).ask(question).to_json()
    except LineageError as error:
        return {"error": f"{type(error).__name__}: {error}"}


@pytest.mark.parametrize("counted", [pytest.param(True, marks=pytest.mark.long), False])
def test_every_question_has_the_same_answer(other: Other, here: Path, counted: bool) -> None:
    url = f"sqlite:///{here}/lineage.db"
    store_run(url, here, counted=counted)
    with SqliteStore(here / "lineage.db") as sqlite:
        copy_application(sqlite, other.store, APP)
        told = 0
        for direction in Direction:
            for place in PLACES:
                bare = TraceQuery(direction, (place,))
                all_ways = (
                    bare,
                    replace(bare, steps=1),
                    replace(bare, until="2"),
                    replace(bare, by="split"),
                    replace(bare, by="task"),
                )
                for question in all_ways if counted else (replace(bare, limit=1),):
                    found = answer(other.store, question)
                    assert found == answer(sqlite, question), question
                    told += "error" not in found
        assert told > (45 if counted else 15)


def test_all_that_can_happen_to_a_spool_reads_the_same(other: Other, tmp_path: Path) -> None:
    spool = eventful(tmp_path)
    with SqliteStore(tmp_path / "lineage.db") as sqlite:
        ingest(sqlite, spool.folder)
        copy_application(sqlite, other.store, APP)
        expected, found = contents(sqlite), contents(other.store)
        # What a file lacked is known where the file was read.
        problems = sqlite.counts(APP).problems
        for verdict in (expected["verdict"], found["verdict"]):
            assert isinstance(verdict, dict)
            verdict["reasons"] = [
                reason
                for reason in verdict["reasons"]
                if not reason.startswith(tuple(problems)) and "missing" not in reason
            ]
        keep_what_both_say(expected, found)
        assert found == expected


def keep_what_both_say(*found: dict[str, Any]) -> None:
    """Leave out what one store keeps and the other does not."""
    for one in found:
        one["verdict"].pop("blocks")


def lineage(url: str, settings: dict[str, str], *arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, env=settings | {"LINEAGE_STORE": url})


def test_commands_print_the_same(other: Other, here: Path) -> None:
    url = f"sqlite:///{here}/lineage.db"
    store_run(url, here)
    store_run(url, here, "app-2", started_at=2000.0, committed=False)
    with SqliteStore(here / "lineage.db") as sqlite:
        for one in sqlite.application_ids():
            copy_application(sqlite, other.store, one)
    settings = other.settings | {"LINEAGE_CACHE": str(here / "cache")}
    for command in COMMANDS:
        expected = lineage(url, {}, *command, "--json")
        found = lineage(other.url, settings, *command, "--json")
        assert (found.exit_code, found.stderr) == (expected.exit_code, expected.stderr), command
        said, wanted = json.loads(found.stdout), json.loads(expected.stdout)
        if command[0] == "verify":
            # Written: also what is not visible yet, which an embedded store does not keep.
            said["blocks"].pop("written", None)
            wanted["blocks"].pop("written", None)
        assert said == wanted, command
    dumps = [
        lineage(*where, "dump", "app-2").stdout for where in ((url, {}), (other.url, settings))
    ]
    assert dumps[0] == dumps[1]
    assert dumps[0].splitlines() == list(dump_application(other.store, "app-2"))
    removed = lineage(other.url, settings, "rm", "app-2")
    assert (removed.stdout, removed.stderr) == ("removed app-2\n", "")
    assert other.store.application_ids() == [APP]


def test_indexes_of_files_lie_in_a_cache_where_the_store_is_no_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LINEAGE_CACHE", str(tmp_path))
    assert index_folder("neo4j://there:7687") == tmp_path / "index"
    assert index_folder(f"sqlite:///{tmp_path}/a/b.db") == tmp_path / "a" / "index"
    monkeypatch.delenv("LINEAGE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "platform", "linux")
    assert index_folder("neo4j://there:7687") == tmp_path / "cache" / "lineage" / "index"
