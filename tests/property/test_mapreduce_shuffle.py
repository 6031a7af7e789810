"""Records of mappers and reducers that meet by key in their logs, a few at a time, against brute force over the same records."""

from __future__ import annotations

import json
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.sdk import mapreduce_logs, mapreduce_shuffle
from lineage_emitter.sdk.api import LineageApi
from lineage_emitter.sdk.mapreduce_adapter import (
    LEFT_REASON,
    MAP_REASON,
    NAMES_REASON,
    REDUCE_REASON,
    _Outputs,
)
from lineage_emitter.sdk.mapreduce_command import StreamingJob

pytestmark = pytest.mark.property

REDUCERS = 3
KEYS = ["", "a", "b", "{", "k\t2", "zz"]
Place = tuple[int, int]
"""A split and a line."""


@dataclass
class Frame:
    """What a mapper wrote at once: of each line, or of so many, the keys of the records."""

    kind: str
    line: int
    keys: list[list[str]]

    def records(self) -> Iterator[tuple[str, list[int]]]:
        """The key of each record, and the lines that it was made from."""
        for number, keys in enumerate(self.keys):
            lines = {"l": [self.line + number], "~": list(range(self.line + 1)), "-": []}
            yield from ((key, lines[self.kind]) for key in keys)


keys = st.lists(st.sampled_from(KEYS), max_size=4)
frames = st.one_of(
    st.builds(Frame, st.just("l"), st.integers(0, 5), st.lists(keys, min_size=1, max_size=4)),
    st.builds(Frame, st.sampled_from("l-"), st.just(0), keys.map(lambda one: [one])),
    st.builds(Frame, st.just("~"), st.integers(0, 5), keys.map(lambda one: [one])),
)
exact_frames = st.builds(
    Frame, st.just("l"), st.integers(0, 5), st.lists(keys, min_size=1, max_size=4)
)
mappers = st.lists(
    st.one_of(st.lists(exact_frames, max_size=3), st.lists(frames, max_size=3)),
    min_size=1,
    max_size=3,
)


class Task:
    """Pairs inputs and outputs as their definition says."""

    def __init__(self, made: dict[int, set[Place]]) -> None:
        self.made, self.superset_reason = made, ""
        self.open = defaultdict[int, set[Place]](set)

    def add_inputs(self, space: Any, first: Any, *, last: Any, tags: Any) -> None:
        for of, low, high, tag in zip(space.of_item, first, last, tags, strict=True):
            split = int(space.names[of].rpartition("#")[2])
            self.open[int(tag)] |= {(split, line) for line in range(int(low), int(high) + 1)}

    def add_outputs(self, space: str, rows: Any, *, tags: Any, reset: bool) -> None:
        for row, tag in zip(rows.tolist(), tags.tolist(), strict=True):
            assert row not in self.made
            self.made[row] = set(self.open[tag])
        for tag in set(tags.tolist()) if reset else ():
            del self.open[tag]

    def end_capture(self, problem: Exception) -> None:
        raise problem


@dataclass
class Api:
    """What the adapter says of a job."""

    app: str = "job"
    made: dict[int, dict[int, set[Place]]] = field(default_factory=dict)
    reasons: dict[int, set[str]] = field(default_factory=dict)

    def register(self, node: str, **_: Any) -> str:
        return node

    def flow_link(self, src: str, dest: str) -> None:
        pass

    def send_files(self, message: object) -> None:
        pass

    @contextmanager
    def task(self, _node: str, partition: int) -> Iterator[Task]:
        task = Task(self.made.setdefault(partition, {}))
        yield task
        self.reasons[partition] = set(filter(None, task.superset_reason.split("; ")))


def reducer_of(key: str) -> int:
    return crc32(key.encode()) % REDUCERS


def write_log(folder: Path, name: str, events: list[str], **end: Any) -> None:
    fields: dict[str, Any] = {
        "attempt": "1",
        "split": None,
        "is_changed": False,
        "is_superset": False,
        "is_sorted": True,
        "given": {},
    }
    lines = [*events, json.dumps(fields | end)]
    (folder / f"_lineage-{name}").write_text("\n".join(lines))


def kept(folder: Path, *, named_keys: bool) -> Api:
    api = Api()
    job = StreamingJob(("hadoop",), "in", str(folder))
    _Outputs(cast("LineageApi", api), job, named_keys=named_keys).keep()
    return api


def write_mappers(folder: Path, written: list[list[Frame]], *, is_of_output: bool) -> None:
    split = {"path": "file:/in", "start": 0, "length": 1, "file_size": 1, "mtime": 1.0}
    for number, of_mapper in enumerate(written):
        events = list[str]()
        for frame in of_mapper:
            counts = ",".join(str(len(of_line)) for of_line in frame.keys)
            events.append(f"{frame.kind}\t{frame.line}\t{counts}")
            events += [] if is_of_output else [key for keys in frame.keys for key in keys]
        write_log(
            folder,
            f"m-{number:05}",
            events,
            rows=sum(len(of_line) for frame in of_mapper for of_line in frame.keys),
            split=split,
            is_of_output=is_of_output,
            is_superset=any(f.kind == "~" and any(f.keys) for f in of_mapper),
        )


@pytest.fixture(autouse=True, scope="module")
def few_at_a_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mapreduce_shuffle, "RECORDS_JOINED", 3)
        patch.setattr(mapreduce_shuffle, "KEYS_JOINED", 3)
        patch.setattr(mapreduce_shuffle, "PARTS_OPEN", 4)
        patch.setattr(mapreduce_shuffle, "BYTES_IN_MEMORY", 24)
        patch.setattr(mapreduce_logs, "RECORDS_READ", 5)
        patch.setattr(mapreduce_logs, "BYTES_READ", 9)
        patch.setattr(mapreduce_logs, "END_BYTES", 7)
        yield


@given(written=mappers, named_keys=st.booleans(), data=st.data())
def test_rows_of_reducers(
    written: list[list[Frame]], named_keys: bool, data: st.DataObject
) -> None:
    records = [
        (number, key, lines)
        for number, of_mapper in enumerate(written)
        for frame in of_mapper
        for key, lines in frame.records()
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_mappers(folder, written, is_of_output=False)
        expected = dict[int, list[tuple[str, list[str]]]]()
        given_counts = dict[int, Counter[str]]()
        for number in range(REDUCERS):
            own = data.draw(st.permutations([r for r in records if reducer_of(r[1]) == number]))
            own = own[: data.draw(st.sampled_from([len(own), len(own), len(own) // 2]))]
            names = [] if data.draw(st.booleans()) else KEYS
            events, rows = list[str](), list[tuple[str, list[str]]]()
            for at, (_, key, _) in enumerate(own):
                events.append(f"i\t1\t{key}")
                if data.draw(st.booleans()):
                    row = data.draw(st.sampled_from([key, *names]))
                    rows.append((row, [key for _, key, _ in own[: at + 1]]))
                    events.append(f"o\t1\t{row}")
            expected[number] = rows
            given_counts[number] = Counter(key for _, key, _ in own)
            attempts = Counter(f"{mapper}.1" for mapper, _, _ in own)
            of_output = {"rows": len(rows), "given": attempts, "is_of_output": True}
            write_log(folder, f"r-{number:05}", events, **of_output)
            (folder / f"part-{number:05}").write_text("x\n" * len(rows))
        api = kept(folder, named_keys=named_keys)
    lines_of = defaultdict[str, set[Place]](set)
    for split, key, lines in records:
        lines_of[key] |= {(split, line) for line in lines}
    logged = Counter(key for _, key, _ in records)
    supersets = {
        (key, reducer_of(key))
        for mapper in written
        for frame in mapper
        if frame.kind == "~"
        for of_line in frame.keys
        for key in of_line
    }
    for number, rows in expected.items():
        given_of = given_counts[number]
        reasons = {MAP_REASON} if any(of == number for _, of in supersets) else set[str]()
        is_named = named_keys and all(key in given_of for key, _ in rows)
        if is_named:
            found = [lines_of[key] for key, _ in rows]
            reasons |= {LEFT_REASON for key, _ in rows if given_of[key] < logged[key]}
        else:
            found = [set().union(*(lines_of[key] for key in before)) for _, before in rows]
            reasons.add(NAMES_REASON if named_keys else REDUCE_REASON)
        assert api.made[number] == dict(enumerate(found))
        assert api.reasons[number] == (reasons if rows else set())


@given(written=mappers)
def test_rows_of_mappers(written: list[list[Frame]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_mappers(folder, written, is_of_output=True)
        expected = list[dict[int, set[Place]]]()
        for number, of_mapper in enumerate(written):
            rows = [lines for frame in of_mapper for _, lines in frame.records()]
            expected.append({at: {(number, n) for n in lines} for at, lines in enumerate(rows)})
            (folder / f"part-{number:05}").write_text("x\n" * len(rows))
        api = kept(folder, named_keys=False)
    assert [api.made[number] for number in range(len(written))] == expected
    for number, of_mapper in enumerate(written):
        is_superset = any(frame.kind == "~" and any(frame.keys) for frame in of_mapper)
        assert api.reasons[number] == ({MAP_REASON} if is_superset else set())
