"""Rows of tables that track rows, followed by their ids, against tables that know where each row was first."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.names import DELTA
from lineage_core.tracing.trace_result import Direction
from lineage_query import delta_links
from lineage_query.all_jobs import FileLinks
from lineage_query.job_links import FileNode, JobLinks
from lineage_query.rows import parquet_row_ids
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_query.tracked_rows import LinkedRow
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.table_uses import read_table, wrote_table

pytestmark = pytest.mark.unit

ROUNDS = 12
"""Tables that are drawn."""
ROW_ID, VERSION = "_row-id-col-1", "_row-commit-version-col-1"
TRACKED = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": ROW_ID,
    "delta.rowTracking.materializedRowCommitVersionColumnName": VERSION,
}
BACK, FORWARD = Direction.BACKWARD, Direction.FORWARD


@dataclass(frozen=True)
class Row:
    """A row, where it was first, its id (None: that of its place), and the version that changed it last (None: that of its file)."""

    file: str
    ordinal: int
    row_id: int | None = None
    version: int | None = None


@dataclass
class Table:
    """A table of Delta Lake that knows of each row where it was first."""

    folder: Path
    properties: Mapping[str, str] = field(default_factory=lambda: TRACKED)
    files: dict[str, list[Row]] = field(default_factory=dict)
    """All that were ever in it."""
    adds: dict[str, dict[str, Any]] = field(default_factory=dict)
    live: list[frozenset[str]] = field(default_factory=list)
    """By version the files."""
    operations: list[str] = field(default_factory=list)
    next_id: int = 0

    @property
    def path(self) -> str:
        return str(self.folder)

    def commit(self, operation: str, *actions: dict[str, Any], **said: Any) -> None:
        log = self.folder / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        lines: list[dict[str, Any]] = [{"commitInfo": {"operation": operation, **said}}]
        if not self.live:
            lines.append(
                {
                    "metaData": {
                        "schemaString": '{"fields": []}',
                        "configuration": dict(self.properties),
                    }
                }
            )
        text = "".join(json.dumps(line) + "\n" for line in (*lines, *actions))
        (log / f"{len(self.live):020}.json").write_text(text)
        live = set(self.live[-1] if self.live else ())
        live -= {action["remove"]["path"] for action in actions if "remove" in action}
        self.live.append(
            frozenset(live | {action["add"]["path"] for action in actions if "add" in action})
        )
        self.operations.append(operation)

    def add(
        self, rows: list[Row], *, groups: int = 2, ids: bool = True, **told: Any
    ) -> dict[str, Any]:
        """A new file, and what its commit says of it. A row of no file is first here. ``told``: something else of the file."""
        name, version = f"part-{len(self.files)}.parquet", len(self.live)
        self.files[name] = [row if row.file else Row(name, at) for at, row in enumerate(rows)]
        columns = {"at": pa.array(range(len(rows)), pa.int64())}
        if any(row.row_id is not None for row in rows):
            columns[ROW_ID] = pa.array([row.row_id for row in rows], pa.int64())
        if any(row.version is not None for row in rows):
            columns[VERSION] = pa.array([row.version for row in rows], pa.int64())
        pq.write_table(pa.table(columns), self.folder / name, row_group_size=groups)
        status = (self.folder / name).stat()
        add = {
            "path": name,
            "size": status.st_size,
            "modificationTime": status.st_mtime_ns // 1_000_000,
            "dataChange": True,
            "stats": json.dumps({"numRecords": len(rows)}),
        }
        if ids:
            add |= {"baseRowId": self.next_id, "defaultRowCommitVersion": version}
            self.next_id += len(rows)
        self.adds[name] = add | told
        return {"add": self.adds[name]}

    def append(self, rows: int = 3, **told: Any) -> str:
        self.folder.mkdir(exist_ok=True)
        action = self.add([Row("", 0)] * rows, **told)
        self.commit("WRITE", action, operationParameters={"mode": "Append", "partitionBy": "[]"})
        return str(action["add"]["path"])

    def carried(self, file: str, ordinal: int) -> Row:
        """A row as another file has it that keeps its id."""
        row, add = self.files[file][ordinal], self.adds[file]
        row_id = add["baseRowId"] + ordinal if row.row_id is None else row.row_id
        version = add["defaultRowCommitVersion"] if row.version is None else row.version
        return replace(row, row_id=row_id, version=version)

    def rewrite(
        self, operation: str, files: list[str], rows: list[Row], *, tag: str = "true", **told: Any
    ) -> str:
        changes = operation != "OPTIMIZE"
        action = self.add(rows, dataChange=changes, **told)
        removes = ({"remove": {"path": file, "dataChange": changes}} for file in files)
        self.commit(operation, action, *removes, tags={"delta.rowTracking.preserved": tag})
        return str(action["add"]["path"])

    def packed(self, *files: str, operation: str = "DELETE", **told: Any) -> str:
        """These files in another one."""
        rows = [self.carried(file, at) for file in files for at in range(len(self.files[file]))]
        return self.rewrite(operation, list(files), rows, **told)

    def is_changed(self, file: str, ordinal: int) -> bool:
        row = self.carried(file, ordinal)
        return bool(row.version != self.adds[row.file]["defaultRowCommitVersion"])

    def draw(self, draw: random.Random) -> None:
        """Some commit."""
        live = sorted(self.live[-1]) if self.live else []
        operation = draw.choice(["WRITE", "OPTIMIZE", "UPDATE", "DELETE", "MERGE"])
        if not live or operation == "WRITE":
            self.append(draw.randint(1, 4))
            return
        picked = draw.sample(live, min(len(live), draw.randint(1, 2)))
        rows = [self.carried(file, at) for file in picked for at in range(len(self.files[file]))]
        draw.shuffle(rows)
        if operation == "DELETE":
            rows = rows[:-1] or rows
        elif operation in {"UPDATE", "MERGE"}:
            rows[0] = replace(rows[0], version=None)
        if operation == "MERGE":
            rows.append(Row("", 0))
        self.rewrite(operation, picked, rows)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store.db") as store:
        yield store


def wrote(store: GraphStore, table: Table, file: str, version: int, app: str = "") -> None:
    """An application that wrote a version, which added a file."""
    output = Output("files", table.path, format=DELTA, version=str(version))
    wrote_table(store, app or f"wrote-{version}", output, [f"{table.path}/{file}"])


def read(store: GraphStore, table: Table, version: int) -> None:
    """An application that read a version."""
    source = Source(DELTA, (table.path,), "{}", version=str(version))
    read_table(
        store, f"read-{version}", source, [f"{table.path}/{file}" for file in table.live[version]]
    )


def linked(
    store: GraphStore,
    direction: Direction,
    app: str,
    path: str,
    ordinal: int,
    reader: RowReader | None = None,
) -> tuple[tuple[LinkedRow, ...], JobLinks]:
    node = FileNode(app, "0.0" if direction is BACK else "0")
    links = FileLinks(store, direction, reader or RowReader())
    job_links, rows = links.of_rows(node, path, [ordinal], is_end=True)
    return rows.get(ordinal, ()), job_links


def in_file(app: str, node: str, table: Table, file: str, ordinal: int) -> LinkedRow:
    return LinkedRow(app, node, Location(f"{table.path}/{file}", ordinal, "record"))


def test_rows_are_followed_into_other_files_and_back(tmp_path: Path) -> None:
    followed = changed = silent = found = 0
    for number in range(ROUNDS):
        draw = random.Random(number)
        table = Table(tmp_path / f"table{number}")
        for _ in range(draw.randint(3, 8)):
            table.draw(draw)
        writes = [
            version for version, operation in enumerate(table.operations) if operation == "WRITE"
        ]
        captured = {f"part-{version}.parquet": version for version in writes if draw.random() < 0.7}
        reads = sorted(draw.sample(range(len(table.live)), min(3, len(table.live))))
        with SqliteStore(tmp_path / f"{number}.db") as store:
            for file, version in captured.items():
                wrote(store, table, file, version)
            for version in reads:
                read(store, table, version)
            rows = [
                (version, file, at)
                for version in reads
                for file in sorted(table.live[version] - captured.keys())
                for at in range(len(table.files[file]))
            ]
            for version, file, at in rows:
                row = table.files[file][at]
                links, job_links = linked(
                    store, BACK, f"read-{version}", f"{table.path}/{file}", at
                )
                if row.file in captured:
                    writer = in_file(
                        f"wrote-{captured[row.file]}", "0", table, row.file, row.ordinal
                    )
                    assert links == (writer,), (number, version, file, at)
                    assert bool(job_links.refused) is table.is_changed(file, at)
                    followed, changed = followed + 1, changed + table.is_changed(file, at)
                else:
                    assert links == ()
                    is_append = table.operations[int(row.file[5:-8])] == "WRITE"
                    if is_append and not table.is_changed(file, at):
                        assert job_links.refused == ()
                        silent += 1
            for file, version in captured.items():
                for at in range(len(table.files[file])):
                    links, job_links = linked(
                        store, FORWARD, f"wrote-{version}", f"{table.path}/{file}", at
                    )
                    expected = {
                        in_file(f"read-{by}", "0.0", table, other, place)
                        for by, other, place in rows
                        if (table.files[other][place].file, table.files[other][place].ordinal)
                        == (file, at)
                    }
                    assert set(links) == expected, (number, file, at)
                    are_changed = any(
                        table.is_changed(
                            link.location.path.rpartition("/")[2], link.location.number or 0
                        )
                        for link in links
                    )
                    assert job_links.refused or not are_changed
                    if not {"UPDATE", "MERGE"} & set(table.operations[version:]):
                        assert job_links.refused == ()
                    found += len(links)
    assert min(followed, changed, silent, found) >= ROUNDS / 2


def test_rows_that_were_given_ids_later_are_followed_from_then_on(
    tmp_path: Path, store: SqliteStore
) -> None:
    table = Table(tmp_path / "t", {})
    first = table.append(ids=False)
    old = table.rewrite("UPDATE", [first], [Row("", 0)] * 3, tag="", ids=False)
    second = table.append(ids=False)
    for file in (old, second):
        table.adds[file] |= {"baseRowId": table.next_id, "defaultRowCommitVersion": 3}
        table.next_id += 3
    table.commit(
        "ROW TRACKING BACKFILL",
        *({"add": table.adds[file] | {"dataChange": False}} for file in (old, second)),
    )
    table.commit(
        "SET TBLPROPERTIES",
        {"metaData": {"schemaString": '{"fields": []}', "configuration": TRACKED}},
    )
    packed = table.packed(old, second)
    wrote(store, table, first, 0)
    wrote(store, table, second, 2)
    read(store, table, 5)
    links, job_links = linked(store, BACK, "read-5", f"{table.path}/{packed}", 4)
    assert (links, job_links.refused) == ((in_file("wrote-2", "0", table, second, 1),), ())
    # It has an id since another commit may have changed it.
    links, job_links = linked(store, BACK, "read-5", f"{table.path}/{packed}", 1)
    assert links == ()
    assert [gap.app for gap in job_links.refused] == ["wrote-0"]
    links, job_links = linked(store, FORWARD, "wrote-2", f"{table.path}/{second}", 1)
    assert (links, job_links.refused) == ((in_file("read-5", "0.0", table, packed, 4),), ())
    links, job_links = linked(store, FORWARD, "wrote-0", f"{table.path}/{first}", 1)
    assert links == ()
    assert "may have got other ids" in job_links.refused[0].reason


@dataclass
class Case:
    """A file of version 1 that holds the rows of one of version 0, which an application wrote."""

    table: Table
    written: str
    packed: str

    def refused(self, store: GraphStore, reader: RowReader | None = None) -> list[str]:
        """What is said of row 1, which is not followed, in both directions."""
        said = []
        for direction, app, file in (
            (BACK, "read-1", self.packed),
            (FORWARD, "wrote-0", self.written),
        ):
            links, job_links = linked(store, direction, app, f"{self.table.path}/{file}", 1, reader)
            assert links == ()
            (gap,) = job_links.refused
            said.append(gap.reason)
        return said


def case(tmp_path: Path, properties: Mapping[str, str] = TRACKED, **told: Any) -> Case:
    table = Table(tmp_path / "t", properties)
    written = table.append()
    return Case(table, written, table.packed(written, **told))


def recorded(store: GraphStore, of: Case) -> Case:
    wrote(store, of.table, of.written, 0)
    read(store, of.table, 1)
    return of


def test_ids_that_are_not_certain_are_not_followed(tmp_path: Path, store: SqliteStore) -> None:
    made = recorded(store, case(tmp_path, baseRowId=2))
    assert all("several rows the same id" in reason for reason in made.refused(store))


def test_what_another_commit_says_of_a_file_is_not_followed(
    tmp_path: Path, store: SqliteStore
) -> None:
    made = recorded(store, case(tmp_path))
    add = made.table.adds[made.written]
    made.table.commit("RESTORE", {"add": add | {"baseRowId": 50}})
    back, forward = (
        linked(store, direction, app, f"{made.table.path}/{file}", 1)
        for direction, app, file in (
            (BACK, "read-1", made.packed),
            (FORWARD, "wrote-0", made.written),
        )
    )
    # It was read before.
    assert len(back[0]) == 1
    assert forward[0] == ()
    assert "no ids" in forward[1].refused[0].reason


def test_versions_of_another_log_are_not_compared(tmp_path: Path, store: SqliteStore) -> None:
    """As in a clone: another table's versions may be the numbers of versions that changed rows here."""
    table = Table(tmp_path / "t")
    written = table.append(defaultRowCommitVersion=1)
    rows = [replace(table.carried(written, at), version=None) for at in range(3)]
    made = recorded(store, Case(table, written, table.rewrite("UPDATE", [written], rows)))
    assert all("no ids" in reason for reason in made.refused(store))


@pytest.mark.parametrize(
    "told",
    [
        {"baseRowId": 1 << 70},
        {"baseRowId": -1},
        {"baseRowId": "3"},
        {"defaultRowCommitVersion": 1.5},
        {"defaultRowCommitVersion": float("inf")},
        {"size": 10**400},
        {"stats": json.dumps({"numRecords": True})},
    ],
    ids=str,
)
def test_odd_numbers_in_a_log_are_no_ids(
    tmp_path: Path, store: SqliteStore, told: dict[str, Any]
) -> None:
    made = recorded(store, case(tmp_path, **told))
    assert all(
        "its log gives the rows of the file no ids" in reason for reason in made.refused(store)
    )


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({}, "took from other files"),
        ({"delta.enableRowTracking": "true"}, "does not name one column"),
        (TRACKED | {"delta.enableRowTracking": "false"}, "took from other files"),
    ],
)
def test_tables_that_do_not_track_rows_end_traces(
    tmp_path: Path, store: SqliteStore, properties: dict[str, str], reason: str
) -> None:
    made = recorded(store, case(tmp_path, properties))
    assert all(reason in said for said in made.refused(store))


def test_a_commit_that_kept_no_ids_ends_traces(tmp_path: Path, store: SqliteStore) -> None:
    table = Table(tmp_path / "t")
    written = table.append()
    packed = table.rewrite("OPTIMIZE", [written], [Row("", 0)] * 3, tag="false")
    made = recorded(store, Case(table, written, packed))
    back, forward = made.refused(store)
    assert "took from other files" in back
    assert "may have got other ids on the way" in forward
    # Another one keeps those that it gave.
    again = table.packed(packed)
    read(store, table, 2)
    links, job_links = linked(store, BACK, "read-2", f"{table.path}/{again}", 1)
    assert (links, [gap.app for gap in job_links.refused]) == ((), ["wrote-0"])
    links, job_links = linked(store, FORWARD, "wrote-0", f"{table.path}/{written}", 1)
    assert (links, {gap.app for gap in job_links.refused}) == ((), {"read-1", "read-2"})


def test_files_that_are_not_as_the_log_says_are_not_read(
    tmp_path: Path, store: SqliteStore
) -> None:
    made = recorded(store, case(tmp_path))
    path = Path(made.table.path, made.packed)
    rooted = RootedReader([str(tmp_path / "elsewhere")])
    assert all("may not be read here" in reason for reason in made.refused(store, rooted))
    only_log = RootedReader([f"{made.table.path}/_delta_log"])
    assert all("may not be read here" in reason for reason in made.refused(store, only_log))
    text = pa.table({ROW_ID: ["0", "1", "2"], VERSION: pa.array([0, 0, 0], pa.int64())})
    pq.write_table(text, path)
    assert all("is another file now" in reason for reason in made.refused(store))
    path.unlink()
    assert all("is gone" in reason for reason in made.refused(store))


def test_columns_of_another_kind_are_not_read(tmp_path: Path, store: SqliteStore) -> None:
    table = Table(tmp_path / "t")
    written = table.append()
    table.folder.joinpath("x").touch()
    packed = table.packed(written)
    pq.write_table(pa.table({ROW_ID: ["0", "1", "2"]}), table.folder / packed)
    status = (table.folder / packed).stat()
    log = table.folder / f"_delta_log/{1:020}.json"
    old = table.adds[packed]
    new = old | {"size": status.st_size, "modificationTime": status.st_mtime_ns // 1_000_000}
    log.write_text(log.read_text().replace(json.dumps(old), json.dumps(new)))
    made = recorded(store, Case(table, written, packed))
    assert all("in another form" in reason for reason in made.refused(store))


def test_writers_that_are_not_certain_end_traces(tmp_path: Path, store: SqliteStore) -> None:
    made = recorded(store, case(tmp_path))
    wrote(store, made.table, made.written, 0, "second")
    links, job_links = linked(store, BACK, "read-1", f"{made.table.path}/{made.packed}", 1)
    assert links == ()
    assert {gap.app for gap in job_links.refused} == {"wrote-0", "second"}


def test_a_log_without_its_beginning_leads_to_what_it_lists(
    tmp_path: Path, store: SqliteStore
) -> None:
    table = Table(tmp_path / "t")
    first = table.append()
    table.commit(
        "SET TBLPROPERTIES",
        {"metaData": {"schemaString": '{"fields": []}', "configuration": TRACKED}},
    )
    second = table.append()
    packed = table.packed(first, second)
    wrote(store, table, first, 0)
    wrote(store, table, second, 2)
    read(store, table, 3)
    (table.folder / f"_delta_log/{0:020}.json").unlink()
    links, job_links = linked(store, BACK, "read-3", f"{table.path}/{packed}", 4)
    assert (links, job_links.refused) == ((in_file("wrote-2", "0", table, second, 1),), ())
    links, job_links = linked(store, BACK, "read-3", f"{table.path}/{packed}", 1)
    assert links == ()
    assert "does not list" in job_links.refused[0].reason
    links, job_links = linked(store, FORWARD, "wrote-2", f"{table.path}/{second}", 1)
    assert (links, job_links.refused) == ((in_file("read-3", "0.0", table, packed, 4),), ())


def test_no_more_files_are_looked_up_than_may_be(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path / "t")
    files = [table.append(), table.append()]
    packed = table.packed(*files)
    for version, file in enumerate(files):
        wrote(store, table, file, version)
    read(store, table, 2)
    monkeypatch.setattr(delta_links, "LOOKUPS_MAX", 1)
    links = FileLinks(store, BACK, RowReader())
    node, path = FileNode("read-2", "0.0"), f"{table.path}/{packed}"
    job_links, rows = links.of_rows(node, path, [0, 5], is_end=True)
    assert rows == {0: (in_file("wrote-0", "0", table, files[0], 0),)}
    assert "may hold rows of 3 versions" in job_links.refused[0].reason


def test_no_more_ids_are_read_than_may_be(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = recorded(store, case(tmp_path, groups=1))
    forward = (FORWARD, "wrote-0", f"{made.table.path}/{made.written}", 1)
    # Of its row groups, only one can hold the id.
    monkeypatch.setattr(parquet_row_ids, "SCANNED_MAX", 1)
    assert linked(store, *forward)[0] == (in_file("read-1", "0.0", made.table, made.packed, 1),)
    monkeypatch.setattr(parquet_row_ids, "SCANNED_MAX", 0)
    links, job_links = linked(store, *forward)
    assert links == ()
    assert "more than 0 rows" in job_links.refused[0].reason
