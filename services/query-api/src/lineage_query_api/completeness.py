"""How complete the latest applications are, for Prometheus."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import structlog
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from lineage_core.contract.message import Begin
from lineage_core.contract.verdict import Verdict
from lineage_core.errors import LineageError
from lineage_query.finding import NotFoundError
from lineage_query_api.lineages import Lineages
from lineage_store.errors import DamagedError

SCRAPE_S = 2.0
"""Seconds of a scrape; verdicts for which it has no time keep their last value."""
NAME_MAX = 80
"""Characters of a program's name in a label."""
LABELS = ("app", "name")


@dataclass(frozen=True, slots=True)
class _Judged:
    """An application and its verdict. ``at``: the time of the verdict, by the collector's clock."""

    name: str
    started_at: float
    verdict: Verdict
    at: float


class Completeness(Collector):
    """Computes the verdicts of the ``latest`` applications at each scrape; that of a complete one is computed once.

    If the store does not respond, no values are exported, rather than old ones. ``clock``: monotonic,
    in seconds.
    """

    def __init__(
        self, lineages: Lineages, latest: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lineages = lineages
        self._latest = latest
        self._clock = clock
        self._judged: dict[str, _Judged] = {}
        self._at_work = threading.Lock()
        self._log = structlog.get_logger()

    def describe(self) -> Iterator[Metric]:
        """Names, without a query to the store: the registry needs them at registration."""
        return iter(_families({}))

    def collect(self) -> Iterator[Metric]:
        """Samples of the applications that are the latest now."""
        # Scrapes that Prometheus has abandoned do not queue here: they would take all threads.
        if self._at_work.acquire(blocking=False):
            try:
                self._judged = self._judge()
            except LineageError as error:
                self._log.warning("completeness_unknown", reason=str(error))
                self._judged = {}
            finally:
                self._at_work.release()
        return iter(_families(self._judged))

    def _judge(self) -> dict[str, _Judged]:
        apps = self._lineages.store.application_ids()[: self._latest]
        judged = {app: self._judged[app] for app in apps if app in self._judged}
        deadline = self._clock() + SCRAPE_S
        # Those first that were never judged, or longest ago: all have their turn.
        for app in sorted(
            apps, key=lambda candidate: judged[candidate].at if candidate in judged else -math.inf
        ):
            now = self._clock()
            if now > deadline:
                break
            # Else it was deleted just now.
            with suppress(NotFoundError, KeyError):
                judgement = self._judge_application(app, now, deadline - now)
                if judgement is not None:
                    judged[app] = judgement
        return judged

    def _judge_application(self, app: str, now: float, seconds: float) -> _Judged | None:
        """The current verdict of an application; None if it takes too long."""
        earlier = self._judged.get(app)
        verdict = self._lineages.verdict_within(app, seconds)
        if verdict is None:
            return None
        if earlier is not None and earlier.started_at:
            return _Judged(earlier.name, earlier.started_at, verdict, now)
        begins: list[Begin] = []
        # A damaged one has a verdict, and no name.
        with suppress(DamagedError):
            messages = self._lineages.store.messages(app, "begin")
            begins = [message for message in messages if isinstance(message, Begin)]
        # Its beginning may be on its way still.
        name, started_at = (begins[0].name, begins[0].started_at) if begins else ("", 0.0)
        return _Judged(name[:NAME_MAX], started_at, verdict, now)


def _families(judged: Mapping[str, _Judged]) -> list[Metric]:
    def family(
        name: str,
        documentation: str,
        value: Callable[[_Judged], float | Mapping[str, float]],
        *label: str,
    ) -> GaugeMetricFamily:
        gauge = GaugeMetricFamily(
            f"lineage_api_application_{name}", documentation, labels=(*LABELS, *label)
        )
        for app, application in judged.items():
            sample = value(application)
            if isinstance(sample, Mapping):
                for state, number in sample.items():
                    gauge.add_metric((app, application.name, state), number)
            else:
                gauge.add_metric((app, application.name), sample)
        return gauge

    return [
        family(
            "complete",
            "Whether all of its lineage is there.",
            lambda application: application.verdict.complete,
        ),
        family(
            "final",
            "Whether no more of it is on its way.",
            lambda application: application.verdict.final,
        ),
        family(
            "started_timestamp_seconds",
            "When it began, unix time.",
            lambda application: application.started_at,
        ),
        family("tasks", "Its tasks.", lambda application: _tasks(application.verdict), "state"),
        family(
            "blocks", "Its flow blocks.", lambda application: _blocks(application.verdict), "state"
        ),
        family(
            "flows", "Its flows that can be traced.", lambda application: application.verdict.flows
        ),
        family(
            "unmatched_positions",
            "Input positions that no block puts out.",
            lambda application: application.verdict.unmatched,
        ),
        family(
            "dead_letters",
            "Its dead letters.",
            lambda application: application.verdict.dead_letters,
        ),
    ]


def _tasks(verdict: Verdict) -> Mapping[str, float]:
    return {"expected": verdict.tasks_expected, "committed": verdict.tasks_committed}


def _blocks(verdict: Verdict) -> Mapping[str, float]:
    return {
        "expected": verdict.blocks_expected,
        "written": verdict.blocks_written,
        "linked": verdict.blocks_linked,
        "stubs": verdict.stubs,
    }
