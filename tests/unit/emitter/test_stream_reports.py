"""What follows from Spark's reports of micro-batches."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.dataframes import stream_reports
from lineage_emitter.dataframes.stream_reports import ROUNDING_MS, Known, LatestTimes, Progress


def progress(**changes: Any) -> Progress:
    report = {
        "batchId": 3,
        "timestamp": "2026-11-28T15:00:00.250Z",
        "numInputRows": 5,
        "durationMs": {"addBatch": 12},
        "eventTime": {"watermark": "2026-11-28T14:00:00.000Z"},
        "stateOperators": [{"numRowsDroppedByWatermark": 1}, {"numRowsDroppedByWatermark": 2}],
        "sources": [{"startOffset": {"logOffset": 1}, "endOffset": {"logOffset": 2}}],
    }
    return Progress.of(json.dumps(report | changes))


def test_a_report_is_read() -> None:
    read = progress()
    assert (read.number, read.has_run, read.late, read.has_input) == (3, True, 3, True)
    assert (read.began_at, read.watermark) == (1795878000.25, "2026-11-28T14:00:00.000Z")
    assert not progress(
        sources=[{"startOffset": {"logOffset": 2}, "endOffset": {"logOffset": 2}}]
    ).has_input


def test_it_is_known_when_a_batch_had_been_given_to_its_sink() -> None:
    """Two queries that write to one folder may begin their batches at once: what is there by then is not this one's."""
    durations = {"triggerExecution": 400, "addBatch": 150, "commitOffsets": 30, "walCommit": 40}
    assert progress(durationMs=durations).given_ms == 1795878000250 + 220 + ROUNDING_MS
    assert progress(durationMs={"addBatch": 150}).given_ms == 1795878000250


@pytest.mark.parametrize(
    ("first", "reported", "expected"),
    [
        (0, progress(), ""),
        # A batch without input makes no state.
        (0, progress(numInputRows=0, sources=[]), ""),
        # Nothing was in the files; the state was looked at.
        (0, progress(numInputRows=0, stateOperators=[{"numStateStoreInstances": 1}]), ""),
        # The sink may have left it alone, so that it did not run.
        (
            0,
            progress(numInputRows=0),
            "rows of batch 0, which an earlier run of the query may have made",
        ),
        (0, None, "rows of batch 0, which an earlier run of the query may have made"),
        (3, progress(), "rows of batches before 3, which an earlier run of the query made"),
    ],
)
def test_state_is_known_where_this_run_has_made_all_of_it(
    first: int, reported: Progress | None, expected: str
) -> None:
    known = Known()
    known.add(first, reported, is_first=True, late_count=False)
    assert known.run_problem == expected
    # What is not known stays so.
    known.add(first + 1, progress(), is_first=False, late_count=False)
    assert (known.run_problem, known.writes) == (expected, True)


def test_a_batch_that_the_sink_has_spared_did_not_run() -> None:
    """Another query may write to the same place: then its sink has batches that this query has not run."""
    known, found = Known(), []
    for number, report in enumerate((progress(), progress(numInputRows=0), None, progress())):
        known.add(number, report, is_first=not number, late_count=False)
        found.append((known.writes, known.ran))
    assert found == [(True, True), (True, False), (True, False), (True, True)]


def test_late_rows_count_where_groups_lack_them() -> None:
    known = Known()
    known.add(0, progress(), is_first=True, late_count=False)
    late = "3 rows of batch 0 were dropped as late"
    assert (known.late_rows, known.late_problem) == (late, "")
    known = Known()
    known.add(0, progress(), is_first=True, late_count=True)
    known.add(1, progress(), is_first=False, late_count=True)
    assert (known.run_problem, known.late_problem) == ("", late)
    # A sink that spares a batch has Spark count none of its rows.
    known = Known()
    known.add(0, progress(numInputRows=0), is_first=True, late_count=False)
    assert known.late_rows == "it is not known whether rows of batch 0 were dropped as late"


def of_times(latest_us: int | None) -> Progress:
    """The report of a batch whose latest row is of a time, as Spark writes it; None: it has no rows."""
    if latest_us is None:
        return progress(sources=[])
    at = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=latest_us // 1000)
    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return progress(eventTime={"watermark": "2026-11-28T14:00:00.000Z", "max": text})


@given(
    st.lists(st.one_of(st.none(), st.integers(-10_000, 10_000)), max_size=30),
    st.lists(st.integers(-10_000, 12_000), min_size=1, max_size=5),
    st.sets(st.integers(0, 29)),
    st.sampled_from([4, 10_000]),
)
def test_batches_that_are_too_old_have_no_row_behind_a_time(
    times: list[int | None], asked: list[int], unreported: set[int], most: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_reports, "TIMES_MAX", most)
        latest = LatestTimes()
        for number, time in enumerate(times):
            latest.add(number, None if number in unreported else of_times(time))
        for since in sorted(asked):
            first = latest.first_behind(since)
            old = [time for time in times[:first] if time is not None]
            assert all(time <= since for time in old)
            assert not unreported & set(range(first))
            if most > len(times) and first < len(times):
                # No more than a millisecond is given away.
                time = times[first]
                assert first in unreported or (time is not None and time > since - 1000)
        assert latest.first_behind(min(asked) - 1) == 0


@pytest.mark.parametrize("text", ["1492-10-12T00:00:00.000Z", "+12026-01-01T00:00:00.000Z", ""])
def test_times_that_are_not_certain_say_nothing(text: str) -> None:
    times = LatestTimes()
    times.add(0, progress(eventTime={"max": text}))
    assert times.first_behind(1 << 62) == 0


def test_batches_that_were_not_seen_may_have_any_rows() -> None:
    times = LatestTimes()
    times.add(2, of_times(5))
    assert times.first_behind(1 << 62) == 0
