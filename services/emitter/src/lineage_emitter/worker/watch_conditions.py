"""What a job is watched for: the conditions of its watch folder, as tasks read them again and again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lineage_core.contract.record_conditions import RecordConditionError, read_condition
from lineage_emitter.worker.portions import POLL_S
from lineage_store.watch_folder import WatchableNode, WatchRequest, held_conditions, read_request

REASON_CHARS_MAX = 500


@dataclass(slots=True)
class Watch:
    """A request that counts. ``test``: of records, unless these are timed. ``problem``: why they can't be tested."""

    name: str
    request: WatchRequest
    test: Callable[[Any], Any] | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class ConditionSet:
    """The conditions of a job that count at one time, by name. Where they come or go, there is another set."""

    watches: Mapping[str, Watch]

    def of(self, node: WatchableNode) -> list[Watch]:
        """Those on an operator."""
        return [watch for watch in self.watches.values() if watch.request.fits(node)]


class Conditions:
    """The conditions of a folder, to be read again where `POLL_S` have passed. One a process."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self._read_at = 0.0
        self.in_force = ConditionSet({})
        """As they were read last."""

    @property
    def are_due(self) -> bool:
        """Whether they are to be read again."""
        return time.monotonic() - self._read_at >= POLL_S

    def read(self) -> None:
        """Read them."""
        self._read_at = time.monotonic()
        before = self.in_force.watches
        watches: dict[str, Watch] = {}
        try:
            for path in held_conditions(self.folder):
                watch = before.get(path.stem) or _watch(path)
                if watch is not None:
                    watches[path.stem] = watch
        except OSError:
            # The folder goes with the job, or can't be seen from here.
            watches = {}
        if watches.keys() != before.keys():
            self.in_force = ConditionSet(watches)


def _watch(path: Path) -> Watch | None:
    try:
        request = read_request(path)
    except FileNotFoundError:
        return None
    if request is None:
        return None
    if request.is_timed:
        return Watch(path.stem, request)
    try:
        return Watch(path.stem, request, read_condition(request.condition))
    except RecordConditionError as problem:
        return Watch(path.stem, request, problem=str(problem)[:REASON_CHARS_MAX])


_conditions: Conditions | None = None


def conditions_of(folder: str) -> Conditions:
    """The conditions of a job, of which a worker process runs one at a time."""
    global _conditions  # noqa: PLW0603  one a process, as it is looked at by the clock
    if _conditions is None or str(_conditions.folder) != folder:
        _conditions = Conditions(folder)
    return _conditions
