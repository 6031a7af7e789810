"""Following a record of a topic against a simulated query, whose batches read ranges of offsets.

Drawn are where the query begins, how far each batch reads, of which batches nothing is recorded, restarts, and whether the topic is
another under the same name. Each batch gives the records that it reads: so what is told, and when nothing more can come, is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract import message as m
from lineage_core.contract.offsets import offsets_text
from lineage_core.recipe.document import Recipe, Source, StreamBatch
from lineage_core.recipe.plan import Attribute, OpaqueNode
from lineage_query.follow_events import Done, Ending, Gap, Made
from lineage_query.followed import FollowedRecord
from lineage_query.following import Follow

QUERY, PARTITION = "query", 1
OURS, ANOTHER = "id-of-the-topic", "id-of-another"


@dataclass(frozen=True)
class Case:
    """``ends``: of each batch, the offset behind the last of the partition. ``lost``: batches that are not recorded. ``runs``: the first batches of restarts."""

    first: int
    ends: tuple[int, ...]
    lost: frozenset[int]
    runs: frozenset[int]
    is_ours: bool
    is_new: bool
    names_firsts: bool


@st.composite
def cases(draw: st.DrawFn) -> Case:
    first = draw(st.integers(0, 4))
    steps = draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    is_new = draw(st.booleans())
    ends, at = [], 0 if is_new else first
    for step in steps:
        at += step
        ends.append(at)
    numbers = st.integers(0, len(steps) - 1)
    return Case(
        0 if is_new else first,
        tuple(ends),
        draw(st.frozensets(numbers, max_size=2)),
        draw(st.frozensets(numbers, max_size=2)),
        draw(st.integers(0, 5)) > 0,
        is_new,
        draw(st.booleans()),
    )


@dataclass
class Simulation:
    case: Case
    record: FollowedRecord
    traced: list[int] = field(default_factory=list)

    def span(self, number: int) -> tuple[int, int]:
        ends = self.case.ends
        return (ends[number - 1] if number else self.case.first), ends[number]

    def holding(self) -> int | None:
        """The batch that reads the record's place."""
        spans = [self.span(number) for number in range(len(self.case.ends))]
        return next((n for n, (low, high) in enumerate(spans) if low <= self.record.offset < high), None)  # fmt: skip

    def messages(self) -> list[m.Message]:
        case, sent, run = self.case, list[m.Message](), 0
        for number in range(len(case.ends)):
            if number in case.runs or not number:
                run += 1
                sent += self._begun(f"run-{run}")
            name = f"run-{run}"
            if number not in case.lost:
                sent.append(m.Recipe(app=name, node=str(number), recipe=self._recipe(name, number)))
            sent.append(m.Stream(app=name, query=QUERY, run=name, state="batch", number=number))
        return sent

    def _begun(self, run: str) -> list[m.Message]:
        case = self.case
        firsts = {0: 0} if case.is_new else {0: 0, PARTITION: case.first}
        topic = m.TopicOfStream(
            topic="orders",
            id=OURS if case.is_ours else ANOTHER,
            # Only the first run knows that no other began behind it.
            firsts=firsts if case.names_firsts and run == "run-1" else None,
        )
        begun = m.Stream(app=run, query=QUERY, run=run, state="begun", reads=("",), topics=(topic,))
        return [m.Stream(app=run, query=QUERY, run=run, state="started"), begun]

    def _recipe(self, run: str, number: int) -> str:
        version = offsets_text({0: (number, number + 1), PARTITION: self.span(number)})
        # Servers are spelled otherwise than by who follows.
        options = {"servers": "b:1,c:1", "topic": "orders", "id": OURS if self.case.is_ours else ANOTHER}  # fmt: skip
        source = Source("kafka", (), "", options=options, version=version)
        opaque = OpaqueNode((Attribute(0, "a", "int"),), "Batch", "", ())
        return (
            Recipe("4", {}, (source,), (opaque,))
            .of_batch(StreamBatch(QUERY, run, number))
            .to_json()
        )

    def rows(self, recipe: Recipe) -> int:
        assert recipe.batch is not None
        self.traced.append(recipe.batch.number)
        return recipe.batch.number

    def ends(self, windows: Recipe, batch: Recipe) -> Sequence[int]:
        raise AssertionError("there are no windows")


@settings(max_examples=200)
@given(cases(), st.integers(0, 14))
def test_a_record_is_told_once_and_nothing_comes_once_that_was_said(
    case: Case, offset: int
) -> None:
    record = FollowedRecord("a:1", "orders", OURS, PARTITION, offset)
    simulation = Simulation(case, record)
    follow, holding = Follow(record, simulation), simulation.holding()
    told: list[int] = []
    done_at: int | None = None
    gaps, last = 0, -1
    for message in simulation.messages():
        for event in follow.take(message):
            if isinstance(event, Made):
                told.append(event.rows)
            elif isinstance(event, Gap):
                gaps += 1
            elif isinstance(event, Done):
                assert done_at is None
                done_at = message.number if isinstance(message, m.Stream) else last
        if isinstance(message, m.Stream):
            last = max(last, message.number)
    recorded = [] if holding is None or holding in case.lost else [holding]
    ending = follow.endings().get(QUERY)
    if not case.is_ours:
        # What the query read of another topic is not the record, or may be it, and it may read on.
        assert (told, ending, gaps) == ([], Ending.OPEN, len(recorded))
        return
    assert told == simulation.traced == recorded
    # Nothing comes after it was said, and a batch that is not recorded is never passed over in silence.
    if done_at is not None and holding is not None:
        assert done_at >= holding
        assert gaps > 0 or holding not in case.lost
    assert not gaps or holding is None or holding in case.lost
    if recorded:
        assert ending is Ending.DONE
        assert gaps == 0
    elif case.names_firsts and not case.is_new and offset < case.first:
        # It was known before the first batch.
        assert (ending, gaps, done_at) == (Ending.DONE, 0, -1)
    elif holding is None and offset >= case.ends[-1]:
        assert (ending, gaps) == (Ending.OPEN, 0)


def test_which_streams_may_read_a_record() -> None:
    record = FollowedRecord("a:1", "orders", OURS, 3, 17)
    of = m.TopicOfStream(topic="orders", id=OURS, firsts={3: 17})
    other = replace(record, id=ANOTHER)

    def begun(*topics: m.TopicOfStream, **fields: object) -> m.Stream:
        known = {"app": "a", "query": "q", "run": "r", "state": "begun", "topics": topics}
        return m.Stream.model_validate(known | fields)

    assert record.streams(begun(of)) == 1
    assert record.streams(begun(of, of)) == 2
    later = m.TopicOfStream(topic="orders", id=OURS, firsts={3: 18})
    # It is read on where it is made anew under the name.
    assert other.streams(begun(of)) == other.streams(begun(later)) == 1
    assert other.streams(begun(m.TopicOfStream(topic="orders", firsts={3: 17}))) == 1
    assert record.streams(begun(m.TopicOfStream())) == 1
    assert record.streams(begun(m.TopicOfStream(topic="returns", id=OURS))) == 0
    assert record.streams(begun(later)) == 0
    assert "from 18 on" in record.never(begun(later))
    assert not record.never(begun(later, of))
    absent = m.TopicOfStream(topic="orders", id=OURS, firsts={0: 18})
    assert record.streams(begun(absent)) == 1
    assigned = m.TopicOfStream(topic="orders", id=OURS, firsts={0: 18}, assigned=True)
    assert "does not read partition 3" in record.never(begun(assigned))
    # Messages of before topics were named.
    old = begun(reads=("", "file:/in", ""), topics=None)
    assert (record.streams(old), record.never(old)) == (2, "")
    assert record.is_beside(begun(of, beside=("",)))
    assert not record.is_beside(begun(of, beside=("file:/orders",)))
