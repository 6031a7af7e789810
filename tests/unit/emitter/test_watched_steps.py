"""Chains of steps that work record by record: whatever is watched of them, and whenever that changes."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_emitter.worker import portions, watch_conditions
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.by_record import ByRecord, Filter, FlatMap, ForEach, Map
from lineage_emitter.worker.detail import Detail
from lineage_emitter.worker.operators import Chain, ReadRecords
from lineage_emitter.worker.task_config import TaskConfig
from lineage_emitter.worker.values import ReprEncoder, ValueTexts
from lineage_emitter.worker.watched_run import WatchedOperator
from lineage_query.watching.reports import Reports
from lineage_store.watch_folder import WatchableNode, WatchedJob, WatchingFile, WatchRequest

pytestmark = pytest.mark.unit

Found = Counter[tuple[str, int]]
"""Texts of records, and the records of the source that they were made from."""


class Markers:
    def add(self, markers: list[Any]) -> None:
        pass


class Clock:
    """Conditions are read again whenever they are looked at, and portions are quick."""

    def __init__(self) -> None:
        self.looks = 0

    def monotonic(self) -> float:
        self.looks += 1
        return float(self.looks)


class Changing(Clock):
    """Calls ``change`` when it is looked at for the ``look``-th time."""

    def __init__(self, look: int, change: Callable[[], None]) -> None:
        super().__init__()
        self._look = look
        self._change = change

    def monotonic(self) -> float:
        now = super().monotonic()
        if self.looks == self._look:
            self._change()
        return now


class Still:
    def monotonic(self) -> float:
        return 0.0


@pytest.fixture(scope="module", autouse=True)
def clock() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch_conditions, "time", Clock())
        patch.setattr(portions, "time", Still())
        patch.setattr(watch_conditions, "_conditions", None)
        yield


def step_of(kind: str, log: list[tuple[str, int]]) -> ByRecord:
    """A step that says what it is called with."""

    def work(record: int) -> int:
        log.append((kind, record))
        return record + 1

    def lazily(record: int) -> Iterator[int]:
        yield work(record)
        yield work(record)

    kinds: dict[str, Callable[[], ByRecord]] = {
        "map": lambda: Map(work),
        "filter": lambda: Filter(lambda record: work(record) % 3 > 0),
        "foreach": lambda: ForEach(work),
        "lists": lambda: FlatMap(lambda record: [work(record)] * (record % 4)),
        "lazily": lambda: FlatMap(lazily),
    }
    return kinds[kind]()


KINDS = st.sampled_from(["map", "filter", "foreach", "lists", "lazily"])


@dataclass
class Job:
    """A chain of steps over records; ``1`` is the first step."""

    folder: Path
    kinds: Sequence[str]
    can_be_watched: bool = True
    log: list[tuple[str, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watched = WatchedJob(self.folder, "app")
        self._names = 0

    def close(self) -> None:
        self.watched.close()

    def watch(self, request: WatchRequest) -> WatchingFile:
        """A condition that counts from the next portion on."""
        self._names += 1
        return WatchingFile(self.watched.folder, f"{self._names:08x}", request)

    def records(self, source: Iterable[Any]) -> Iterator[Any]:
        """What the chain makes of the source."""
        config = TaskConfig("app", str(self.folder), Markers(), 8 << 20, False)  # type: ignore[arg-type]
        texts = ValueTexts(ReprEncoder(100), None, 100)
        chain: Any = ReadRecords(config, "0", "0")
        for number, kind in enumerate(self.kinds, 1):
            facts = WatchableNode(str(number), kind, "", "")
            watched = WatchedOperator(str(self.watched.folder), facts, texts)
            detail = Detail(str(number), watched=watched if self.can_be_watched else None)
            chain = Chain(chain, detail.wrap_step(step_of(kind, self.log)))
        return iter(chain(0, iter(source)))


def reported(watching: WatchingFile) -> Found:
    """The records that were reported, each with the one that it was made from."""
    lines = [
        json.loads(line)
        for path in watching.hits.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    return Counter(
        (line["text"], first)
        for line in lines
        if "text" in line
        for _, first, last in line["made_from"]
        if first == last
    )


def outputs_of(kinds: Sequence[str], source: Sequence[int]) -> list[list[tuple[int, int]]]:
    """What each step gives, each record with the place of the one that it was made from; first the source."""
    given = [[(record, place) for place, record in enumerate(source)]]
    for kind in kinds:
        given.append(
            [
                (made, place)
                for record, place in given[-1]
                for made in step_of(kind, []).run([record])
            ]
        )
    return given


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(KINDS, min_size=1, max_size=5),
    st.lists(st.integers(0, 9), max_size=20),
    st.data(),
)
def test_each_step_reports_what_a_filter_behind_it_finds(
    kinds: list[str], source: list[int], data: st.DataObject
) -> None:
    watches = data.draw(
        st.lists(
            st.tuples(st.integers(1, len(kinds)), st.integers(0, 9), st.sampled_from(["", "must", "time"])),
            max_size=4,
        )
    )  # fmt: skip
    with TemporaryDirectory() as plain, TemporaryDirectory() as name:
        with closing(Job(Path(plain), kinds, can_be_watched=False)) as alone:
            expected = list(alone.records(source))
        with closing(Job(Path(name), kinds)) as job:
            files = [
                job.watch(
                    WatchRequest(str(step), latency=True)
                    if how == "time"
                    else WatchRequest(str(step), f"record > {bound}", must=how == "must")
                )
                for step, bound, how in watches
            ]
            assert list(job.records(source)) == expected
            segments.current_segment().finish()
            # Nothing is called earlier, later or more often.
            assert job.log == alone.log
            given = outputs_of(kinds, source)
            for (step, bound, how), file in zip(watches, files, strict=True):
                if how == "time":
                    assert timed_records(file) == (len(given[step - 1]), True)
                    continue
                wanted = [(m, p) for m, p in given[step] if (m > bound) is (how != "must")]
                assert reported(file) == Counter((repr(made), place) for made, place in wanted)
                reports = Reports(file.hits)
                list(reports.read())
                assert reports.sees_all
                assert how != "must" or reports.tested == len(given[step])
            for file in files:
                file.close()


def timed_records(watching: WatchingFile) -> tuple[int, bool]:
    """How many were timed, and whether that is all."""
    for path in watching.hits.glob("*.jsonl"):
        for line in map(json.loads, path.read_text().splitlines()):
            if "records" in line:
                return line["records"], line["is_whole"]
    return 0, True


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(st.sampled_from(["map", "foreach", "lazily"]), min_size=1, max_size=4),
    st.integers(1, 40),
    st.data(),
)
def test_conditions_that_come_and_go_count_for_whole_portions(
    kinds: list[str], count: int, data: st.DataObject
) -> None:
    step = data.draw(st.integers(1, len(kinds)))
    begin = data.draw(st.integers(0, count - 1))
    end = data.draw(st.integers(begin, count))
    kind = data.draw(st.sampled_from(["record >= 0", "time"]))
    request = (
        WatchRequest(str(step), latency=True)
        if kind == "time"
        else WatchRequest(str(step), kind)
    )  # fmt: skip
    with TemporaryDirectory() as name, closing(Job(Path(name), kinds)) as job:
        files: list[WatchingFile] = []

        def source() -> Iterator[int]:
            for record in range(count):
                if record == begin:
                    files.append(job.watch(request))
                if record == end:
                    files[0].close()
                yield record

        list(job.records(source()))
        segments.current_segment().finish()
        # A chain is made for a portion of records, and behind a step that makes many of one again.
        before = [n for n, kind in enumerate(kinds[: step - 1], 1) if kind == "lazily"]
        source_of_chain = before[-1] if before else 0
        given = outputs_of(kinds, range(count))
        if kind == "time":
            expected = watched_places(given[source_of_chain], begin, end)
            per_place = Counter(place for _, place in given[step - 1])
            of_chain = Counter(place for _, place in given[source_of_chain])
            each = {place: per_place[place] // of_chain[place] for place in of_chain}
            assert timed_records(files[0])[0] == sum(each[place] for place in expected)
        else:
            if kinds[step - 1] == "lazily":
                source_of_chain = step
            expected = watched_places(given[source_of_chain], begin, end)
            assert sorted(place for _, place in reported(files[0]).elements()) == sorted(
                place
                for place in expected
                for _ in range(
                    len([1 for _, p in given[step] if p == place])
                    // len([1 for _, p in given[source_of_chain] if p == place])
                )
            )
        files[0].close()


@settings(max_examples=settings().max_examples * 2 // 5)
@given(
    st.lists(st.sampled_from(["map", "foreach"]), min_size=2, max_size=4),
    st.integers(1, 40),
    st.integers(1, 60),
    st.booleans(),
)
def test_one_set_of_conditions_counts_for_all_operators_of_a_portion(
    kinds: list[str], count: int, look: int, is_end: bool
) -> None:
    with TemporaryDirectory() as name, closing(Job(Path(name), kinds)) as job:
        files: list[WatchingFile] = []

        def begin() -> None:
            files.extend(
                job.watch(WatchRequest(str(n + 1), "record >= 0")) for n in range(len(kinds))
            )

        def end() -> None:
            for file in files:
                file.close()

        if is_end:
            begin()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(watch_conditions, "time", Changing(look, end if is_end else begin))
            list(job.records(range(count)))
        segments.current_segment().finish()
        places = {tuple(sorted(place for _, place in reported(file).elements())) for file in files}
        assert len(places) <= 1
        end()


def test_a_task_that_was_not_timed_for_a_while_is_not_whole(tmp_path: Path) -> None:
    def source() -> Iterator[int]:
        yield from range(4)
        # As where the folder can't be read for a look.
        conditions.rename(aside)
        yield from range(4)
        aside.rename(conditions)
        yield from range(40)

    with closing(Job(tmp_path, ["map"])) as job:
        conditions, aside = job.watched.folder / "conditions", job.watched.folder / "aside"
        timed = job.watch(WatchRequest("1", latency=True))
        list(job.records(source()))
        segments.current_segment().finish()
        records, is_whole = timed_records(timed)
        assert 0 < records < 48
        assert not is_whole
        timed.close()


def watched_places(taken: list[tuple[int, int]], begin: int, end: int) -> list[int]:
    """The places of those of a chain's records that are in portions which began while a watch counted."""
    places, first, size = [], 0, 1
    while first < len(taken):
        portion = taken[first : first + size]
        # Its first record has been taken from the source by then.
        if begin <= portion[0][1] < end:
            places += [place for _, place in portion]
        first, size = first + size, min(2 * size, portions.PORTION_MAX)
    return places


def test_who_watches_is_looked_for_among_the_many_that_one_record_makes(tmp_path: Path) -> None:
    def many(record: int) -> Iterator[int]:
        for number in range(10_000):
            if number == 5_000:
                watching.append(job.watch(WatchRequest("1", "record >= 0")))
            yield number

    watching: list[WatchingFile] = []
    with closing(Job(tmp_path, [])) as job:
        facts = WatchableNode("1", "flatMap", "", "")
        watched = WatchedOperator(
            str(job.watched.folder), facts, ValueTexts(ReprEncoder(9), None, 9)
        )
        step = Detail("1", watched=watched).wrap_step(FlatMap(many))
        config = TaskConfig("app", str(tmp_path), Markers(), 8 << 20, False)  # type: ignore[arg-type]
        records = Chain(ReadRecords(config, "0", "0"), step)(0, iter([0]))
        assert len(list(records)) == 10_000
        segments.current_segment().finish()
        found = sorted(int(text) for text, _ in reported(watching[0]).elements())
        assert found == list(range(found[0], 10_000))
        assert 5_000 < found[0] <= 5_000 + portions.PORTION_MAX
        watching[0].close()


def test_records_that_others_take_in_a_thread_are_tested_and_not_timed(tmp_path: Path) -> None:
    with closing(Job(tmp_path, ["map", "lists"])) as job:
        conditions = [job.watch(WatchRequest(str(n), "record > 2")) for n in (1, 2)]
        times = [job.watch(WatchRequest(str(n), latency=True)) for n in (1, 2)]
        records, taken = job.records([1, 2, 3]), list[int]()
        thread = threading.Thread(target=lambda: taken.extend(records))
        thread.start()
        thread.join()
        segments.current_segment().finish()
        given = outputs_of(["map", "lists"], [1, 2, 3])
        assert taken == [record for record, _ in given[2]]
        for made, file in zip(given[1:], conditions, strict=True):
            assert reported(file) == Counter((repr(r), place) for r, place in made if r > 2)
        for file in times:
            reports = Reports(file.hits)
            assert any("thread of its own" in str(found) for found in reports.read())
            assert not reports.sees_all
        for file in conditions + times:
            file.close()


def test_records_that_nobody_takes_are_not_computed(tmp_path: Path) -> None:
    kinds = ["map", "lists", "map"]
    with closing(Job(tmp_path, kinds)) as job:
        watching = [job.watch(WatchRequest(str(n), "record >= 0")) for n in (1, 2, 3)]
        timed = job.watch(WatchRequest("3", latency=True))
        assert list(islice(job.records([1, 2, 3]), 3)) == [r for r, _ in outputs_of(kinds, [1, 2, 3])[3]][:3]  # fmt: skip
        segments.current_segment().finish()
        assert [len(list(reported(file).elements())) for file in watching] == [2, 3, 3]
        assert timed_records(timed) == (3, False)
        for file in (*watching, timed):
            file.close()
