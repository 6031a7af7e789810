"""Facts that a captured program reports to the ``lineage run`` that started it, one line of JSON each.

So a run sums up its own applications, whatever else uses the store at the same time.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

NOTES_VARIABLE = "LINEAGE_RUN_NOTES"
"""Names the file; set by ``lineage run`` for its program alone."""
PLAN_VARIABLE = "LINEAGE_RERUN_PLAN"
"""Names the file of a :class:`lineage_store.rerun_plan.RerunPlan`; set by ``lineage replay`` for its program alone."""


@dataclass(frozen=True, slots=True)
class RunNotes:
    """``apps``: application -> its folder in the spool. ``uncaptured``: reasons why a SparkContext is not captured.

    ``kafka``: application -> where it sends to, of those that send to Kafka.
    """

    apps: dict[str, Path]
    uncaptured: tuple[str, ...]
    kafka: dict[str, str]


def note_application(app: str, folder: Path | str, kafka: str = "") -> None:
    """An application has begun; ``folder``: where its lineage waits in the spool.

    ``kafka``: where it sends to instead.
    """
    _note({"app": app, "folder": str(folder), "kafka": kafka})


def note_uncaptured(reason: str) -> None:
    """A SparkContext was started and is not captured."""
    _note({"uncaptured": reason})


def _note(fact: dict[str, str]) -> None:
    path = os.environ.get(NOTES_VARIABLE, "")
    # Only the summary needs it: no program fails for it.
    with contextlib.suppress(OSError):
        if path:
            with open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(fact) + "\n")


def read_notes(path: Path) -> RunNotes:
    """All reported facts; an incomplete line is left out."""
    apps: dict[str, Path] = {}
    kafka: dict[str, str] = {}
    reasons: dict[str, None] = {}
    with contextlib.suppress(OSError):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                fact = json.loads(line)
                if "uncaptured" in fact:
                    reasons[fact["uncaptured"]] = None
                else:
                    apps[fact["app"]] = Path(fact["folder"])
                    if fact.get("kafka"):
                        kafka[fact["app"]] = fact["kafka"]
    return RunNotes(apps, tuple(reasons), kafka)
