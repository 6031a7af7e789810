"""A database with a lake behind it answers as one store that has all applications, wherever each of them is."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lineage import lakes
from lineage.background.sessions import session_for
from lineage.main import app as program
from lineage.spools import remove_spool
from lineage_core.contract.message import Begin, End, Heartbeat, Recipe
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_emitter.errors import SettingsError
from lineage_emitter.settings import read_settings
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from lineage_store.copying import copy_application
from lineage_store.dump import dump_application
from lineage_store.errors import DeletedError, StoreError, StoreUnavailableError, UnfitStoreError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import contents_of, move_application
from lineage_store.neo4j import store as neo4j_store
from lineage_store.neo4j.opening_view import view_of
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery
from lineage_store.sqlite.graph import SqliteGraph
from lineage_store.sqlite.store import SqliteStore
from lineage_store.tiers.address import TierAddresses, hot_part
from lineage_store.tiers.store import DividedError, TieredStore
from lineage_store.url import absolute_store, is_embedded, open_store
from tests.support.chained_runs import PLACEMENTS, Chain, link_chain, place, spool_chain
from tests.support.servers import Neo4jUnderTest
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.integration

JOBS = len(PLACEMENTS)


@dataclass
class Tiers:
    """Two stores, both as one, and one store that has all."""

    folder: Path
    hot: SqliteStore
    cold: LakeStore
    both: TieredStore
    oracle: SqliteStore

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/hot.db,lake:{self.folder}/lake"

    def chain(self, seed: int) -> Chain:
        """Jobs that all are in the first store, and in the oracle."""
        chain = spool_chain(self.folder / "spool", self.folder, random.Random(seed), JOBS)
        link_chain(self.folder / "spool", self.hot, self.oracle)
        return chain


@pytest.fixture
def tiers(tmp_path: Path) -> Iterator[Tiers]:
    address = LakeAddress(f"{tmp_path}/lake")
    with SqliteStore(tmp_path / "hot.db") as hot, LakeStore(address) as cold:
        both = tiered(hot, address)
        with both, SqliteStore(tmp_path / "oracle.db") as oracle:
            yield Tiers(tmp_path, hot, cold, both, oracle)


def tiered(hot: SqliteStore | Neo4jStore, address: LakeAddress) -> TieredStore:
    return TieredStore(
        hot, lambda: LakeStore(address, create=False), TierAddresses("the database", str(address))
    )


def lineage(url: str, *arguments: str) -> Any:
    return CliRunner().invoke(program, arguments, env={"LINEAGE_STORE": url})


def answers(store: GraphStore, chain: Chain) -> list[Any]:
    """Answers to questions about the first row of all files, each in an application and across them."""
    engine = QueryEngine(store, RowReader())
    asked: list[Any] = []
    for query in (
        TraceQuery(direction, (f"{file}:1",), all_jobs=all_jobs)
        for direction in Direction
        for file in chain.files
        for all_jobs in (True, False)
    ):
        try:
            asked.append(engine.ask(query).to_json())
        except LineageError as error:
            asked.append(f"{type(error).__name__}: {error}")
    return asked


def everything(store: GraphStore, chain: Chain) -> dict[str, Any]:
    """All that a store says of a chain."""
    return {
        "applications": list(store.applications()),
        "ids": list(store.application_ids()),
        "names": dict(store.names()),
        "verdicts": {app: verdict_of(store, app).to_json() for app in chain.apps},
        "dumps": {app: list(dump_application(store, app)) for app in chain.apps},
        "files": [store.recorded_files(FileQuery(str(file), Spellings())) for file in chain.files],
        "answers": answers(store, chain),
    }


@pytest.mark.parametrize(
    "seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40))]
)
def test_answers_are_those_of_one_store(tiers: Tiers, seed: int) -> None:
    chain = tiers.chain(seed)
    draw = random.Random(seed)
    placements = {app: draw.choice(PLACEMENTS) for app in chain.apps}
    for app, placement in placements.items():
        place(app, placement, tiers.hot, tiers.cold, tiers.oracle)
    wanted = everything(tiers.oracle, chain)
    assert everything(tiers.both, chain) == wanted, placements
    assert any(len(answer["apps"]) > 1 for answer in wanted["answers"] if "apps" in answer)
    revisions = tiers.both.revisions([*chain.apps, "another"])
    assert revisions == {app: tiers.both.revision(app) for app in chain.apps}
    # What is left to be moved is moved, and what was interrupted is ended.
    done = lineage(tiers.url, "archive", "--older-than", "1h")
    assert (done.exit_code, tiers.hot.application_ids()) == (0, []), done.stderr
    assert everything(tiers.both, chain) == wanted, placements


def test_commands_take_both_by_one_address(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tiers.folder)
    chain = tiers.chain(1)
    for app, placement in zip(chain.apps, PLACEMENTS, strict=True):
        place(app, placement, tiers.hot, tiers.cold, tiers.oracle)
    last = str(chain.files[-1])
    for words in (
        ("apps",), ("jobs",), ("datasets",), ("verify", "app-2"), ("graph", "app-2"), ("graph", "app-3"),
        ("back", f"{last}:1"), ("back", f"{last}:1", "--all-jobs"), ("back", f"{last}:1", "--by", "job", "--all-jobs"),
        ("forward", f"{chain.files[0]}:1", "--all-jobs"), ("apps", "--search", "app-4"), ("apps", "--dataset", "data-2"),
        ("back", "nowhere.txt:1"),
    ):  # fmt: skip
        wanted = lineage(f"sqlite:///{tiers.folder}/oracle.db", *words, "--json")
        found = lineage(tiers.url, *words, "--json")
        assert (found.exit_code, found.stdout) == (wanted.exit_code, wanted.stdout), words
    assert lineage(tiers.url, "rm", "app-3").exit_code == 0
    assert "app-3" not in {*tiers.hot.application_ids(), *tiers.cold.application_ids()}
    assert lineage(tiers.url, "compact").exit_code == 0


def test_an_application_that_is_moved_while_it_is_read_is_read_to_its_end(
    tiers: Tiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tiers.chain(1)
    app = chain.apps[0]
    wanted = list(dump_application(tiers.oracle, app))
    load = SqliteGraph.load

    def moved_before(graph: SqliteGraph, *arguments: Any) -> Any:
        monkeypatch.setattr(SqliteGraph, "load", load)
        move_application(tiers.hot, tiers.cold, app)
        return load(graph, *arguments)

    graph, revision = tiers.both.graph(app), tiers.both.revision(app)
    refs = list(graph.blocks())
    monkeypatch.setattr(SqliteGraph, "load", moved_before)
    loaded = graph.load([ref.block_id for ref in refs])
    assert app not in tiers.hot.application_ids()
    assert loaded.keys() == {ref.block_id for ref in refs}
    assert list(graph.blocks()) == refs
    assert list(dump_application(tiers.both, app)) == wanted
    assert tiers.both.revision(app) != revision
    tiers.both.delete(app)
    with pytest.raises(KeyError, match="no application"):
        list(graph.blocks())


@pytest.mark.parametrize("before", ["the database is read", "the lake is read"])
def test_what_is_moved_while_both_are_read_is_found(
    tiers: Tiers, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    chain = tiers.chain(2)
    wanted = everything(tiers.oracle, chain)
    query = FileQuery(str(chain.files[1]), Spellings())
    both, moved = tiers.both, list[str]()
    readings: tuple[tuple[Callable[[], Any], Any], ...] = (
        (both.applications, wanted["applications"]),
        (both.application_ids, wanted["ids"]),
        (both.names, wanted["names"]),
        (lambda: list(both.revisions(chain.apps)), chain.apps),
        (lambda: both.recorded_files(query), wanted["files"][1]),
    )
    for app, (read, answer) in zip(chain.apps, readings, strict=True):
        with monkeypatch.context() as patched:
            # Once, before whatever is read.
            kind: Any = SqliteStore if "database" in before else LakeStore
            name = "_query" if "database" in before else "catch_up"
            original = getattr(kind, name)

            def moved_first(*arguments: Any, app: str = app, original: Any = original) -> Any:
                if app not in moved:
                    moved.append(app)
                    move_application(tiers.hot, tiers.cold, app)
                return original(*arguments)

            patched.setattr(kind, name, moved_first)
            assert read() == answer
        assert app not in tiers.hot.application_ids()


@pytest.mark.long
def test_without_the_lake_there_is_no_answer(tiers: Tiers) -> None:
    chain = tiers.chain(1)
    tiers.both.application_ids()
    for app in chain.apps[::2]:
        move_application(tiers.hot, tiers.cold, app)
    wanted = answers(tiers.oracle, chain)
    assert answers(tiers.both, chain) == wanted
    shutil.move(tiers.folder / "lake", tiers.folder / "elsewhere")
    hot_app = chain.apps[1]
    for ask in (
        tiers.both.applications,
        tiers.both.application_ids,
        tiers.both.names,
        lambda: tiers.both.revision(hot_app),
        lambda: tiers.both.counts(hot_app),
        lambda: tiers.both.messages(hot_app),
        lambda: tiers.both.graph(hot_app),
        lambda: tiers.both.recorded_files(FileQuery(str(chain.files[0]), Spellings())),
        lambda: tiers.both.delete(hot_app),
    ):
        with pytest.raises(StoreUnavailableError, match="is its disk mounted"):
            ask()
    assert hot_app in tiers.hot.application_ids()
    for words in (("apps",), ("back", f"{chain.files[2]}:1"), ("verify", hot_app), ("jobs",)):
        refused = lineage(tiers.url, *words)
        assert (refused.exit_code, "is its disk mounted" in refused.stderr) == (2, True)
    # Nor is a new one made in its place by the way.
    assert lineage(tiers.url, "archive", "--older-than", "1h").exit_code == 2
    assert not (tiers.folder / "lake").exists()
    # Another disk in its place is read, whatever it has.
    shutil.copytree(tiers.folder / "elsewhere", tiers.folder / "lake")
    assert answers(tiers.both, chain) == wanted


def test_two_runs_of_one_id_are_not_taken_for_each_other(tiers: Tiers) -> None:
    chain = tiers.chain(1)
    move_application(tiers.hot, tiers.cold, "app-1")
    remove_spool(tiers.url, "app-1")
    tiers.hot.write("app-1", [Begin(app="app-1", name="another", started_at=9.0)])
    assert tiers.both.application_ids().count("app-1") == 1
    assert len(tiers.both.applications()) == len(chain.apps)
    for ask in (tiers.both.revision, tiers.both.graph, tiers.both.messages, tiers.both.counts):
        with pytest.raises(DividedError, match="rm APP"):
            ask("app-1")
    refused = lineage(tiers.url, "back", f"{chain.files[1]}:1", "--app", "app-1")
    assert (refused.exit_code, "two runs" in refused.stderr) == (2, True)
    # Nor do they keep others from being archived.
    tiers.hot.write("app-1", [End(app="app-1", ended_at=10.0, status="ok")])
    archived = lineage(tiers.url, "archive", "--older-than", "1h")
    assert archived.exit_code == 2
    assert "not archived, and nothing of it deleted: app-1" in archived.stderr
    assert tiers.hot.application_ids() == ["app-1"]
    assert set(tiers.cold.application_ids()) == set(chain.apps)
    assert lineage(f"sqlite:///{tiers.folder}/hot.db", "rm", "app-1").exit_code == 0
    assert list(dump_application(tiers.both, "app-1")) == list(
        dump_application(tiers.oracle, "app-1")
    )


def test_what_is_written_or_erased_goes_where_the_application_is(tiers: Tiers) -> None:
    chain = tiers.chain(1)
    for app, placement in zip(chain.apps, PLACEMENTS, strict=True):
        place(app, placement, tiers.hot, tiers.cold, tiers.oracle)
    for store in (tiers.both, tiers.oracle):
        for app in chain.apps:
            store.write(app, [Recipe(app=app, node="1", recipe='{"version": 1, "secret": 1}')])
            store.write("new", [Begin(app="new", name="new", started_at=7.0)])
    assert tiers.hot.messages("new")
    for store in (tiers.both, tiers.oracle):
        for app in chain.apps:
            beat = Heartbeat(app=app, at=1.0, beat=1)
            store.erase(
                app, lambda _: None, [Recipe(app=app, node="1", recipe='{"version": 1}'), beat]
            )
    assert everything(tiers.both, chain) == everything(tiers.oracle, chain)
    for tier in (tiers.hot, tiers.cold):
        assert not [
            message
            for app in tier.application_ids()
            for message in tier.messages(app, "recipe")
            if "secret" in message.recipe  # type: ignore[union-attr]
        ]
    with pytest.raises(KeyError, match="no application"):
        tiers.both.erase("nothing", lambda _: None, [])


@pytest.mark.long
def test_a_deletion_in_neo4j_that_ends_anywhere_hides_nothing(
    tiers: Tiers, neo4j: Neo4jUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tiers.chain(1)
    app = chain.apps[0]
    wanted = contents_of(tiers.oracle, app)
    with empty_neo4j(neo4j) as hot:
        both = tiered(hot, tiers.cold.address)
        copy_application(tiers.oracle, hot, app)
        following = both.graph(app)
        refs = list(following.blocks())
        opened = hot.graph(app)
        assert list(opened.blocks()) == refs
        statements = neo4j_store._DELETE
        for count in range(1, len(statements)):
            monkeypatch.setattr(neo4j_store, "_DELETE", (*statements[:count], "RETURN error"))
            with pytest.raises(StoreError):
                move_application(hot, tiers.cold, app)
            assert hot.application_ids() == [app]
            with pytest.raises(DeletedError):
                opened.blocks_into(refs[0].in_space, 0, 1)
            assert "it is being deleted" in str(verdict_of(hot, app).reasons)
            assert list(following.blocks()) == refs
            assert contents_of(both, app) == wanted, count
            assert verdict_of(both, app) == verdict_of(tiers.oracle, app)
        with pytest.raises(UnfitStoreError):
            view_of(both, app)
        monkeypatch.setattr(neo4j_store, "_DELETE", statements)
        assert not move_application(hot, tiers.cold, app).copied
        assert (hot.application_ids(), both.application_ids()) == ([], [app])


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("lake:/a,lake:/b", "behind one database"),
        (",lake:/b", "behind one database"),
        ("sqlite:///a.db,lake:/b,lake:/c", "behind one database"),
        ("nothing,lake:/b", "is not known"),
        ("sqlite:///a.db,lake:", "names no folder"),
    ],
)
def test_addresses_that_name_no_two_stores_are_refused(
    url: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    SqliteStore(tmp_path / "a.db").close()
    with pytest.raises(StoreError, match=reason):
        open_store(url).application_ids()
    assert lineage(url, "apps").exit_code == 2


def test_an_address_means_the_same_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = "sqlite:///a.db,lake:cold"
    assert absolute_store(url) == f"sqlite:///{tmp_path}/a.db,lake:{tmp_path}/cold"
    assert (is_embedded(url), is_embedded("neo4j://host,lake:cold")) == (True, False)
    assert hot_part("neo4j://host:1?database=a,lake:s3://b/c") == "neo4j://host:1?database=a"
    assert hot_part("lake:s3://b/c") == "lake:s3://b/c"


def test_what_is_captured_goes_into_the_database(tiers: Tiers) -> None:
    chain = spool_chain(tiers.folder / "spool", tiers.folder, random.Random(1), 1)
    linked = lineage(tiers.url, "link")
    assert (linked.exit_code, linked.stderr) == (0, "")
    assert (tiers.hot.application_ids(), tiers.cold.application_ids()) == (chain.apps, [])
    settings = read_settings(store=tiers.url)
    assert settings.store_file() == tiers.folder / "hot.db"
    assert settings.spool_folder() == tiers.folder / "spool"
    with pytest.raises(SettingsError, match="behind one database"):
        read_settings(store="lake:/a,lake:/b")
    # What a session in the background answers for one is not asked about the other.
    alone = session_for(f"sqlite:///{tiers.folder}/hot.db")
    assert alone is None or alone != session_for(tiers.url)


def test_a_lake_is_made_by_its_first_archive_alone(tmp_path: Path) -> None:
    SqliteStore(tmp_path / "hot.db").close()
    hot, lake = f"sqlite:///{tmp_path}/hot.db", f"lake:{tmp_path}/lake"
    assert "there is no lake" in lineage(f"{hot},{lake}", "apps").stderr
    assert "give --to LAKE" in lineage(hot, "archive", "--older-than", "30d").stderr
    other = lineage(f"{hot},{lake}", "archive", "--older-than", "30d", "--to", f"{lake}-2")
    assert (other.exit_code, "goes into" in other.stderr) == (2, True)
    assert lineage(hot, "archive", "--older-than", "30d", "--to", lake).exit_code == 0
    assert lineage(f"{hot},{lake}", "apps").exit_code == 0


@pytest.mark.long
def test_what_somebody_else_archives_meanwhile_is_left_out(
    tiers: Tiers, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = tiers.chain(1)

    def moved_twice(hot: GraphStore, cold: LakeStore, app: str, **more: Any) -> Any:
        if app == chain.apps[0]:
            move_application(hot, cold, app)
        return move_application(hot, cold, app, **more)

    monkeypatch.setattr(lakes, "move_application", moved_twice)
    done = lineage(tiers.url, "archive", "--older-than", "1h")
    assert (done.exit_code, "by somebody else" in done.stderr) == (0, True)
    assert tiers.hot.application_ids() == []
    assert "all of them are in the lake" in lineage(tiers.url, "archive", *chain.apps).stdout
    assert everything(tiers.both, chain) == everything(tiers.oracle, chain)


def test_old_applications_expire_wherever_they_are(tiers: Tiers) -> None:
    chain = tiers.chain(1)
    for app, placement in zip(chain.apps, PLACEMENTS, strict=True):
        place(app, placement, tiers.hot, tiers.cold, tiers.oracle)
    tiers.hot.write("running", [Begin(app="running", name="now", started_at=9.0)])
    tiers.hot.write("app-2.rows", [Begin(app="app-2.rows", name="rows", started_at=1.0)])
    for words in (("--older-than", "1 year"), ()):
        assert lineage(tiers.url, "expire", *words).exit_code == 2
    assert (
        "no application is that old"
        in lineage(tiers.url, "expire", "--older-than", "99999w").stdout
    )
    before = tiers.both.application_ids()
    trial = lineage(tiers.url, "expire", "--older-than", "52w", "--dry-run", "--json")
    said = json.loads(trial.stdout)
    assert [one["app"] for one in said["removed"]] == chain.apps
    assert ([one["app"] for one in said["running"]], said["dry_run"]) == (["running"], True)
    assert tiers.both.application_ids() == before
    done = lineage(tiers.url, "expire", "--older-than", "52w")
    assert done.stdout.count("removed") == len(chain.apps)
    assert "running still runs" in done.stderr
    assert tiers.both.application_ids() == ["running"]
    assert tiers.cold.application_ids() == []
