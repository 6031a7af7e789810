"""Questions hold no more messages in memory, all together, than a server has room for."""

from __future__ import annotations

import gc
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Message,
    Recipe,
    Register,
    Split,
    Splits,
    Unknown,
)
from lineage_core.tracing.budget import (
    SMALL_MESSAGES,
    Budget,
    BusyError,
    MessageRoom,
    TooMuchError,
    use_budget,
)
from lineage_query_api.app import create_app
from lineage_query_api.serializers import NOT_JUDGED
from lineage_query_api.settings import read_settings
from lineage_store.recipes import derived_messages
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import running, serving
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
TALKATIVE, HONEST = "talkative", "honest"
TEXT = "x" * 10_000


def _split(path: str, size: int = 0, mtime: float = 0.0) -> Split:
    return Split(partition=0, path=path, start=0, length=size, file_size=size, mtime=mtime)


def _many(mebibytes: int) -> Sequence[Message]:
    number = mebibytes * SMALL_MESSAGES // len(TEXT)
    return [Unknown(app=TALKATIVE, what=f"{TEXT}{at}") for at in range(number)]


def test_messages_are_counted_as_long_as_somebody_holds_them(tmp_path: Path) -> None:
    room = MessageRoom(5 * SMALL_MESSAGES)
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, _many(3))
        store.write(HONEST, [Begin(app=HONEST, name="job", started_at=1.0)])
        with use_budget(Budget(messages=room)):
            stored = store.messages(TALKATIVE)
            messages = derived_messages(map(Unknown.model_copy, stored), stored)
            del stored
            gc.collect()
            assert 2 * SMALL_MESSAGES < room.held < 4 * SMALL_MESSAGES
            with pytest.raises(BusyError):
                store.messages(TALKATIVE)
            # What others hold ends no small question.
            assert store.messages(HONEST)
            del messages
            gc.collect()
            assert room.held == 0
            assert store.messages(TALKATIVE)


def test_an_application_with_more_messages_than_fit_is_refused_before_they_are_read(
    tmp_path: Path,
) -> None:
    room = MessageRoom(2 * SMALL_MESSAGES)
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, _many(3))
        with use_budget(Budget(messages=room)), pytest.raises(TooMuchError, match="2 MiB"):
            store.messages(TALKATIVE)
        gc.collect()
        assert room.held == 0


def test_newlines_and_compressed_recipes_are_counted_as_well(tmp_path: Path) -> None:
    newlines = tuple((row, 1) for row in range(200_000))
    commit = Commit(app=TALKATIVE, node="out", partition=0, attempt=0, newlines=newlines)
    body = json.dumps({"version": 1, "text": "x" * 1_900_000})
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, [commit, Recipe(app=TALKATIVE, node="frame", recipe=body)])
        graph = store.graph(TALKATIVE)
        with use_budget(Budget(messages=MessageRoom(SMALL_MESSAGES))):
            with pytest.raises(TooMuchError):
                graph.sink_files("out")
            with pytest.raises(TooMuchError):
                graph.messages("recipe")
        assert len(graph.messages("recipe")) == 1


def test_a_server_refuses_a_talkative_application_and_lists_it_beside_others(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, [Begin(app=TALKATIVE, name="job", started_at=2.0), *_many(2)])
        ended = End(app=HONEST, ended_at=2.0, status="ok")
        store.write(HONEST, [Begin(app=HONEST, name="job", started_at=1.0), ended])
        settings = read_settings(store="sqlite:///x", api_open=True, api_message_mb=1)
        with running(create_app(store, settings)) as address:
            alone = httpx.get(f"{address}/v1/applications/{TALKATIVE}/completeness", timeout=30)
            listed = httpx.get(f"{address}/v1/applications", timeout=30)
    assert alone.status_code == 422
    assert "LINEAGE_API_MESSAGE_MB" in alone.json()["hint"]
    first, second = listed.json()["items"]
    assert (first["app"], first["reasons"], first["complete"]) == (TALKATIVE, [NOT_JUDGED], False)
    assert NOT_JUDGED not in second["reasons"]


def test_an_application_with_more_than_fit_ends_no_query_about_files_of_others(
    tmp_path: Path,
) -> None:
    """Any application may say that it read any file."""
    url = f"sqlite:///{tmp_path}/store.db"
    run = store_run(url, tmp_path)
    with SqliteStore(tmp_path / "store.db") as store:
        node = Register(app=TALKATIVE, node="0", kind="source", op="textFile")
        store.write(TALKATIVE, [Begin(app=TALKATIVE, name="job", started_at=9000.0), node])
        for path in (run.source, run.sink):
            state = path.stat()
            split = _split(str(path), state.st_size, state.st_mtime)
            others = [split.model_copy(update={"path": f"file:/{at}/{TEXT}"}) for at in range(60)]
            store.write(TALKATIVE, [Splits(app=TALKATIVE, node="0", splits=(split, *others))])
    source, sink = f"{run.source}:1", f"{run.sink}:1"
    with (
        serving(url, api_roots=str(tmp_path), api_message_mb=1) as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):

        def ask(direction: str, place: str, **more: object) -> Any:
            body = {"direction": direction, "places": [place], **more}
            answer = client.post("/v1/answers", json=body)
            assert answer.status_code == 200, answer.text
            return answer.json()

        assert ask("backward", sink)["complete"]
        # What nobody can tell is said, and not left out.
        for more in ({}, {"app": run.app, "all_jobs": True}):
            forward = ask("forward", source, **more)
            assert TALKATIVE in [refused["app"] for refused in forward["not_asked"]]
            assert not forward["complete"]
        back = ask("backward", sink, all_jobs=True)
        assert source in json.dumps(back)
        # It wrote neither, as rows of the store say.
        assert back["complete"]
        assert back["not_asked"] == []
        body = {"direction": "forward", "start": {"places": [source]}}
        shown = client.post(f"/v1/applications/{run.app}/traces", json=body)
        assert shown.status_code == 200, shown.text
        assert TALKATIVE in " ".join(shown.json()["warnings"])
