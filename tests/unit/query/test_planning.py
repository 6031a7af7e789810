"""Which applications a question is put to, and which writes of an output."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lineage_core.contract.message import (
    Link,
    Message,
    Recipe,
    RecordFiles,
    Register,
    SinkFile,
    Split,
    Splits,
)
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query import planning
from lineage_query.finding import NotFoundError, find_readers, find_uses, other_readers
from lineage_query.planning import plan_of
from lineage_query.rows.places import LocationError
from lineage_query.rows.reader import ForbiddenRowsError, RootedReader, RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.paths import files_below
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import StoredRun, store_run

pytestmark = pytest.mark.unit


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SqliteStore:
    monkeypatch.chdir(tmp_path)
    return SqliteStore(str(tmp_path / "lineage.db"))


def run(folder: Path, app: str, at: float) -> StoredRun:
    return store_run(f"sqlite:///{folder}/lineage.db", folder, app, started_at=at)


def asked(store: SqliteStore, place: str, app: str | None = None) -> planning.Plan:
    return plan_of(store, RowReader(), TraceQuery(Direction.FORWARD, (place,), app=app))


def apps(plan: planning.Plan) -> list[str | None]:
    return [part.query.app for part in plan.parts]


def test_all_that_read_a_file_in_one_version_are_asked(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, "app-1", 1000.0)
    last = run(tmp_path, "app-2", 2000.0)
    assert apps(asked(store, "in.txt:1")) == ["app-2", "app-1"]
    assert apps(asked(store, "in.txt:1", "app-1")) == ["app-1"]
    assert apps(asked(store, "write#0#1")) == [None]
    assert other_readers(store, RowReader(), "in.txt", "app-2").apps == ("app-1",)
    # What was materialised of an application is no other reader.
    run(tmp_path, "app-1.rows", 3000.0)
    assert apps(asked(store, "in.txt:1")) == ["app-2", "app-1"]
    assert other_readers(store, RowReader(), "in.txt", "app-1.rows").apps == ("app-2",)
    monkeypatch.setattr(planning, "APPLICATIONS_QUERIED_MAX", 1)
    plan = asked(store, "in.txt:1")
    assert (apps(plan), [one.app for one in plan.not_queried]) == (["app-2"], ["app-1"])
    assert plan.only is None
    with pytest.raises(NotFoundError):
        asked(store, "in.txt:1", "nothing")
    # Gone: who read it last says which version is meant, whoever read that is asked.
    last.source.unlink()
    assert find_readers(store, RowReader(), "in.txt").apps == ("app-2", "app-1")


def test_who_read_another_version_is_not_asked_and_who_may_have_is_named(
    store: SqliteStore, tmp_path: Path
) -> None:
    first = run(tmp_path, "app-1", 1000.0)
    os.utime(first.source, (5000.0, 5000.0))
    # Checksums of rows tell that it was only touched.
    run(tmp_path, "app-2", 2000.0)
    found = find_readers(store, RowReader(), "in.txt")
    assert set(found.apps) | set(found.unsure) == {"app-1", "app-2"}
    first.source.write_text("other\n")
    assert find_readers(store, RowReader(), "in.txt").apps[0] == "app-2"


def read_record_batches(
    store: SqliteStore, app: str, path: Path, *states: tuple[int, float]
) -> None:
    """An application that read a file in some states, one after the other, and knows no checksum of it."""
    messages: list[Message] = []
    for at, (size, mtime) in enumerate(states):
        split = Split(partition=0, path=f"file:{path}", start=0, length=size, file_size=size, mtime=mtime)  # fmt: skip
        messages += [
            Register(app=app, node=f"{at}.0", kind="frame-source", op="csv", name="csv", path=f"file:{path}"),
            Splits(app=app, node=f"{at}.0", splits=(split,)),
        ]  # fmt: skip
    store.write(app, messages)


def test_versions_of_a_file_are_told_apart(store: SqliteStore, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("12345")
    os.utime(path, (300.0, 300.0))
    now, touched, other = (5, 300.0), (5, 200.0), (4, 100.0)
    read_record_batches(store, "a-other", path, other)
    read_record_batches(store, "b-touched", path, touched)
    read_record_batches(store, "c-both", path, touched, now)
    read_record_batches(store, "d-other-now", path, other, now)
    read_record_batches(store, "e-now", path, now)

    def found(reader: RowReader | None = None) -> tuple[set[str], set[str]]:
        readers = find_readers(store, reader or RowReader(), "in.csv")
        return set(readers.apps), set(readers.unsure)

    expected = {"c-both", "d-other-now", "e-now"}, {"b-touched", "c-both"}
    assert found() == expected
    plan = asked(store, "in.csv:1")
    assert {one.app for one in plan.not_queried} == {"b-touched", "c-both"}
    # Where nobody can see the file now, and where it is gone, it is the version that was read last.
    (tmp_path / "elsewhere").mkdir()
    assert found(RootedReader([str(tmp_path / "elsewhere")])) == expected
    assert [use.node for use in find_uses(store, RootedReader([str(tmp_path / "elsewhere")]), "in.csv", wrote=False, app="d-other-now")] == ["1.0"]  # fmt: skip
    path.unlink()
    assert found() == expected
    # Who read that version, and then another one, would be asked about that.
    read_record_batches(store, "f-back", path, now, (3, 400.0))
    read_record_batches(store, "g-now", path, now)
    assert "f-back" not in found()[0]
    assert "f-back" in found()[1]


def write_frames(store: SqliteStore, app: str, out: Path, *names: str) -> None:
    """An application that wrote files to an output, each by a write of its own."""
    messages: list[Message] = [
        Register(app=app, node="0.0", kind="frame-source", op="csv", name="csv")
    ]
    for at, name in enumerate(names):
        file = out / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{app} {name}")
        state, node = file.stat(), str(at)
        written = SinkFile(
            partition=0, path=f"file:{file}", size=state.st_size, mtime=state.st_mtime
        )
        messages += [
            Register(app=app, node=node, kind="frame", op="save", name="save", path=f"file:{out}", alias="write"),
            Link(app=app, src="0.0", dest=node),
            Recipe(app=app, node=node, recipe='{"version":1}'),
            RecordFiles(app=app, node=node, path=str(out), files=(written,)),
        ]  # fmt: skip
    store.write(app, messages)


def writes(store: SqliteStore, place: str = "out#id=1", app: str | None = None) -> planning.Plan:
    return plan_of(store, RowReader(), TraceQuery(Direction.BACKWARD, (place,), app=app))


def nodes(plan: planning.Plan) -> list[tuple[str, tuple[str, ...]]]:
    return [
        (one.recipe_place.app, one.recipe_place.nodes)
        for one in plan.parts
        if one.recipe_place is not None
    ]


def test_all_writes_whose_files_are_there_are_one_output(
    store: SqliteStore, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    write_frames(store, "a", out, "one.csv")
    assert writes(store).only is not None
    write_frames(store, "b", out, "two.csv", "k=1/three.csv")
    (out / "_SUCCESS").touch()
    (out / ".one.csv.crc").touch()
    plan = writes(store)
    assert sorted(nodes(plan)) == [("a", ("0",)), ("b", ("1", "0"))]
    assert (plan.gaps, plan.warnings, plan.changed) == ((), (), False)
    assert nodes(writes(store, app="a")) == [("a", ("0",))]
    assert writes(store, app="a").only is not None
    where = plan_of(store, RowReader(), TraceQuery(Direction.BACKWARD, ("out",), where="id > 1"))
    assert nodes(where) == nodes(plan)
    with pytest.raises(NotFoundError, match="no DataFrame's output"):
        plan_of(store, RowReader(), TraceQuery(Direction.BACKWARD, ("nothing",), where="id > 1"))
    with pytest.raises(TraceError, match="traced back"):
        plan_of(store, RowReader(), TraceQuery(Direction.FORWARD, ("out",), where="id > 1"))
    # A node is one write.
    assert nodes(writes(store, "0#id=1", "b")) == [("b", ("0",))]
    # Overwritten: not asked. Changed: whoever wrote it is not known.
    (out / "one.csv").unlink()
    assert nodes(writes(store)) == [("b", ("1", "0"))]
    (out / "two.csv").write_text("somebody else's")
    plan = writes(store)
    assert nodes(plan) == [("b", ("1",))]
    assert len(plan.gaps) == 1
    assert "two.csv was changed since by an unknown write" in plan.gaps[0]
    (out / "strange.csv").write_text("x")
    assert any(
        "strange.csv was not written by any known DataFrame" in one for one in writes(store).gaps
    )
    for file in out.rglob("*.csv"):
        file.unlink()
    plan = writes(store)
    assert (len(plan.parts), plan.changed) == (1, True)
    assert any("no file is unchanged since it was written" in one for one in plan.warnings)
    assert any("which of 3 known writes it held last" in one for one in plan.gaps)


def test_a_write_of_which_files_are_gone_is_in_doubt(store: SqliteStore, tmp_path: Path) -> None:
    out = tmp_path / "out"
    files = []
    for name in ("one.csv", "two.csv"):
        out.mkdir(exist_ok=True)
        (out / name).write_text(name)
        state = (out / name).stat()
        files.append(SinkFile(partition=0, path=f"file:{out / name}", size=state.st_size, mtime=state.st_mtime))  # fmt: skip
    store.write(
        "a",
        [
            Register(app="a", node="0", kind="frame", op="save", name="save", path=str(out)),
            RecordFiles(app="a", node="0", path=str(out), files=tuple(files)),
        ],
    )
    (out / "two.csv").unlink()
    plan = writes(store)
    (part,) = plan.parts
    assert part.recipe_place is not None
    assert "some of its rows may be gone" in part.recipe_place.uncertainties["0"]
    assert (plan.changed, plan.gaps) == (True, ())


def test_files_below_a_folder(tmp_path: Path) -> None:
    for name in (
        "b.csv",
        "k=1/a.csv",
        "_k=1/c.csv",
        "_temporary/d.csv",
        ".hidden/e.csv",
        "_SUCCESS",
    ):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("x")
    (tmp_path / ".target.csv").write_text("x")
    (tmp_path / "out" / "linked.csv").symlink_to(tmp_path / ".target.csv")
    found = files_below(str(tmp_path / "out"))
    assert [one.removeprefix(f"{tmp_path}/") for one in found] == [
        ".target.csv", "out/_k=1/c.csv", "out/b.csv", "out/k=1/a.csv"
    ]  # fmt: skip
    assert files_below(str(tmp_path / "out" / "b.csv")) == [str(tmp_path / "out" / "b.csv")]
    assert files_below(str(tmp_path / "nothing")) == []
    with pytest.raises(ForbiddenRowsError):
        RootedReader([str(tmp_path / "out")]).files_below(str(tmp_path))


def test_a_topic_goes_by_its_name_alone_where_no_other_has_it(store: SqliteStore) -> None:
    for app, servers in (("app-1", "a:1"), ("app-2", "a:1"), ("app-3", "b:1")):
        topic = "orders" if servers == "a:1" else "returns"
        path = f"kafka://{servers}/{topic}"
        store.write(
            app, [Register(app=app, node="0.0", kind="frame-source", op="kafka", path=path)]
        )
    assert apps(asked(store, "orders[0]@5")) == apps(asked(store, "kafka://a:1/orders[0]@5"))
    assert set(apps(asked(store, "orders[0]@5"))) == {"app-1", "app-2"}
    assert asked(store, "orders[0]@5").parts[0].by_values
    assert apps(asked(store, "returns[0]@5")) == ["app-3"]
    path = "kafka://c:1/returns"
    store.write(
        "app-4", [Register(app="app-4", node="0.0", kind="frame-source", op="kafka", path=path)]
    )
    with pytest.raises(LocationError, match="several topics are called returns"):
        asked(store, "returns[0]@5")
    assert apps(asked(store, "returns[0]@5", "app-4")) == ["app-4"]
