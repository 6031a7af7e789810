"""Traces of cells through several applications over HTTP: what commands answer of the store itself, and no more than a caller may see."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from lineage import array_answers
from lineage.main import app as command_line
from lineage_arrays import Recording
from lineage_arrays.saved import store_recording
from lineage_query_api import served_recordings
from lineage_query_api.auth import new_token
from tests.support.api_server import serving

pytestmark = pytest.mark.integration

GRANTS = """
[[grant]]
callers = ["token:part"]
applications = ["expose", "sort", "copies"]

[[grant]]
callers = ["token:masked", "token:all"]
applications = ["*"]

[[mask]]
callers = ["token:masked"]
datasets = ["*/clean.npy"]
columns = ["x"]
"""


@dataclass
class Chain:
    """Programs that read what others wrote: their applications by name, the store, and a server over it."""

    folder: Path
    store: str
    apps: dict[str, str]
    server: str = ""


def run_programs(folder: Path, store: str) -> dict[str, str]:
    """Four programs in a chain; one reads a copy, and one writes over a file that two have read."""
    random = np.random.default_rng(4)
    apps: dict[str, str] = {}

    def kept(name: str, recording: Recording) -> None:
        apps[name] = store_recording(recording, name, store)

    expose = Recording()
    np.save("raw.npy", expose.source("sky", random.normal(size=(6, 7))) * 2)
    kept("expose", expose)
    clean = Recording()
    raw = clean.load("raw.npy")
    np.save("clean.npy", raw[:, ::-1] + 1)
    clean.output("total", raw.sum(axis=0))
    kept("clean", clean)
    sort = Recording()
    np.save("sorted.npy", np.sort(sort.load("clean.npy"), axis=1) + sort.load("raw.npy"))
    kept("sort", sort)
    shutil.copy("clean.npy", "copied.npy")
    copies = Recording()
    copied = copies.load("copied.npy")
    np.savez("final.npz", rolled=np.roll(copied, 2, axis=1), largest=copied.max(axis=1))
    kept("copies", copies)
    again = Recording()
    np.save("raw.npy", again.source("other sky", random.normal(size=(6, 7))) * 3)
    kept("again", again)
    return apps


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("followed")
    store = f"sqlite:///{folder}/lineage.db"
    before = os.getcwd()
    os.chdir(folder)
    try:
        made = Chain(folder, store, run_programs(folder, store))
        with serving(
            store, api_roots=str(folder), api_rate="10000/second", api_query_s=120
        ) as made.server:
            yield made
    finally:
        os.chdir(before)


def printed(chain: Chain, *arguments: str, served: bool, as_json: bool = True) -> Any:
    """What a command prints, and how it ends."""
    store = chain.server if served else chain.store
    options = ["--store", store, *(["--json"] if as_json else [])]
    done = CliRunner().invoke(command_line, ["arrays", *arguments, *options])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    return (
        json.loads(done.stdout)
        if as_json and done.exit_code == 0
        else (done.exit_code, done.output)
    )


QUESTIONS = [
    ("back", "sorted.npy[2,3:5]"),
    ("back", "sorted.npy"),
    ("back", "final.npz/rolled[1:4,0]"),
    ("back", "final.npz/largest[2]"),
    ("back", "clean.npy[0,0]"),
    ("back", "total[3]", "--app", "APP:clean"),
    ("forward", "sky[2,3]"),
    ("forward", "raw.npy[1:3,4]"),
    ("forward", "sky[0,0]", "--to", "rolled"),
    ("forward", "clean.npy[5]", "--app", "APP:sort"),
    ("forward", "other sky[0,0]"),
]


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("more", [("--all-jobs",), ("--all-jobs", "--choices"), ()])
def test_a_server_answers_as_the_store(
    chain: Chain, question: tuple[str, ...], more: tuple[str, ...]
) -> None:
    arguments = [
        chain.apps[one.removeprefix("APP:")] if one.startswith("APP:") else one for one in question
    ]
    here, there = (printed(chain, *arguments, *more, served=served) for served in (False, True))
    text, told = (
        printed(chain, *arguments, *more, served=served, as_json=False) for served in (False, True)
    )
    if isinstance(here, dict):
        forget_change(here, there)
        text, told = (
            re.sub(r"(?m), changed since|^lineage: .*\n", "", one[1]) for one in (text, told)
        )
    assert there == here
    assert told == text


@pytest.mark.parametrize(
    "question",
    [
        ("back", "final.npz/rolled[1:3,4]"), ("back", "final.npz/largest[2]", "--choices"), ("back", "total[3]"),
        ("forward", "copied.npy[2,:3]"), ("back", "sorted.npy[1]", "--all-jobs"),
    ],
)  # fmt: skip
def test_pictures_of_a_server_are_those_of_the_store(
    chain: Chain, tmp_path: Path, question: tuple[str, ...]
) -> None:
    drawn = []
    for served in (False, True):
        target = tmp_path / f"{served}.png"
        picture = printed(chain, *question, "--png", str(target), served=served)["picture"]
        assert [one.pop("missing") != "" for one in picture["arrays"]] == [
            one["black"] is None for one in picture["arrays"]
        ]
        drawn.append((target.read_bytes(), picture["arrays"]))
    assert drawn[0] == drawn[1]


def forget_change(here: dict[str, Any], there: dict[str, Any]) -> None:
    """A server says of a file whose time alone is another one that it does not know whether it is the same: no checksum is taken."""
    for left, right in zip(here["arrays"], there["arrays"], strict=True):
        if right["file"] is not None and right["file"]["status"] == "unknown":
            assert left["file"]["status"] == "changed"
            right["file"]["status"] = "changed"
    if here["warnings"] and not there["warnings"]:
        assert "raw.npy has changed since" in here["warnings"][0]
        here["warnings"] = []


def test_traces_lead_through_several_applications(chain: Chain) -> None:
    """The comparison above is not one of empty answers."""
    back = printed(chain, "back", "sorted.npy[2,3]", "--all-jobs", "--choices", served=True)
    assert {(one["app"], one["array"]) for one in back["arrays"]} == {(chain.apps["expose"], "sky")}
    assert (back["exact"], back["complete"], back["arrays"][0]["count"]) == (True, True, 7)
    copied = printed(chain, "back", "final.npz/rolled[1,0]", "--all-jobs", served=True)
    assert {one["app"] for one in copied["arrays"]} == {chain.apps["expose"], chain.apps["copies"]}
    assert "counts as its copy" in copied["superset_reasons"][0]
    forward = printed(chain, "forward", "sky[2,3]", "--all-jobs", served=True)
    assert {one["app"] for one in forward["arrays"]} > {chain.apps["sort"], chain.apps["copies"]}


def test_lists_are_those_of_the_store(chain: Chain) -> None:
    for limit in ("1", "200"):
        here, there = (
            printed(chain, "list", "--limit", limit, served=served) for served in (False, True)
        )
        assert here == there
    whole = printed(chain, "list", served=True)
    assert [one["name"] for one in whole] == ["again", "copies", "sort", "clean", "expose"]
    told = printed(chain, "list", "--limit", "1", served=True, as_json=False)
    assert told == printed(chain, "list", "--limit", "1", served=False, as_json=False)


def test_cells_come_by_pages(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    question = ("back", "sorted.npy[:,2]", "--all-jobs")
    whole = printed(chain, *question, served=True)
    monkeypatch.setattr(array_answers, "RUNS_AT_ONCE", 2)
    assert printed(chain, *question, served=True) == whole
    assert whole == printed(chain, *question, served=False)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("back", "nothing[0]"), "no recording made an array 'nothing'"),
        (("back", "sorted.npy[99,0]"), "not in an array"),
        (("back", "sorted.npy[x]"), "is no number"),
        (("forward", "sky[0,0]", "--to", "nothing"), "no output 'nothing' was made from sky"),
        (("back", "sorted.npy[0,0]", "--app", "absent"), "absent"),
    ],
)
def test_what_can_not_be_answered_is_refused(
    chain: Chain, arguments: tuple[str, ...], said: str
) -> None:
    code, told = printed(chain, *arguments, served=True, as_json=False)
    assert (code, said in told) == (2, True), told


def test_costs_are_not_served(chain: Chain) -> None:
    code, told = printed(chain, "plan", served=True, as_json=False)
    assert (code, "costs of strategies are not served" in told) == (2, True)


def test_bounds_hold_for_the_whole_trace(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    body = {"direction": "backward", "cells": f"{chain.folder}/sorted.npy[2,3]", "all_jobs": True}

    def answered() -> httpx.Response:
        return httpx.post(f"{chain.server}/v1/arrays/trace", json=body, timeout=60)

    assert answered().status_code == 200
    monkeypatch.setattr(served_recordings, "RUNS_MAX", 3)
    refused = answered()
    assert (refused.status_code, "runs of cells" in refused.json()["detail"]) == (422, True)
    monkeypatch.undo()
    monkeypatch.setattr(served_recordings, "PROGRAMS_MAX", 1)
    # A trace that may read no further program ends there, and says so.
    cut = answered().json()
    assert (cut["complete"], "more than 1 programs" in cut["incomplete_reasons"][0]) == (
        False,
        True,
    )


@pytest.fixture(scope="module")
def granted(chain: Chain) -> Iterator[dict[str, httpx.Client]]:
    """Clients of callers who may see some of the applications."""
    tokens, lines = {}, ""
    for name in ("part", "masked", "all"):
        tokens[name], text = new_token(name, "reader", rows=False)
        lines += text
    (chain.folder / "tokens.toml").write_text(lines)
    (chain.folder / "grants.toml").write_text(GRANTS)
    with serving(
        chain.store,
        api_roots=str(chain.folder),
        api_rate="10000/second",
        api_query_s=120,
        api_open=False,
        api_tokens=chain.folder / "tokens.toml",
        api_grants=chain.folder / "grants.toml",
    ) as address:
        yield {
            name: httpx.Client(
                base_url=address, timeout=60, headers={"Authorization": f"Bearer {token}"}
            )
            for name, token in tokens.items()
        }


def test_a_trace_ends_where_an_application_may_not_be_seen(
    chain: Chain, granted: dict[str, httpx.Client]
) -> None:
    body = {"direction": "backward", "cells": f"{chain.folder}/sorted.npy[2,3]", "all_jobs": True}
    for name, hidden in (("part", ["clean", "again"]), ("masked", ["clean", "sort"])):
        told = granted[name].get("/v1/arrays")
        ids = [chain.apps[one] for one in hidden]
        assert not any(app in told.text for app in ids), told.text
    answer = granted["part"].post("/v1/arrays/trace", json=body)
    assert answer.status_code == 200, answer.text
    assert chain.apps["clean"] not in answer.text
    found = {
        (one["app"], os.path.basename(one["array"]["name"])) for one in answer.json()["arrays"]
    }
    assert found == {(chain.apps["sort"], "clean.npy"), (chain.apps["expose"], "sky")}
    assert answer.json()["warnings"] == ["applications that are not granted to you are left out"]
    whole = granted["all"].post("/v1/arrays/trace", json=body).json()
    assert {one["app"] for one in whole["arrays"]} == {chain.apps["expose"]}


def test_hidden_and_absent_applications_are_refused_alike(
    chain: Chain, granted: dict[str, httpx.Client]
) -> None:
    told = []
    for app in (chain.apps["clean"], "app-absent"):
        body = {"direction": "backward", "cells": "total[1]", "app": app}
        answer = granted["part"].post("/v1/arrays/trace", json=body)
        detail = answer.json()["detail"].replace(app, "APP")
        told.append((answer.status_code, detail))
    assert told[0] == told[1]
    assert told[0][0] == 404
    by_name = granted["part"].post(
        "/v1/arrays/trace", json={"direction": "backward", "cells": "total[1]"}
    )
    absent = granted["part"].post(
        "/v1/arrays/trace", json={"direction": "backward", "cells": "tital[1]"}
    )
    assert by_name.status_code == absent.status_code
    assert by_name.json()["detail"].replace("total", "tital") == absent.json()["detail"]


def test_masked_applications_answer_nothing(chain: Chain, granted: dict[str, httpx.Client]) -> None:
    body = {"direction": "backward", "cells": "total[1]", "app": chain.apps["clean"]}
    assert granted["masked"].post("/v1/arrays/trace", json=body).status_code == 403


@pytest.mark.long
def test_values_of_a_file_that_is_not_held(chain: Chain) -> None:
    """A confined process has 384 MiB: it could hold the file, and not its array beside it."""
    large = np.lib.format.open_memmap("large.npy", "w+", "<f8", (40_000, 500))
    large[:3, :4], large[-1, -1] = np.arange(12).reshape(3, 4), 7.5
    large.flush()
    assert os.path.getsize("large.npy") > 150 << 20
    recording = Recording()
    recording.output("corner", recording.load("large.npy")[:2, :2])
    app = store_recording(recording, "large", chain.store)
    of = f"{chain.server}/v1/applications/{app}/arrays/source-0"
    found = httpx.get(f"{of}/values", params={"ranges": "0-3 500 19999999"}, timeout=120).json()
    assert [one["text"] for one in found["values"]] == ["0.0", "1.0", "2.0", "3.0", "4.0", "7.5"]
    picture = httpx.get(f"{of}/picture", params={"plane": "0:3,0:4"}, timeout=120).json()
    assert (picture["low"], picture["high"], picture["size"]) == (0.0, 11.0, [3, 4])
    whole = httpx.get(f"{of}/picture", timeout=120)
    assert (whole.status_code, "ask for a part of it" in whole.json()["detail"]) == (422, True)
    large[0, 0] = 1.0
    large.flush()
    changed = httpx.get(f"{of}/values", params={"ranges": "3"}, timeout=120)
    assert (changed.status_code, "has changed" in changed.json()["detail"]) == (422, True)
