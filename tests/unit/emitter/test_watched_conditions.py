"""What is reported of conditions that records fulfil, or must fulfil: what a filter finds, and how many were tested."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract import record_conditions
from lineage_core.contract.record_conditions import (
    RecordConditionError,
    read_condition,
)
from lineage_core.tracing.trace_result import TraceError
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker import watch_conditions
from lineage_emitter.worker.by_record import pass_through
from lineage_emitter.worker.detail import Detail
from lineage_emitter.worker.operators import Chain, ReadRecords
from lineage_emitter.worker.task_config import TaskConfig
from lineage_emitter.worker.values import ReprEncoder, ValueTexts
from lineage_emitter.worker.watched_run import WatchedOperator
from lineage_query.watching.reports import Reports
from lineage_query.watching.requests import DurationError, duration_s, requested_watch
from lineage_store.watch_folder import (
    WatchableNode,
    WatchedJob,
    WatchingFile,
    WatchRequest,
    read_request,
)

pytestmark = pytest.mark.unit

RECORDS = st.lists(
    st.one_of(st.integers(-2, 9), st.tuples(st.integers(-2, 9)), st.none(), st.just("text")),
    max_size=20,
)
CONDITIONS = st.sampled_from(
    ["record > 4", "record[0] > 4", "record is None or record != 3", "len(record) == 1"]
)


class Markers:
    def add(self, markers: list[Any]) -> None:
        pass


def reports(folder: Path, request: WatchRequest, records: list[Any], *, step: bool) -> Reports:
    """What one run of an operator reports of its records."""
    job = WatchedJob(folder, "app")
    watching = WatchingFile(job.folder, "00000001", request)
    texts = ValueTexts(ReprEncoder(100), None, 100)
    detail = Detail(
        "1", watched=WatchedOperator(str(job.folder), WatchableNode("1", "", "", ""), texts)
    )
    config = TaskConfig("app", str(folder), Markers(), 8 << 20, False)  # type: ignore[arg-type]
    read = ReadRecords(config, "1", "1")
    chain = Chain(read, detail.wrap_step(pass_through)) if step else detail.observe(read)
    assert list(chain(0, iter(records))) == records
    segments.current_segment().finish()
    found = Reports(watching.hits)
    list(found.read())
    watching.close()
    job.close()
    return found


@given(RECORDS, CONDITIONS, st.booleans())
def test_what_is_reported_is_what_a_filter_finds(
    records: list[Any], condition: str, must: bool
) -> None:
    request = WatchRequest("1", condition, must=must)
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch_conditions, "_conditions", None)
        found = reports(Path(name), request, records, step=True)
    verdicts = [
        record_conditions.test_record(read_condition(condition), record) for record in records
    ]
    # What the condition fails on does not fulfil it.
    wanted = {"no", "failed"} if must else {"yes"}
    expected = [repr(r) for r, verdict in zip(records, verdicts, strict=True) if verdict in wanted]
    assert Counter(report.text for report in found.reports) == Counter(expected)
    assert found.count == len(expected)
    assert not must or found.tested == len(records)
    assert found.sees_all


def test_what_is_not_reported_is_counted(tmp_path: Path) -> None:
    request = WatchRequest("1", "record > 10", 3, must=True)
    found = reports(tmp_path, request, [1, 2, 30, 4, 5], step=True)
    assert [report.text for report in found.reports] == ["1", "2", "4"]
    assert (found.count, found.tested) == (4, 5)


def test_records_of_no_function_are_not_timed_and_that_is_said(tmp_path: Path) -> None:
    found = reports(tmp_path, WatchRequest("1", slower_than_s=0.001), [1], step=False)
    assert not found.reports
    assert not found.sees_all


def test_what_is_asked_for_is_read(tmp_path: Path) -> None:
    assert requested_watch("map", "record > 1", "", "", 5) == WatchRequest("map", "record > 1", 5)
    must = WatchRequest("map", "record > 1", 5, must=True)
    assert requested_watch("map", "", "record > 1", "", 5) == must
    slow = WatchRequest("map", "", 5, slower_than_s=0.25)
    assert requested_watch("map", "", "", "250ms", 5) == slow
    for request in (must, slow):
        (tmp_path / "conditions").mkdir(exist_ok=True)
        watching = WatchingFile(tmp_path, "00000001", request)
        assert read_request(watching.path) == request
        watching.close()
    for several in (("", "", ""), ("record > 1", "record > 2", ""), ("", "record > 1", "1s")):
        with pytest.raises(TraceError, match="give one of"):
            requested_watch("map", *several, 5)
    with pytest.raises(TraceError, match="NODE is empty"):
        requested_watch("", "", "record > 1", "", 5)
    with pytest.raises(RecordConditionError):
        requested_watch("map", "", "__import__('os')", "", 5)


@pytest.mark.parametrize(
    ("text", "seconds"), [("200ms", 0.2), ("1.5s", 1.5), ("2min", 120.0), ("0s", None), ("2", None)]
)
def test_a_duration_is_read(text: str, seconds: float | None) -> None:
    if seconds is None:
        with pytest.raises(DurationError, match="200ms"):
            duration_s(text)
    else:
        assert duration_s(text) == seconds


@pytest.mark.parametrize(
    "change", [{"must": "yes"}, {"slower_than_s": "1"}, {"limit": None}, {"condition": 1}]
)
def test_a_request_of_a_wrong_form_counts_for_nothing(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    document = {"node": "1", "condition": "", "limit": 1, "must": False, "slower_than_s": None}
    path = tmp_path / "00000001.json"
    path.write_text(json.dumps(document))
    assert read_request(path) == WatchRequest("1", limit=1)
    path.write_text(json.dumps(document | change))
    assert read_request(path) is None
