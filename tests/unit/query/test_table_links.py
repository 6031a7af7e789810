"""Which applications are named where a table put rows into other files, against tables whose files say whose rows they hold."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lineage_core.contract.message import (
    RecordSplit,
    RecordSplits,
)
from lineage_core.recipe.document import Output, Source
from lineage_core.recipe.names import DELTA, DELTA_LOG, ICEBERG
from lineage_core.tracing.trace_result import Direction
from lineage_query import delta_links
from lineage_query.all_jobs import FileLinks
from lineage_query.answers import NotQueried
from lineage_query.job_links import FileNode
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.table_logs import add, delta, info, moved, overwrote, remove, wrote
from tests.support.table_uses import read_table, wrote_table

pytestmark = pytest.mark.unit

ROUNDS = 60
"""Tables that are drawn."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "store.db") as store:
        yield store


def wrote_unknown(store: GraphStore, app: str, path: str, commits: tuple[int, ...]) -> None:
    """An application that wrote one of some versions of a table of Delta Lake, as others were made meanwhile."""
    output = Output("files", path, format=DELTA, commits=commits)
    wrote_table(store, app, output, (f"{path}/{DELTA_LOG}",), 1.0)


def unread(store: GraphStore, app: str, path: str) -> tuple[NotQueried, ...]:
    """What is said of rows that an application wrote, of which no files were recorded."""
    links = FileLinks(store, Direction.FORWARD, RowReader())
    return links.of_rows_in_no_place(FileNode(app, "0"), path)


def refused(
    store: GraphStore, direction: Direction, app: str, path: str, reader: RowReader | None = None
) -> tuple[NotQueried, ...]:
    """What is said of a file that an application read, or wrote."""
    node = FileNode(app, "0.0" if direction is Direction.BACKWARD else "0")
    return FileLinks(store, direction, reader or RowReader()).of(node, path, is_end=True).refused


@dataclass
class Table:
    """A table of which each file says which versions' rows it holds: its own brute-force provenance."""

    folder: Path
    draw: random.Random
    commits: list[list[dict[str, Any]]] = field(default_factory=list)
    live: list[dict[str, frozenset[int]]] = field(default_factory=list)
    """By version the files, and whose rows each holds."""
    may_hold: dict[str, frozenset[int]] = field(default_factory=dict)
    """Whose rows the log says that a file may hold: it does not say that one that deletes rows adds none."""

    def commit(self) -> None:
        """Add one version that some operation made."""
        version = len(self.commits)
        before = dict(self.live[-1]) if self.live else {}
        name = f"part-{version}.parquet"
        picked = frozenset(self.draw.sample(sorted(before), min(len(before), 2)))
        held = frozenset[int]().union(*(before[file] for file in picked))
        kind = self.draw.choice(["append", "append", "overwrite", "optimize", "update", "delete"])
        if not before or kind == "append":
            actions, held, picked = wrote("Append", name), frozenset([version]), frozenset()
        elif kind == "overwrite":
            actions, picked = overwrote(name, *before, read=version - 1), frozenset(before)
            held = frozenset([version])
        elif kind == "optimize":
            actions = moved(name, *picked)
        elif kind == "update":
            actions, held = [*info("UPDATE"), *add(name), *remove(*picked)], held | {version}
        else:
            actions = [*info("DELETE"), *add(name), *remove(*picked)]
        self.may_hold[name] = held.union(
            {version} if kind == "delete" else (),
            *(self.may_hold[file] for file in picked if kind not in ("append", "overwrite")),
        )
        self.commits.append(actions)
        self.live.append({f: of for f, of in before.items() if f not in picked} | {name: held})

    def is_write(self, version: int) -> bool:
        """Whether its file holds rows of nobody else."""
        return self.live[version][f"part-{version}.parquet"] == {version} and (
            self.commits[version][0]["commitInfo"]["operation"] == "WRITE"
        )


def test_those_whose_rows_a_file_holds_and_those_who_read_them_are_named(tmp_path: Path) -> None:
    named = silent = unnamed = 0
    for number in range(ROUNDS):
        draw = random.Random(number)
        table = Table(tmp_path / f"table{number}", draw)
        for _ in range(draw.randint(2, 9)):
            table.commit()
        path = delta(table.folder, *table.commits)
        writes = [version for version in range(len(table.commits)) if table.is_write(version)]
        captured = {version for version in writes if draw.random() < 0.6}
        # By the version that an application made, the first and the last that it may have made.
        unknown = {
            version: (draw.randint(0, version), draw.randint(version, len(table.commits) - 1))
            for version in writes
            if version not in captured and draw.random() < 0.5
        }
        reads = sorted(draw.sample(range(len(table.live)), draw.randint(1, len(table.live))))
        with SqliteStore(tmp_path / f"{number}.db") as store:
            for version in sorted(captured):
                file = f"{path}/part-{version}.parquet"
                output = Output("files", path, format=DELTA, version=str(version))
                wrote_table(store, f"wrote-{version}", output, (file,), float(version))
            for version, commits in unknown.items():
                wrote_unknown(store, f"unknown-{version}", path, commits)
            may_be = {
                version: frozenset(range(commits[0], commits[1] + 1)) - captured
                for version, commits in unknown.items()
            }
            for version in reads:
                files = tuple(f"{path}/{file}" for file in table.live[version])
                source = Source(DELTA, (path,), "{}", version=str(version))
                at = {file: float(file.split("-")[-1].split(".")[0]) for file in files}
                read_files(store, f"read-{version}", source, at)
            for version in reads:
                for file, held in table.live[version].items():
                    writer = int(file.split("-")[1].split(".")[0])
                    others = {f"wrote-{v}" for v in held & captured}
                    others |= {
                        f"unknown-{v}" for v, made in may_be.items() if made & table.may_hold[file]
                    }
                    if writer in captured:
                        # It is followed.
                        others = set()
                    gaps = refused(store, Direction.BACKWARD, f"read-{version}", f"{path}/{file}")
                    assert {gap.app for gap in gaps} == others, (number, version, file)
                    named, silent = named + bool(others), silent + (not others)
                    for gap in gaps:
                        kind, made = gap.app.split("-")
                        if kind == "wrote":
                            assert f"wrote version {made} of" in gap.reason
                        else:
                            first, last = unknown[int(made)]
                            assert f"wrote one of the versions {first} to {last} of" in gap.reason
                            unnamed += int(made) in held
                        assert f"read version {version}:" in gap.reason
            for version in captured:
                file = f"part-{version}.parquet"
                others = {
                    f"read-{read}"
                    for read in reads
                    for other, held in table.live[read].items()
                    if version in held and other != file
                }
                gaps = refused(store, Direction.FORWARD, f"wrote-{version}", f"{path}/{file}")
                assert {gap.app for gap in gaps} == others, (number, version)
            for number_made, commits_made in may_be.items():
                others = {
                    f"read-{read}"
                    for read in reads
                    for name in table.live[read]
                    if commits_made & table.may_hold[name]
                }
                gaps = unread(store, f"unknown-{number_made}", path)
                assert {gap.app for gap in gaps} == others, (number, number_made)
    assert named > ROUNDS
    assert unnamed > ROUNDS / 2
    assert silent > ROUNDS


def read_files(store: GraphStore, app: str, source: Source, at: dict[str, float]) -> None:
    """An application that read files of these times."""
    read_table(store, app, source, (), max(at.values()))
    splits = tuple(
        RecordSplit(partition=0, path=file, start=0, length=1, file_size=1, mtime=time)
        for file, time in at.items()
    )
    store.write(app, [RecordSplits(app=app, node="0.0", whole=False, splits=splits)])


def test_a_log_that_does_not_say_it_ends_the_trace(tmp_path: Path, store: SqliteStore) -> None:
    path = delta(
        tmp_path / "t", wrote("Append", "a.parquet"), moved("b.parquet", "a.parquet"), wrote("Append", "c.parquet")
    )  # fmt: skip
    log = tmp_path / "t/_delta_log"
    wrote_table(
        store, "writer", Output("files", path, format=DELTA, version="0"), (f"{path}/a.parquet",), 1.0
    )  # fmt: skip
    source = Source(DELTA, (path,), "{}", version="2")
    read_table(store, "reader", source, (f"{path}/b.parquet", f"{path}/c.parquet"), 2.0)
    back = Direction.BACKWARD
    (gap,) = refused(store, back, "reader", f"{path}/b.parquet")
    assert gap.app == "writer"
    assert refused(store, back, "reader", f"{path}/c.parquet") == ()
    (gap,) = refused(store, Direction.FORWARD, "writer", f"{path}/a.parquet")
    assert gap.app == "reader"
    # The files may not be read here.
    rooted = RootedReader([str(tmp_path / "elsewhere")])
    for direction, app, file in ((back, "reader", "b"), (Direction.FORWARD, "writer", "a")):
        (gap,) = refused(store, direction, app, f"{path}/{file}.parquet", rooted)
        assert (gap.app, "may not be read here" in gap.reason) == (app, True)
    # The log is cleaned from its beginning on.
    (log / f"{0:020}.json").unlink()
    (gap,) = refused(store, back, "reader", f"{path}/b.parquet")
    assert gap.app == "reader"
    assert "does not list which version wrote the file" in gap.reason
    assert refused(store, back, "reader", f"{path}/c.parquet") == ()
    (gap,) = refused(store, Direction.FORWARD, "writer", f"{path}/a.parquet")
    assert "does not list version 0 as it was written" in gap.reason
    (log / f"{1:020}.json").unlink()
    assert len(refused(store, back, "reader", f"{path}/b.parquet")) == 1
    (log / f"{2:020}.json").write_text('{"add": 1}')
    assert len(refused(store, back, "reader", f"{path}/c.parquet")) == 1
    (log / f"{2:020}.json").unlink()
    (gap,) = refused(store, back, "reader", f"{path}/c.parquet")
    assert "it has no log" in gap.reason


def test_more_than_is_looked_up_ends_the_trace(
    tmp_path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_links, "LOOKUPS_MAX", 1)
    path = delta(
        tmp_path / "t", wrote("Append", "a.parquet"), wrote("Append", "b.parquet"),
        moved("c.parquet", "a.parquet", "b.parquet"), moved("d.parquet", "c.parquet"),
    )  # fmt: skip
    output = Output("files", path, format=DELTA, version="0")
    wrote_table(store, "writer", output, (f"{path}/a.parquet",), 1.0)
    source = Source(DELTA, (path,), "{}", version="3")
    read_table(store, "reader", source, (f"{path}/d.parquet",), 2.0)
    for direction, app, file in (
        (Direction.BACKWARD, "reader", "d"),
        (Direction.FORWARD, "writer", "a"),
    ):
        (gap,) = refused(store, direction, app, f"{path}/{file}.parquet")
        assert gap.app == app
        assert "is not known" in gap.reason


def iceberg(folder: Path, *snapshots: tuple[int, int | None, str, str]) -> str:
    """The metadata file of a table with these snapshots: number, parent, operation, Spark application."""
    (folder / "metadata").mkdir(parents=True, exist_ok=True)
    listed = [
        {
            "snapshot-id": number,
            "parent-snapshot-id": parent,
            "summary": {"operation": how, "spark.app.id": app},
        }
        for number, parent, how, app in snapshots
    ]
    path = folder / f"metadata/v{len(snapshots)}.metadata.json"
    path.write_text(json.dumps({"snapshots": listed}))
    return str(path)


@pytest.mark.parametrize(
    ("snapshots", "is_named", "is_unknown"),
    [
        # Others appended; what the captured application wrote is in its own files.
        ([(1, None, "append", "writer"), (2, 1, "append", "other")], False, False),
        # Its rows may be in other files.
        ([(1, None, "append", "writer"), (2, 1, "replace", "other")], True, True),
        ([(1, None, "append", "writer"), (2, 1, "overwrite", "")], True, True),
        ([(1, None, "append", "writer"), (3, 1, "delete", ""), (2, 3, "append", "")], True, True),
        # What was put into other files before it wrote was of others.
        ([(3, None, "append", ""), (4, 3, "replace", ""), (1, 4, "append", "writer"), (2, 1, "append", "")], False, False),
        # It committed a snapshot that it did not record.
        ([(1, None, "append", "writer"), (2, 1, "append", "writer")], True, False),
        ([(1, None, "append", "writer"), (2, 1, "append", "writer-2")], True, False),
        # Earlier snapshots have expired.
        ([(2, 1, "append", "other")], True, True),
    ],
)  # fmt: skip
def test_snapshots_that_may_hold_rows_of_others_are_named(
    tmp_path: Path,
    store: SqliteStore,
    snapshots: list[tuple[int, int | None, str, str]],
    is_named: bool,
    is_unknown: bool,
) -> None:
    table = tmp_path / "t"
    metadata = iceberg(table, *snapshots)
    output = Output("table", str(table), format=ICEBERG, version="1", options={"metadata": ""})
    wrote_table(store, "writer", output, (f"{table}/data/a.parquet",), 1.0)
    wrote_table(store, "writer-2", Output("table", "elsewhere"), (), 1.0)
    source = Source(ICEBERG, (str(table),), "{}", options={"metadata": metadata}, version="2")
    read_table(store, "reader", source, (f"{table}/data/b.parquet",), 2.0)
    gaps = refused(store, Direction.BACKWARD, "reader", f"{table}/data/b.parquet")
    assert bool(gaps) is is_named, gaps
    gaps = refused(store, Direction.FORWARD, "writer", f"{table}/data/a.parquet")
    assert bool(gaps) is is_unknown, gaps
    Path(metadata).write_text("{")
    for direction, app, file in (
        (Direction.BACKWARD, "reader", "b"),
        (Direction.FORWARD, "writer", "a"),
    ):
        (gap,) = refused(store, direction, app, f"{table}/data/{file}.parquet")
        assert "its log can't be read" in gap.reason


def test_a_recorded_overwrite_puts_no_rows_of_others_into_its_files(
    tmp_path: Path, store: SqliteStore
) -> None:
    table = tmp_path / "t"
    metadata = iceberg(table, (1, None, "append", "writer"), (2, 1, "overwrite", "second"))
    for version, app, file in (("1", "writer", "a"), ("2", "second", "b")):
        output = Output("table", str(table), format=ICEBERG, version=version)
        wrote_table(store, app, output, (f"{table}/data/{file}.parquet",), 1.0)
    source = Source(ICEBERG, (str(table),), "{}", options={"metadata": metadata}, version="2")
    read_table(store, "reader", source, (f"{table}/data/c.parquet",), 2.0)
    assert refused(store, Direction.BACKWARD, "reader", f"{table}/data/c.parquet") == ()
    assert refused(store, Direction.FORWARD, "writer", f"{table}/data/a.parquet") == ()


def test_versions_that_are_no_numbers_end_the_trace(tmp_path: Path, store: SqliteStore) -> None:
    for number, version in enumerate((None, "x", "-1", "9" * 5_000)):
        source = Source(DELTA, (str(tmp_path),), "{}", version=version)
        read_table(store, f"reader{number}", source, (f"{tmp_path}/{number}.parquet",), 2.0)
        path = f"{tmp_path}/{number}.parquet"
        (gap,) = refused(store, Direction.BACKWARD, f"reader{number}", path)
        assert "which version was read is not recorded" in gap.reason


def test_writes_without_files_end_traces(tmp_path: Path, store: SqliteStore) -> None:
    path = delta(tmp_path / "t", wrote("Append", "a.parquet"), wrote("Append", "b.parquet"))
    back = Direction.BACKWARD
    wrote_unknown(store, "writer", path, (0, 1))
    read_table(
        store, "reader", Source(DELTA, (path,), "{}", version="1"), (f"{path}/b.parquet",), 2.0
    )
    (gap,) = refused(store, back, "reader", f"{path}/b.parquet")
    assert (gap.app, "wrote one of the versions 0 to 1" in gap.reason) == ("writer", True)
    (gap,) = unread(store, "writer", path)
    assert (gap.app, "may hold these rows" in gap.reason) == ("reader", True)
    # The log is no file of its output.
    assert store.graph("writer").sink_files("0") == []
    # Others recorded what they wrote: it wrote the one that is left.
    output = Output("files", path, format=DELTA, version="1")
    wrote_table(store, "second", output, (f"{path}/b.parquet",), 2.0)
    assert refused(store, back, "reader", f"{path}/b.parquet") == ()
    assert unread(store, "writer", path) == ()
    # Versions that its log does not list, or no longer, and writes of which nothing is known.
    wrote_unknown(store, "later", path, (1, 2))
    wrote_unknown(store, "many", path, (0, delta_links.LOOKUPS_MAX))
    wrote_table(store, "elsewhere", Output("table", table="db.t"), (), 1.0)
    wrote_table(store, "iceberg", Output("table", str(tmp_path / "i")), (), 1.0)
    for app, reason in (
        ("later", "does not list all versions from 1 to 2"),
        ("many", "one of 501 versions"),
        ("elsewhere", "no files of that write are recorded"),
        ("iceberg", "no files of that write are recorded"),
    ):
        (gap,) = unread(store, app, path)
        assert (gap.app, reason in gap.reason) == (app, True), gap.reason


def test_rows_of_a_table_under_other_names_are_followed_into_other_files(
    tmp_path: Path, store: SqliteStore
) -> None:
    path = delta(tmp_path / "t", wrote("Append", "a.parquet"), moved("b.parquet", "a.parquet"))
    # A write by the order of columns has no format.
    wrote_table(store, "writer", Output("table", path, version="0"), (f"{path}/a.parquet",), 1.0)
    read_table(
        store, "reader", Source(DELTA, (path,), "{}", version="1"), (f"{path}/b.parquet",), 2.0
    )
    (gap,) = refused(store, Direction.FORWARD, "writer", f"{path}/a.parquet")
    assert gap.app == "reader"
