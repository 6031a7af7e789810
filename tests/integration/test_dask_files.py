"""Files of text that bags of Dask read and write: lines are traced to lines, or the verdict says why not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask
import pytest
from dask import bag
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage import LineageApi, UnsupportedOperatorError, capture_dask
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.support.job_runs import STORE, ask, judged, stored

pytestmark = pytest.mark.integration


@pytest.fixture(autouse=True)
def own_process() -> Any:
    with dask.config.set(scheduler="synchronous"):
        yield


def run(folder: Path, program: Callable[[], Any]) -> Verdict:
    with (
        LineageApi("files", store=f"sqlite:///{folder / STORE}", spool=str(folder / "s")) as api,
        capture_dask(api),
    ):
        program()
    return judged(folder, api.app)


def found(folder: Path, place: str) -> tuple[set[str], bool, bool]:
    answer = ask(folder, Direction.BACKWARD, place)
    return items_of(answer), answer.exact, answer.complete


def items_of(answer: Answer) -> set[str]:
    return {Path(item.location or "").name for group in answer.groups for item in group.items}


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lines=st.lists(st.sampled_from(["", "a", "bb", "é ccc", "dddd"]), min_size=1, max_size=12),
    ending=st.sampled_from(["\n", "\r\n", "\r"]),
    ends=st.booleans(),
    blocksize=st.sampled_from([None, 1, 3, 8, 100]),
    last_endline=st.booleans(),
)
def test_lines_are_traced_to_the_lines_that_they_were_made_from(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    ending: str,
    ends: bool,
    blocksize: int | None,
    last_endline: bool,
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    content = ending.join(lines) + (ending if ends else "")
    if not content:
        return
    (folder / "in.txt").write_bytes(content.encode())
    if blocksize is not None and "\r" in content:
        return  # these are no places of lines: see below
    kept = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if line != "bb" and (ends or number < len(lines) or line)
    ]

    def program() -> None:
        read = bag.read_text(str(folder / "in.txt"), blocksize=blocksize)
        stripped = read.map(lambda line: line.rstrip("\r\n")).filter(lambda line: line != "bb")
        stripped.to_textfiles(str(folder / "out" / "*.txt"), last_endline=last_endline)

    assert run(folder, program).complete
    written = sorted((folder / "out").iterdir(), key=lambda path: int(path.stem))
    rows = [
        (f"{path}:{number}", text)
        for path in written
        for number, text in enumerate(path.read_text().splitlines(), 1)
    ]
    waiting = iter(kept)
    for place, text in rows:
        number, line = next(waiting)
        while line != text and not line:
            number, line = next(waiting)  # an empty line at the end of a file is none
        if text or last_endline is False:
            assert line == text
        if ending != "\r":
            items, is_exact, is_complete = found(folder, place)
            assert is_exact
            assert is_complete
            if line:
                assert items == {f"in.txt:{number}"}


@pytest.mark.parametrize("read", ["clean", "copied"])
def test_a_trace_goes_on_from_one_job_to_the_next(tmp_path: Path, read: str) -> None:
    (tmp_path / "in.txt").write_text("a 1\nb 2\na 3\nc 4\n")

    def clean() -> None:
        lines = bag.read_text(str(tmp_path / "in.txt"), blocksize=5).map(str.strip)
        lines.filter(lambda line: line[0] != "b").to_textfiles(f"{tmp_path}/clean/*.txt")

    def count() -> None:
        letters = bag.read_text(f"{tmp_path}/{read}/*.txt").map(lambda line: line[0])
        counts = letters.frequencies().map(lambda pair: f"{pair[0]} {pair[1]}")
        counts.to_textfiles(f"{tmp_path}/counts")

    assert run(tmp_path, clean).complete
    shutil.copytree(tmp_path / "clean", tmp_path / "copied")
    assert run(tmp_path, count).complete
    expected = {"a 2": {"in.txt:1", "in.txt:3"}, "c 1": {"in.txt:4"}}
    seen = set()
    with stored(tmp_path) as access:
        for path in (tmp_path / "counts").iterdir():
            for number, text in enumerate(path.read_text().splitlines(), 1):
                query = TraceQuery(Direction.BACKWARD, (f"{path}:{number}",), all_jobs=True)
                answer = access.ask(query)
                assert (answer.exact, answer.complete, answer.reasons) == (True, True, ())
                assert items_of(answer) == expected[text]
                seen.add(text)
        query = TraceQuery(Direction.FORWARD, (f"{tmp_path / 'in.txt'}:3",), all_jobs=True)
        answer = access.ask(query)
    assert seen == expected.keys()
    (location,) = {item.location or "" for group in answer.groups for item in group.items}
    path_name, _, number_text = location.rpartition(":")
    assert Path(path_name).read_text().splitlines()[int(number_text) - 1] == "a 2"
    if read == "copied":
        return  # an edited one is nobody's copy
    (tmp_path / "clean" / "0.txt").write_text("other\n")
    assert run(tmp_path, count).complete
    with stored(tmp_path) as access:
        place = next(
            f"{path}:{number}"
            for path in (tmp_path / "counts").iterdir()
            for number, text in enumerate(path.read_text().splitlines(), 1)
            if text == "o 1"
        )
        answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), all_jobs=True))
    assert not answer.complete


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda lines: lines.map(lambda line: f"{line.strip()}\nmore"), "holds a line end"),
        (lambda lines: lines.map(lambda line: f"{line.strip()}\r"), "holds a line end"),
    ],
)
def test_records_that_are_no_lines_count_for_nothing(
    tmp_path: Path, program: Callable[[Any], Any], reason: str
) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    verdict = run(
        tmp_path,
        lambda: program(bag.read_text(str(tmp_path / "in.txt"))).to_textfiles(
            str(tmp_path / "out")
        ),
    )
    assert not verdict.complete
    assert reason in " ".join(map(str, verdict.reasons))


def test_a_file_that_changes_before_it_is_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")

    def program() -> None:
        lines = bag.read_text(str(tmp_path / "in.txt"))
        (tmp_path / "in.txt").write_text("other\nlines\n")
        assert lines.compute() == ["other\n", "lines\n"]

    verdict = run(tmp_path, program)
    assert not verdict.complete
    assert "changed while it was read" in " ".join(map(str, verdict.reasons))


def test_partitions_in_blocks_of_files_with_cr_have_no_places_of_lines(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"a\rb\nc\rd\ne\n" * 9)
    run(tmp_path, lambda: bag.read_text(str(tmp_path / "in.txt"), blocksize=20).compute())
    items, _, _ = found(tmp_path, "compute-1#0#0")
    assert items == {""}


@pytest.mark.parametrize(
    "write",
    [
        lambda lines, out: lines.to_textfiles(f"{out}/*.gz"),
        lambda lines, out: lines.to_textfiles(out, compute=False),
        lambda lines, out: lines.to_textfiles("memory://out"),
    ],
)
def test_files_that_cannot_be_traced_are_refused(
    tmp_path: Path, write: Callable[[Any, str], Any]
) -> None:
    (tmp_path / "in.txt").write_text("a\n")
    with pytest.raises(UnsupportedOperatorError, match=r"Bag\.to_textfiles"):
        run(tmp_path, lambda: write(bag.read_text(str(tmp_path / "in.txt")), f"{tmp_path}/out"))
