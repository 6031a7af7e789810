"""A small captured lineage: files on disk, and the spool that a word count over them leaves."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.message import Link, Read, SinkFile, SinkFiles, Split, Splits
from lineage_core.contract.region import Region
from lineage_core.contract.row_sums import RowSums
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool

LINES = ["a b", "b", "c a", "d\rb", "a"]
"""Rows 0 and 1 lie in the first split, the others in the second."""
WORDS = ["a", "b", "two\nlines", "d"]


def key(word: str) -> int:
    return sum(word.encode()) * 1_000_003


def sums_of(rows: list[str]) -> str:
    """Checksums of rows, as a task that reads them takes them."""
    sums = RowSums()
    for row in rows:
        sums.pending.append(row.encode())
        if len(sums.pending) == sums.pending_max:
            sums.add_pending()
    return sums.text()


def _rows_of(source: Path) -> list[str]:
    """Rows as Hadoop reads them."""
    return re.split("\r\n|\r|\n", source.read_bytes().decode())


def flows(
    block_id: BlockId, in_space: str, out_space: str, rows: list[tuple[list[int], int]], app: str
) -> FlowBlock:
    """Input positions and one output, row by row."""
    regions = [Region.from_positions(ins) for ins, _ in rows]
    return FlowBlock(
        block_id,
        Relation.ROWS,
        in_space,
        (Section(out_space, 0, len(rows)),),
        np.concatenate([region.first for region in regions]),
        np.array([out for _, out in rows], np.uint64),
        np.cumsum([0] + [region.runs for region in regions], dtype=np.int64),
        np.concatenate([region.last for region in regions]),
        app=app,
    )


@dataclass
class StoredRun:
    """One application in a store: ``source`` was read and ``sink`` written."""

    app: str
    source: Path
    sink: Path


def store_run(
    url: str,
    folder: Path,
    app: str = "app-1",
    *,
    started_at: float = 1000.0,
    committed: bool = True,
    counted: bool = True,
    summed: bool = False,
    name: str = "job",
) -> StoredRun:
    """Write the files (if they are not there), capture a word count over them and link it."""
    run = spool_run(
        folder / "spool",
        folder,
        app,
        started_at=started_at,
        committed=committed,
        counted=counted,
        summed=summed,
        name=name,
    )
    with SqliteStore(url.removeprefix("sqlite:///")) as store:
        ingest_all(store, folder / "spool")
    return run


def spool_run(
    spool_folder: Path,
    folder: Path,
    app: str = "app-1",
    *,
    started_at: float = 1000.0,
    committed: bool = True,
    counted: bool = True,
    summed: bool = False,
    name: str = "job",
) -> StoredRun:
    """Write the files (if they are not there) and the spool of a word count over them.

    ``counted`` False: no task read a split to its end. ``committed`` False: the sink's task is
    not heard of. ``summed``: with checksums of the rows that were read.
    """
    source, sink = folder / "in.txt", folder / "out" / "part-00000"
    if not source.exists():
        source.write_text("\n".join(LINES) + "\n", newline="")
    sink.parent.mkdir(exist_ok=True)
    if not sink.exists():
        sink.write_text("\n".join(WORDS) + "\n", newline="")
    spool = Spool(spool_folder, app)
    spool.begin(started_at, name)
    spool.node("0", "source", "textFile", alias="read", path="in.txt")
    spool.node("1", "operator", "record", name="flatMap")
    spool.node("2", "shuffle", "combineByKey", name="reduceByKey")
    spool.node("3", "sink", "saveAsTextFile", alias="write", path="out")
    spool.send(*(Link(app=app, src=a, dest=b) for a, b in ("01", "12", "23")))
    spool.send(_splits(app, source))
    where = {"a": ([0], [0, 3]), "b": ([0, 1], [2]), "two\nlines": ([1], []), "d": ([], [1])}
    for part, rows in ((0, 2), (1, 4)):
        words = [(where[word][part], key(word)) for word in WORDS if where[word][part]]
        block = flows(BlockId("2", part, part, 0), f"0#{part}", "2@0", words, app)
        sums = sums_of(_rows_of(source)[2 * part :][:rows]) if summed else ""
        reads = (Read(space=f"0#{part}", rows=rows, exhausted=counted, sums=sums),)
        spool.task("2", part, part, [block], flows=block.rows, reads=reads, stage=0)
    ranked = [([key(word)], row) for row, word in enumerate(WORDS)]
    last = flows(BlockId("3", 0, 2, 0), "2@0", "3#0", ranked, app)
    if committed:
        spool.task("3", 0, 2, [last], flows=last.rows, rows=4, newlines=((2, 1),), stage=1)
    spool.job("3", n2=2, n3=1)
    out = sink.stat()
    file = SinkFile(partition=0, path=f"file:{sink}", size=out.st_size, mtime=out.st_mtime, rows=4)
    spool.send(SinkFiles(app=app, node="3", path=str(sink.parent), files=(file,)))
    spool.end(blocks=2 + committed, tasks=2 + committed)
    return StoredRun(app, source, sink)


def _splits(app: str, source: Path) -> Splits:
    """Hadoop reads the line that begins at the end of a split: the cut is a byte before row 2."""
    cut, size = len("a b\nb\n") - 1, source.stat().st_size
    splits = (
        Split(
            partition=number,
            path=f"file:{source}",
            start=start,
            length=length,
            file_size=size,
            mtime=source.stat().st_mtime,
        )
        for number, start, length in ((0, 0, cut), (1, cut, size - cut))
    )
    return Splits(app=app, node="0", splits=tuple(splits))
