"""The graph of jobs and datasets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage.main import app
from lineage_query.finding import NotFoundError
from lineage_query.job_graph import build_job_graph, job_graph_mermaid
from lineage_query.jobs import StoredRuns, find_datasets
from lineage_store.sqlite.store import SqliteStore
from tests.unit.query.test_jobs import run

pytestmark = pytest.mark.unit


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A chain of two jobs, the second of which also reads what it wrote; and a job of its own."""
    with SqliteStore(tmp_path / "lineage.db") as store:
        for app_id, name, reads, writes in (
            ("a", "clean", ["landed"], ["clean"]),
            ("b", 'to"tals', ["clean", "totals"], ["totals"]),
            ("c", "other", ["far"], ["near"]),
        ):
            read, written = (
                {f"file:/{path}": [f"file:/{path}/0"] for path in paths}
                for paths in (reads, writes)
            )
            store.write(app_id, run(app_id, name, 1.0, read, written))
    return f"sqlite:///{tmp_path}/lineage.db"


def printed(url: str, *words: str) -> str:
    result = CliRunner().invoke(app, ["--store", url, "graph", "--jobs", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_jobs_and_datasets_are_linked_as_they_read_and_write(url: str) -> None:
    graph = json.loads(printed(url, "--json"))
    assert graph["jobs"] == ["clean", "other", 'to"tals']
    assert graph["datasets"] == [
        f"file:/{name}" for name in ("clean", "far", "landed", "near", "totals")
    ]
    assert ["clean", "file:/clean"] in graph["writes"]
    assert ["file:/clean", 'to"tals'] in graph["reads"]
    assert (len(graph["writes"]), len(graph["reads"]), graph["runs_total"]) == (3, 4, 3)


@pytest.mark.parametrize(
    ("around", "jobs", "datasets"),
    [
        ("clean", ["clean", 'to"tals'], ["clean", "landed", "totals"]),
        ("file:/landed", ["clean", 'to"tals'], ["clean", "landed", "totals"]),
        ("/near", ["other"], ["far", "near"]),
    ],
)
def test_what_leads_to_a_job_or_dataset_and_where_it_leads(
    url: str, around: str, jobs: list[str], datasets: list[str]
) -> None:
    graph = json.loads(printed(url, around, "--json"))
    assert graph["jobs"] == jobs
    assert graph["datasets"] == [f"file:/{name}" for name in datasets]


def test_what_reads_beside_it_is_left_out(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        for app_id in ("left", "right"):
            files = {"file:/in": ["file:/in/0"]}, {f"file:/{app_id}": [f"file:/{app_id}/0"]}
            store.write(app_id, run(app_id, app_id, 1.0, *files))
        found = find_datasets(StoredRuns(store))
    graph = build_job_graph(found, "file:/left")
    assert (graph.jobs, graph.datasets) == (("left",), ("file:/in", "file:/left"))
    assert build_job_graph(found, "file:/in").jobs == ("left", "right")
    with pytest.raises(NotFoundError, match="no job or dataset 'none'"):
        build_job_graph(found, "none")


def test_names_stay_within_their_nodes_of_a_flowchart(url: str) -> None:
    text = printed(url, "--mermaid")
    lines = text.splitlines()
    assert lines[0] == "flowchart LR"
    assert '    j2["to#quot;tals"]' in lines
    assert '    d0[("file:/clean")]' in lines
    assert "    d0 --> j2" in lines
    assert "    j0 --> d0" in lines
    with SqliteStore(Path(url.removeprefix("sqlite:///"))) as store:
        assert job_graph_mermaid(build_job_graph(find_datasets(StoredRuns(store)))) == text


def test_a_table_names_what_each_job_reads_and_writes(url: str) -> None:
    row = next(line for line in printed(url).splitlines() if "file:/landed" in line)
    assert row.split() == ["file:/landed", "clean", "file:/clean"]
