"""Where rows can be followed by a server, and how many at once."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from lineage_core.errors import LineageError
from lineage_query.rows.reader import RowReader
from lineage_query_api.errors import ProblemError, SparkStartingError
from lineage_query_api.lineages import Lineages
from lineage_query_api.row_following import FOLLOWED_MAX, RowsFollowed, run_patiently
from lineage_query_api.settings import read_settings
from lineage_store.port import GraphStore


def lineages(url: str, spark_master: str = "local[1]") -> Lineages:
    settings = read_settings(store=url, spark_master=spark_master, api_open=True)
    return Lineages(cast("GraphStore", None), RowReader(), settings)


def test_so_many_are_followed_at_once_and_one_that_is_left_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_query_api.recipe_traces.RecipeTraces.missing", lambda _: "")
    of_store, followed = lineages(f"sqlite:///{tmp_path}/lineage.db"), RowsFollowed()
    streams = [followed.follow(of_store, "in.csv:1", 1, "id") for _ in range(FOLLOWED_MAX)]
    with pytest.raises(ProblemError) as refused:
        followed.follow(of_store, "in.csv:1", 1, "id")
    assert refused.value.status == 429
    # It was never begun: the client had left before.
    streams.pop()
    gc.collect()
    streams.append(followed.follow(of_store, "in.csv:1", 1, "id"))


def test_spark_is_waited_for_as_long_as_the_stream_may_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_store, runs = lineages(f"sqlite:///{tmp_path}/lineage.db"), [0, 0, 1]

    def run(_: object, work: Callable[[object], str]) -> str:
        if not runs.pop(0):
            raise SparkStartingError
        return work(None)

    monkeypatch.setattr("lineage_query_api.recipe_traces.RecipeTraces.run", run)
    assert run_patiently(of_store, lambda _: "rows", time.monotonic() + 3600) == "rows"
    runs.append(0)
    with pytest.raises(SparkStartingError):
        run_patiently(of_store, lambda _: "rows", time.monotonic())


@pytest.mark.parametrize(
    ("url", "master", "place", "said"),
    [
        ("sqlite:////nowhere/lineage.db", "", "in.csv:1", "LINEAGE_SPARK_MASTER is not set"),
        ("sqlite:////nowhere/lineage.db", "local[1]", "in.csv:0", "counted from 1"),
    ],
)
def test_where_rows_can_not_be_followed_that_is_said_before_anything_is_sent(
    url: str, master: str, place: str, said: str
) -> None:
    with pytest.raises(LineageError, match=said):
        RowsFollowed().follow(lineages(url, master), place, 1, "id")
