"""``lineage suspects --influence --program``: what a row of an RDD would be without each of the rows that it was made from, by running its program again."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, DecimalException
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import typer

from lineage.influencing import RUNS_MAX, one_bad_row
from lineage.linking import link_folders
from lineage.options import print_json
from lineage.program_sifting import NOTES_FILE, shown
from lineage.repeated_runs import RepeatedRun, RepeatedRuns
from lineage.rerunning import CapturedRun, program_words
from lineage.terminal import echo
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace.ranked_influence import change
from lineage_query.minimising import StoppedError
from lineage_query.program_sifts import place_and_text
from lineage_query.record_tracing import RecordTracer
from lineage_query.reruns import ReplayedRow, Rerun, RerunResult, excluded_rows, plan_rerun
from lineage_query.rows.reader import RowReader
from lineage_query.showing import rows_text
from lineage_query.suspects.query import SuspectsQuery
from lineage_query.suspects.ranking import ranked
from lineage_store.run_notes import read_notes
from lineage_store.url import index_folder, open_store

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")

EXPONENT_MAX = 400
"""Of numbers whose difference is computed: no double is larger, and a few signs of text may stand for one that fits in no memory."""

State: TypeAlias = Literal["same", "changed", "gone", "fails", "unclear"]
_WEIGHT: dict[State, int] = {"gone": 3, "fails": 2, "changed": 1, "same": 0, "unclear": -1}


@dataclass(frozen=True)
class RowInfluence:
    """What the row would be without one row of a source, which stands at ``place``.

    ``after``: its text, or those of all rows that may be it. ``error``: what the program fails with.
    """

    place: str
    text: str
    state: State
    after: tuple[str | None, ...] = ()
    error: str = ""

    def key(self, before: str) -> tuple[int, tuple[Fraction | float, ...]]:
        """What rows are ranked by: whether the row would be gone, then how far its numbers change, one after the other."""
        changed = self.state == "changed"
        return _WEIGHT[self.state], _distances(before, self.after[0] or "") if changed else ()

    def to_json(self) -> dict[str, Any]:
        """The shape that tools rely on."""
        return {
            "location": self.place,
            "text": self.text,
            "after": self.after[0] if self.state in {"same", "changed"} else None,
            "candidates": list(self.after),
            "state": self.state,
            "error": self.error or None,
        }

    @property
    def in_words(self) -> str:
        """What it would be."""
        match self.state:
            case "same":
                return "the same"
            case "gone":
                return "no row"
            case "fails":
                return f"the program fails: {self.error}"
            case "changed":
                return str(self.after[0])
        texts = " | ".join(map(str, self.after))
        return f"one of: {texts}" if texts else "no row that is surely it"


@dataclass(frozen=True)
class ProgramInfluence:
    """The influence of rows on one row of an RDD's output. ``stopped``: why not all of the first `RUNS_MAX` were left out."""

    rerun: Rerun
    before: str
    rows: Sequence[RowInfluence]
    witnesses: int
    stopped: str

    def ranked(self) -> list[tuple[RowInfluence, int, int]]:
        """Each with its rank, and how many share it."""
        places = ranked({row: row.key(self.before) for row in self.rows})
        order = {row: at for at, row in enumerate(self.rows)}
        rows = [(row, *places[row]) for row in self.rows]
        return sorted(rows, key=lambda row: (row[1], order[row[0]]))

    def to_json(self, limit: int) -> dict[str, Any]:
        """The shape that tools rely on; keys are only ever added."""
        return {
            "app": self.rerun.app,
            "node": self.rerun.output.node,
            "before": self.before,
            "rows": [
                row.to_json() | {"rank": rank, "tied": tied}
                for row, rank, tied in self.ranked()[:limit]
            ],
            "witnesses": self.witnesses,
            "computed": len(self.rows),
            "how": "re-execution",
            "read": "all other rows" if self.rerun.reads_all_rows else "witnesses",
            "stopped": self.stopped or None,
            "uncertain": [*self.rerun.reasons, *self.rerun.superset],
        }

    def show(self, limit: int) -> None:
        """Print it for people."""
        made = rows_text(self.witnesses)
        rows = "all other rows of its sources" if self.rerun.reads_all_rows else "the others alone"
        echo(
            f"what it would be without each of the {made} that it is made from, by running the program again on {rows}",
            fg=typer.colors.CYAN,
        )
        echo(f"now     {self.before}", bold=True)
        listed = self.ranked()
        for row, rank, tied in listed[:limit]:
            shared = f" ({tied:,} tied)" if tied > 1 else ""
            place = f"{row.place}: {row.text}" if row.text else row.place
            echo(f"{rank}.{shared}  {row.in_words}  without {place}")
        if len(listed) > limit:
            echo(f"... and {len(listed) - limit:,} more (--limit N lists more)", dim=True)
        if len(self.rows) < self.witnesses:
            why = f", and was stopped after {self.stopped}" if self.stopped else ""
            echo(
                f"lineage: the program was run without {len(self.rows):,} of the {made}{why}: others may change the row more",
                err=True,
            )
        for reason in (*self.rerun.reasons, *self.rerun.superset):
            echo(f"read all other rows: {reason}", fg=typer.colors.YELLOW)


def program_influence(
    url: str, query: SuspectsQuery, program: str, timeout_s: float | None, *, as_json: bool
) -> None:
    """Print what a bad row of an RDD's output would be without each of its witnesses, those first that change it most.

    Args:
        url: of the store.
        query: names the row.
        program: the command that ran, as words for a shell.
        timeout_s: seconds after which no run goes on; None: never.
        as_json: for tools.

    Raises:
        LineageError: not one row of an RDD's output is named, or the program can't be run again on its witnesses.
    """
    words, place = program_words(url, program, "lineage suspects --program"), one_bad_row(query)
    with (
        open_store(url) as store,
        # Of a run that is ended, processes may write for a moment still.
        tempfile.TemporaryDirectory(
            prefix="lineage-influence-", ignore_cleanup_errors=True
        ) as name,
    ):
        tracer = RecordTracer(store, RowReader(index_folder(url)))
        rerun = plan_rerun(tracer, (place,), (), query.app)
        # What depends on more than the row's witnesses is computed of all rows, as replays without some do.
        rerun = replace(rerun, reads_all_rows=bool(rerun.reasons or rerun.superset))
        verdict = tracer.opened(rerun.app).verdict
        with RepeatedRuns(
            words, Path(name), rerun.program.paths(), timeout_s, verdict=verdict
        ) as runs:
            answer = _Influences(tracer, runs, rerun).answer()
    if as_json:
        print_json(answer.to_json(query.limit))
    else:
        answer.show(query.limit)


class _Influences:
    """Runs a program without one row of a source after the other."""

    def __init__(self, tracer: RecordTracer, runs: RepeatedRuns, rerun: Rerun) -> None:
        self._tracer, self._runs, self._rerun = tracer, runs, rerun

    def answer(self) -> ProgramInfluence:
        """Leave out the first `RUNS_MAX` of the row's witnesses, each by itself.

        Raises:
            TraceError: with all of them the row does not come out as it was, or a run did otherwise than the job.
        """
        (requested,) = self._rerun.requested
        before = requested.before
        if before is None:
            raise TraceError(f"{requested.place}: rows of its format have no text to compare")
        try:
            whole = self._without(self._rerun)
        except StoppedError as reason:
            raise TraceError(f"the first run ended after {reason}") from None
        if whole.state != "same":
            raise TraceError(
                f"{requested.place} does not come out as it was when the program runs again ({whole.in_words}): what it would be without a row can't be said"
            )
        rows, stopped = list[RowInfluence](), ""
        witnesses = list(islice(self._witnesses(), RUNS_MAX + 1))
        count = len(witnesses) if len(witnesses) <= RUNS_MAX else self._count()
        for place, text in witnesses[:RUNS_MAX]:
            left_out = excluded_rows(self._tracer, self._rerun.program, place, self._rerun.app)
            try:
                found = self._without(replace(self._rerun, left_out=left_out))
            except StoppedError as reason:
                stopped = str(reason)
                break
            rows.append(replace(found, place=place, text=text))
        return ProgramInfluence(self._rerun, before, rows, count, stopped)

    def _count(self) -> int:
        """How many rows it is made from; those that several sources read in the same splits count once."""
        regions: dict[tuple[str, int], Region] = {}
        for at, splits in self._rerun.witnesses.items():
            source = self._rerun.program.sources[at]
            for split, region in splits.items():
                key = (source.path or source.node, split)
                regions[key] = regions.get(key, Region()) | region
        return sum(region.count for region in regions.values())

    def _witnesses(self) -> Iterator[tuple[str, str]]:
        """Place and text of each row of a file or list, once, though several sources may read it."""
        composer, seen = self._tracer.opened(self._rerun.app).composer(), set[str]()
        for at, splits in sorted(self._rerun.witnesses.items()):
            node = self._rerun.program.sources[at].node
            for split, region in sorted(splits.items()):
                for position in (at for first, last in region for at in range(first, last + 1)):
                    place, text = place_and_text(composer, node, split, position)
                    if place not in seen:
                        seen.add(place)
                        yield place, text

    def _without(self, rerun: Rerun) -> RowInfluence:
        influence = self._of_run(rerun)
        if influence.state == "fails" and not rerun.reads_all_rows:
            # Functions of another output may fail on these few rows alone.
            influence = self._of_run(replace(rerun, reads_all_rows=True))
        if influence.state == "gone" and self._rerun.reasons:
            # It may be made from others in its place.
            return replace(influence, state="unclear")
        return influence

    def _of_run(self, rerun: Rerun) -> RowInfluence:
        run = self._runs.run(rerun.sources())
        try:
            if run.report.problems:
                raise TraceError("; ".join(run.report.problems))
            if run.code:
                errors = [shown(error) for error in run.report.errors]
                return RowInfluence("", "", "fails", error=(errors or [f"exit code {run.code}"])[0])
            row = self._row(run, rerun)
        finally:
            self._runs.forget(run)
        return RowInfluence("", "", row.state, row.after)

    def _row(self, run: RepeatedRun, rerun: Rerun) -> ReplayedRow:
        url, notes = f"sqlite:///{run.folder / 'lineage.db'}", read_notes(run.folder / NOTES_FILE)
        link_folders(url, list(notes.apps.values()))
        again = CapturedRun(url, list(notes.apps))
        with open_store(url) as store:
            after = RecordTracer(store, RowReader(run.folder / "indexes"))
            (row,) = RerunResult(rerun, run.report, again.app, self._tracer, after).rows()
        return row


def _distances(before: str, after: str) -> tuple[Fraction | float, ...]:
    """How far the numbers of two texts lie apart, one after the other; texts that differ in more lie without bound."""
    if NUMBER.sub("", before) != NUMBER.sub("", after):
        return (math.inf,)
    pairs = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
    return tuple(_distance(one, other) for one, other in pairs)


def _distance(before: str, after: str) -> Fraction | float:
    if before == after:
        return Fraction(0)
    try:
        numbers = Decimal(before), Decimal(after)
    except DecimalException:
        return math.inf
    if not all(n.is_finite() and abs(n.adjusted()) <= EXPONENT_MAX for n in numbers):
        return math.inf
    return change(*numbers)
