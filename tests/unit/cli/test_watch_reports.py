"""Reports of a condition: each record once, however many runs of its partition report it, in any order."""

from __future__ import annotations

import errno
import json
import os
import uuid
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.tracing.trace_result import TraceError
from lineage_emitter.worker.watch_hits import Hits
from lineage_query.watching.reports import LOST_RECORDS, Report, Reports
from lineage_query.watching.requests import counting_condition
from lineage_store.watch_folder import (
    CONDITIONS,
    CONDITIONS_MAX,
    HITS,
    WatchRequest,
    held_conditions,
)

pytestmark = pytest.mark.unit


def hit(text: str, runs: list[tuple[str, int, int]], partition: int = 0) -> bytes:
    document = {
        "node": "1",
        "label": "map (1)",
        "partition": partition,
        "text": text,
        "made_from": runs,
        "superset": False,
    }
    return json.dumps(document).encode() + b"\n"


RECORDS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=8)


@given(
    RECORDS,
    st.lists(st.integers(0, 8), max_size=3),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_a_record_is_reported_once_across_runs_that_end_early_and_read_in_another_order(
    records: list[tuple[str, int]], kills: list[int], random: object, behind_shuffle: bool
) -> None:
    with TemporaryDirectory() as name:
        folder, written = Path(name), []
        for attempt, stop in enumerate([*kills, len(records)]):
            order = records[:]
            random.shuffle(order)  # type: ignore[attr-defined]
            lines = []
            for text, row in order[:stop]:
                space = f"0#0.{attempt}" if behind_shuffle else "0#0"
                lines.append(hit(text, [(space, row, row)]))
            path = folder / f"{uuid.UUID(int=attempt + 1).hex}.jsonl"
            written.append((path, b"".join(lines)))
        random.shuffle(written)  # type: ignore[attr-defined]
        reports = Reports(folder)
        found = []
        for path, content in written:
            cut = len(content) // 2
            for part in (content[:cut], content[cut:]):
                with path.open("ab") as file:
                    file.write(part)
                found += [report for report in reports.read() if isinstance(report, Report)]
        assert Counter(report.text for report in found) == Counter(text for text, _ in records)
        # Rows of the complete run, each of them once.
        first = [reports.candidates(report)[0].made_from[0] for report in found]
        assert Counter(
            (r.text, row) for r, (_, row, _) in zip(found, first, strict=True)
        ) == Counter(records)


def test_what_tasks_wrote_may_be_anything(tmp_path: Path) -> None:
    good = hit("a", [("0#0", 1, 1)])
    damaged = [
        b"[]\n",
        b"{\n",
        b'{"label": 1}\n',
        hit("a", [("no space", 1, 1)]),
        b'"' + b"[" * 9000 + b"\n",
    ]
    (tmp_path / f"{uuid.UUID(int=1).hex}.jsonl").write_bytes(
        b"".join([*damaged, good, b'{"label"'])
    )
    (tmp_path / "other.jsonl").write_bytes(good)
    found = list(Reports(tmp_path).read())
    assert [report.text for report in found if isinstance(report, Report)] == ["a"]


def test_a_task_that_can_not_write_is_named_once(tmp_path: Path) -> None:
    (tmp_path / f"{uuid.UUID(int=1).hex}.jsonl").write_bytes(hit("a", [("0#0", 1, 1)]))
    (tmp_path / f"{uuid.UUID(int=1).hex}.lost").touch()
    reports = Reports(tmp_path)
    first = [getattr(found, "text", found) for found in reports.read()]
    assert first == ["a", LOST_RECORDS]
    assert list(reports.read()) == []
    assert not reports.sees_all


def test_a_condition_too_many_is_refused_and_displaces_none(tmp_path: Path) -> None:
    for part in (CONDITIONS, HITS):
        (tmp_path / part).mkdir()
    request = WatchRequest("1", "record > 1")
    counting = [counting_condition(tmp_path, request) for _ in range(CONDITIONS_MAX)]
    with pytest.raises(TraceError, match="16 conditions are watched for already"):
        counting_condition(tmp_path, request)
    assert held_conditions(tmp_path) == [one.path for one in counting]
    counting[3].close()
    counting.append(counting_condition(tmp_path, request))
    assert len(held_conditions(tmp_path)) == CONDITIONS_MAX
    for one in counting:
        one.close()


def test_a_full_disk_costs_reports_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"{uuid.UUID(int=1).hex}.jsonl"
    facts = {"node": "1", "label": "map (1)", "partition": 0}
    hits = Hits(str(path), facts, 10)
    hits.write({"text": "a", "made_from": [], "superset": False})

    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    hits.write({"text": "b", "made_from": [], "superset": False})
    monkeypatch.undo()
    hits.write({"text": "c", "made_from": [], "superset": False})
    hits.close()
    found = [getattr(one, "text", one) for one in Reports(tmp_path).read()]
    assert found == ["a", LOST_RECORDS]
