"""The web page: its own checks, and stories in a browser over the real service with the flights."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from lineage_arrays import Recording
from lineage_arrays.saved import store_recording
from lineage_core.contract.message import Message, RecordFiles, SinkFiles
from lineage_query_api.auth import new_token
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.flights_demo import Demo
from tests.support.page import npm
from tests.support.stored_lineage import LINES, store_run
from tests.unit.query.test_html_parts import answer, cell, graph, verdict
from tests.unit.query.test_jobs import run

pytestmark = pytest.mark.e2e

DOOMED = "to-be-deleted"


@pytest.fixture
def service(demo: Demo, tmp_path: Path) -> Iterator[dict[str, str]]:
    """A service that asks for tokens, over the flights and a run that may be deleted."""
    url = f"sqlite:///{demo.work}/.lineage/lineage.db"
    store_run(url, tmp_path, DOOMED)
    admin, admin_lines = new_token("ann", "admin", rows=True, delete=True)
    reader, reader_lines = new_token("bob", "reader", rows=False)
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(admin_lines + reader_lines)
    roots = f"{demo.work},{tmp_path}"
    with serving(url, api_roots=roots, api_tokens=tokens, api_rate="100/second") as address:
        yield {
            "LINEAGE_URL": address,
            "LINEAGE_TOKEN": admin,
            "LINEAGE_READER_TOKEN": reader,
            "LINEAGE_E2E_APP": demo.app,
            "LINEAGE_E2E_DOOMED": DOOMED,
        }


def test_its_types_and_components_are_sound() -> None:
    npm("types")
    npm("test")


@pytest.mark.long
def test_its_sources_are_as_the_linter_wants_them() -> None:
    npm("lint")


def test_its_story_holds_over_the_real_service(service: Mapping[str, str]) -> None:
    npm("e2e:only", "--", "story", environment=service)


@pytest.mark.long
def test_its_states_and_its_documentation_hold_over_the_real_service(
    service: Mapping[str, str],
) -> None:
    npm("e2e:only", "--", "states", "docs", environment=service)


VERSION = "7"
"""Of the tables that jobs write."""


def with_version(message: Message) -> Message:
    """The files of a run, as those of a version of a table."""
    if not isinstance(message, SinkFiles):
        return message
    fields = message.model_dump(exclude={"type"})
    return RecordFiles(**fields, version=VERSION)


@pytest.mark.long
def test_jobs_and_datasets_grow_by_clicks_over_the_real_service(tmp_path: Path) -> None:
    readers = 100
    with SqliteStore(tmp_path / "store.db") as store:
        chain = ["/lake/landed", "/lake/clean", "/lake/totals", "/lake/report"]
        for number, (reads, writes) in enumerate(itertools.pairwise(chain)):
            at = float(number)
            messages = run(
                f"app-{number}",
                f"job {number}",
                at,
                {reads: [f"{reads}/1"]},
                {writes: [f"{writes}/1"]},
            )
            store.write(f"app-{number}", list(map(with_version, messages)))
        for number in range(readers):
            name = f"reader-{number}"
            store.write(name, run(name, name, 0.0, {"/lake/hub": ["/lake/hub/1"]}))
    sides = {}
    for side, last in (("left", "a"), ("right", "x")):
        (tmp_path / side).mkdir()
        lines = [*LINES[:-1], last]
        (tmp_path / side / "in.txt").write_text("\n".join(lines) + "\n", newline="")
        at = {"left": 10.0, "right": 20.0}[side]
        url = f"sqlite:///{tmp_path}/store.db"
        stored = store_run(url, tmp_path / side, f"run-{side}", started_at=at, name="count")
        only = f"{side}/in.txt:{len(LINES)}"
        sides[side] = {"app": stored.app, "place": f"{stored.sink}:1", "only": only}
    expected = {
        "runs": {"job": "count", **sides},
        "app": "app-1",
        "job": "job 1",
        "reads": "file:/lake/clean",
        "writes": "file:/lake/totals",
        "before": "job 0",
        "version": VERSION,
        "hub": "/lake/hub",
        "readers": readers,
    }
    store_url = f"sqlite:///{tmp_path}/store.db"
    with serving(store_url, api_rate="100/second", api_roots=str(tmp_path)) as address:
        environment = {"LINEAGE_URL": address, "LINEAGE_E2E_JOBS": json.dumps(expected)}
        npm("e2e:only", environment=environment)


@pytest.mark.long
def test_cells_of_arrays_are_traced_over_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("image.npy", np.arange(4_000_000.0).reshape(2000, 2000))
    np.save("cube.npy", np.random.default_rng(1).normal(size=(4, 20, 30)))
    recording = Recording()
    image, cube = recording.load("image.npy"), recording.load("cube.npy")
    np.save("half.npy", image[:, :1000])
    recording.output("total", image.sum(axis=0))
    recording.output("flat", cube.sum(axis=0))
    url = f"sqlite:///{tmp_path}/store.db"
    app = store_recording(recording, "halves", url)
    with serving(url, api_rate="100/second", api_roots=str(tmp_path)) as address:
        npm("e2e:only", environment={"LINEAGE_URL": address, "LINEAGE_E2E_CELLS": app})


@pytest.mark.long
def test_what_notebooks_show_can_be_read_in_both_themes() -> None:
    hostile = "<img src=x onerror=alert(1)> " + "long" * 60
    shown = {
        f"{name}-{kind}": of(value)._repr_html_()
        for name, of in (("answer", answer), ("verdict", verdict), ("graph", graph), ("cell", cell))
        for kind, value in (("plain", "totals"), ("hostile", hostile))
    }
    environment = {"LINEAGE_URL": "http://127.0.0.1:9", "LINEAGE_E2E_NOTEBOOK": json.dumps(shown)}
    npm("e2e:only", environment=environment)


@pytest.mark.long
def test_it_bears_what_is_large_looped_running_or_broken() -> None:
    """Over made-up data: 5,000 nodes, a million witnesses, loops."""
    npm("e2e:only", "--", "madeup")
