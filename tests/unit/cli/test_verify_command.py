"""``lineage verify``: the verdict on a run is on all applications that it captured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lineage.main import app as cli
from lineage_core.contract.message import Begin, End, Job, Message, Register
from lineage_emitter import LineageApi
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store

pytestmark = pytest.mark.unit


def verify(store: Path, *words: str) -> tuple[int, str]:
    """Exit code and standard output."""
    ended = CliRunner().invoke(cli, ["--store", f"sqlite:///{store}", "verify", *words])
    return ended.exit_code, ended.stdout


def told(app: str, at: float, *earlier: str) -> list[Message]:
    """An application that is complete: an action over no partition."""
    return [
        Begin(app=app, name="job", started_at=at, earlier=earlier),
        Register(app=app, node="1", kind="sink", op="collect"),
        Job(app=app, job=1, action="collect", sink="1", expected=()),
        End(app=app, ended_at=at + 1, status="ok"),
    ]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Three applications of a run, of which the second never ended; and one of another run before."""
    path = tmp_path / "lineage.db"
    with SqliteStore(path) as opened:
        for app, messages in (
            ("other", told("other", 10.0)[:-1]),
            ("one", told("one", 20.0)),
            ("two", told("two", 30.0, "one")[:-1]),
            ("three", told("three", 40.0, "one", "two")),
        ):
            opened.write(app, messages)
    return path


def test_a_run_is_complete_where_all_of_its_applications_are(store: Path) -> None:
    code, text = verify(store)
    assert code == 1
    said = [line.split(" (")[0] for line in text.splitlines() if "complete (" in line]
    assert said == ["one: complete", "two: incomplete", "three: complete"]
    code, printed = verify(store, "--json")
    answer: dict[str, Any] = json.loads(printed)
    assert (code, answer["app"], answer["complete"], answer["reasons"]) == (1, "three", False, [])
    assert [(one["app"], one["complete"]) for one in answer["earlier"]] == [
        ("one", True),
        ("two", False),
    ]


def test_an_application_that_is_named_is_judged_by_itself(store: Path) -> None:
    assert (verify(store, "three")[0], verify(store, "two")[0]) == (0, 1)


def test_an_earlier_application_that_is_not_there_is_not_complete(store: Path) -> None:
    with SqliteStore(store) as opened:
        opened.write("last", told("last", 50.0, "one", "thr"))
    code, text = verify(store)
    assert code == 1
    assert "thr: incomplete (nothing of it is in the store)" in text


def test_a_program_tells_what_it_captured_before_into_the_same_store(tmp_path: Path) -> None:
    begun = {}
    for name, store in (("a", "x"), ("b", "y"), ("c", "x")):
        url = f"sqlite:///{tmp_path / store}"
        with LineageApi("job", app=name, store=url) as api:
            begun[name] = api.beginning.earlier
        with open_store(url) as opened:
            [begin] = [one for one in opened.messages(name) if isinstance(one, Begin)]
        assert begin.earlier == begun[name]
    assert begun == {"a": (), "b": (), "c": ("a",)}
