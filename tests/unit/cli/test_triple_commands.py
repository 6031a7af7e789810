"""``lineage triples``: import, index, trace, list and remove."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from lineage.main import app

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", f"lake:{tmp_path}/lake")
    Path("a.csv").write_text("src,dst,op\n-1,b,x\nb,c,y\n")
    Path("more.tsv").write_text("src\tdst\top\nc\td\tz\n")


def triples(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["triples", *arguments])


def as_json(*arguments: str) -> Any:
    return json.loads(triples(*arguments, "--json").stdout)


def test_from_import_to_removal() -> None:
    imported = as_json("import", "a.csv", "--as", "set")
    assert imported["imported"] == [{"source": "a.csv", "rows": 2, "is_new": True}]
    assert imported["index"] == {"items": 3, "triples": 2, "components": 1, "sets": 1}
    assert "is there already" in triples("import", "a.csv", "--as", "set").stdout
    found = as_json("back", "set", "c", "--method", "rq")
    assert found["items"] == ["-1", "b"]
    assert found["triples"] == [
        {"src": "-1", "dst": "b", "op": "x"},
        {"src": "b", "dst": "c", "op": "y"},
    ]
    assert "into 2 items, by 2 triples" in triples("forward", "set", "--", "-1").stdout
    limited = triples("back", "set", "c", "--limit", "1").stdout
    assert limited.endswith("-1 -> b: x\n... and 1 more: --limit, or --json\n")
    assert [one["name"] for one in as_json("list")] == ["set"]
    assert triples("rm", "set").exit_code == 0
    assert as_json("list") == []


def test_later_leaves_the_index_to_its_command() -> None:
    assert as_json("import", "a.csv", "more.tsv", "--as", "set", "--later")["index"] is None
    refused = triples("back", "set", "d")
    assert refused.exit_code == 2
    assert "lineage triples index set" in refused.stderr
    assert as_json("index", "set")["triples"] == 3
    assert as_json("index", "set") is None
    assert as_json("back", "set", "d")["items"] == ["-1", "b", "c"]
    behind = f"sqlite:///a.db,{os.environ['LINEAGE_STORE']}"
    assert as_json("back", "set", "d", "--store", behind)["items"] == ["-1", "b", "c"]


def test_what_is_refused() -> None:
    assert "there are no triples" in triples("list").stderr
    assert "none; give lake:PLACE" in triples("list", "--store", "sqlite:///a.db").stderr
    triples("import", "a.csv", "--as", "set")
    assert triples("back", "set", "c", "--method", "best").exit_code == 2
    assert "has no item 'x'" in triples("back", "set", "x").stderr


def test_a_trace_is_written_to_a_file_and_imported_again() -> None:
    triples("import", "a.csv", "--as", "set")
    report = as_json("back", "set", "c", "-o", "trace.prov.json")
    assert report == {"file": "trace.prov.json", "format": "prov", "found": 2, "count": 2}
    assert as_json("import", "trace.prov.json", "--as", "again")["index"]["triples"] == 2
    item = "urn:lineage-master:triples:set:item:c"
    assert len(as_json("back", "again", item)["items"]) == 2
    printed = triples("forward", "set", "--format", "csv", "--", "b").stdout
    assert printed.splitlines() == ["src,dst,op", "b,c,y"]
    refused = triples("back", "set", "c", "--json", "-o", "-")
    assert "--json reports on a written file" in refused.stderr
    assert triples("back", "set", "c", "-o", "a.nothing").exit_code == 2


def test_an_index_is_made_again_as_a_whole() -> None:
    triples("import", "a.csv", "--as", "set")
    assert as_json("index", "set", "--whole")["triples"] == 2
    assert as_json("index", "set") is None


def test_a_data_set_whose_sources_are_lost_is_listed(tmp_path: Path) -> None:
    triples("import", "a.csv", "--as", "set")
    (lost,) = (tmp_path / "lake.triples").rglob("source.*.parquet")
    lost.unlink()
    listed = triples("list")
    assert "damaged" in listed.stdout
    assert f"is damaged: {lost.parent.name}/{lost.name} of the lake is missing" in listed.stderr
    assert triples("rm", lost.parent.name).exit_code == 0
    assert as_json("list") == []


def test_several_items_are_one_question() -> None:
    triples("import", "a.csv", "more.tsv", "--as", "set")
    Path("items.csv").write_text("item\nd\nb\n")
    named, listed = as_json("back", "set", "d", "b"), as_json("back", "set", "--items", "items.csv")
    assert named == listed
    assert (named["asked"], named["items"], named["count"]) == (["b", "d"], ["-1", "c"], 3)
    report = as_json("back", "set", "d", "b", "-o", "trace.prov.json")
    assert (report["found"], report["count"]) == (2, 3)
    roles = Path("trace.prov.json").read_text().count('"start"')
    assert roles == 2
    assert "%% set: 2 items" in triples("back", "set", "d", "b", "--format", "mermaid").stdout


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("c", "--items", "items.csv"),
        ("c", "--engine", "flink"),
        ("c", "--engine", "spark"),
        ("c", "--to", "folder"),
        ("c", "--driver-triples", "3"),
        ("c", "--engine", "spark", "--to", "folder", "-o", "a.csv"),
    ],
)
def test_options_that_do_not_go_together(options: tuple[str, ...]) -> None:
    triples("import", "a.csv", "--as", "set")
    assert triples("back", "set", *options).exit_code == 2
    assert not Path("folder").exists()
