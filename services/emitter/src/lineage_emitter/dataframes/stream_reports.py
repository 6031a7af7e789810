"""What Spark reports of micro-batches, and what follows for those that come later."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_emitter.dataframes.delta import Versions


@dataclass(frozen=True, slots=True)
class Progress:
    """What Spark reports of a batch that it has run.

    ``began_at``: in unix seconds. ``has_run``: whether tasks of it are known to have run, which a sink that has the batch
    already spares. ``has_input``: whether its streams gave anything.
    """

    number: int
    began_at: float
    has_run: bool
    has_input: bool
    watermark: str
    late: int

    @classmethod
    def of(cls, text: str) -> Progress:
        """Read a report."""
        report: Mapping[str, Any] = json.loads(text)
        states = report.get("stateOperators", ())
        return cls(
            number=int(report["batchId"]),
            began_at=datetime.fromisoformat(report["timestamp"].replace("Z", "+00:00")).timestamp(),
            has_run=any(
                int(count)
                for count in (
                    report.get("numInputRows", 0),
                    *(state.get("numStateStoreInstances", 0) for state in states),
                )
            ),
            has_input=any(
                source.get("startOffset") != source.get("endOffset")
                for source in report.get("sources", ())
            ),
            watermark=str(report.get("eventTime", {}).get("watermark", "")),
            late=sum(int(state.get("numRowsDroppedByWatermark", 0)) for state in states),
        )


@dataclass(slots=True)
class Known:
    """What is known of a run of a query when a batch is recorded.

    ``first``: the first batch; None: none was recorded. ``began``: it has run, and was not spared. ``counts_late``: groups lack rows that
    were dropped as late.
    ``writes``: a batch up to this one has run, so this run has planned all later ones. ``ran``: this one has; its sink may have spared others,
    which it has of an earlier run, or of another query that writes to the same place.
    ``run_problem``: why it is not known by which plan rows of earlier batches came into the state; empty: by this run's.
    ``late_problem``: why rows of earlier batches may lack in groups that are due, which were dropped as late; empty: none do.
    ``late_rows``: why any rows may have been dropped as late; empty: none were.
    ``versions``: what tables of Delta Lake had, by path, before the batch began.
    """

    first: int | None = None
    began: bool = False
    counts_late: bool = False
    writes: bool = False
    ran: bool = False
    run_problem: str = ""
    late_problem: str = ""
    late_rows: str = ""
    versions: Versions = field(default_factory=dict)

    def add(
        self, number: int, progress: Progress | None, *, is_first: bool, late_count: bool
    ) -> None:
        """A batch was run. ``late_count``: whether groups lack rows that were dropped as late."""
        self.ran = progress is not None and progress.has_run
        self.counts_late = late_count
        if is_first:
            self.first, self.began = number, self.ran
        self.writes = self.writes or self.ran
        self.run_problem = self.run_problem or self._of_run(number, progress, is_first)
        self.late_rows = self.late_rows or _of_late_rows(number, progress)
        if late_count:
            self.late_problem = self.late_rows

    def _of_run(self, number: int, progress: Progress | None, is_first: bool) -> str:
        if is_first and number:
            return f"rows of batches before {number}, which an earlier run of the query made"
        if not self.writes and (progress is None or progress.has_input):
            return f"rows of batch {number}, which an earlier run of the query may have made"
        return ""


def _of_late_rows(number: int, progress: Progress | None) -> str:
    if progress is None or (progress.has_input and not progress.has_run):
        return f"it is not known whether rows of batch {number} were dropped as late"
    return f"{progress.late} rows of batch {number} were dropped as late" if progress.late else ""
