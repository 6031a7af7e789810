"""A segment whose spool fails: the records go on, the end marker says what is missing."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

from lineage_emitter.dispatch.kafka import reserve_run
from lineage_emitter.dispatch.spool import TaskSpool
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.combiner import KeyFlows, LineageMerger
from lineage_emitter.worker.detail import Detail
from lineage_emitter.worker.operators import (
    AllIntoOne,
    Chain,
    Collect,
    OpaqueFunction,
    ReadRecords,
    SaveText,
)
from lineage_emitter.worker.recorders import FLOWS_MAX
from lineage_emitter.worker.segment import Numbering, Segment
from lineage_emitter.worker.task_config import TaskConfig

pytestmark = [pytest.mark.unit, pytest.mark.timeout(60)]

ROWS = 8 * FLOWS_MAX + 7


class Markers:
    """Stands in for the accumulator."""

    def __init__(self) -> None:
        self.value: list[dict[str, Any]] = []

    def add(self, markers: list[dict[str, Any]]) -> None:
        self.value += markers


def config(folder: Path, *, fail_job: bool = False) -> tuple[TaskConfig, Markers]:
    markers: Any = Markers()
    return TaskConfig("app", str(folder), markers, 8 << 20, fail_job), markers


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write to a spool file fails."""

    def push(spool: TaskSpool) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(TaskSpool, "push", push)


SINKS: dict[str, Any] = {
    "collect": Collect(Detail("2")),
    "save": SaveText("2"),
    "absorb": AllIntoOne("2"),
}


def scattered(split: int, records: Any) -> Iterator[int]:
    """Every other record: no run of consecutive ordinals is one cheap block."""
    return (record for record in records if record % 2)


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("folder", ["full", "missing"])
def test_records_go_on_when_blocks_can_not_be_written(
    sink: str, folder: str, tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    task, markers = config(tmp_path / folder)
    chain = Chain(Chain(ReadRecords(task, "1", "0"), scattered), SINKS[sink])
    assert sum(1 for _ in chain(0, iter(range(ROWS)))) == ROWS // 2
    (marker,) = markers.value
    assert marker["undelivered"] >= 1
    assert ("No space left" if folder == "full" else "No such file") in marker["failed"]
    assert marker["rows"] == (0 if sink == "absorb" else ROWS // 2)


@pytest.mark.usefixtures("full_disk")
def test_on_error_fail_ends_the_task(tmp_path: Path) -> None:
    task, markers = config(tmp_path, fail_job=True)
    chain = Chain(Chain(ReadRecords(task, "1", "0"), scattered), SINKS["collect"])
    with pytest.raises(CaptureFailedError, match="No space left"):
        list(chain(0, iter(range(ROWS))))
    assert markers.value == []


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("count", [10, pytest.param(150_000, marks=pytest.mark.long), 400_000])
def test_a_combiner_goes_on_in_bounded_memory(count: int, tmp_path: Path) -> None:
    task, _ = config(tmp_path)
    segment = Segment(task, "1", 0, 0)
    numbering = Numbering.of_space("0#0")
    flows = KeyFlows(segment, numbering, "2", 2, hash)
    combiners = (int, int.__add__, int.__add__)
    merger = LineageMerger(flows, combiners, 1000, AutoBatchedSerializer(CPickleSerializer()))

    # Keys are few at first, so that each has an array of its own.
    keys = [n % count if n > count else n % 10 for n in range(1_200_000)]
    held = 0

    def records() -> Iterator[tuple[int, int]]:
        nonlocal held
        for ordinal, key in enumerate(keys):
            numbering.cell[0] = ordinal
            if ordinal % 50_000 == 0:
                arrays = [entry[1] for entry in merger.entries.values()]
                held = max(held, len(merger.ordinals) + sum(map(len, arrays)))
            yield key, 1

    merger.mergeValues(records())
    assert dict(merger.items()) == Counter(keys)
    segment.finish()
    assert "No space left" in segment.failed
    assert held < 1_000_000


def test_a_failed_spool_file_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, markers = config(tmp_path)
    before = len(os.listdir("/proc/self/fd"))

    def fsync(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fsync)
    for split in range(5):
        list(Chain(ReadRecords(task, "1", "0"), SINKS["collect"])(split, iter(range(10))))
    assert len(os.listdir("/proc/self/fd")) == before
    assert all("Input/output error" in marker["failed"] for marker in markers.value)


def test_resolve_maps_ordinals_to_the_pieces_that_name_them() -> None:
    numbering = Numbering()
    numbering.add_range(0, "4#0.7", 0)
    numbering.add_range(3, "5#1.8", 100)
    numbering.add_range(3, "4#0.9", 0)  # an empty piece before: nothing was in it
    numbering.add_range(5, "4#0.7", 50)
    found = numbering.resolve(np.array([0, 2, 3, 4, 5, 9], dtype=np.uint64))
    assert [(space, rows.tolist(), positions.tolist()) for space, rows, positions in found] == [
        ("4#0.7", [0, 1, 4, 5], [0, 2, 50, 54]),
        ("4#0.9", [2, 3], [0, 1]),
    ]


def test_runs_of_a_segment_in_one_task_number_their_records_apart(tmp_path: Path) -> None:
    task, markers = config(tmp_path)
    for _ in range(40):
        list(Chain(ReadRecords(task, "1", "0"), SINKS["collect"])(0, iter("abc")))
    assert len({marker["attempt"] for marker in markers.value}) == 40
    assert len({marker["file"] for marker in markers.value}) == 40
    assert all((tmp_path / marker["file"]).exists() for marker in markers.value)
    # Positions of an exchange have no room for so many.
    segment = Segment(task, "1", 0, 0)
    segment.exchange_base()
    assert "more than 16 runs" in segment.failed


def test_runs_of_a_segment_that_sends_to_kafka_have_numbers_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    assert [reserve_run("app", "1-0-0") for _ in range(40)] == list(range(40))
    assert reserve_run("app", "1-0-1") == 0


def test_a_function_that_reads_in_a_thread_waits_for_flushes(tmp_path: Path) -> None:
    task, markers = config(tmp_path)
    in_lock = threading.Event()

    def read_ahead(split: int, records: Any) -> Iterator[int]:
        read: list[int] = []
        reader = threading.Thread(target=lambda: read.extend(records))
        with segments.current_segment().lock:
            reader.start()
            reader.join(timeout=0.2)
            assert read == []
            in_lock.set()
        reader.join()
        yield from read

    chain = Chain(Chain(ReadRecords(task, "1", "0"), OpaqueFunction(read_ahead)), SINKS["collect"])
    assert list(chain(0, iter(range(100)))) == list(range(100))
    assert in_lock.is_set()
    assert [marker["failed"] for marker in markers.value] == [""]


def test_a_captured_function_outside_of_a_segment_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_current", None)
    with pytest.raises(CaptureFailedError, match="no segment has begun"):
        SINKS["collect"](0, iter([]))
