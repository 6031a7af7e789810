"""Rows of tables of Iceberg followed by their ids, against tables that know where each row was first and what it was made of."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.recipe.document import File, Output, Source
from lineage_core.recipe.names import ICEBERG
from lineage_core.recipe.row_ids import ROW_IDS, FileRowIds, row_ids_text
from lineage_core.tracing.trace_result import Direction
from lineage_query import iceberg_moves, iceberg_uses
from lineage_query.all_jobs import FileLinks
from lineage_query.job_links import FileNode, JobLinks
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_query.tracked_rows import LinkedRow
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.table_uses import read_table, wrote_table

pytestmark = pytest.mark.unit

ROUNDS, MORE_ROUNDS = 8, 200
"""Tables that are drawn."""
BACK, FORWARD = Direction.BACKWARD, Direction.FORWARD
FIELDS = {"_row_id": b"2147483540", "_last_updated_sequence_number": b"2147483539"}


@dataclass(frozen=True)
class Row:
    """A row as a file has it: its id and the commit that changed it last (None: as the table has it of the file).

    ``made_of``: the rows that it was made of, itself the first: by the file in which they were first, and the place there.
    """

    made_of: tuple[tuple[str, int], ...] = ()
    row_id: int | None = None
    sequence: int | None = None
    is_changed: bool = False


@dataclass
class Table:
    """A table of Iceberg, and what is true of it."""

    folder: Path
    files: dict[str, list[Row]] = field(default_factory=dict)
    """All that were ever in it."""
    ids: dict[str, FileRowIds] = field(default_factory=dict)
    live: list[tuple[str, ...]] = field(default_factory=lambda: [()])
    """By snapshot, from 1, the files."""
    snapshots: list[dict[str, object]] = field(default_factory=list)
    next_id: int = 0
    is_tracked: bool = True

    @property
    def last(self) -> int:
        return len(self.live) - 1

    def file(self, name: str) -> str:
        return f"{self.folder}/data/{name}.parquet"

    def metadata(self, number: int | None = None) -> str:
        return f"{self.folder}/metadata/v{number or self.last}.metadata.json"

    def commit(
        self,
        operation: str,
        rows: Sequence[Row],
        removed: Sequence[str] = (),
        *,
        app: str = "",
        sequence: int | None = None,
    ) -> str:
        """A snapshot that adds a file with some rows: those that are made of nothing are first in it. ``sequence``: of the file."""
        number = len(self.live)
        name = f"f{number}"
        self.files[name] = [
            row if row.made_of else replace(row, made_of=((name, at),))
            for at, row in enumerate(rows)
        ]
        snapshot: dict[str, object] = {
            "snapshot-id": number, "sequence-number": number,
            "summary": {"operation": operation, "spark.app.id": app},
        }  # fmt: skip
        if number > 1:
            snapshot["parent-snapshot-id"] = number - 1
        if self.is_tracked:
            first = self.next_id
            if len(self.snapshots) and "first-row-id" not in self.snapshots[-1]:
                # The table has ids from now on, and gives some to the files that are there.
                for old in self.live[-1]:
                    before = self.ids[old]
                    self.ids[old] = replace(before, first=self.next_id)
                    self.next_id += before.rows
            self.ids[name] = FileRowIds(self.next_id, len(rows), sequence or number)
            self.next_id += len(rows)
            snapshot |= {"first-row-id": first, "added-rows": self.next_id - first}
        else:
            self.ids[name] = FileRowIds(-1, len(rows), sequence or number)
        self._write(name)
        self.live.append((*(file for file in self.live[-1] if file not in removed), name))
        self.snapshots.append(snapshot)
        self.describe(self.snapshots)
        return name

    def describe(self, snapshots: Sequence[dict[str, object]]) -> None:
        Path(self.metadata()).parent.mkdir(parents=True, exist_ok=True)
        Path(self.metadata()).write_text(json.dumps({"snapshots": snapshots}))

    def _write(self, name: str, numbers: dict[str, bytes] = FIELDS) -> None:
        rows = self.files[name]
        fields, columns = [pa.field("at", pa.int64())], [pa.array(range(len(rows)), pa.int64())]
        told = {
            "_row_id": [row.row_id for row in rows],
            "_last_updated_sequence_number": [row.sequence for row in rows],
        }
        for column, values in told.items():
            if any(value is not None for value in values):
                number = {b"PARQUET:field_id": numbers[column]}
                fields.append(pa.field(column, pa.int64(), metadata=number))
                columns.append(pa.array(values, pa.int64()))
        Path(self.file(name)).parent.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_arrays(columns, schema=pa.schema(fields))
        pq.write_table(table, self.file(name), row_group_size=2)

    def kept(self, file: str) -> list[Row]:
        """Rows of a file as another file has them that keeps their ids."""
        ids = self.ids[file]
        return [
            replace(
                row,
                row_id=ids.first + at if row.row_id is None else row.row_id,
                sequence=ids.sequence if row.sequence is None else row.sequence,
            )
            for at, row in enumerate(self.files[file])
        ]

    def append(self, rows: int = 3, app: str = "") -> str:
        return self.commit("append", [Row()] * rows, app=app)

    def packed(self, *files: str, operation: str = "replace") -> str:
        """These files in another one."""
        rows = [row for file in files for row in self.kept(file)]
        return self.commit(
            operation, rows, files, sequence=max(self.ids[f].sequence for f in files)
        )

    def draw(self, draw: random.Random) -> None:
        """Some commit."""
        live = self.live[-1]
        kind = draw.choice(["append", "pack", "update", "delete", "merge", "lose"])
        if not live or kind == "append":
            self.append(draw.randint(1, 4), app=draw.choice(["", f"wrote-{len(self.live)}"]))
            return
        picked = draw.sample(live, min(len(live), draw.randint(1, 2)))
        rows = [row for file in picked for row in self.kept(file)]
        draw.shuffle(rows)
        if kind == "pack":
            self.commit("replace", rows, picked, sequence=max(self.ids[f].sequence for f in picked))
        elif kind == "delete":
            self.commit("overwrite", rows[:-1] or rows, picked)
        elif kind == "lose":
            # By a program that knows nothing of ids.
            lost = [replace(row, row_id=None, sequence=None) for row in rows]
            self.commit(draw.choice(["replace", "overwrite"]), lost, picked)
        else:
            made_of = (rows[0].made_of[0], *rows[-1].made_of)
            rows[0] = replace(rows[0], sequence=None, is_changed=True, made_of=made_of)
            # A new row, made of another.
            new = [
                Row(made_of=((f"f{len(self.live)}", len(rows)), *rows[0].made_of), is_changed=True)
            ]
            self.commit("overwrite", rows + (new if kind == "merge" else []), picked)

    def use(self, files: Sequence[str]) -> tuple[tuple[File, ...], dict[str, str]]:
        """Files as a recipe names them, and the ids of their rows."""
        states = [(self.file(name), Path(self.file(name)).stat()) for name in files]
        ids = [self.ids[name] if self.ids[name].first >= 0 else None for name in files]
        options = {"metadata": self.metadata()}
        if any(ids):
            options[ROW_IDS] = row_ids_text(ids)
        recorded = (File(path, at.st_size, at.st_mtime_ns // 1_000_000) for path, at in states)
        return tuple(recorded), options

    def wrote(self, store: GraphStore, name: str, app: str = "") -> None:
        """An application that recorded that it wrote the snapshot which added a file."""
        files, options = self.use([name])
        output = Output(
            "table",
            str(self.folder),
            format=ICEBERG,
            version=name[1:],
            files=files,
            options=options,
        )
        wrote_table(store, app or f"wrote-{name[1:]}", output, [file.path for file in files])

    def read(self, store: GraphStore, number: int | None = None) -> None:
        """An application that recorded that it read a snapshot."""
        number = number or self.last
        files, options = self.use(self.live[number])
        options["metadata"] = self.metadata(number)
        source = Source(
            ICEBERG, (str(self.folder),), "{}", version=str(number), files=files, options=options
        )
        read_table(store, f"read-{number}", source, [file.path for file in files])

    def row(self, app: str, node: str, file: str, ordinal: int) -> LinkedRow:
        return LinkedRow(app, node, Location(self.file(file), ordinal, "record"))


def linked(
    store: GraphStore, direction: Direction, app: str, path: str, ordinal: int,
    reader: RowReader | None = None,
) -> tuple[tuple[LinkedRow, ...], JobLinks]:  # fmt: skip
    node = FileNode(app, "0.0" if direction is BACK else "0")
    links = FileLinks(store, direction, reader or RowReader())
    job_links, rows = links.of_rows(node, path, [ordinal], is_end=True)
    return rows.get(ordinal, ()), job_links


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store.db") as store:
        yield store


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(ROUNDS), id="some"),
        pytest.param(range(ROUNDS, MORE_ROUNDS), id="many", marks=pytest.mark.long),
    ],
)
def test_rows_are_followed_into_other_files_and_back(tmp_path: Path, seeds: range) -> None:
    followed = ended = forward = 0
    for seed in seeds:
        draw = random.Random(seed)
        table = Table(tmp_path / f"table{seed}", is_tracked=draw.random() < 0.8)
        for _ in range(draw.randint(3, 8)):
            table.draw(draw)
            table.is_tracked = table.is_tracked or draw.random() < 0.3
        captured = {
            f"f{one['snapshot-id']}"
            for one in table.snapshots
            if one["summary"]["spark.app.id"]  # type: ignore[index]
        }
        reads = draw.sample(range(1, table.last + 1), min(3, table.last))
        with SqliteStore(tmp_path / f"{seed}.db") as store:
            for name in captured:
                table.wrote(store, name)
            for number in reads:
                table.read(store, number)
            # All rows that were read in a file that no application wrote.
            rows = [
                (number, file, at, row)
                for number in reads
                for file in table.live[number]
                if file not in captured
                for at, row in enumerate(table.files[file])
            ]
            for number, file, at, row in rows:
                links, job_links = linked(store, BACK, f"read-{number}", table.file(file), at)
                origins = [origin for origin in row.made_of if origin[0] in captured]
                first = [origin for origin in row.made_of[:1] if origin in origins]
                expected = [table.row(f"wrote-{name[1:]}", "0", name, to) for name, to in first]
                assert set(links) <= set(expected), (seed, number, file, at)
                if not job_links.refused:
                    assert list(links) == expected, (seed, number, file, at)
                    assert not (origins and row.is_changed), (seed, number, file, at)
                    followed, ended = followed + bool(links), ended + (not links)
            for name in captured:
                for to in range(len(table.files[name])):
                    links, job_links = linked(
                        store, FORWARD, f"wrote-{name[1:]}", table.file(name), to
                    )
                    made = [one for one in rows if (name, to) in one[3].made_of]
                    expected = [
                        table.row(f"read-{number}", "0.0", file, at)
                        for number, file, at, row in made
                        if row.made_of[0] == (name, to)
                    ]
                    assert set(links) <= set(expected), (seed, name, to)
                    forward += bool(links)
                    if not job_links.refused:
                        assert set(links) == set(expected), (seed, name, to)
                        assert not any(row.is_changed for _, _, _, row in made), (seed, name, to)
    assert min(followed, ended, forward) >= len(seeds) / 4, (followed, ended, forward)


@dataclass
class Case:
    """A table of a file that an application wrote, and that is packed into another."""

    table: Table
    written: str
    packed: str

    def said(
        self, store: GraphStore, direction: Direction, reader: RowReader | None = None
    ) -> tuple[bool, str]:
        """Whether row 1 is followed, and what is said of it."""
        app, file = ("read-2", self.packed) if direction is BACK else ("wrote-1", self.written)
        links, job_links = linked(store, direction, app, self.table.file(file), 1, reader)
        return bool(links), " ".join(gap.reason for gap in job_links.refused)


@pytest.fixture
def case(tmp_path: Path, store: SqliteStore) -> Case:
    table = Table(tmp_path / "t")
    written = table.append(app="wrote-1")
    case = Case(table, written, table.packed(written))
    table.wrote(store, written)
    table.read(store)
    return case


def test_a_row_that_was_only_moved_is_followed_even_if_its_first_file_is_gone(
    store: SqliteStore, case: Case
) -> None:
    Path(case.table.file(case.written)).unlink()
    assert case.said(store, BACK) == (True, "")
    assert case.said(store, FORWARD) == (True, "")


@pytest.mark.parametrize("direction", [BACK, FORWARD])
@pytest.mark.parametrize("what", ["gone", "other file", "other column", "outside"])
def test_rows_of_files_that_do_not_prove_it_are_not_followed(
    store: SqliteStore, case: Case, what: str, direction: Direction
) -> None:
    file = Path(case.table.file(case.packed))
    reader = RowReader()
    if what == "gone":
        file.unlink()
    elif what == "other file":
        file.write_bytes(file.read_bytes() + b" ")
    elif what == "other column":
        # A column of the program's own, of that name.
        numbers = dict.fromkeys(FIELDS, b"3")
        case.table._write(case.packed, numbers)
        case.table.read(store)
    else:
        reader = RootedReader([f"{case.table.folder}-other"])
    followed, said = case.said(store, direction, reader)
    assert not followed
    assert said


def test_what_was_captured_before_ids_were_recorded_ends_the_trace_with_the_reason(
    tmp_path: Path, store: SqliteStore
) -> None:
    table = Table(tmp_path / "t", is_tracked=False)
    written = table.append(app="wrote-1")
    case = Case(table, written, table.packed(written))
    table.wrote(store, written)
    table.read(store)
    for direction, app in ((BACK, "read-2"), (FORWARD, "wrote-1")):
        followed, said = case.said(store, direction)
        assert not followed
        assert f"{app} recorded no ids of the rows of its files" in said


def test_rows_whose_first_snapshot_has_expired_end_the_trace(
    store: SqliteStore, case: Case
) -> None:
    case.table.describe(case.table.snapshots[1:])
    for direction in (BACK, FORWARD):
        followed, said = case.said(store, direction)
        assert not followed
        assert "its metadata do not list" in said
        # Who may have written the row, or read it, is named with both snapshots.
        other = "it wrote snapshot 1 of" if direction is BACK else "it read snapshot 2 of"
        assert other in said
        assert (
            "read-2 read snapshot 2" if direction is BACK else "wrote-1 wrote snapshot 1"
        ) in said


def test_writes_after_the_snapshot_that_was_read_are_not_named(
    store: SqliteStore, case: Case
) -> None:
    case.table.describe(case.table.snapshots[1:])
    case.table.wrote(store, case.table.append(app="wrote-3"))
    _, job_links = linked(store, BACK, "read-2", case.table.file(case.packed), 1)
    assert {gap.app for gap in job_links.refused} == {"read-2", "wrote-1"}


def test_snapshots_that_expired_between_may_have_moved_rows(
    tmp_path: Path, store: SqliteStore
) -> None:
    table = Table(tmp_path / "t")
    written = table.append(app="wrote-1")
    table.packed(written)
    table.append()
    table.describe([table.snapshots[0], table.snapshots[2]])
    table.wrote(store, written)
    table.read(store)
    links, job_links = linked(store, FORWARD, "wrote-1", table.file(written), 1)
    assert links == ()
    assert job_links.refused


def test_two_snapshots_that_gave_the_same_id_prove_nothing(store: SqliteStore, case: Case) -> None:
    case.table.snapshots[1] |= {"first-row-id": 0}
    case.table.describe(case.table.snapshots)
    followed, said = case.said(store, BACK)
    assert not followed
    assert "several snapshots in which a row was first" in said


def test_searches_are_bounded(
    store: SqliteStore, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_moves, "FILES_MAX", 0)
    assert case.said(store, FORWARD)[1].endswith(
        "(ids of rows don't tell which: they may be in 1 files)"
    )
    monkeypatch.setattr(iceberg_uses, "APPLICATIONS_MAX", 1)
    assert "any of 2 applications may have used them" in case.said(store, FORWARD)[1]
