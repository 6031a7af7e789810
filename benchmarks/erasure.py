"""How long a plan takes of what is to be erased with a row: python -m benchmarks.erasure --rows 10000000 --applications 100.

Prints one JSON line, times in seconds. A source of CSV has ``--rows`` rows of four columns. Half of the applications read it and keep
the row of the subject and a few others; each of the other half reads what one before it wrote, in chains. ``plan_s`` is a plan in a
process that opens the store for it, ``plan_cpu_s`` its processor time, ``search_s`` finding the row in the source alone. The plan is compared with what was written.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Link, Read, SinkFile, SinkFiles, Split, Splits
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery, find_subject
from lineage_query.erasure.plan import make_plan
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows

KEPT = 100
"""Rows that each application keeps."""
CHAINS = 5
"""Chains of applications that read what others wrote."""
CITIES = ("Oslo", "Rome", "Bergen", "Lima")


class WrongPlanError(Exception):
    """A plan is not what was written: its time says nothing."""


def write_source(path: Path, rows: int) -> None:
    """The source, with a header."""
    with path.open("w", encoding="ascii") as source:
        source.write("id,name,city,spent\n")
        source.writelines(
            f"{number},Name {number},{CITIES[number % 4]},{number % 977}\n"
            for number in range(rows)
        )


def store_application(
    store: SqliteStore, folder: Path, number: int, source: Path, lines: int, kept: list[int]
) -> Path:
    """Write the output of an application that keeps some lines (from 0) of a file, and store its lineage."""
    app = f"app-{number:04d}"
    spool = Spool(folder / "spool", app)
    spool.begin(1_700_000_000.0 + number, f"job {number}")
    spool.node("0", "source", "textFile", path=str(source), partitions=1)
    spool.node("1", "sink", "saveAsTextFile", path=str(folder / app), partitions=1)
    read = source.stat()
    split = Split(
        partition=0,
        path=f"file:{source}",
        start=0,
        length=read.st_size,
        file_size=read.st_size,
        mtime=read.st_mtime,
    )
    spool.send(Splits(app=app, node="0", splits=(split,)), Link(app=app, src="0", dest="1"))
    output = folder / app / "part-00000"
    output.parent.mkdir()
    output.write_text("".join(f"{line} of job {number}\n" for line in kept), encoding="ascii")
    pairs = [([line], at) for at, line in enumerate(kept)]
    block = flows(BlockId("1", 0, 0, 0), "0#0", "1#0", pairs, app)
    reads = (Read(space="0#0", rows=lines, exhausted=True),)
    spool.task("1", 0, 0, [block], rows=len(kept), reads=reads)
    spool.job("1", n1=1)
    wrote = output.stat()
    file = SinkFile(
        partition=0, path=f"file:{output}", size=wrote.st_size, mtime=wrote.st_mtime, rows=len(kept)
    )
    spool.send(SinkFiles(app=app, node="1", path=str(output.parent), files=(file,)))
    spool.end(blocks=1, tasks=1)
    ingest(store, spool.folder)
    return output


def prepare(folder: Path, rows: int, applications: int) -> tuple[Path, int]:
    """The source and the store; the id of the subject."""
    source = folder / "customers.csv"
    write_source(source, rows)
    subject = rows - rows // 7
    step = max(rows // KEPT, 1)
    # Lines from 0: the header is one.
    kept = sorted({subject + 1, *range(1, rows + 1, step)})
    with SqliteStore(folder / "lineage.db") as store:
        outputs = [
            store_application(store, folder, number, source, rows + 1, kept)
            for number in range(applications - applications // 2)
        ]
        # Chains: each reads the output that stands so many applications before it.
        for number in range(len(outputs), applications):
            before = outputs[max(number - CHAINS, 0)]
            lines = list(range(len(kept)))
            outputs.append(store_application(store, folder, number, before, len(kept), lines))
    return source, subject


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--applications", type=int, default=100)
    parser.add_argument("--json-out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        source, subject = prepare(folder, arguments.rows, arguments.applications)
        query = SubjectQuery(str(source), where=f"id = {subject}")
        began = time.perf_counter()
        find_subject(query, RowReader())
        search_s = time.perf_counter() - began
        began, began_cpu = time.perf_counter(), time.process_time()
        with SqliteStore(folder / "lineage.db") as store:
            reader = RowReader()
            plan = make_plan("erase", query, store, reader, QueryEngine(store, reader))
        plan_s, plan_cpu_s = time.perf_counter() - began, time.process_time() - began_cpu
        apps = {row.app for row in plan.rows if row.is_there and row.kind == "carries"}
        if len(apps) != arguments.applications or len(plan.rows) != len(apps) or not plan.complete:
            raise WrongPlanError(
                f"{len(plan.rows)} rows of {len(apps)} applications: {plan.gaps[:3]}"
            )
        put_out(
            {
                "benchmark": "erasure",
                "rows": arguments.rows,
                "applications": arguments.applications,
                "planned_rows": len(plan.rows),
                "search_s": round(search_s, 2),
                "plan_s": round(plan_s, 2),
                "plan_cpu_s": round(plan_cpu_s, 2),
                "provenance": provenance(),
            },
            arguments.json_out,
        )


if __name__ == "__main__":
    main()
