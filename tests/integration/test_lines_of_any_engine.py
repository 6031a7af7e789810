"""Programs that report through `LineageApi` which lines of files they read and wrote: traces go through all of them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from lineage import LineageApi
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_store.checksums import sha256_of
from tests.support.job_runs import STORE, checksums, judged, stored

pytestmark = pytest.mark.integration


def api_in(folder: Path, name: str, **settings: Any) -> LineageApi:
    return LineageApi(
        name, store=f"sqlite:///{folder / STORE}", spool=str(folder / "s"), **settings
    )


def totals(folder: Path, source: str, target: str, **settings: Any) -> str:
    """A program that adds the numbers of each key, and one, so that no two files are the same by chance. One line a key."""
    with api_in(folder, "totals", **settings) as api:
        read, total = api.register("read", kind="source"), api.register("total", kind="sink")
        api.flow_link(read, total)
        api.read_lines(read, {0: f"{folder}/{source}"})
        sums: dict[str, int] = {}
        with api.task(total):
            for at, line in enumerate((folder / source).read_text().splitlines()):
                key, number = line.split(",")
                sums[key] = sums.get(key, 1) + int(number)
                api.add_input(f"{read}#0#{at}", tag=key)
            for row, key in enumerate(sums):
                api.add_output(f"{total}#0#{row}", tag=key, reset=True)
        text = "".join(f"{key},{value}\n" for key, value in sums.items())
        (folder / target).write_text(text)
        api.wrote_lines(total, {0: f"{folder}/{target}"})
    return api.app


def traced(folder: Path, direction: Direction, place: str) -> Answer:
    with stored(folder) as access:
        return access.ask(TraceQuery(direction, (place,), all_jobs=True))


def places(answer: Answer) -> set[str]:
    return {item.location or item.address for group in answer.groups for item in group.items}


def test_a_trace_goes_through_the_files_of_programs(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a,1\nb,2\na,3\n")
    apps = [totals(tmp_path, "in", "mid"), totals(tmp_path, "mid", "out")]
    for app in apps:
        assert judged(tmp_path, app).complete
    answer = traced(tmp_path, Direction.BACKWARD, f"{tmp_path}/out:1")
    assert places(answer) == {f"{tmp_path}/in:1", f"{tmp_path}/in:3"}
    assert (answer.exact, answer.complete, set(answer.apps)) == (True, True, set(apps))
    answer = traced(tmp_path, Direction.FORWARD, f"{tmp_path}/in:2")
    assert (places(answer), answer.complete) == ({f"{tmp_path}/out:2"}, True)
    # Written anew: what the second one read is no more what the first one wrote.
    (tmp_path / "mid").write_text("a,4\nb,2\nc,9\n")
    totals(tmp_path, "mid", "other")
    answer = traced(tmp_path, Direction.BACKWARD, f"{tmp_path}/other:1")
    assert not answer.complete
    assert "it wrote" in answer.not_queried[0].reason


def test_a_trace_goes_through_copies_of_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a,1\nb,2\na,3\n")
    apps = [totals(tmp_path, "in", "mid")]
    shutil.copy2(tmp_path / "mid", tmp_path / "moved")
    shutil.copy(tmp_path / "mid", tmp_path / "copied")
    os.utime(tmp_path / "copied", (2e9, 2e9))
    for copy in ("moved", "copied"):
        apps.append(totals(tmp_path, copy, f"of-{copy}"))
        answer = traced(tmp_path, Direction.BACKWARD, f"{tmp_path}/of-{copy}:1")
        assert places(answer) == {f"{tmp_path}/in:1", f"{tmp_path}/in:3"}
        # A copy with the time of the other is that one; another one may have its content by chance.
        assert (answer.complete, answer.exact) == (True, copy == "moved")
        assert set(answer.apps) == {apps[0], apps[-1]}
        assert answer.exact or f"{tmp_path}/{copy}" in " ".join(answer.reasons)
    answer = traced(tmp_path, Direction.FORWARD, f"{tmp_path}/in:2")
    assert places(answer) == {f"{tmp_path}/of-moved:2", f"{tmp_path}/of-copied:2"}
    assert (answer.complete, answer.exact, set(answer.apps)) == (True, False, set(apps))


def test_a_copy_that_was_edited_in_place_is_none(tmp_path: Path) -> None:
    """Its name is that of the file that was written, its size and time, too: the checksum is another."""
    (tmp_path / "in").write_text("a,1\nb,2\na,3\n")
    totals(tmp_path, "in", "mid")
    state = (tmp_path / "mid").stat()
    (tmp_path / "mid").write_text("b,2\na,4\n")
    os.utime(tmp_path / "mid", ns=(state.st_atime_ns, state.st_mtime_ns))
    reader = totals(tmp_path, "mid", "out")
    answer = traced(tmp_path, Direction.BACKWARD, f"{tmp_path}/out:1")
    assert (places(answer), answer.complete) == ({f"{tmp_path}/mid:1"}, False)
    assert "it wrote" in answer.not_queried[0].reason
    answer = traced(tmp_path, Direction.FORWARD, f"{tmp_path}/in:1")
    assert not answer.complete
    assert [missed.app for missed in answer.not_queried] == [reader]


def test_checksums_are_of_files_as_they_were_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"in": "a,1\n", "changing": "b,2\n", "large": "c,3\n" * 9}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    sums = {name: sha256_of([text.encode()]) for name, text in texts.items()}
    monkeypatch.setattr("lineage_emitter.sdk.checksums.FILE_BYTES_MAX", 20)
    with api_in(tmp_path, "reads") as api:
        read, total = api.register("read", kind="source"), api.register("total", kind="sink")
        api.read_lines(read, {n: f"{tmp_path}/{name}" for n, name in enumerate(texts)})
        os.utime(tmp_path / "changing", (1, 1))
        with api.task(total):
            api.add_output(f"{total}#0#0")
        # Committed: what happens to a file from here on takes nothing from what is known of it.
        (tmp_path / "in").write_text("b,1\n")
    assert checksums(tmp_path, api.app) == {"in": sums["in"], "changing": "", "large": ""}
    app = totals(tmp_path, "changing", "out")
    assert checksums(tmp_path, app) == {"changing": sums["changing"], "out": sha256_of([b"b,3\n"])}
    app = totals(tmp_path, "changing", "out", checksums=False)
    assert set(checksums(tmp_path, app).values()) == {""}


def test_files_that_change_or_are_not_there_are_told_of(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("a,1\n")
    with api_in(tmp_path, "changes") as api:
        read = api.register("read", kind="source")
        api.read_lines(read, {0: f"{tmp_path}/in"})
        api.read_lines(read, {1: f"{tmp_path}/nothing"})
        api.read_lines(read, {2: f"{tmp_path}/packed.gz"})
        api.wrote_lines(api.register("total", kind="sink"), {0: f"{tmp_path}/nobody"})
        os.utime(tmp_path / "in", (1, 1))
    reasons = " ".join(map(str, judged(tmp_path, api.app).reasons))
    for words in ("in changed while it was read", "nothing", "nobody", "packed.gz is compressed"):
        assert words in reasons


def test_nothing_is_read_where_nothing_is_captured(tmp_path: Path) -> None:
    with LineageApi("off", enabled=False) as api:
        node = api.register("read", kind="source")
        api.read_lines(node, {0: f"{tmp_path}/nothing"})
        api.wrote_lines(node, {0: f"{tmp_path}/nothing"})
