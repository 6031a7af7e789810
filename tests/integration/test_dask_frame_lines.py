"""Text that Dask's DataFrames are read from: their rows are traced to its lines, or said to be none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import pandas as pd
import pytest
from dask import dataframe as dd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage import LineageApi, capture_dask
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.support.dask_cluster import two_workers
from tests.support.job_runs import STORE, judged, stored

pytestmark = pytest.mark.integration


def run(folder: Path, program: Callable[[], Any]) -> Verdict:
    with (
        LineageApi("lines", store=f"sqlite:///{folder / STORE}", spool=str(folder / "s")) as api,
        capture_dask(api),
        dask.config.set(scheduler="synchronous"),
    ):
        program()
    return judged(folder, api.app)


def traced(folder: Path, place: str, direction: Direction = Direction.BACKWARD) -> Answer:
    with stored(folder) as access:
        return access.ask(TraceQuery(direction, (place,), all_jobs=True))


def places(answer: Answer) -> set[str]:
    return {item.location or item.address for group in answer.groups for item in group.items}


@st.composite
def texts(draw: st.DrawFn) -> tuple[list[str], dict[str, Any]]:
    """Files whose rows carry their number, and how they are read."""
    has_header = draw(st.booleans())
    before = draw(st.integers(0, 2))
    options: dict[str, Any] = {"skiprows": before} if before else {}
    if not has_header:
        options |= {"header": None, "names": ["n", "v"]}
    end = draw(st.sampled_from(["\n", "\n", "\r\n"]))
    number, files = 0, []
    for _ in range(draw(st.integers(1, 2))):
        lines = [*("about,it" for _ in range(before)), *(["n,v"] if has_header else [])]
        for blank in draw(st.lists(st.sampled_from([False, False, True]), min_size=1, max_size=5)):
            lines.append("" if blank else f"{number},{number % 3}")
            number += not blank
        lines.append(f"{number},1")
        number += 1
        files.append(end.join(lines) + draw(st.sampled_from(["", end])))
    if not before and draw(st.booleans()):  # Dask wants larger blocks where lines are skipped
        options["blocksize"] = None if end == "\r\n" else draw(st.integers(8, 40))
    return files, options


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given_texts=texts())
def test_rows_are_traced_to_lines(
    tmp_path_factory: pytest.TempPathFactory, given_texts: tuple[list[str], dict[str, Any]]
) -> None:
    """Both ways; where lines can't be told from rows, no line is named, and a trace is not complete."""
    files, options = given_texts
    folder = tmp_path_factory.mktemp("lines")
    lines = {}
    for at, text in enumerate(files):
        path = folder / f"in-{at}.csv"
        path.write_bytes(text.encode())
        for number, line in enumerate(text.splitlines(), 1):
            if line[:1].isdigit():
                lines[int(line.split(",")[0])] = f"{path}:{number}"

    def program() -> None:
        frame = dd.read_csv(f"{folder}/in-*.csv", **options)
        frame[frame.v > 0].to_csv(f"{folder}/out-*.csv", index=False, header=False)

    assert run(folder, program).complete
    went: dict[str, str] = {}
    for path in sorted(folder.glob("out-*.csv")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            answer = traced(folder, f"{path}:{number}")
            (place,) = places(answer)
            if answer.complete:
                assert answer.exact
                assert place == lines[int(line.split(",")[0])]
                went[place] = f"{path}:{number}"
            else:
                assert place.startswith("read_csv-0-rows#")
                # Empty lines behind a number of lines to skip, or blocks of lines with CR.
                assert "skiprows" in options or "\r" in files[0]
    for place, to in list(went.items())[:2]:
        answer = traced(folder, place, Direction.FORWARD)
        assert (answer.exact, answer.complete, places(answer)) == (True, True, {to})


def test_a_value_with_a_line_end_is_no_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('t,n\na,1\n"b\nc",2\n')
    (tmp_path / "b.csv").write_text("t,n\nd,3\n\ne,4\n")
    assert run(
        tmp_path, lambda: dd.read_csv(f"{tmp_path}/*.csv").n.to_csv(f"{tmp_path}/o-*", index=False)
    ).complete
    answer = traced(tmp_path, f"{tmp_path}/o-0:3")
    assert (places(answer), answer.complete) == ({"read_csv-0-rows#0#1"}, False)
    assert f"read {tmp_path}/*.csv" in " ".join(gap.reason for gap in answer.not_queried)
    answer = traced(tmp_path, f"{tmp_path}/o-1:3")
    assert (places(answer), answer.complete) == ({f"{tmp_path}/b.csv:4"}, True)


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "utf-16"},
        {"lineterminator": ";"},
        {"skiprows": [0]},
        {"storage_options": {"auto_mkdir": False}},
    ],
)
def test_texts_whose_lines_are_not_known_are_named(tmp_path: Path, options: dict[str, Any]) -> None:
    end = options.get("lineterminator", "\n")
    text = end.join(["n,v", "1,2", "3,4", "5,6", ""])
    (tmp_path / "a.csv").write_bytes(text.encode(options.get("encoding", "utf-8")))

    def program() -> None:
        frame = dd.read_csv(f"{tmp_path}/a.csv", blocksize=None, **options)
        frame.to_parquet(f"{tmp_path}/p")

    assert run(tmp_path, program).complete
    answer = traced(tmp_path, f"{tmp_path}/p/part.0.parquet#0")
    assert (places(answer), answer.complete) == ({"read_csv-0#0#0"}, False)
    assert f"read {tmp_path}/a.csv" in " ".join(gap.reason for gap in answer.not_queried)


def test_a_text_that_changes_while_it_is_read_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n\n1\n2\n")

    def program() -> None:
        frame = dd.read_csv(f"{tmp_path}/a.csv")
        (tmp_path / "a.csv").write_text("n\n\n1\n2\n")
        frame.to_parquet(f"{tmp_path}/p")

    verdict = run(tmp_path, program)
    assert not verdict.complete
    assert "changed while it was read" in " ".join(map(str, verdict.reasons))


@pytest.mark.long
def test_workers_of_a_cluster_name_the_lines(tmp_path: Path) -> None:
    rows = pd.DataFrame({"n": range(100), "v": [n % 7 for n in range(100)]})
    rows.to_csv(tmp_path / "a.csv", index=False)

    def program() -> None:
        with two_workers() as client, dask.config.set(scheduler=client):
            frame = dd.read_csv(f"{tmp_path}/a.csv", blocksize=100)
            frame.groupby("v").n.sum().reset_index().to_csv(
                f"{tmp_path}/o", index=False, single_file=False
            )

    assert run(tmp_path, program).complete
    sums = (tmp_path / "o" / "0.part").read_text().splitlines()[1:]
    for at, line in enumerate(sums, 2):
        answer = traced(tmp_path, f"{tmp_path}/o/0.part:{at}")
        key = int(line.split(",")[0])
        assert (answer.exact, answer.complete) == (True, True)
        assert places(answer) == {f"{tmp_path}/a.csv:{n + 2}" for n in range(key, 100, 7)}
