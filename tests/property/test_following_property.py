"""Following rows against a simulated query, which knows what each of its batches gives and what is still to come.

Drawn are batches, watermarks, windows, when the file is read, by how many streams, crashes between any two messages, and batches that are
run again. Whatever is cut off: rows are told once, and nothing comes once it was said that nothing more can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract import message as m
from lineage_core.recipe.document import File, Recipe, Source, StreamBatch
from lineage_core.recipe.plan import Attribute, OpaqueNode
from lineage_dataframes.errors import RefusedError
from lineage_query.follow_events import Done, Ending, Gap, Late, Made
from lineage_query.followed import FollowedFile, may_hold
from lineage_query.following import Follow

FILE = "/data/in/f.csv"
QUERY = "query"


@dataclass(frozen=True)
class Case:
    """``read``: in which batches the file is read, of each stream. ``ends``: of the windows of its row. ``crashes``: after which message."""

    keeps: str
    watermarks: tuple[int, ...]
    read: tuple[int | None, ...]
    ends: tuple[int, ...]
    beside: bool
    crashes: frozenset[int]
    rerun: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    keeps = draw(st.sampled_from(["nothing", "windows"]))
    count = draw(st.integers(1, 6))
    watermarks = sorted(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)))
    batches = st.none() | st.integers(0, count - 1)
    streams = 1 if keeps == "windows" else draw(st.integers(1, 2))
    ends = draw(st.sets(st.integers(-2, 12), max_size=3)) if keeps == "windows" else set()
    return Case(
        keeps,
        tuple(watermarks),
        tuple(draw(batches) for _ in range(streams)),
        tuple(sorted(ends)),
        keeps == "nothing" and draw(st.booleans()),
        frozenset(draw(st.sets(st.integers(1, 3 * count), max_size=2))),
        draw(st.booleans()),
    )


@dataclass
class Simulation:
    """A query that runs. ``given``: the rows of each batch. ``opaque``: batches whose recipes say nothing."""

    case: Case
    given: dict[int, frozenset[tuple[int, int]]] = field(default_factory=dict)
    opaque: set[tuple[str, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        case = self.case
        (read, *_) = case.read
        for number, now in enumerate(case.watermarks):
            before = case.watermarks[number - 1] if number else 0
            rows = {(number, at) for at, batch in enumerate(case.read) if batch == number}
            if case.keeps == "windows":
                late_by = case.watermarks[read - 1] if read else 0
                rows = {
                    (number, end)
                    for end in case.ends
                    if read is not None and number >= read and before < end <= now and end > late_by
                }
            if case.beside:
                rows.add((number, -1))
            self.given[number] = frozenset(rows)

    def messages(self) -> list[tuple[m.Message, int]]:
        """What is sent, and up to which batch all rows are out by then; a crash loses what comes next of its run."""
        sent: list[tuple[m.Message, int]] = []
        number, run = 0, 0
        last = len(self.case.watermarks)
        is_again = False
        while True:
            planned = self._run(run, number, is_again=is_again)
            crash = next((at for at in sorted(self.case.crashes) if at >= len(sent)), None)
            cut = len(planned) if crash is None else min(len(planned), crash - len(sent) + 1)
            sent += planned[:cut]
            if cut == len(planned):
                return sent
            done = sent[-1][1]
            # A batch whose commit was recorded may be run again all the same: the crash came before Spark's own.
            is_again = done >= 0 and (self.case.rerun or done == last - 1)
            number = done if is_again else done + 1
            run += 1
            if run > len(self.case.crashes):
                return sent

    def _run(self, run: int, first: int, *, is_again: bool) -> list[tuple[m.Message, int]]:
        case, app, name = self.case, f"app-{run}", f"run-{run}"
        begun = m.Stream(
            app=app, query=QUERY, run=name, state="begun", reads=("file:/data/in",) * len(case.read),
            beside=("file:/data/in",) if case.beside else (), keeps=case.keeps, late_by_before=True,
        )  # fmt: skip
        started = m.Stream(app=app, query=QUERY, run=name, state="started")
        out = first if is_again else first - 1
        sent: list[tuple[m.Message, int]] = [(started, out), (begun, out)]
        for number in range(first, len(case.watermarks)):
            if (number == first and is_again) or (case.keeps == "windows" and run):
                self.opaque.add((name, number))
            recipe = m.Recipe(app=app, node=str(number), recipe=self._recipe(name, number))
            windows = (
                self._recipe(name, number) if number == first and case.keeps == "windows" else None
            )
            watermark = case.watermarks[number] if case.keeps == "windows" else None
            batch = m.Stream(
                app=app, query=QUERY, run=name, state="batch", number=number,
                watermark=watermark, windows=windows,
            )  # fmt: skip
            sent += [(recipe, number), (batch, number)]
        over = m.Stream(
            app=app, query=QUERY, run=name, state="over", number=len(case.watermarks) - 1
        )
        return [*sent, (over, len(case.watermarks) - 1)]

    def _recipe(self, run: str, number: int) -> str:
        has_file = [
            batch is not None
            and (batch <= number if self.case.keeps == "windows" else batch == number)
            for batch in self.case.read
        ]
        paths = [f"file:/data/in/{number}.csv", *(f"file:{FILE}" for read in has_file if read)]
        paths += [f"file:{FILE}"] * self.case.beside
        files = tuple(File(path, 1, 1) for path in paths)
        source = Source("csv", ("file:/data/in",), "", files=files)
        opaque = OpaqueNode((Attribute(0, "a", "int"),), "Batch", "", ())
        return (
            Recipe("4", {}, (source,), (opaque,))
            .of_batch(StreamBatch(QUERY, run, number))
            .to_json()
        )

    # What `lineage_query.follow_events.Tracing` asks for.

    def rows(self, recipe: Recipe) -> frozenset[tuple[int, int]]:
        assert recipe.batch is not None
        if (recipe.batch.run, recipe.batch.number) in self.opaque:
            raise RefusedError("an earlier run may have written it")
        return self.given[recipe.batch.number]

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        assert windows.batch is not None
        assert batch.batch is not None
        return [end * 1000 for end in self.case.ends]


def _late(case: Case, read: int) -> int:
    """How many windows were given before: by the watermark of the batch before, which is 0 for the first."""
    return sum(end <= (case.watermarks[read - 1] if read else 0) for end in case.ends)


@settings(max_examples=250)
@given(cases())
def test_nothing_comes_once_it_was_said(case: Case) -> None:
    simulation = Simulation(case)
    follow = Follow(FollowedFile(FILE), simulation)
    sent = simulation.messages()
    told: list[tuple[int, int]] = []
    gaps: set[int] = set()
    late_count = 0
    done_at: int | None = None
    for message, out in sent:
        for event in follow.take(message):
            if isinstance(event, Made):
                assert event.committed
                told += event.rows
            elif isinstance(event, Late):
                (read,) = case.read
                assert read is not None
                late_count += event.count
                # The watermark before may have been cut off, so that fewer are known to be late.
                assert event.count <= _late(case, read)
                assert event.first <= read <= event.batch.number
            elif isinstance(event, Gap):
                gaps.add(out)
            elif isinstance(event, Done):
                assert done_at is None or case.beside
                done_at = out
        if done_at is not None:
            later = [rows for number, rows in simulation.given.items() if number > done_at]
            assert not any(later), (case, done_at)
    assert len(told) == len(set(told))
    if not case.crashes and case.keeps == "windows" and case.read[0] is not None:
        assert late_count == _late(case, case.read[0])
    last = sent[-1][1]
    true = {row for number, rows in simulation.given.items() if number <= last for row in rows}
    assert set(told) <= true
    if not gaps and isinstance(sent[-1][0], m.Stream) and sent[-1][0].state in {"batch", "over"}:
        assert set(told) == true, (case, told)
    for row in true - set(told):
        # Of a batch that another run had written before, or whose recording was cut off.
        assert case.crashes, (case, row)


@settings(max_examples=250)
@given(cases())
def test_an_undisturbed_query_is_done_as_soon_as_it_can_be(case: Case) -> None:
    if case.crashes or case.beside or len(case.read) > 1:
        return
    simulation = Simulation(case)
    follow = Follow(FollowedFile(FILE), simulation)
    (read,) = case.read
    for message, out in simulation.messages():
        is_done = any(isinstance(event, Done) for event in follow.take(message))
        assert not is_done or isinstance(message, m.Stream)
        if isinstance(message, m.Stream) and message.state == "batch" and read is not None:
            passed = not case.ends or case.ends[-1] <= case.watermarks[out]
            assert (follow.endings()[QUERY] is Ending.DONE) == (out >= read and passed)


def test_a_query_that_reads_it_by_another_stream_when_it_is_started_again_is_open_again() -> None:
    """Spark takes what a stream reads from the program, and what it has read from the checkpoint."""
    simulation = Simulation(Case("nothing", (0,), (0,), (), False, frozenset(), False))
    follow = Follow(FollowedFile(FILE), simulation)
    for message, _ in simulation.messages():
        list(follow.take(message))
    assert follow.endings()[QUERY] is Ending.DONE
    begun = m.Stream(
        app="app-1", query=QUERY, run="run-1", state="begun", reads=("file:/data/in",), keeps="nothing"
    )  # fmt: skip
    assert not list(follow.take(begun))
    assert follow.endings()[QUERY] is Ending.DONE
    both = begun.model_copy(update={"run": "run-2", "reads": begun.reads * 2})
    assert not list(follow.take(both))
    assert follow.endings()[QUERY] is Ending.OPEN


def test_folders_and_patterns_that_may_hold_a_file() -> None:
    for folder in (
        "/data/in",
        "file:/data/in",
        "/data",
        "/data/i*",
        "/data/in/*.csv",
        FILE,
        "file:///data/in/",
    ):
        assert may_hold(folder, FILE), folder
    for folder in ("/data/inn", "/data/out", "/data/in/g.csv", "hdfs://data/in", "/other/*"):
        assert not may_hold(folder, FILE), folder
