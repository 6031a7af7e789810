"""What all processes together used until lineage could be asked for."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.intervals import median_interval
from benchmarks.meter import Usage
from benchmarks.pairs import Run

JOB = "job"


def totals_until_queryable(
    plain: Sequence[Run], captured: Sequence[Run], usages: Sequence[Usage] = ()
) -> dict[str, Any]:
    """Processor seconds and memory of every process.

    ``usages``: of the servers, where there are any, a run each. ``lineage_cpu_s``: seconds of all of
    them, less those of the plain job. ``cpu_s``: medians, by process; ``job`` is driver, JVM, daemon
    and workers together. ``peak_mb``: the largest process of each kind, at its highest in any run.
    """
    per_run = [
        {JOB: run.cpu_s, **(usages[at].cpu_s if usages else {})} for at, run in enumerate(captured)
    ]
    more = [sum(used.values()) - run.cpu_s for used, run in zip(per_run, plain, strict=True)]
    peaks = [*(run.peak_mb for run in captured), *(usage.peak_mb for usage in usages)]
    return {
        "lineage_cpu_s": median_interval(more),
        "cpu_s": {
            name: round(statistics.median(used[name] for used in per_run), 2) for name in per_run[0]
        },
        "peak_mb": {
            name: round(max(peak.get(name, 0.0) for peak in peaks), 1)
            for name in sorted({name for peak in peaks for name in peak})
        },
        "plain_peak_mb": {
            name: round(max(run.peak_mb.get(name, 0.0) for run in plain), 1)
            for name in sorted({name for run in plain for name in run.peak_mb})
        },
    }
