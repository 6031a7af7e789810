"""One captured application in which program after program runs; its rows are traced in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from lineage_core.contract.message import Begin, Message
from lineage_core.contract.region import Region
from lineage_core.contract.verdict import judge
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_emitter import LineageContext
from lineage_emitter.session.rules import Details
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.hunt.carrying import CarryingContext
from tests.hunt.claims import Claim, Finding, truth_of
from tests.hunt.harm import CALM, Harm
from tests.hunt.reading import readable
from tests.hunt.shaped import ShapedContext
from tests.oracle.captured import Item, Lineage, SpoolReader
from tests.oracle.compare import sink_items
from tests.oracle.model import Program
from tests.oracle.spark import Outcome, Rdd, build, run_sink, write_sources

WITHOUT_IDS = ("count", "foreach")
RUNNING = "the application is still running"


@dataclass(frozen=True)
class Attempt:
    """A program and what happens to it. ``shapes``: functions over the partitions of its one source instead."""

    program: Program
    harm: Harm = CALM
    detailed: bool = False
    shapes: tuple[str, ...] = ()

    def context(self, sc: Any, home: Path) -> CarryingContext | ShapedContext:
        """What the program is built on."""
        if self.shapes:
            return ShapedContext(sc, self.shapes)
        return CarryingContext(sc, self.harm.at_home(home))

    def __str__(self) -> str:
        shapes = f"mapPartitions by {', '.join(self.shapes)}; " if self.shapes else ""
        return shapes + f"{readable(self.program)}; harm: {self.harm}; detailed: {self.detailed}"


@dataclass
class Held:
    """The store that an application's lineage goes to, and what rows of its programs trace to there."""

    store: SqliteStore
    app: str
    began: Begin

    def hold(self, program: Program, messages: list[Message], outcomes: list[Outcome]) -> Finding:
        """Hold what the rows of a program trace to against what they state.

        ``messages``: of the program. ``outcomes``: of its actions that ended.
        """
        lineage = Lineage(program, messages, [])
        judged = [self.began, *lineage.messages]
        verdict = judge(judged, self.store.counts(self.app), now=self.began.started_at)
        reasons = [reason for reason in verdict.reasons if not reason.startswith(RUNNING)]
        finding = Finding(complete=not reasons, note="; ".join(reasons)[:200])
        tracer = Tracer(self.store.graph(self.app))
        for number, outcome in enumerate(outcomes):
            if outcome.sink.action not in WITHOUT_IDS:
                self._hold_action(finding, lineage, tracer, number, outcome)
        return finding

    def _hold_action(
        self, finding: Finding, lineage: Lineage, tracer: Tracer, number: int, outcome: Outcome
    ) -> None:
        try:
            rows = sink_items(lineage, str(lineage.jobs[number].sink), outcome)
        except (AssertionError, ValueError, IndexError) as problem:
            finding.lost(f"rows of {outcome.sink} have no items: {_first_line(problem)}")
            return
        finding.hold(_claims(lineage, tracer, rows))


class Application:
    """A LineageContext over a SparkContext, and the store that its lineage goes to."""

    def __init__(self, sc: SparkContext, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder, path = folder, folder / "lineage.db"
        self.lc = LineageContext(sc, store=f"sqlite:///{path}", link=False)
        assert self.lc.session is not None
        self.session = self.lc.session
        self.spool = self.session.api.dispatcher.folder
        self.reader = SpoolReader(self.spool)
        self.held = Held(SqliteStore(path), self.session.app, self.session.api.beginning)
        self.count = 0
        self.incomplete = False
        """Whether something of it is lost: no verdict on later programs is complete."""

    def run(self, attempt: Attempt) -> Finding:
        """Run a program, and hold what its rows trace to against what they state."""
        self.reader.messages()
        home = self.begin(attempt)
        try:
            outcomes = list(self.outcomes(attempt, home))
        except Exception as problem:
            # A harmed job may fail; what it was is in the log, and the next one begins anew.
            self.settle()
            failed = Finding(complete=False, programs=0, note=_first_line(problem))
            return failed.harmed_by(attempt.harm.at_home(home).struck)
        finally:
            self.incomplete |= attempt.harm.at_home(home).is_over()
        self.settle()
        messages = self.reader.messages()
        ingest(self.held.store, self.spool)
        finding = self.held.hold(attempt.program, messages, outcomes)
        return finding.harmed_by(attempt.harm.at_home(home).struck)

    def begin(self, attempt: Attempt) -> Path:
        """A folder for the next program."""
        settings = self.session.settings.model_copy(update={"detailed": attempt.detailed})
        self.session.nodes.details = Details(settings)
        self.count += 1
        home = self.folder / f"program-{self.count}"
        home.mkdir()
        return home

    def outcomes(self, attempt: Attempt, home: Path) -> Iterator[Outcome]:
        """Run the actions of a program, one after the other."""
        program = attempt.program
        rdds = build(program, attempt.context(self.lc, home), write_sources(program, home))
        for number, sink in enumerate(program.sinks):
            yield run_sink(sink, rdds, home / f"out-{number}")
            if attempt.harm.evict:
                _evict(program, rdds)
        _evict(program, rdds)

    def settle(self) -> None:
        """Wait until all that was captured is in the spool."""
        self.session.commits.drain()
        self.session.api.dispatcher.sync()

    def close(self) -> None:
        """End the application."""
        self.lc.close()
        self.held.store.close()


def _claims(lineage: Lineage, tracer: Tracer, rows: list[tuple[str, Item]]) -> Iterator[Claim]:
    for text, (space, position) in rows:
        result = tracer.trace(Direction.BACKWARD, {space: Region.from_positions([position])})
        found = frozenset(
            lineage.witness((at, one))
            for node in result.found.values()
            for at, region in node.spaces.items()
            for first, last in region
            for one in range(first, last + 1)
        )
        yield Claim(text, truth_of(text), found, result.exact)


def _evict(program: Program, rdds: list[Rdd]) -> None:
    for step, rdd in zip(program.steps, rdds, strict=True):
        if step.op == "cache":
            rdd.unpersist()


def _first_line(problem: BaseException) -> str:
    lines = [line for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0] if lines else ''}"[:200]


@contextmanager
def applications(sc: SparkContext, folder: Path, each: int) -> Iterator[Any]:
    """Runs attempts; a new application begins after so many, so that none grows without end, and where one has lost something."""
    current: list[Application] = []
    begun = 0

    def run(attempt: Attempt) -> Finding:
        nonlocal begun
        if current and (current[0].incomplete or current[0].count >= each):
            current.pop().close()
        if not current:
            begun += 1
            current.append(Application(sc, folder / f"application-{begun}"))
        return current[0].run(attempt)

    try:
        yield run
    finally:
        for one in current:
            one.close()
