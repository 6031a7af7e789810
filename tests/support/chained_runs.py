"""Chains of small jobs that read what others wrote, captured without Spark, and where each is stored: of two stores queried as one."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Heartbeat, Link, Read, SinkFile, SinkFiles, Split, Splits
from lineage_store.lake.store import LakeStore
from lineage_store.moving import move_application
from lineage_store.port import GraphStore
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows

Placement: TypeAlias = Literal["hot", "cold", "both", "ahead", "rest"]
"""Of an application in two stores: in the first, in the second, in both, as it was written to after it was copied, as it was being
deleted."""
PLACEMENTS: tuple[Placement, ...] = ("hot", "cold", "both", "ahead", "rest")


@dataclass(frozen=True)
class Chain:
    """Files of one line each row, and the applications that made them; the first file is nobody's."""

    files: list[Path]
    apps: list[str]

    def places(self) -> list[str]:
        """All rows of all files."""
        return [
            f"{file}:{line}"
            for file in self.files
            for line in range(1, len(file.read_text().splitlines()) + 1)
        ]


def spool_chain(
    spool: Path,
    folder: Path,
    draw: random.Random,
    jobs: int,
    meanwhile: Callable[[Chain], None] = lambda chain: None,
) -> Chain:
    """Run jobs, each of which reads a file that is there and makes each of its rows of some of those.

    ``meanwhile``: called after each; it may change files, and add some.
    """
    chain = Chain([folder / "data-0"], [])
    chain.files[0].write_text("one\ntwo\nthree\n")
    for number in range(1, jobs + 1):
        source, sink = draw.choice(chain.files), folder / f"data-{number}"
        count = len(source.read_text().splitlines())
        rows = [
            sorted(draw.sample(range(count), draw.randint(1, count)))
            for _ in range(draw.randint(1, 3))
        ]
        sink.write_text("".join(f"{number}: {row}\n" for row in rows))
        app = f"app-{number}"
        spool_job(Spool(spool, app), source, sink, rows, started_at=1000.0 * number)
        chain.files.append(sink)
        chain.apps.append(app)
        meanwhile(chain)
    return chain


def spool_job(
    spool: Spool,
    source: Path,
    sink: Path,
    rows: list[list[int]],
    *,
    started_at: float,
    newlines: tuple[tuple[int, int], ...] = (),
) -> None:
    """A job that makes each row of a file of some rows of another one. ``newlines``: in rows of its own, each with how many."""
    app = spool.app
    spool.begin(started_at, f"job {app}")
    spool.node("0", "source", "textFile", alias="read", path=str(source))
    spool.node("1", "sink", "saveAsTextFile", alias="write", path=str(sink))
    spool.send(Link(app=app, src="0", dest="1"))
    was = source.stat()
    split = Split(
        partition=0,
        path=f"file:{source}",
        start=0,
        length=was.st_size,
        file_size=was.st_size,
        mtime=was.st_mtime,
    )
    spool.send(Splits(app=app, node="0", splits=(split,)))
    one = flows(BlockId("1", 0, 0, 0), "0#0", "1#0", list(zip(rows, range(9), strict=False)), app)
    count = len(source.read_text().splitlines())
    reads = (Read(space="0#0", rows=count, exhausted=True),)
    spool.task(
        "1", 0, 0, [one], flows=one.rows, reads=reads, rows=len(rows), stage=0, newlines=newlines
    )
    spool.job("1", n1=1)
    out = sink.stat()
    file = SinkFile(
        partition=0, path=f"file:{sink}", size=out.st_size, mtime=out.st_mtime, rows=len(rows)
    )
    spool.send(SinkFiles(app=app, node="1", path=str(sink), files=(file,)))
    spool.end(blocks=1, tasks=1)


def link_chain(spool: Path, *stores: SqliteStore) -> None:
    """Link all jobs of a spool in each of some stores."""
    for number, store in enumerate(stores):
        kept = spool.parent / f"spool-{number}"
        _copy_folder(spool, kept)
        ingest_all(store, kept)


def _copy_folder(folder: Path, to: Path) -> None:
    for file in folder.rglob("*"):
        if file.is_file():
            copy = to / file.relative_to(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(file.read_bytes())


def place(
    app: str, placement: Placement, hot: GraphStore, cold: LakeStore, oracle: GraphStore
) -> None:
    """Put an application, which is in the first store, where it is to be; the oracle has all of it."""
    if placement == "hot":
        return
    move_application(hot, cold, app, deletes=placement == "cold")
    if placement == "ahead":
        beat = Heartbeat(app=app, at=5000.0, beat=7)
        hot.write(app, [beat])
        oracle.write(app, [beat])
    if placement == "rest":
        messages = hot.messages(app)
        hot.delete(app)
        hot.write(app, messages[:2])
