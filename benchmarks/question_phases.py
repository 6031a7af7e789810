"""Where the time of one question goes: python -m benchmarks.question_phases STORE back|forward PLACE.

Asks in this very process, with a Spark that it starts, and again in the Spark that is there then; prints one JSON
object: ``first``, ``second`` and ``again`` (the last of some), the seconds of each by phase. Time within a phase that
another one calls counts for the inner one alone.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import Any

import psutil

PHASES = {
    "lineage_dataframes.spark.own_spark.start_spark": "spark_start",
    "lineage_dataframes.spark.connected.stop_session": "spark_stop",
    "lineage_dataframes.trace.session.start_session": "views",
    "lineage_dataframes.sources.file_changes.check_unchanged": "checks_of_files",
    "lineage_dataframes.sources.file_changes.check_local": "checks_of_files",
    "lineage_dataframes.trace.session.run_query": "queries",
    "lineage_dataframes.trace.rows.values_at": "row_asked_for",
    "lineage_dataframes.trace.rows.find_in_output": "rows_in_output",
    "lineage_dataframes.sources.locations.row_locations": "line_numbers",
    "lineage_dataframes.sources.locations.ordinal_at_line": "line_numbers",
    "lineage_dataframes.trace.rows.texts_at": "texts",
}
"""Functions, and the phase that their time counts for."""
AGAIN = 4
"""Questions in a Spark that is there, until it is warm."""


class Clock:
    """Adds up seconds by phase, each for the innermost phase alone. Of the thread that made it."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._within: list[str] = ["other"]
        self._since = time.perf_counter()
        self._thread = threading.get_ident()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time of the body counts for ``name``."""
        if threading.get_ident() != self._thread:
            yield
            return
        self._count()
        self._within.append(name)
        try:
            yield
        finally:
            self._count()
            self._within.pop()

    def take(self) -> dict[str, float]:
        """What was added up until now; the clock begins anew."""
        self._count()
        phases = {name: round(seconds, 3) for name, seconds in sorted(self.seconds.items())}
        self.seconds.clear()
        return phases | {"all": round(sum(phases.values()), 3)}

    def _count(self) -> None:
        now = time.perf_counter()
        self.seconds[self._within[-1]] += now - self._since
        self._since = now


def time_phases(clock: Clock) -> None:
    """Have the functions of `PHASES` tell the clock, whichever module calls them."""
    for name, phase in PHASES.items():
        module, _, called = name.rpartition(".")
        function = getattr(import_module(module), called)
        timed = _timed(clock, phase, function)
        for loaded in list(sys.modules.values()):
            if getattr(loaded, "__name__", "").startswith(("lineage", "benchmarks")):
                for place, value in list(vars(loaded).items()):
                    if value is function:
                        setattr(loaded, place, timed)


def _timed(clock: Clock, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def called(*arguments: Any, **keywords: Any) -> Any:
        with clock.phase(phase):
            return function(*arguments, **keywords)

    return called


def main() -> int:
    """Command line entry."""
    store, direction, place = sys.argv[1:]
    from lineage.frame_traces import spark_session
    from lineage.options import opened
    from lineage.tracing import question_of

    clock = Clock()
    time_phases(clock)
    clock.take()
    clock.seconds["imports"] = time.time() - psutil.Process().create_time()
    query = question_of(
        direction, [place], "", None, step=False, to="", as_now=False, as_json=False
    )
    with opened(store) as access, spark_session():
        access.ask(query)
        first_phases = clock.take()
        later = []
        for _ in range(AGAIN):
            access.ask(query)
            later.append(clock.take())
    first_phases["spark_stop"] = clock.take()["all"]
    print(json.dumps({"first": first_phases, "second": later[0], "again": later[-1]}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
