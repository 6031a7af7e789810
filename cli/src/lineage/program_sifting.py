"""``lineage sift --program``: the smallest set of rows of a program's sources with which it still fails."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import typer

from lineage.found_rows import FoundRows
from lineage.linking import link_folders
from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.repeated_runs import RepeatedRun, RepeatedRuns
from lineage.rerunning import program_words
from lineage.sifting import importable_beside, show_others_failing, test_of
from lineage.terminal import echo
from lineage_core.tracing.trace_result import TraceError
from lineage_query.finding import find_application
from lineage_query.minimising import (
    Minimised,
    PassingTestError,
    StoppedError,
    minimise,
    stop_after,
)
from lineage_query.overlaps import TRACED_MAX, Witnesses, most_overlapping, shared_parts
from lineage_query.program_sifts import (
    ProgramSift,
    places_and_texts,
    sift_of_all,
    sift_of_failure,
    sift_of_row,
    traced_rows,
)
from lineage_query.record_tracing import RecordTracer
from lineage_query.reruns import ProgramOfRdds, check_made_sources, check_rerun, rerun_program
from lineage_query.row_tests import FAILING_MAX, TestOf
from lineage_query.rows.places import parse_location
from lineage_query.rows.reader import RowReader
from lineage_store.rerun_plan import RaisedError, RerunReport, RerunSource
from lineage_store.run_notes import read_notes
from lineage_store.url import index_folder, open_store

Outcome: TypeAlias = "tuple[str, ...]"
"""What shows that a run failed: rows that fail the test, or the error; none: it did not."""
OUTCOME_MAX = 10
"""Failing rows of a run that are shown."""
NOTES_FILE = "notes.jsonl"


def sift_program(
    url: str,
    place: str,
    program: str,
    sought: FailureSought,
    app: str,
    *,
    runs_max: int | None,
    timeout_s: float | None,
    as_json: bool,
) -> None:
    """Search for the smallest set of rows of the sources with which a program still fails, and print it.

    ``place``: a saved row, or the output whose first row that fails the test is taken; empty: the program as a whole fails. Ends with
    `EXIT_INCOMPLETE` where the search was stopped before the set was one-minimal.

    Raises:
        LineageError: nothing fails so, or the program can't be run again.
    """
    words, began = program_words(url, program, "lineage sift --program"), time.monotonic()
    # The time ends runs themselves.
    stop = stop_after(runs_max, None)
    with (
        open_store(url) as store,
        # Of a run that is ended, processes may write for a moment still.
        tempfile.TemporaryDirectory(prefix="lineage-sift-", ignore_cleanup_errors=True) as name,
        importable_beside(sought.test),
    ):
        tracer, failing = RecordTracer(store, RowReader(index_folder(url))), list[str]()
        traced: list[Witnesses] = []
        test = test_of(sought.test) if sought.test else None
        if test is not None and parse_location(place).number is None:
            failing = _failing_places(Path(place), test, sought.test)
            if len(failing) > 1:
                in_time = stop_after(None, timeout_s)
                traced = traced_rows(tracer, failing[:TRACED_MAX], app or None, in_time)
                failing.insert(0, failing.pop(most_overlapping(traced)))
        row = failing[0] if failing else place
        begin = _begin(tracer, row, find_application(store, app or "latest"), app or None)
        verdict = tracer.opened(begin.app).verdict
        with RepeatedRuns(words, Path(name), begin.job.paths(), timeout_s, verdict=verdict) as runs:
            search = _Search(tracer, runs, Failing(test, sought.error), begin, traced)
            try:
                sift, found = search.minimise(stop, may_widen=not row)
            except StoppedError as reason:
                raise TraceError(f"the search ended in its first run, after {reason}") from None
        sift.check_files(tracer)
        traced_count, counts = sum(map(bool, traced)), sift.sharing(traced)
        answer = ProgramAnswer(
            sift=sift,
            found=FoundRows(
                found,
                places_and_texts(tracer, sift, found.rows),
                len(sift.rows),
                time.monotonic() - began,
                traced=traced_count,
                sharing=counts[list(found.rows)].tolist() if traced_count > 1 else (),
            ),
            outcome=search.outcomes[found.rows],
            failing=failing,
            widened=search.widened,
        )
    if as_json:
        print_json(answer.to_json())
    else:
        answer.show()
    if not found.one_minimal:
        raise typer.Exit(EXIT_INCOMPLETE)


@dataclass(frozen=True)
class _Begin:
    """The job, and where its lineage says that the search begins; None: it says nothing."""

    app: str
    job: ProgramOfRdds
    sift: ProgramSift | None


def _begin(tracer: RecordTracer, row: str, latest: str, app: str | None) -> _Begin:
    sift = sift_of_row(tracer, row, app) if row else sift_of_failure(tracer, latest)
    if sift is not None:
        return _Begin(sift.app, sift.program, sift)
    opened = tracer.opened(latest)
    job = ProgramOfRdds(opened.graph, opened.nodes)
    if not job.sources:
        raise TraceError(
            f"{latest} reads nothing that can be cut down: rows of RDDs are searched, those of DataFrames are not"
        )
    return _Begin(latest, job, None)


@dataclass(frozen=True)
class FailureSought:
    """What a user names: one of both, the other is empty.

    ``test``: ``FILE.py:function`` of a row's text. ``error``: the type of the error that ends the program, or a part of what it says.
    """

    test: str
    error: str


@dataclass(frozen=True)
class Failing:
    """What is looked for: rows of an output that fail a test, or an error that ends the program."""

    test: TestOf[str] | None
    error: str

    def outcome(self, run: RepeatedRun, output: int | None) -> Outcome:
        """What shows that a run failed so; ``output``: the number of the output that is tested."""
        if self.test is None:
            named = [error for error in run.report.errors if error.is_named(self.error)]
            return (shown(named[0]),) if run.code and named else ()
        if output is None or output >= len(run.report.outputs):
            return ()
        folder = Path(run.report.outputs[output])
        rows = (text for _, text in rows_of(folder) if self.test(text))
        return tuple(islice(rows, OUTCOME_MAX))


class _Search:
    """Runs of a program on sets of rows, until the smallest is found."""

    def __init__(
        self,
        tracer: RecordTracer,
        runs: RepeatedRuns,
        failing: Failing,
        begin: _Begin,
        traced: Sequence[Witnesses] = (),
    ) -> None:
        self._tracer, self._runs, self._failing = tracer, runs, failing
        self._begin, self._app, self._job = begin, begin.app, begin.job
        self._traced = traced
        self._first: RerunReport | None = None
        self.outcomes: dict[tuple[int, ...], Outcome] = {}
        self.widened = False

    def minimise(
        self, stop: Callable[[int], str], *, may_widen: bool
    ) -> tuple[ProgramSift, Minimised]:
        """Search where lineage says, or, where the program does not fail on these rows, among all of its sources."""
        sift = self._begin.sift
        if sift is not None:
            try:
                parts = shared_parts(sift.sharing(self._traced))
                return sift, minimise(len(sift.rows), partial(self._fails, sift), stop, parts)
            except (PassingTestError, TraceError):
                # On too few rows a program may also end before it has made its sources.
                if not may_widen:
                    raise
        self.widened = True
        counted = self._runs.run([RerunSource() for _ in self._job.sources], counts=True)
        self._check_first(counted)
        if not self._failing.outcome(counted, None):
            raise PassingTestError(
                f"the program does not fail so when it runs again:{self._end_of(counted)}"
            )
        sift = sift_of_all(self._tracer, self._app, counted.report.counts)
        self._runs.forget(counted)
        return sift, minimise(len(sift.rows), partial(self._fails, sift), stop)

    def _fails(self, sift: ProgramSift, chosen: Sequence[int]) -> bool:
        """Whether the program fails on some rows.

        Raises:
            StoppedError: it did what a rerun does not do, or was killed.
        """
        expected = () if self._first is None else self._first.described
        run = self._runs.run(sift.sources(chosen), expected=expected)
        if run.code < 0:
            # For want of memory, say: it tells nothing of the rows.
            raise StoppedError(f"a run that can't be judged: signal {-run.code} ended it")
        output = None if sift.output is None else sift.program.outputs.index(sift.output)
        if self._first is None:
            self._check_first(run)
        else:
            self._check_like_first(run.report, output)
        outcome = self._failing.outcome(run, output)
        self._runs.forget(run)
        if outcome:
            self.outcomes[tuple(chosen)] = outcome
        return bool(outcome)

    def _check_like_first(self, report: RerunReport, output: int | None) -> None:
        """See that a run did what the first one did, as far as it came.

        Raises:
            StoppedError: it did not.
        """
        assert self._first is not None
        problems = list(report.problems)
        upto = 0 if output is None else output + 1
        names = _names(report)[:upto]
        if names != _names(self._first)[: len(names)]:
            problems.append("the program writes other outputs on fewer rows")
        if problems:
            raise StoppedError(f"a run that can't be judged: {'; '.join(problems)}")

    def _check_first(self, run: RepeatedRun) -> None:
        """See in the lineage of the first run that the program is the job's.

        Raises:
            TraceError: it is another, or did what a rerun does not do.
        """
        if run.report.problems:
            raise TraceError("; ".join(run.report.problems))
        notes = read_notes(run.folder / NOTES_FILE)
        if len(notes.apps) != 1:
            raise TraceError(
                f"the program ran {len(notes.apps)} captured applications: one is sifted at a time{self._end_of(run)}"
            )
        url = f"sqlite:///{run.folder / 'lineage.db'}"
        link_folders(url, list(notes.apps.values()))
        (again,) = notes.apps
        with open_store(url) as store:
            after = RecordTracer(store, RowReader(run.folder / "indexes"))
            locations = self._tracer.locations(self._app)
            read = {source.node for source in self._job.sources}
            if self._failing.test is not None:
                program = rerun_program(after, again)
                check_rerun(self._job, program, run.report, locations, read)
            else:
                opened = after.opened(again)
                program = ProgramOfRdds(opened.graph, opened.nodes)
                check_made_sources(self._job, program, run.report, locations, read)
        self._first = run.report

    def _end_of(self, run: RepeatedRun) -> str:
        said = self._runs.said()
        ended = f" it ended with {shown(run.report.errors[0])}" if run.report.errors else ""
        return ended or (f" it said\n{said}" if said else "")


def _names(report: RerunReport) -> list[str]:
    return [Path(output).name for output in report.outputs]


def shown(error: RaisedError) -> str:
    """An error in one line."""
    return error.line.split("\n", 1)[0]


# -- rows of outputs -------------------------------------------------------------------------------


def rows_of(folder: Path) -> Iterator[tuple[str, str]]:
    """The places and texts of the lines that ``saveAsTextFile`` wrote.

    Raises:
        TraceError: these are no such files.
    """
    if not folder.is_dir():
        raise TraceError(f"{folder} is no folder that an RDD was saved to")
    for part in sorted(folder.glob("part-*")):
        if part.suffix:
            raise TraceError(
                f"{part} is no file of text lines: outputs of saveAsTextFile without compression are sifted"
            )
        with open(part, encoding="utf-8", newline="\n") as file:
            for number, line in enumerate(file, 1):
                yield f"{part}:{number}", line.removesuffix("\n")


def _failing_places(folder: Path, fails: TestOf[str], test: str) -> list[str]:
    failing = (place for place, text in rows_of(folder) if fails(text))
    places = list(islice(failing, FAILING_MAX))
    if not places:
        raise TraceError(f"no row of {folder} fails {test}")
    return places


# -- what is printed -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProgramAnswer:
    """What a search found: the rows, what they alone give, and other failing rows of the job's output."""

    sift: ProgramSift
    found: FoundRows
    outcome: Outcome
    failing: Sequence[str]
    widened: bool

    @property
    def read_whole(self) -> list[str]:
        """The sources that were not searched."""
        return [
            f"{source.name or source.op}" + (f" of {source.path}" if source.path else "")
            for number, source in enumerate(self.sift.program.sources)
            if number not in self.sift.cut
        ]

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on."""
        return {
            "app": self.sift.app,
            **self.found.to_json(),
            "outcome": list(self.outcome),
            "searched": "all rows" if self.widened else "witnesses",
            "read_whole": self.read_whole,
            "failing": list(self.failing),
        }

    def show(self) -> None:
        """Print it for people."""
        if self.failing:
            echo(f"{self.failing[0]} fails", bold=True)
        which = "its sources hold" if self.widened else "it is made from"
        if not self.widened and self.sift.output is None:
            which = "its tasks died on"
        read_whole = (f"read whole in each run: {source}" for source in self.read_whole)
        self.found.show(which, self.outcome, read_whole)
        show_others_failing(len(self.failing))
