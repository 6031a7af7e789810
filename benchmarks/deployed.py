"""A captured job through the pipeline that is there: LINEAGE_KAFKA takes it, LINEAGE_STORE has it then.

Plain runs and runs through that pipeline take turns. What its servers use is not seen from here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.intervals import median_interval
from benchmarks.pairs import KAFKA, Run, RunError, Setup, comparison_row, run_once, run_pairs
from benchmarks.pipeline import Pass, what_is_stored
from benchmarks.stack import POLL_S, QUERYABLE_LIMIT_S, complete
from lineage_store.port import GraphStore
from lineage_store.url import open_store

NEEDED = ("LINEAGE_KAFKA", "LINEAGE_STORE")


def deployed_row(setup: Setup, pairs: int) -> dict[str, Any]:
    """Pairs of plain runs and runs through the pipeline that the environment names.

    Raises:
        RunError: settings are missing, a run failed, or its lineage never became complete.
    """
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        raise RunError(f"{' and '.join(missing)} must say where the pipeline is")
    # Runs are measured without settings of the outside, but for where lineage goes.
    settings = {name: value for name, value in os.environ.items() if name.startswith("LINEAGE_")}
    settings["LINEAGE_DISPATCHER"] = "kafka"
    passes: list[Pass] = []

    def right(number: int) -> Run:
        passes.append(_through(setup, number, settings))
        return passes[-1].run

    plain, captured = run_pairs(setup, pairs, right)
    last_pass = passes[-1]
    with open_store(settings["LINEAGE_STORE"]) as store:
        stored = what_is_stored(setup, store, last_pass.run, last_pass.app, last_pass.verdict)
    return {
        **comparison_row(plain, captured),
        "apps": [run.app for run in passes],
        "queryable_s": median_interval([run.queryable_s for run in passes]),
        **stored,
    }


def _through(setup: Setup, number: int, settings: Mapping[str, str]) -> Pass:
    run = run_once(setup, KAFKA, number, settings)
    with open_store(settings["LINEAGE_STORE"]) as store:
        app = arrived(store, run)
        return Pass(run, app, *complete(store, app))


def arrived(store: GraphStore, run: Run) -> str:
    """Wait until the store knows of a run's application; its id.

    Raises:
        RunError: it never came.
    """
    # Spark names the log of its events after the application, and capture makes that name unique.
    (log,) = (path for path in (run.home / "events").iterdir() if not path.name.startswith("."))
    deadline = time.monotonic() + QUERYABLE_LIMIT_S
    while time.monotonic() < deadline:
        for app in store.application_ids():
            if app == log.name or app.startswith(f"{log.name}-"):
                return app
        time.sleep(POLL_S)
    raise RunError(
        f"nothing of {log.name} came to the store: do linkers and writers read this Kafka?"
    )
