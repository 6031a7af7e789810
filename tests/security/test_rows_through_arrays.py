"""Traces of rows through arrays over HTTP: what the store itself answers, and no more than a caller may see."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage_arrays import Recording
from lineage_arrays.saved import row_tracing, store_recording
from lineage_core.contract.block import BlockId
from lineage_core.contract.collected import CollectedRows
from lineage_core.contract.message import (
    Link,
    Message,
    Read,
    RecordSplit,
    RecordSplits,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_query_api import served_recordings
from lineage_query_api.auth import new_token
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.spool_builder import Rows, Spool, block

pytestmark = pytest.mark.security
APP = "app-people"
CANARY = "kanari"
"""Stands in the name and the lines of the file that some callers may not see."""
GRANTS = """
[[grant]]
callers = ["token:all", "token:source", "token:masked", "token:between"]
applications = ["*"]
rows = true

[[grant]]
callers = ["token:model"]
applications = ["model", "report", "app-out"]
rows = true

[[hide]]
callers = ["token:source"]
datasets = ["*/kanari*.txt"]

[[hide]]
callers = ["token:between"]
datasets = ["*/scores.parquet"]

[[mask]]
callers = ["token:masked"]
datasets = ["*/kanari-people.txt"]
columns = ["salary"]
"""
CALLERS = ("all", "source", "masked", "between", "model")


class Collected:
    """The two rows that the job over people gave its program, as `rows_of` sees them."""

    def collectRows(self) -> tuple[CollectedRows, list[Any]]:
        return CollectedRows(APP, "1", (2,)), [(1.0, 2.0), (3.0, 4.0)]


class Files:
    """Spark as far as `frame` needs it: it reads nothing."""

    def __init__(self) -> None:
        self.read = self

    def parquet(self, path: str) -> str:
        return path


@dataclass
class Chain:
    """A job over lines, a model over its rows, and a report over the model's file of rows."""

    folder: Path
    store: str
    server: str = ""
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"{self.folder}/{CANARY}-people.txt"

    @property
    def out(self) -> str:
        return f"{self.folder}/out/part-00000"

    @property
    def scores(self) -> str:
        return f"{self.folder}/scores.parquet"

    def printed(self, *arguments: str, served: bool) -> Any:
        store = self.server if served else self.store
        environment = {"LINEAGE_TOKEN": self.tokens["all"]}
        command = [*arguments, "--json", "--store", store]
        done = CliRunner().invoke(command_line, command, env=environment)
        assert done.exit_code in {0, 3}, done.output
        return json.loads(done.stdout)

    def ask(self, caller: str, route: str, **asked: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[caller]}"}
        return httpx.post(f"{self.server}/v1/{route}", json=asked, headers=headers, timeout=60)


def store_job(
    chain: Chain, app: str, path: str, read: Message, rows: Rows, out: Path | None = None
) -> None:
    """A job of one task: ``rows`` of what it reads, given to its program, or written to lines of ``out``."""
    spool = Spool(chain.folder / "spool", app)
    spool.begin(name=app)
    spool.node("0", "source", "read", path=path)
    spool.node("1", "sink", "collect" if out is None else "saveAsTextFile", path=out and str(out))
    spool.send(Link(app=app, src="0", dest="1"), read)
    blocks = [block(BlockId("1", 0, 0, 0), "0#0", [("1#0", rows)], app=app)]
    reads = (Read(space="0#0", rows=2 if out else 3, exhausted=True),)
    spool.task("1", 0, 0, blocks, flows=len(rows), rows=len(rows), reads=reads)
    spool.job("1", n1=1)
    if out is not None:
        stat = out.stat()
        file = SinkFile(
            partition=0, path=f"file:{out}", size=stat.st_size, mtime=stat.st_mtime, rows=len(rows)
        )
        spool.send(SinkFiles(app=app, node="1", path=str(out.parent), files=(file,)))
    spool.end(blocks=1, tasks=1)
    with SqliteStore(chain.store.removeprefix("sqlite:///")) as store:
        ingest_all(store, chain.folder / "spool")


def run_programs(chain: Chain) -> None:
    """The second row of the job is made of the first line and the last; the model turns rows around; the last job writes them as they are."""
    source, out = Path(chain.source), chain.folder / "out" / "part-00000"
    source.write_text(f"{CANARY}-row-1 5000kr\n{CANARY}-row-2 7000kr\nthird\n")
    out.parent.mkdir()
    out.write_text("first\nsecond\n")
    bound = {"partition": 0, "path": f"file:{source}", "start": 0, "length": source.stat().st_size}
    split = Split(**bound, file_size=source.stat().st_size, mtime=source.stat().st_mtime)
    read: Message = Splits(app=APP, node="0", splits=(split,))
    store_job(chain, APP, chain.source, read, [([0], 0), ([0, 2], 1)])
    model = Recording()
    table = model.rows_of("features", Collected())
    scores: Any = np.stack([table[::-1, 0], table[::-1, 1] * 2], axis=1)
    model.frame(Files(), chain.scores, scores)
    store_recording(model, "model", chain.store)
    report = Recording()
    report.output("total", report.load(chain.scores).sum(axis=1))
    store_recording(report, "report", chain.store)
    stat = Path(chain.scores).stat()
    records = RecordSplit(
        partition=0, path=f"file:{chain.scores}", start=0, length=stat.st_size, first=0,
        file_size=stat.st_size, mtime=stat.st_mtime,
    )  # fmt: skip
    read = RecordSplits(app="app-out", node="0", whole=False, splits=(records,))
    store_job(chain, "app-out", chain.scores, read, [([0], 0), ([1], 1)], out)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("rows")
    chain = Chain(folder, f"sqlite:///{folder}/lineage.db")
    run_programs(chain)
    made = {name: new_token(name, "reader", rows=True) for name in CALLERS}
    chain.tokens = {name: token for name, (token, _) in made.items()}
    tokens, grants = folder / "tokens.toml", folder / "grants.toml"
    tokens.write_text("".join(lines for _, lines in made.values()))
    grants.write_text(GRANTS)
    os.chmod(tokens, 0o600)
    with serving(
        chain.store,
        api_open=False,
        api_tokens=tokens,
        api_grants=grants,
        api_roots=str(folder),
        api_rate="10000/second",
        api_query_s=120,
    ) as chain.server:
        yield chain


def lines_in(chain: Chain, groups: list[dict[str, Any]]) -> set[str]:
    prefix = f"{chain.source}:"
    places = [item["location"] or "" for group in groups for item in group["items"]]
    return {place.removeprefix(prefix) for place in places if place.startswith(prefix)}


@pytest.mark.parametrize(
    ("row", "lines"), [(0, {"1", "3"}), pytest.param(1, {"1"}, marks=pytest.mark.long)]
)
def test_a_row_goes_back_through_cells_to_lines(chain: Chain, row: int, lines: set[str]) -> None:
    asked: tuple[str, ...] = ("back", f"{chain.out}:{row + 1}", "--all-jobs")
    here, there = (chain.printed(*asked, served=served) for served in (False, True))
    assert there == here
    assert (lines_in(chain, there["sources"]), there["complete"]) == (lines, True)
    asked = ("arrays", "back", f"total[{row}]", "--all-jobs")
    here, there = (chain.printed(*asked, served=served) for served in (False, True))
    assert there == here
    assert (lines_in(chain, there["rows"]), there["complete"]) == (lines, True)
    whole = chain.printed("arrays", "back", f"total[{row}]", served=True)
    assert (whole["rows"], whole["complete"]) == ([], True)


@pytest.mark.parametrize(
    ("line", "rows"), [pytest.param(1, {0, 1}, marks=pytest.mark.long), (3, {0})]
)
def test_a_line_goes_forward_through_rows_and_cells(
    chain: Chain, line: int, rows: set[int]
) -> None:
    asked: tuple[str, ...] = ("forward", f"{chain.source}:{line}", "--all-jobs")
    here, there = (chain.printed(*asked, served=served) for served in (False, True))
    assert there == here
    items = [item for group in there["sinks"] for item in group["items"]]
    assert {item["address"] for item in items if item["location"] is None} == {
        f"total[{row}]" for row in rows
    }
    assert {item["location"] for item in items if item["location"]} == {
        f"{chain.out}:{row + 1}" for row in rows
    }
    assert there["complete"]
    asked = ("arrays", "forward", f"features[{line // 2},0]", "--all-jobs")
    here, there = (chain.printed(*asked, served=served) for served in (False, True))
    assert there == here
    found = {item["address"] for group in there["rows"] for item in group["items"]}
    assert f"total[{1 - line // 2}]" in found
    asked = (*asked, "--to", chain.scores)
    here, there = (chain.printed(*asked, served=served) for served in (False, True))
    assert there == here
    assert "without --to" in there["incomplete_reasons"][0]


@pytest.mark.parametrize("caller", ["source", "masked", "model"])
def test_a_trace_ends_at_what_is_not_wholly_shown(chain: Chain, caller: str) -> None:
    asked = {"direction": "backward", "all_jobs": True}
    for route, more in (
        ("answers", {"places": [f"{chain.out}:1"]}),
        ("arrays/trace", {"cells": "total[0]"}),
    ):
        whole = chain.ask("all", route, **asked, **more)
        assert (whole.json()["complete"], CANARY in whole.text) == (True, True)
        answer = chain.ask(caller, route, **asked, **more)
        assert answer.status_code == 200, answer.text
        assert CANARY not in answer.text
        assert "granted" in json.dumps(answer.json()["warnings"])
        assert answer.json()["complete"] is False


def test_no_cell_of_a_hidden_file_is_shown(chain: Chain) -> None:
    asked = {"direction": "forward", "places": [f"{chain.source}:1"], "all_jobs": True}
    assert "part-00000" in chain.ask("all", "answers", **asked).text
    answer = chain.ask("between", "answers", **asked)
    assert answer.status_code == 200, answer.text
    for hidden in ("scores", "total", "part-00000"):
        assert hidden not in answer.text.replace("containers_total", "")
    assert "granted" in json.dumps(answer.json()["warnings"])
    refused = chain.ask("between", "arrays/trace", direction="backward", cells="total[0]")
    assert refused.status_code in {404, 422}, refused.text


def test_bounds_hold_for_the_whole_question(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"direction": "forward", "places": [f"{chain.source}:1"], "all_jobs": True}
    for module, bound, most, said in (
        (served_recordings, "PROGRAMS_MAX", 1, "more than 1 programs"),
        (served_recordings, "RUNS_MAX", 0, "more than 0 runs"),
        (row_tracing, "ITEMS_MAX", 0, "lie on the way"),
    ):
        monkeypatch.setattr(module, bound, most)
        answer = chain.ask("all", "answers", **asked).json()
        assert (answer["complete"], said in json.dumps(answer)) == (False, True), answer
        monkeypatch.undo()
