"""What a plain trace says of the other applications that wrote or read the files of its rows."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from contextvars import Context
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from lineage.access import StoredAccess
from lineage.main import app as command_line
from lineage.options import opened, store_to_name, with_store
from lineage.tracing import show_group
from lineage_core.contract.message import Begin, Register, SinkFile, SinkFiles
from lineage_core.contract.verdict import ARRAY
from lineage_core.tracing.trace_result import Direction
from lineage_query import next_job_search
from lineage_query.answers import Answer, Item
from lineage_query.next_job_search import FILES_MAX, with_next_jobs
from lineage_query.next_jobs import ALL_JOBS, NextJob
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.stored_lineage import LINES, store_run

pytestmark = pytest.mark.unit

ROW = "second/out/part-00000:2"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteStore]:
    """Two word counts; the second counts what the first wrote."""
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "first" / "out" / "part-00000"
    out.parent.mkdir(parents=True)
    out.write_text("\n".join(LINES) + "\n", newline="")
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "in.txt").symlink_to(out)
    url = f"sqlite:///{tmp_path}/lineage.db"
    store_run(url, tmp_path / "first", "app-1", name="count.py")
    store_run(url, tmp_path / "second", "app-2", started_at=2000.0, name="again.py")
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield store


def _ask(store: SqliteStore, *places: str, forward: bool = False, **more: object) -> Answer:
    direction = Direction.FORWARD if forward else Direction.BACKWARD
    query = TraceQuery(direction, places or (ROW,), **more)  # type: ignore[arg-type]
    return StoredAccess(store, f"sqlite:///{store.path}").ask(query)


def _jobs(answer: Answer) -> list[NextJob]:
    assert answer.groups
    return [job for group in answer.groups for job in group.next_jobs]


def _places(answer: Answer) -> set[str | None]:
    return {item.location for group in answer.groups for item in group.items}


def _write(store: SqliteStore, app: str, path: Path, *, mtime: float | None = None) -> None:
    status = path.stat()
    file = SinkFile(
        partition=0,
        path=f"file:{path}",
        size=status.st_size,
        mtime=status.st_mtime if mtime is None else mtime,
    )
    files = SinkFiles(app=app, node="9", path=str(path.parent), files=(file,))
    store.write(app, [Begin(app=app, name=app, started_at=3000.0), files])


@pytest.mark.parametrize("forward", [False, True])
def test_the_command_that_is_named_goes_on_as_all_jobs_does(
    store: SqliteStore, forward: bool
) -> None:
    row = "first/in.txt:1" if forward else ROW
    (job,) = _jobs(_ask(store, row, app="app-1" if forward else None, forward=forward))
    name, app = ("again.py", "app-2") if forward else ("count.py", "app-1")
    assert (job.app, job.job, job.same_version, job.files) == (app, name, True, 1)
    line = job.line(Direction.FORWARD if forward else Direction.BACKWARD)
    verb, way = ("read", "forward") if forward else ("written", "back")
    assert line == f"{verb} by {name} ({app}): lineage {way} {job.place} --app {app}"
    words = shlex.split(line.partition(": ")[2])
    followed = _ask(store, words[2], app=words[4], forward=forward)
    through = _ask(store, words[2], app=words[4], forward=forward, all_jobs=True)
    assert _places(followed) == _places(through) != set()
    # The last application of the way names no other one.
    assert _jobs(followed) == []
    assert _jobs(_ask(store, row, forward=forward, all_jobs=True)) == []


def test_the_command_names_the_store_that_was_asked(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{store.path}"
    with serving(url, api_roots=str(store.path.parent)) as address:
        for asked in (url, address):
            first = _printed("--store", asked, "back", ROW)
            words = shlex.split(first.rpartition(": ")[2])
            assert words[-2:] == ["--store", asked]
            assert "from 3 rows of in.txt (read)" in _printed(*words[1:])
        # A command without a store asks the one of the environment.
        monkeypatch.setenv("LINEAGE_STORE", url)
        assert "--store" not in _printed("back", ROW)
        assert "--store" in _printed("--store", address, "back", ROW)


def test_the_command_has_no_password_of_the_store() -> None:
    assert store_to_name("https://me:secret@host/") == "https://me:***@host/"


def test_commands_in_warnings_name_the_store_that_was_asked(store: SqliteStore) -> None:
    url = f"sqlite:///{store.path.parent}/its store.db"
    words = ["lineage", "forward", "/data/it's one#3", "--app", "app-1"]
    warning = f"to trace them further, run `lineage forward` on a machine with Spark, or {shlex.join(words)}"
    assert Context().run(with_store, warning) == warning

    def asked() -> str:
        with pytest.raises(StoreError), opened(url):
            pass
        return with_store(f"{warning}; and so on")

    command = Context().run(asked).partition(", or ")[2]
    assert command.endswith("; and so on")
    assert shlex.split(command.removesuffix("; and so on")) == [*words, "--store", url]


def _printed(*arguments: str) -> str:
    result = CliRunner().invoke(command_line, arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout.strip()


def test_where_another_version_was_written_both_are_named(store: SqliteStore) -> None:
    store.delete("app-1")
    out = store.path.parent / "first" / "out" / "part-00000"
    _write(store, "app-0", out, mtime=out.stat().st_mtime - 60)
    (job,) = _jobs(_ask(store))
    (gap,) = _ask(store, all_jobs=True).not_queried
    assert (job.app, job.reason, job.same_version, job.place) == ("app-0", gap.reason, False, "")
    assert job.line(Direction.BACKWARD) == f"app-0: {gap.reason}"
    assert "and app-2 read" in job.reason


def test_what_several_wrote_is_said_of_each(store: SqliteStore) -> None:
    _write(store, "app-0", store.path.parent / "first" / "out" / "part-00000")
    jobs = _jobs(_ask(store))
    assert {(job.app, job.same_version, job.place) for job in jobs} == {
        ("app-0", False, ""),
        ("app-1", False, ""),
    }
    assert all("which wrote it last is not known" in job.reason for job in jobs)


def test_nobody_is_named_where_nobody_wrote_the_file(store: SqliteStore) -> None:
    store.delete("app-1")
    assert _jobs(_ask(store)) == []


def test_a_place_names_no_rows_that_the_other_used_in_other_versions(store: SqliteStore) -> None:
    out = store.path.parent / "first" / "out" / "part-00000"
    version = out.stat().st_mtime - 60
    file = SinkFile(partition=0, path=f"file:{out}", size=3, mtime=version)
    store.write("app-1", [SinkFiles(app="app-1", node="9", path=str(out), files=(file,))])
    (job,) = _jobs(_ask(store))
    assert (job.app, job.same_version, job.place) == ("app-1", True, "")
    assert job.line(Direction.BACKWARD) == f"written by count.py (app-1): {ALL_JOBS}"


@pytest.mark.parametrize("has_cells", [False, True])
def test_of_a_moved_file_the_line_has_the_place_where_it_was_written(
    store: SqliteStore, has_cells: bool
) -> None:
    store.delete("app-1")
    elsewhere = store.path.parent / "in.txt"
    shutil.copy2(store.path.parent / "second" / "in.txt", elsewhere)
    if has_cells:
        store.write("app-0", [Register(app="app-0", node="9", kind="sink", op=ARRAY)])
    _write(store, "app-0", elsewhere)
    (job,) = _jobs(_ask(store))
    assert (job.app, job.same_version) == ("app-0", False)
    assert f"has the name, size and time of {elsewhere}" in job.reason
    # A place of a file names no cells of an array.
    assert job.place == ("" if has_cells else f"{elsewhere}:1")
    end = ALL_JOBS if has_cells else f"lineage back {elsewhere}:1 --app app-0"
    assert job.line(Direction.BACKWARD).endswith(end)


def test_an_answer_stays_where_the_store_fails(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _ask(store)
    for error in (StoreUnavailableError("away"), RuntimeError("secret")):

        def fails(*_: object, error: Exception = error) -> None:
            raise error

        monkeypatch.setattr(SqliteStore, "recorded_files", fails)
        answer = with_next_jobs(before, TraceQuery(Direction.BACKWARD, (ROW,)), store)
        (job,) = _jobs(answer)
        known = "away" if isinstance(error, StoreUnavailableError) else "RuntimeError"
        assert job.line(Direction.BACKWARD) == f"who wrote second/in.txt is not known: {known}"
        assert [group.items for group in answer.groups] == [group.items for group in before.groups]
    monkeypatch.undo()
    monkeypatch.setattr(next_job_search, "LOOK_UP_S", -1.0)
    (job,) = _jobs(with_next_jobs(before, TraceQuery(Direction.BACKWARD, (ROW,)), store))
    assert "is not known: the answer takes more than" in job.reason


def test_files_are_looked_up_up_to_a_limit_and_the_rest_is_said(store: SqliteStore) -> None:
    (group,) = _ask(store).groups
    items = tuple(Item("0#0#0", f"second/{number}.txt:1", None) for number in range(FILES_MAX + 1))
    answer = replace(_ask(store), groups=(replace(group, items=items),))
    (job,) = _jobs(with_next_jobs(answer, TraceQuery(Direction.BACKWARD, (ROW,)), store))
    assert (job.app, job.path) == ("", f"second/{FILES_MAX}.txt")
    assert "not looked up; --all-jobs looks up all" in job.reason


def test_the_same_over_http_on_the_command_line_and_in_notebooks(
    store: SqliteStore, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = _ask(store)
    (line,) = [job.line(answer.direction) for job in _jobs(answer)]
    assert Answer.from_json(json.loads(json.dumps(answer.to_json()))) == answer
    show_group(answer.groups[0], answer.direction, with_app=False)
    answer.show()
    assert capsys.readouterr().out.count(f"\n{line}\n") == 2
    assert "again" not in answer._repr_html_()
    assert "written by count.py" in answer._repr_html_()
    url = f"sqlite:///{store.path}"
    with serving(url, api_roots=str(store.path.parent)) as address:
        body = {"direction": "backward", "places": [str(store.path.parent / ROW)]}
        sent = httpx.post(f"{address}/v1/answers", json=body, timeout=60).json()
    assert Answer.from_json(sent).groups[0].next_jobs == answer.groups[0].next_jobs


def test_a_line_stays_one_line_and_a_command_one_command() -> None:
    job = NextJob("app 1", "a\nb", "-x", same_version=True, place="-x; rm:1")
    line = job.line(Direction.BACKWARD)
    assert line == "written by a\\nb (app 1): lineage back './-x; rm:1' --app 'app 1'"
    assert shlex.split(job.command(Direction.FORWARD))[1:3] == ["forward", "./-x; rm:1"]
