"""Plans over drawn chains of jobs against a scan of all outputs: python -m tests.oracle.erasure --programs 10000 --processes 2.

Each chain is run and stored, a row of a source is planned to be erased, and the plan is held against what the rows say of themselves:

- a row that is where it was written and that the row went into is in the plan, or the plan says that it is not complete;
- an exact plan has no other row; a chain in which nothing was overwritten has a plan that is exact and complete;
- a row in whose text the row's token stands is never said to be a value of several rows;
- a row that is said to be a value of several rows is one;
- a row of a file that was touched afterwards is there where a checksum was noted of it, and else is listed as one that may be there.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_query.engine import QueryEngine
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.source_rows import SourceForm
from lineage_query.rows.reader import RowReader
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import OPERATORS, SOURCES, Job, Row, World, token

JOBS_MAX = 6
PROGRAMS_AT_ONCE = 20
TOUCHED_S = 1_900_000_000
FORM = SourceForm(format="csv", separator=";", columns=("key", "token"))


def drawn_job(generator: random.Random) -> Job:
    """A job as chance has it."""
    return Job(
        inputs=tuple(generator.randrange(6) for _ in range(generator.randint(1, 2))),
        operator=generator.choice(sorted(OPERATORS)),
        files=generator.randint(1, 2),
        target=generator.choice(["new", "new", "new", "new", "append", "overwrite"]),
        picked=generator.randrange(6),
        lands_again=generator.random() < 0.05,
    )


def check_program(seed: int, folder: Path) -> Counter[str]:
    """Draw a chain, plan, and compare.

    Raises:
        AssertionError: the plan is wrong.
    """
    generator = random.Random(seed)
    # Its own, so that a seed draws the chain that it always drew.
    of_files = random.Random(-seed - 1)
    with SqliteStore(folder / "lineage.db") as store:
        world = World(folder, store, checksums=of_files.random() < 0.5)
        world.land(generator.randint(1, 6), generator)
        for _ in range(generator.randint(1, JOBS_MAX)):
            world.run(drawn_job(generator), generator)
        _touch_some(world, of_files)
        path, line, row = generator.choice(world.source_rows())
        query = SubjectQuery(str(path), where=f"token = '{token(min(row.ids))}'", form=FORM)
        reader = RowReader()
        plan = make_plan("access", query, store, reader, QueryEngine(store, reader))
        return compared(world, plan, f"{path}:{line}", row)


def _touch_some(world: World, generator: random.Random) -> None:
    """Give some outputs another time: a copy of a folder, or a backup that is played back, does so."""
    for dataset in world.datasets[SOURCES:]:
        for path in dataset.files:
            if generator.random() < 0.2:
                os.utime(path, (TOUCHED_S, TOUCHED_S))
                world.touched.add(str(path))


def compared(world: World, plan: Plan, place: str, row: Row) -> Counter[str]:
    """Compare a plan with a scan of all outputs."""
    assert plan.places == (place,), (plan.places, place)
    there = {reached.place: reached for reached in plan.rows if reached.is_there}
    scanned = {at: output for at, output in world.outputs() if row.ids <= output.ids}
    listed = {reached.place for reached in plan.rows if reached.status == "unknown"} | there.keys()
    missing, extra = scanned.keys() - listed, there.keys() - scanned.keys()
    doubtful = {place for place in listed - there.keys() if _path_of(place) in world.touched}
    if world.checksums:
        assert not doubtful, doubtful
    if plan.complete:
        assert not missing, missing
    if plan.exact:
        assert not extra, extra
    if not world.disturbed:
        assert plan.complete, plan.gaps
        assert plan.exact, plan.reasons
    word = token(min(row.ids))
    for at in scanned.keys() & there.keys():
        reached, output = there[at], scanned[at]
        shown = (at, output, reached)
        assert not (reached.kind == "mixed" and word in output.text), shown
        assert not (reached.kind == "mixed" and output.ids == row.ids), shown
        # Rows of a file that was touched after a job read it are not known to be what it read.
        if not (world.disturbed or doubtful or world.touched - {_path_of(at)}):
            assert reached.kind != "unknown", shown
    kinds: Counter[str] = Counter(reached.kind for reached in there.values())
    kinds["carries, without the token"] = sum(
        there[at].kind == "carries" and word not in scanned[at].text
        for at in scanned.keys() & there.keys()
    )
    return kinds + Counter(
        programs=1,
        scanned=len(scanned),
        planned=len(there),
        missing=len(missing),
        missed=len(missing) if plan.complete else 0,
        extra=len(extra),
        exact=plan.exact,
        touched=sum(_path_of(place) in world.touched for place in there),
        doubtful=len(doubtful),
        complete=plan.complete,
        disturbed=world.disturbed,
    )


def _path_of(place: str | None) -> str:
    return (place or "").rpartition(":")[0]


def counted(seeds: Sequence[int]) -> Counter[str]:
    """Check the programs of some seeds; raises as `check_program`, with the seed as a note."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        with tempfile.TemporaryDirectory() as name:
            try:
                counts += check_program(seed, Path(name).resolve())
            except Exception as error:
                error.add_note(f"program {seed}")
                raise
    return counts


def row_of(arguments: argparse.Namespace, counts: Counter[str], seconds: float) -> dict[str, Any]:
    """The result as a row of benchmarks. ``over_deletion``: rows of outputs that are planned over those that a scan finds.

    Rows that a plan which is not complete does not have count for both, as they are in no plan.
    """
    held = counts["planned"] - counts["extra"]
    return {
        "benchmark": "erasure-oracle",
        "programs": counts["programs"],
        "seed": arguments.seed,
        "scanned": counts["scanned"],
        "planned": counts["planned"],
        "missed": counts["missed"],
        "over_deletion": round(counts["planned"] / held, 4) if held else None,
        "exact": counts["exact"],
        "complete": counts["complete"],
        "disturbed": counts["disturbed"],
        "carries": counts["carries"],
        "mixed": counts["mixed"],
        "not_in_incomplete": counts["missing"],
        "seconds": round(seconds, 1),
        "processes": arguments.processes,
        "provenance": provenance(),
    }


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument(
        "--seconds",
        type=float,
        default=math.inf,
        help="end with the programs that were checked then",
    )
    parser.add_argument("--json-out", type=Path, help="append the result as a line of JSON")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    began = time.perf_counter()
    first = arguments.seed * 1_000_000
    seeds = range(first, first + arguments.programs)
    parts = [seeds[at : at + PROGRAMS_AT_ONCE] for at in range(0, len(seeds), PROGRAMS_AT_ONCE)]
    # Not forked: the library of columns has threads.
    with get_context("spawn").Pool(arguments.processes) as pool:
        for of_part in pool.imap_unordered(counted, parts):
            counts += of_part
            passed_s = time.perf_counter() - began
            sys.stderr.write(f"{counts['programs']:,} programs, {passed_s:.0f} s\n")
            if passed_s > arguments.seconds:
                break
    put_out(row_of(arguments, counts, time.perf_counter() - began), arguments.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
