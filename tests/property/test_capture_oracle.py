"""Capture notes of every row just the source rows that the interpreter says made it.

Twice: the spool read by the plainest means (capture alone), and the same spool linked, stored and
traced (all of it), backward and forward.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyspark import SparkContext

from lineage_core.contract.region import Region
from lineage_core.contract.verdict import Verdict, judge
from lineage_core.tracing.trace_result import Direction, TraceResult
from lineage_core.tracing.tracer import Tracer
from lineage_emitter import LineageContext
from lineage_emitter.session.rules import Details
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.brute import Witnesses, evaluate
from tests.oracle.budget import examples
from tests.oracle.captured import Item, Lineage, SpoolReader, Trace
from tests.oracle.compare import assert_witnesses, sink_items
from tests.oracle.model import Program, Sink, Source, Step
from tests.oracle.program import programs
from tests.oracle.spark import Outcome, build, run_sink, write_sources

pytestmark = pytest.mark.property


class Capture:
    """One captured application in which program after program runs."""

    def __init__(self, sc: SparkContext, folder: Path) -> None:
        path = folder / "lineage.db"
        self.lc = LineageContext(sc, store=f"sqlite:///{path}", link=False)
        assert self.lc.session is not None
        self.session = self.lc.session
        self.reader = SpoolReader(self.session.api.dispatcher.folder)
        self.store = SqliteStore(path)

    def run(self, program: Program, home: Path, *, detailed: bool) -> tuple[Lineage, list[Outcome]]:
        """Run all actions of a program; what capture noted of them."""
        settings = self.session.settings.model_copy(update={"detailed": detailed})
        self.session.nodes.details = Details(settings)
        self.reader.messages()
        rdds = build(program, self.lc, write_sources(program, home))
        outcomes = [
            run_sink(sink, rdds, home / f"out-{number}")
            for number, sink in enumerate(program.sinks)
        ]
        for step, rdd in zip(program.steps, rdds, strict=True):
            if step.op == "cache":
                rdd.unpersist(blocking=True)
        self.session.commits.drain()
        self.session.api.dispatcher.sync()
        messages = self.reader.messages()
        return Lineage(program, messages, self.reader.blocks(messages)), outcomes

    def stored(self) -> Tracer:
        """A tracer over all that has been captured so far, linked and stored."""
        ingest(self.store, self.session.api.dispatcher.folder)
        return Tracer(self.store.graph(self.session.app))

    def verdict(self, lineage: Lineage) -> Verdict:
        """The verdict on one program, as if it had just begun and were still running."""
        begin = self.session.api.beginning
        counts = self.store.counts(self.session.app)
        return judge([begin, *lineage.messages], counts, now=begin.started_at)

    def close(self) -> None:
        self.lc.close()
        self.store.close()


@pytest.fixture(scope="module")
def capture(spark_context: SparkContext) -> Iterator[Capture]:
    with tempfile.TemporaryDirectory() as folder:
        capture = Capture(spark_context, Path(folder))
        yield capture
        capture.close()


def back_in_store(lineage: Lineage, tracer: Tracer, item: Item) -> Trace:
    result = _trace(tracer, Direction.BACKWARD, item)
    return Trace(frozenset(lineage.witness(one) for one in _items(result)), result.exact)


def _trace(tracer: Tracer, direction: Direction, item: Item) -> TraceResult:
    return tracer.trace(direction, {item[0]: Region.from_positions([item[1]])})


def _items(result: TraceResult) -> Iterator[Item]:
    for node in result.found.values():
        for space, region in node.spaces.items():
            yield from (
                (space, position) for first, last in region for position in range(first, last + 1)
            )


def assert_forward_is_backward_turned(
    lineage: Lineage, tracer: Tracer, behind: dict[Item, Witnesses]
) -> None:
    """From a source row forward lie just the sink rows behind which it lies."""
    for item, witness in lineage.source_items().items():
        reached = set(_items(_trace(tracer, Direction.FORWARD, item)))
        assert reached == {row for row, witnesses in behind.items() if witness in witnesses}


RUNNING = "the application is still running: the verdict is final when it ends"
ROWS = Source("s", "list", 3, rows=(3, "a", 3, -1))
TEXT = Source("r", "text", 4, files=(("r-t.txt", b"one line"),))
UNION_SORTED = Program(
    # The sort's own jobs read the union, too: nothing of theirs is an end of the lineage.
    (ROWS, replace(TEXT, partitions=1)),
    (
        Step("source", (0,)),
        Step("source", (1,)),
        Step("union", (1, 0)),
        Step("sortBy", (2,), "tag", partitions=2),
    ),
    (Sink("save", 3), Sink("take", 3, 3)),
)
MADE_OF_NOTHING = Program(
    # A function over an empty partition makes a row of no input, which is cached and read on.
    (ROWS, TEXT),
    (
        Step("source", (0,)),
        Step("source", (1,)),
        Step("mapPartitions", (1,), "total"),
        Step("cache", (2,)),
        Step("mapPartitionsWithIndex", (3,), "total_with_index"),
        Step("union", (4, 0)),
        Step("distinct", (5,), partitions=2),
    ),
    (Sink("save", 6), Sink("count", 6)),
)
READ_AHEAD = Program(
    # One row in each partition: the second round of a take reads one more than it gives.
    (Source("s", "list", 6, rows=(3, "a", 5, -1, "b", 7)),),
    (Step("source", (0,)), Step("distinct", (0,), partitions=6)),
    (Sink("take", 0, 3), Sink("save", 1), Sink("take", 0, 2), Sink("take", 1, 4)),
)
MOVED = Program(
    # Batches are numbered behind another operator: the repartition's node names their tasks.
    (ROWS, replace(TEXT, partitions=2)),
    (
        Step("source", (0,)),
        Step("source", (1,)),
        Step("map", (1,), "tag"),
        Step("repartition", (2,), partitions=2),
        Step("repartition", (0,), partitions=3),
    ),
    (Sink("save", 3), Sink("collect", 4)),
)


RENUMBERED_TWICE = Program(
    (Source("s", "list", 3, rows=tuple((n % 3, n) for n in range(7))),),
    (
        Step("source", (0,)),
        Step("partitionBy", (0,), partitions=1),
        Step("sortByKey", (1,), partitions=1),
        Step("join", (0, 0), partitions=1),
        Step("sortByKey", (3,), partitions=1),
        Step("subtractByKey", (0, 1), partitions=1),
        Step("repartitionAndSortWithinPartitions", (0,), partitions=1),
        Step("repartitionAndSortWithinPartitions", (6,), partitions=1, ascending=False),
        Step("glom", (0,)),
        Step("union", (5, 2)),
    ),
    tuple(Sink("collect", step) for step in (2, 4, 7, 8, 9)),
)
"""One segment that numbers its records anew several times."""
PAIRED_AND_KEPT = Program(
    (ROWS, replace(TEXT, partitions=2, files=(("r-t.txt", b"b\na\n\nb\nc\n"),))),
    (
        Step("source", (0,)),
        Step("source", (1,)),
        Step("cartesian", (1, 0)),
        Step("map", (1,), "small_int"),
        Step("zip", (3, 1)),
        Step("checkpoint", (4,)),
        Step("cartesian", (5, 3)),
        Step("localCheckpoint", (3,)),
        Step("distinct", (6,), partitions=2),
        Step("union", (7, 4)),
    ),
    (Sink("save", 8), Sink("collect", 2), Sink("collect", 7), Sink("foreach", 5)),
)
CHOSEN = Program(
    # Of equal rows the first wins; some are given more than once, some not at all.
    (Source("s", "list", 3, rows=(3, "a", 3, -1, "a", 7, 0, "a")),),
    (Step("source", (0,)), Step("map", (0,), "pair_small"), Step("zip", (1, 0))),
    (
        *(Sink("max", 0), Sink("min", 2), Sink("top", 0, 4), Sink("takeOrdered", 2, 9)),
        *(Sink("takeOrdered", 0, 0), Sink("takeSample", 0, 3), Sink("takeSample", 2, 9)),
        *(Sink("toLocalIterator", 0, 5), Sink("toLocalIterator", 2, 9)),
    ),
)


@settings(max_examples=examples(7))
@example(program=PAIRED_AND_KEPT, detailed=False)
@example(program=CHOSEN, detailed=True)
@example(program=RENUMBERED_TWICE, detailed=True)
@example(program=RENUMBERED_TWICE, detailed=False)
@example(program=UNION_SORTED, detailed=True)
@example(program=UNION_SORTED, detailed=False)
@example(program=MADE_OF_NOTHING, detailed=True)
@example(program=MADE_OF_NOTHING, detailed=False)
@example(program=MOVED, detailed=True)
@example(program=MOVED, detailed=False)
@example(program=READ_AHEAD, detailed=True)
@example(program=READ_AHEAD, detailed=False)
@given(program=programs(), detailed=st.booleans())
def test_lineage_is_the_witnesses_of_every_row(
    program: Program, detailed: bool, capture: Capture
) -> None:
    run = evaluate(program)
    with tempfile.TemporaryDirectory() as folder:
        lineage, outcomes = capture.run(program, Path(folder), detailed=detailed)
        items = [
            sink_items(lineage, str(job.sink), outcome)
            for job, outcome in zip(lineage.jobs, outcomes, strict=True)
        ]
    assert lineage.complaints == []
    tracer = capture.stored()
    assert capture.verdict(lineage).reasons == (RUNNING,)
    stored = {item: back_in_store(lineage, tracer, item) for rows in items for _, item in rows}
    ways: tuple[Callable[[Item], Trace], ...] = (
        lambda item: lineage.back(*item),
        stored.__getitem__,
    )
    for back in ways:
        for outcome, rows in zip(outcomes, items, strict=True):
            assert_witnesses(run, outcome.sink, [(text, back(item)) for text, item in rows])
    assert_forward_is_backward_turned(
        lineage, tracer, {item: one.witnesses for item, one in stored.items()}
    )
