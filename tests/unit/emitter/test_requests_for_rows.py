"""Which conditions on rows of DataFrames count for an action, what executors read of them, and which jobs can't be watched."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.dataframes.watched_rows import ACTIONS_MAX, Requests
from lineage_emitter.session.watched import Watched
from lineage_emitter.settings import Settings
from lineage_store.watch_folder import WatchRequest

pytestmark = pytest.mark.unit
EVENTS = st.lists(st.tuples(st.sampled_from(["begin", "hold", "end"]), st.sets(st.integers(0, 4))))


@given(EVENTS)
def test_an_action_has_what_was_watched_for_while_it_ran(
    events: list[tuple[str, set[int]]],
) -> None:
    requests, held = Requests(), set[int]()
    expected: dict[str, set[int]] = {}
    for number, (event, names) in enumerate(events):
        if event == "begin":
            requests.begin(str(number))
            expected[str(number)] = set(held)
        elif event == "hold":
            held = names
            requests.hold({str(name): WatchRequest(str(name)) for name in names})
            for of_action in expected.values():
                of_action.update(names)
        elif expected:
            action = min(expected)
            found = {int(request.node) for request in requests.end(action)}
            assert found == expected.pop(action)
    assert requests.end("of no action") == []


def test_actions_that_are_never_recorded_are_forgotten() -> None:
    requests = Requests()
    requests.hold({"a": WatchRequest("f1")})
    for number in range(ACTIONS_MAX + 1):
        requests.begin(str(number))
    assert requests.end("0") == []
    assert requests.end("1") == [WatchRequest("f1")]


@pytest.mark.parametrize(
    ("dispatcher", "master", "is_watched"),
    [("kafka", "spark://host:7077", False), ("kafka", "local[2]", True)],
)
def test_a_job_that_is_refused_has_no_folder_to_be_watched_by(
    tmp_path: Path, dispatcher: str, master: str, is_watched: bool
) -> None:
    settings = Settings(watch_frames=True, dispatcher=dispatcher)
    watched = Watched(settings, "app", tmp_path / "app", master)
    assert (watched.folder is not None) is is_watched
    watched.close()
