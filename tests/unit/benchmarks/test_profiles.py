"""Samples of workers, and the guard's judgement."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks import guard
from benchmarks.profile import summary
from benchmarks.stacks import by_function, by_part, read_stacks

pytestmark = pytest.mark.unit

WORKER = (
    'process 7:"python -m daemon";main (/v/pyspark/daemon.py:40);main (/v/pyspark/worker.py:900)'
)
TEXT = f"""\
{WORKER};count (/v/lineage_emitter/combiner.py:12);<lambda> (/w/wordcount.py:9) 60
{WORKER};count (/v/lineage_emitter/combiner.py:12) 30
{WORKER};loads (/v/pyspark/serializers.py:5) 10
process 3:"python job.py";main (/w/wordcount.py:1) 50
"""


def test_time_goes_to_the_innermost_function_and_to_all_that_called_it() -> None:
    workers = [stack for stack in read_stacks(TEXT, "wordcount.py") if stack.is_worker]
    first, second, *_ = by_function(workers)
    assert (first.name, first.self_samples, first.all_samples) == (
        "<lambda> (wordcount.py)",
        60,
        60,
    )
    assert second.name == "count (lineage_emitter/combiner.py)"
    assert (second.self_samples, second.all_samples) == (30, 90)
    parts = {share.name: (share.self_samples, share.all_samples) for share in by_part(workers)}
    assert parts == {"the job": (60, 60), "lineage_emitter": (30, 90), "pyspark": (10, 100)}


def test_a_profile_says_shares_of_the_workers_time() -> None:
    workers = [stack for stack in read_stacks(TEXT, "wordcount.py") if stack.is_worker]
    text = summary("wordcount", "spool", workers)
    assert "| `the job` | 60.0% | 60.0% |" in text
    assert "| `count (lineage_emitter/combiner.py)` | 30.0% | 90.0% |" in text


def test_what_is_above_a_limit_is_said() -> None:
    row = {"jobs_ratio": {"median": 1.31}, "store_ratio": 0.2}
    assert guard.limits_exceeded(row) == ["jobs_ratio of word count is 1.31, above 1.3"]
    assert guard.limits_exceeded({"jobs_ratio": {"median": 1.3}, "store_ratio": 0.21}) == [
        "store_ratio of word count is 0.21, above 0.2"
    ]


@pytest.mark.parametrize(("ratios", "pairs"), [([0.9], 3), ([1.4, 1.1], 7), ([1.4, 1.5], 7)])
def test_what_is_outside_is_looked_at_again(
    ratios: Sequence[float], pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = iter(ratios)
    monkeypatch.setattr(guard, "run_pairs", lambda _, count: (["plain"] * count, ["spool"] * count))
    monkeypatch.setattr(
        guard,
        "_row",
        lambda _, plain, captured: {
            "pairs": len(captured),
            "jobs_ratio": {"median": next(told)},
            "store_ratio": 0.05,
        },
    )
    row = guard.measure_until_inside(None, (3, 4))  # type: ignore[arg-type]
    assert row["pairs"] == pairs
    assert bool(guard.limits_exceeded(row)) == (ratios[-1] > 1.3)
