"""Files that change between a job and a question, and between two questions: no text of another row is told as the row's."""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lineage_core.contract.row_sums import BLOCK_ROWS, PIECE_BYTES, sums_in
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import AS_IT_IS_NOW, Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.snapshot import ApplicationCache
from lineage_query.trace_query import TraceQuery
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import StartModel, TraceRequest
from lineage_query_api.settings import read_settings
from lineage_store.paths import current_file_state
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import LINES, StoredRun, store_run, sums_of

pytestmark = pytest.mark.unit
OTHER = "".join(f"{line}\n" for line in ["x y", *LINES[:-1]])
"""As long as the source, with a row before the others."""


@pytest.fixture(params=[False, True], ids=["unsummed", "summed"])
def run(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StoredRun:
    monkeypatch.chdir(tmp_path)
    return store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path, summed=request.param)


@pytest.fixture
def summed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredRun:
    monkeypatch.chdir(tmp_path)
    return store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path, summed=True)


def asked(store: SqliteStore, reader: RowReader | None = None) -> Answer:
    return QueryEngine(store, reader or RowReader()).ask(
        TraceQuery(Direction.BACKWARD, ("write#0#1",))
    )


def shown(answer: Answer) -> list[tuple[str | None, str | None]]:
    return [(item.text, item.binding) for group in answer.groups for item in group.items]


def write(path: Path, text: str, *, keep_time: bool = False) -> None:
    """Another content, with the time of then."""
    then = path.stat()
    path.write_text(text, newline="")
    if keep_time:
        os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))


def test_a_row_is_bound_by_checksum_or_by_size_and_time(run: StoredRun, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        answer = asked(store)
        (split, _) = store.graph("app-1").splits("0")
        binding = "checksum" if split.summed else "state"
        assert shown(answer) == [("a b", binding), ("b", binding), ("b", binding)]
        assert (answer.changed, answer.groups[0].file_status) == (False, "same")
        assert answer == Answer.from_json(answer.to_json())


def test_texts_of_a_file_that_was_written_anew_are_as_it_is_now(
    run: StoredRun, tmp_path: Path
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        reader = RowReader(tmp_path / "index")
        query_engine = QueryEngine(store, reader)
        question = TraceQuery(Direction.BACKWARD, ("write#0#1",))
        kept = query_engine.trace(question)
        asked(store, reader)
        run.source.write_bytes(b"x y\n" + run.source.read_bytes())
        # An answer that is made of a trace from before, and one that is asked anew.
        for answer in (kept.answer(None, texts=True), asked(store, reader)):
            assert answer.changed
            assert shown(answer) == [("x y", "now"), ("a b", "now"), ("d", "now")]
            assert answer.groups[0].items[0].shown == f"{AS_IT_IS_NOW} x y"
            assert any("may belong to another row" in warning for warning in answer.warnings)


@pytest.mark.parametrize("looked", ["state", "opened", "rows", "lines", "sums_of"])
def test_a_file_that_changes_while_one_question_is_answered(
    run: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looked: str
) -> None:
    """Just before the reader does something for the first time: no text of another row is bound to the row."""
    as_ever = getattr(RowReader, looked)

    def changed_before(reader: RowReader, *words: object, **more: object) -> object:
        if run.source.read_bytes().startswith(b"a b"):
            run.source.write_bytes(b"x y\n" + run.source.read_bytes())
        return as_ever(reader, *words, **more)

    monkeypatch.setattr(RowReader, looked, changed_before)
    with SqliteStore(tmp_path / "lineage.db") as store:
        told = shown(asked(store, RowReader(tmp_path / "index")))
    read = ["a b", "b", "b"]
    assert [text for text, _ in told] in (read, ["x y", "a b", "d"], [None] * 3)
    assert {binding for (text, binding), was in zip(told, read, strict=True) if text != was} <= {
        "now",
        None,
    }


def test_rows_before_a_change_are_still_those_that_were_read(
    summed: StoredRun, tmp_path: Path
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        with summed.source.open("a") as file:
            file.write("more\n")
        answer = asked(store)
        assert answer.changed
        assert shown(answer) == [("a b", "checksum"), ("b", "checksum"), ("b", "checksum")]
        assert any("that the job read" in warning for warning in answer.warnings)


def test_another_content_of_the_same_size_and_time_is_noticed(
    summed: StoredRun, tmp_path: Path
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        reader = RowReader(tmp_path / "index")
        assert not asked(store, reader).changed
        write(summed.source, OTHER[: summed.source.stat().st_size], keep_time=True)
        answer = asked(store, reader)
        assert answer.changed
        assert {binding for _, binding in shown(answer)} == {"now"}


def test_a_file_that_was_only_touched_has_not_changed(run: StoredRun, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        os.utime(run.source, (1.0, 1.0))
        answer = asked(store)
        (split, _) = store.graph("app-1").splits("0")
        if split.summed:
            assert (answer.changed, answer.groups[0].file_status) == (False, "touched")
            assert {binding for _, binding in shown(answer)} == {"checksum"}
            forward = QueryEngine(store, RowReader()).ask(
                TraceQuery(Direction.FORWARD, ("in.txt:1",))
            )
            assert not forward.changed
            assert not any("changed" in warning for warning in forward.warnings)
        else:
            # Nothing can tell.
            assert (answer.changed, answer.groups[0].file_status) == (True, "changed")
            assert {binding for _, binding in shown(answer)} == {"now"}


def test_a_file_that_is_gone_has_no_texts(run: StoredRun, tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        run.source.unlink()
        (group,) = asked(store).groups
        assert (group.file_status, group.changed, group.gone) == ("gone", True, True)
        assert {item.text for item in group.items} == {None}


def test_a_server_looks_at_files_for_every_answer(run: StoredRun, tmp_path: Path) -> None:
    request = TraceRequest(direction="backward", start=StartModel(places=["out/part-00000:2"]))
    with SqliteStore(tmp_path / "lineage.db") as store:
        lineages = Lineages(store, RowReader(), read_settings())
        first = lineages.trace("app-1", request, rows=True)
        assert not first.traced.answer(None, texts=True).changed
        write(run.source, OTHER)
        again = lineages.trace("app-1", request, rows=True)
        assert again.records.result is first.records.result
        assert again.traced.answer(None, texts=True).changed
        run.sink.write_text("other\n" + run.sink.read_text())
        traced = lineages.trace("app-1", request, rows=True).traced
        assert traced.changed
        assert any("has changed since app-1 wrote it" in warning for warning in traced.warnings)


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_checksums_of_a_file_are_those_that_a_task_takes(
    tmp_path: Path, name: str, end: str
) -> None:
    rows = [f"line {n} ü " + "x" * (n % 90) for n in range(5 * BLOCK_ROWS // 2)]
    rows[7] = "y" * (2 * PIECE_BYTES)
    path = tmp_path / name
    content = end.join(rows).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    reader = RowReader()
    for first in (0, 5, BLOCK_ROWS):
        found = reader.sums(str(path), first, len(rows) - first)
        assert list(found) == sums_in(sums_of(rows[first:]))
    # Of a task that stopped early, and rows that are not there any more.
    assert list(reader.sums(str(path), 3, 10)) == sums_in(sums_of(rows[3:13]))
    assert reader.sums(str(path), 0, len(rows) + 1)[-1] is None


@pytest.mark.parametrize("name", ["a.txt", "a.gz"])
def test_checksums_of_some_blocks_are_those_of_all(tmp_path: Path, name: str) -> None:
    rows = [f"line {n} ü " + "x" * (n % 90) for n in range(9 * BLOCK_ROWS // 2)]
    path = tmp_path / name
    content = "\n".join(rows).encode()
    path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    reader = RowReader()
    for first, there in (
        (0, len(rows)),
        (5, len(rows) - 5),
        (7, 2 * BLOCK_ROWS),
        (0, len(rows) + 1),
    ):
        whole = RowReader().sums(str(path), first, there)
        for blocks in ([1], [1, 1, 0], list(range(len(whole))), []):
            found = reader.sums_of(str(path), first, there, blocks)
            assert [found[block] for block in blocks] == [whole[block] for block in blocks]


def test_checksums_of_blocks_are_of_one_state_of_a_file(tmp_path: Path) -> None:
    path, reader = tmp_path / "a.txt", RowReader()
    text = "".join(f"row {n}\n" for n in range(3 * BLOCK_ROWS))
    path.write_text(text)
    before = reader.sums_of(str(path), 0, 3 * BLOCK_ROWS, [0, 2])[2]
    write(path, "\n" + text[:-1], keep_time=True)
    assert reader.sums_of(str(path), 0, 3 * BLOCK_ROWS, [2])[2] != before


def test_kept_checksums_and_indexes_are_of_one_state_of_a_file(tmp_path: Path) -> None:
    path, folder = tmp_path / "a.txt", tmp_path / "index"
    path.write_text("".join(f"row {n}\n" for n in range(200_000)))
    before, whole = (
        RowReader(folder).sums(str(path), 0, 200_000),
        RowReader(folder).checksum(str(path)),
    )
    assert len(list(folder.iterdir())) == 2
    text = path.read_text()
    write(path, "\n" + text[:-1], keep_time=True)
    for reader in (RowReader(folder), RowReader()):
        assert reader.rows(str(path), np.array([1], np.uint64)) == ["row 0"]
        now = reader.sums(str(path), 0, 200_000)
        assert all(one != two for one, two in zip(before, now, strict=True))
        assert reader.checksum(str(path)) != whole
    write(path, text, keep_time=True)
    assert RowReader(folder).sums(str(path), 0, 200_000) == before
    assert RowReader(folder).checksum(str(path)) == whole


def test_states_are_equal_where_nothing_was_written(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("a\n")
    first = current_file_state(str(path))
    assert first is not None
    assert current_file_state(str(path)) == first
    write(path, "b\n", keep_time=True)
    second = current_file_state(str(path))
    assert second is not None
    assert second != first
    assert replace(second, change_token=first.change_token) == first


@pytest.mark.parametrize("asked_for", ["partitions", "_files_of"])
def test_what_another_thread_has_begun_to_look_up_is_not_taken_for_the_whole(
    run: StoredRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_for: str
) -> None:
    """A second question comes while the first one reads which splits a source has."""
    with SqliteStore(tmp_path / "lineage.db") as store:
        opened = ApplicationCache(store, RowReader()).open("app-1")
        ask = getattr(opened.locations, asked_for)
        graph_type, seen = type(opened.graph), list[object]()
        splits = graph_type.splits

        def interrupted(graph: object, node: str) -> object:
            if not seen:
                seen.append(None)
                seen.append(dict(ask(node)))
            return splits(graph, node)  # type: ignore[arg-type]

        monkeypatch.setattr(graph_type, "splits", interrupted)
        assert ask("0") == seen[1]
        assert seen[1]
