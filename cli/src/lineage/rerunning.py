"""``lineage replay --program``: a program of RDDs again, on the rows that made some of its output's, without some of them, or with rows repaired."""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from lineage.linking import link_folders
from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.refusing_servers import refuse_server
from lineage.replaying import check_new_folder
from lineage.running import run_module
from lineage.terminal import echo
from lineage_core.contract.limits import SET_ASIDE_MAX
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import Verdict
from lineage_core.environment.extras import require
from lineage_core.environment.private_files import ensure_private_folder
from lineage_core.environment.user_functions import load_function
from lineage_core.tracing.trace_result import TraceError
from lineage_query.finding import find_application
from lineage_query.record_tracing import RecordTracer
from lineage_query.reruns import ReplayedRow, Rerun, RerunResult, plan_repair, plan_rerun
from lineage_query.rows.reader import RowReader
from lineage_query.set_aside import operators_of
from lineage_query.showing import rows_text
from lineage_store.rerun_plan import RerunPlan, RerunReport, read_report
from lineage_store.run_notes import PLAN_VARIABLE
from lineage_store.url import index_folder, open_store

QUARANTINE_VARIABLE, REPAIR_VARIABLE = "LINEAGE_QUARANTINE", "LINEAGE_REPAIR"
OWN_SETTINGS = ("LINEAGE_", "OPENLINEAGE_")
"""Settings of the caller's capture: a rerun is no run of the job, and is stored apart."""


def replay_program(
    url: str,
    places: Sequence[str],
    excluded: Sequence[str],
    program: str,
    to: str,
    app: str,
    *,
    as_json: bool,
) -> None:
    """Run a program again for some rows of its output, and print each as the job gave it and as the rerun gives it.

    ``program``: the command that ran, as words for a shell: the program and its arguments. ``to``: a new or empty folder for all
    that it writes. Ends with `EXIT_INCOMPLETE` where a row does not come out as it was although nothing was left out.

    Raises:
        LineageError: there are no such rows, or the program can't be run again on them.
        OSError: the folder can't be written.
    """
    words = program_words(url, program, "lineage replay --program")
    with (
        open_store(url) as store,
        tempfile.TemporaryDirectory(prefix="lineage-replay-") as name,
    ):
        scratch, reader = Path(name), RowReader(index_folder(url))
        tracer = RecordTracer(store, reader)
        rerun = plan_rerun(tracer, places, excluded, app or None)
        folder = Path(to).absolute() if to else scratch / "outputs"
        paths = rerun.program.paths()
        check_new_folder(folder, map(Path, paths))
        plan = RerunPlan(rerun.sources(), folder, paths, scratch / "report.jsonl")
        verdict = tracer.opened(rerun.app).verdict
        again, report = run_by_plan(scratch, plan, words, verdict=verdict)
        with open_store(again.url) as store_again:
            after = RecordTracer(store_again, RowReader(scratch / "indexes"))
            rows = RerunResult(rerun, report, again.app, tracer, after).rows()
    if as_json:
        print_json(_to_json(rerun, rows, report.outputs, to))
    else:
        _show(rerun, rows, report.outputs, to)
    if not excluded and any(row.state != "same" for row in rows):
        raise typer.Exit(EXIT_INCOMPLETE)


def repair_program(
    url: str, program: str, repair: str, to: str, app: str, *, as_json: bool
) -> None:
    """Run a program again over all of its rows, with those repaired that set-aside records were made from.

    ``repair``: ``FILE.py:function``, which gets each of these rows and gives the one to be read in its place; None: none. ``to``: a new or
    empty folder for all that the program writes.

    Raises:
        LineageError: nothing was set aside, or the program can't be run again.
        OSError: the folder can't be written.
    """
    words = program_words(url, program, "lineage replay --program")
    load_function(repair, "--with")
    file, _, function = repair.rpartition(":")
    with (
        open_store(url) as store,
        tempfile.TemporaryDirectory(prefix="lineage-replay-") as name,
    ):
        scratch, reader = Path(name), RowReader(index_folder(url))
        tracer = RecordTracer(store, reader)
        rerun = plan_repair(tracer, find_application(store, app or "latest"))
        set_aside = operators_of(tracer.opened(rerun.app))
        folder, paths = Path(to).absolute(), rerun.program.paths()
        check_new_folder(folder, map(Path, paths))
        plan = RerunPlan(
            *(rerun.sources(), folder, paths, scratch / "report.jsonl"),
            repair=f"{Path(file).absolute()}:{function}",
        )
        again, report = run_by_plan(scratch, plan, words)
        with open_store(again.url) as store_again:
            after = RecordTracer(store_again, RowReader(scratch / "indexes"))
            rerun.check(report, again.app, tracer, after)
    repaired = _count(rerun.rows)
    if as_json:
        print_json(
            {
                "app": rerun.app,
                "set_aside": [{"operator": what, "records": n} for what, n in set_aside],
                "repaired": repaired,
                "reasons": list(rerun.superset),
                "outputs": list(report.outputs),
            }
        )
        return
    rows = f"{rows_text(repaired)} of its sources"
    echo(f"run again over all rows, with {rows} repaired", fg=typer.colors.CYAN)
    for output in report.outputs:
        echo(f"written to {output}")
    for reason in rerun.superset:
        echo(f"repaired may be more rows than failed: {reason}", fg=typer.colors.YELLOW)


def program_words(url: str, program: str, purpose: str) -> list[str]:
    """The words of a program and its arguments, which is to run again for ``purpose``.

    Raises:
        TraceError: there are none, or the store is a server.
        MissingExtraError: PySpark is not installed.
    """
    refuse_server(url, "programs are run again")
    require("pyspark", purpose)
    words = shlex.split(program)
    if not words:
        raise TraceError("--program takes the program and its arguments: --program 'job.py in out'")
    return words


class CapturedRun:
    """A program that ran: the store and application with its lineage."""

    def __init__(self, url: str, apps: Sequence[str]) -> None:
        self.url, self._apps = url, apps

    @property
    def app(self) -> str:
        """The application of the rerun.

        Raises:
            TraceError: there is none, or more than one.
        """
        if len(self._apps) != 1:
            raise TraceError(
                f"the program ran {len(self._apps)} captured applications: one is replayed at a time"
            )
        return self._apps[0]


def run_by_plan(
    scratch: Path,
    plan: RerunPlan,
    words: Sequence[str],
    settings: Mapping[str, str] = MappingProxyType({}),
    *,
    verdict: Verdict | None = None,
) -> tuple[CapturedRun, RerunReport]:
    """Run a program by a plan, and read what it met. ``settings``: further ones of its capture; ``verdict``: as `own_environment` has it.

    Raises:
        TraceError: it failed, or did what a rerun does not do.
    """
    ensure_private_folder(plan.folder)
    plan_file = scratch / "plan.json"
    plan.write(plan_file)
    url = f"sqlite:///{scratch / 'lineage.db'}"
    environment = own_environment(verdict)
    environment |= settings
    environment |= {PLAN_VARIABLE: str(plan_file), "LINEAGE_SPOOL": str(scratch / "spool")}
    # What the program prints is no part of the answer.
    code, notes = run_module(
        url, ("lineage_emitter.autorun", *words), environment, output=sys.stderr
    )
    link_folders(url, list(notes.apps.values()))
    report = read_report(plan.report)
    if report.problems:
        raise TraceError("; ".join(report.problems))
    if code != 0:
        raise TraceError(
            f"the program ended with exit code {code} on these rows; what it said stands above"
        )
    return CapturedRun(url, list(notes.apps)), report


def own_environment(verdict: Verdict | None = None) -> dict[str, str]:
    """The variables of a rerun: the caller's, without settings of capture. ``verdict``: on the job; what it failed on and went on, the rerun fails on again.

    Raises:
        TraceError: the job repaired records by a function that is not named now.
    """
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(OWN_SETTINGS)
    }
    if verdict is not None and (verdict.set_aside or verdict.repaired):
        environment[QUARANTINE_VARIABLE] = str(SET_ASIDE_MAX)
    if verdict is not None and verdict.repaired:
        repair = os.environ.get(REPAIR_VARIABLE)
        if not repair:
            raise TraceError(
                f"the job repaired records that its functions failed on: name its function by {REPAIR_VARIABLE}, as it did"
            )
        environment[REPAIR_VARIABLE] = repair
    return environment


# -- what is printed -------------------------------------------------------------------------------


def _count(rows: Mapping[int, Mapping[int, Region]]) -> int:
    return sum(region.count for splits in rows.values() for region in splits.values())


def _to_json(
    rerun: Rerun, rows: Sequence[ReplayedRow], outputs: Sequence[str], to: str
) -> dict[str, Any]:
    return {
        "app": rerun.app,
        "node": rerun.output.node,
        "rows": [
            {
                "place": row.place,
                "before": row.before,
                "after": row.after[0] if len(row.after) == 1 else None,
                "candidates": list(row.after),
                "state": row.state,
            }
            for row in rows
        ],
        "witnesses": _count(rerun.witnesses),
        "left_out": _count(rerun.left_out),
        "read": "all other rows" if rerun.reads_all_rows else "witnesses",
        "reproduced": None if rerun.left_out else all(row.state == "same" for row in rows),
        "reasons": [*rerun.reasons, *rerun.superset],
        "outputs": list(outputs) if to else [],
    }


def _show(rerun: Rerun, rows: Sequence[ReplayedRow], outputs: Sequence[str], to: str) -> None:
    witnesses, left_out = _count(rerun.witnesses), _count(rerun.left_out)
    made = rows_text(witnesses)
    if rerun.reads_all_rows:
        heading = f"run again without {left_out:,} of the rows of its sources"
    elif left_out:
        heading = f"run again on the {made} that the output is made from, without {left_out:,}"
    else:
        heading = f"run again on the {made} that the output is made from"
    echo(heading, fg=typer.colors.CYAN)
    for row in rows:
        echo(f"before  {row.place}: {row.before}", bold=True)
        echo(f"after   {_after(row)}")
    if to:
        for output in outputs:
            echo(f"written to {output}")
    reasons = [*rerun.reasons, *rerun.superset]
    if not reasons or (not left_out and all(row.state == "same" for row in rows)):
        return
    echo("")
    words = "read all other rows of the sources:" if rerun.reads_all_rows else "not certain:"
    echo(words, fg=typer.colors.YELLOW)
    for reason in reasons:
        echo(f"  {reason}")


def _after(row: ReplayedRow) -> str:
    match row.state:
        case "same":
            return "the same"
        case "gone":
            return "no row"
        case "unclear":
            texts = [str(text) for text in row.after]
            return f"one of: {' | '.join(texts)}" if texts else "no row that is surely it"
        case _:
            return str(row.after[0])
