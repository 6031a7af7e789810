"""Search of applications over built stores."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.contract.message import Message, Recipe, Register
from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.document import Recipe as RecipeDocument
from lineage_core.recipe.plan import Attribute, Range
from lineage_core.tracing.budget import Budget, use_budget
from lineage_query.application_search import ApplicationSearch, search_applications
from lineage_query.jobs import StoredRuns
from lineage_store.sqlite.store import SqliteStore
from tests.unit.query.test_jobs import run

pytestmark = pytest.mark.unit

PATHS = ["/lake/orders", "/lake/Old orders", "s3://bucket/sales", "/lake/out"]
SITES = ["report.py:12", "report.py:120", "etl.py:7", ""]
COLUMNS = ["city", "total", "City of"]


def _recipe(app_id: str, node: str, columns: list[str], read: list[str]) -> Recipe:
    schema = json.dumps({"fields": [{"name": name, "type": "string"} for name in read]})
    attributes = tuple(Attribute(at, name, "bigint") for at, name in enumerate(columns))
    document = RecipeDocument(
        spark="4.1.0",
        settings={},
        sources=(Source("json", ("/lake/in.json",), schema),),
        plan=(Range(attributes, 0, 1, 1),),
        output=Output(),
    )
    return Recipe(app=app_id, node=node, recipe=document.to_json())


class _Case:
    def __init__(self, random_: random.Random, number: int) -> None:
        self.app = f"app-{number}"
        self.name = random_.choice(["Report", "etl", "clean"])
        self.at = float(random_.randint(0, 9))
        self.reads = random_.sample(PATHS, random_.randint(0, 2))
        self.table = random_.choice(["shop.customers", ""])
        self.site = random_.choice(SITES)
        self.columns = random_.sample(COLUMNS, random_.randint(0, 2))
        self.read_columns = random_.sample(COLUMNS, random_.randint(0, 1))

    def messages(self) -> list[Message]:
        messages = run(self.app, self.name, self.at, {path: [f"{path}/1"] for path in self.reads})
        messages.append(
            Register(
                app=self.app,
                node="t",
                kind="source",
                op="table",
                path=self.table or None,
                call_site=self.site,
            )
        )
        if self.columns:
            messages.append(_recipe(self.app, "f", self.columns, self.read_columns))
        return messages

    def matches(self, search: ApplicationSearch) -> bool:
        names = [f"file:{path}" if path[0] == "/" else path for path in self.reads] + [self.table]
        columns = self.columns + (self.read_columns if self.columns else [])
        return (
            any(search.text.lower() in text.lower() for text in (self.app, self.name))
            and (
                not search.dataset or any(search.dataset.lower() in name.lower() for name in names)
            )
            and (not search.call_site or search.call_site.lower() in self.site.lower())
            and (not search.column or search.column.lower() in map(str.lower, columns))
            and (search.since is None or self.at >= search.since)
            and (search.until is None or self.at <= search.until)
        )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_found_is_what_a_look_at_each_finds(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    cases = [_Case(random_, number) for number in range(20)]
    with SqliteStore(tmp_path / "store.db") as store:
        for case in cases:
            store.write(case.app, case.messages())
        found = 0
        for _ in range(60):
            search = ApplicationSearch(
                text=random_.choice(["", "", "REPORT", "app-1", "etl"]),
                dataset=random_.choice(["", "", "orders", "/lake/o", "S3://", "shop.", "none"]),
                call_site=random_.choice(["", "", "report.py:12", "ETL.py"]),
                column=random_.choice(["", "", "CITY", "total", "tot"]),
                since=random_.choice([None, 3.0]),
                until=random_.choice([None, 3.0, 7.0]),
            )
            result = search_applications(StoredRuns(store), search)
            expected = {case.app for case in cases if case.matches(search)}
            assert {record.app for record in result.items} == expected
            assert result.searched == result.searched_of
            assert not result.withheld
            starts = [record.started_at for record in result.items]
            assert starts == sorted(starts, reverse=True)
            found += len(expected)
        assert found > 50


def test_a_search_that_runs_out_of_time_says_how_many_it_looked_at(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        for number in range(20):
            name = f"a{number}"
            store.write(name, run(name, name, float(number), {"/in": ["/in/1"]}))
        ticks = itertools.count()
        with use_budget(Budget(seconds=150, clock=lambda: float(next(ticks)))):
            found = search_applications(StoredRuns(store), ApplicationSearch(dataset="/in"))
    assert 0 < found.searched < found.searched_of == 20
    latest = [f"a{number}" for number in range(19, 19 - found.searched, -1)]
    assert [record.app for record in found.items] == latest


def test_an_application_whose_recipe_can_not_be_read_is_not_known_to_lack_a_column(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        broken = Recipe(app="a", node="f", recipe='{"version": 99}')
        store.write("a", [*run("a", "a", 1.0), broken])
        found = search_applications(StoredRuns(store), ApplicationSearch(column="city"))
    assert (found.items, found.withheld) == ((), 1)


def test_the_command_lists_what_its_options_find(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("old", run("old", "etl", 1_000.0, {"/in": ["/in/1"]}))
        store.write("new", run("new", "etl", 2_000.0, {"/in": ["/in/1"]}))

    def listed(*options: str) -> list[str]:
        arguments = ["apps", "--json", "--store", f"sqlite:///{tmp_path}/store.db", *options]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return [record["app"] for record in json.loads(result.stdout)]

    assert listed() == listed("--search", "ETL") == listed("--dataset", "/in") == ["new", "old"]
    assert listed("--since", "1970-01-01T00:30Z") == ["new"]
    assert listed("--dataset", "/in", "--until", "1970-01-01T00:30+00:00") == ["old"]
    assert listed("--call-site", "job.py") == listed("--column", "city") == []
    wrong = CliRunner().invoke(app, ["apps", "--since", "soon"])
    assert wrong.exit_code == 2
    assert "--since takes a time" in wrong.stderr
