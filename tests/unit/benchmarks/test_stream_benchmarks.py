"""Benchmarks of streams end, and give no figure of answers that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.following import Told, take_samples
from benchmarks.report.tables import of_targets
from benchmarks.report.target_tables import STREAMS_AND_ERASURE
from benchmarks.stream_traces import WARM_PAIRS, pairs_of
from tests.unit.benchmarks.test_report import median, stored

pytestmark = pytest.mark.unit


def told_of(number: int, *, complete: bool = True) -> Told:
    return Told(0.1, 0.4, 0.6, json.dumps({"key": number, "twice": 2 * number + 1.0}), complete)


@pytest.mark.parametrize(("seconds", "taken"), [(1000, 5), (100, 3), (0, 1)])
def test_no_row_is_followed_once_the_time_has_passed(seconds: int, taken: int) -> None:
    times = iter(range(0, 1000, 20))
    found = take_samples(told_of, 5, seconds, lambda: next(times))
    assert found == [told_of(number) for number in range(taken)]


@pytest.mark.parametrize("wrong", [told_of(7), told_of(0, complete=False)])
def test_a_wrong_row_is_no_figure_of_following(wrong: Told) -> None:
    with pytest.raises(RuntimeError, match="a wrong row was told"):
        take_samples(lambda _: wrong, 5, 1000)


def outputs(folder: Path, rows: int) -> None:
    """Of a stream and its batch query, which gives them in the other order."""
    for name, step in (("stream", 1), ("batch", -1)):
        (folder / f"{name}-select").mkdir()
        lines = [json.dumps({"id": number}) + "\n" for number in range(rows)]
        (folder / f"{name}-select" / "part-0.json").write_text("".join(lines[::step]))


def test_traces_of_a_stream_are_those_of_the_batch_query_in_turn(tmp_path: Path) -> None:
    outputs(tmp_path, 10)
    asked: list[str] = []

    def ask(place: str) -> tuple[float, frozenset[str]]:
        asked.append(place)
        path, _, line = place.rpartition(":")
        text = Path(path).read_text().splitlines()[int(line) - 1]
        return (2.0 if "stream-" in place else 1.0), frozenset({text})

    assert list(pairs_of(tmp_path, "select", 4, ask)) == [(2.0, 1.0)] * 4
    assert len(asked) == 2 * (WARM_PAIRS + 4)
    assert ["stream-" in place for place in asked] == [True, False] * (WARM_PAIRS + 4)
    with pytest.raises(RuntimeError, match="goes back to other rows"):
        list(pairs_of(tmp_path, "select", 4, lambda place: (1.0, frozenset({place}))))


def test_figures_of_streams_are_held_against_their_targets() -> None:
    rows = [
        stored("stream-traces", "1", ratio={"select": median(1.2)}, ratio_worst=1.7),
        stored("following", "1", told_ms=800),
    ]
    lines = of_targets(rows, STREAMS_AND_ERASURE).splitlines()
    for what, end in {"a trace of a row": "| ≤ 1.5 | 1.7, at 1 | **no** |", "from the commit": "| ≤ 1,000 | 800, at 1 | yes |"}.items():  # fmt: skip
        assert next(line for line in lines if line.startswith(f"| {what}")).endswith(end)
