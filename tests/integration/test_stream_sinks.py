"""Rows that streams wrote to tables of Delta Lake and Iceberg, traced by the version that each batch made, by the real thing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lineage_core.recipe.document import Recipe
from lineage_emitter.dataframes.streams import OTHER_RUN
from tests.integration.test_frames_tables import added
from tests.integration.test_table_chains import CONF
from tests.support.versions import only_in
from tests.tables.ran import Ran

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("Apache Iceberg", "4.1")]

LINES = {1: "0.json:1", 2: "0.json:3", 3: "2.json:2", 4: "3.json:1"}
"""Where the rows came from, by their ids."""
NOT_TRACED = {3}
"""Rows of a batch that ran twice."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    made = Ran(tmp_path_factory.mktemp("sinks"))
    made.run("stream_tables_job.py", "", CONF)
    return made


def commits(ran: Ran) -> dict[int, int]:
    """The versions of the Delta table that are of a batch, by its number, as the log has them."""
    found = {}
    for log in sorted((ran.folder / "delta/_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text().splitlines()):
            if "txn" in action:
                found[action["txn"]["version"]] = int(log.stem)
    return found


def places(ran: Ran, table: str) -> dict[int, str]:
    """Where the rows of a table are, by their ids."""
    if table == "iceberg":
        found = json.loads((ran.folder / "places.json").read_text())
        return {int(number): place.removeprefix("file:") for number, place in found.items()}
    return {
        row["id"]: f"{path}#{number}"
        for path in (Path(added(ran, "delta", v)) for v in range(6) if _adds(ran, v))
        for number, row in enumerate(pq.read_table(path).to_pylist())
    }


def _adds(ran: Ran, version: int) -> bool:
    log = ran.folder / f"delta/_delta_log/{version:020}.json"
    return log.exists() and '"add":' in log.read_text()


def test_each_batch_has_the_version_that_names_it(ran: Ran) -> None:
    of_tables: dict[str, list[Recipe]] = {"delta": [], "iceberg": []}
    for recipe in ran.batch_recipes():
        of_tables[str(recipe.output.format)].append(recipe)
    for found in of_tables.values():
        assert [r.batch.number for r in found if r.batch is not None] == [0, 1, 2, 2, 3]
        assert len({r.batch.query for r in found if r.batch is not None}) == 1
        # That of the batch that ran again is the one that it made the first time.
        versions = [recipe.output.version for recipe in found]
        assert versions[2] == versions[3]
        assert len(set(versions)) == 4
        assert [len(recipe.output.files) for recipe in found][::2] == [1, 1, 1]
        again = found[3]
        assert again.opaque() == [f"Batch: {OTHER_RUN}"]
    assert commits(ran) == {
        recipe.batch.number: int(str(recipe.output.version))
        for recipe in of_tables["delta"]
        if recipe.batch is not None
    }


@pytest.mark.parametrize("table", ["delta", "iceberg"])
def test_rows_go_back_to_the_rows_of_their_batch(ran: Ran, table: str) -> None:
    found = places(ran, table)
    assert set(found) == {*LINES, 100, 101}
    names: dict[str, tuple[str, str | None, str]] = {
        f"back {number}": (found[number], None, "backward") for number in LINES
    }
    onward = next((ran.folder / f"of-{table}").glob("part-*"))
    ids = [json.loads(line)["id"] for line in onward.read_text().splitlines()]
    names |= {
        f"onward {number}": (f"{onward}:{place}", None, "all backward")
        for place, number in enumerate(ids, start=1)
    }
    names["forward"] = (f"{ran.folder}/in/0.json:3", None, "forward")
    ran.ask(names)
    for number, line in LINES.items():
        answer = ran.answers[f"back {number}"]
        if number in NOT_TRACED and "error" in answer:
            assert "earlier run" in answer["error"]
            continue
        assert "error" not in answer, answer
        assert [place for place, _ in answer["rows"]] == [f"{ran.folder}/in/{line}"]
        assert not answer["reasons"]
    assert sorted(ids) == [1, 4]
    for number in ids:
        answer = ran.answers[f"onward {number}"]
        assert "error" not in answer, answer
        assert f"{ran.folder}/in/{LINES[number]}" in [place for place, _ in answer["rows"]], answer
    forward = {place for place, _ in ran.answers["forward"]["rows"]}
    assert found[2] in forward
