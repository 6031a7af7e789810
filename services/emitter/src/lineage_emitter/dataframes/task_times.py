"""How long the tasks of actions on DataFrames take, for who watches the job.

Spark measures each task itself and says so when it ends (``TaskTimes.java``); it does not say how long an operator takes, as generated code runs several of them in one
loop. What a task read of files is known when its statement has ended. How long calls of Python functions took comes from the workers (`lineage_emitter.worker.timed_function`).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from pyspark.serializers import CPickleSerializer

from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.types import quoted
from lineage_emitter.worker.commits import MarkerParam
from lineage_emitter.worker.watch_hits import Hits
from lineage_query.rows.places import split_name
from lineage_store.watch_folder import HITS, WatchableNode, WatchRequest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

TIMES_CLASS = "lineage.TaskTimes"
MORE_TASKS = "more tasks have ended than were counted"


class TaskTimes:
    r"""Of one application, for one thread.

    Args:
        sc: the SparkContext.
        folder: by which the job is watched.
        action_property: of jobs, says of which action they are: its name, and behind ``\u0001`` its line of the program.
        operators: gives the operators of an action that can be watched.
    """

    def __init__(
        self,
        sc: SparkContext,
        folder: Path,
        action_property: str,
        operators: Callable[[str], Sequence[WatchableNode]],
    ) -> None:
        self._folder = folder
        self._operators = operators
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self._reports = sc.accumulator([], MarkerParam(self._queue))
        self._java: Any = compiled(TIMES_CLASS).of(action_property)
        java: Any = sc._jsc
        self._java.begin(java.sc())
        self._is_wanted = False

    def want(self, requests: Mapping[str, WatchRequest]) -> None:
        """Take the time of tasks, where somebody watches it."""
        if not self._is_wanted and any(request.latency for request in requests.values()):
            self._java.want(True)
            self._is_wanted = True

    @property
    def reports(self) -> bytes:
        """The pickled accumulator that workers report to."""
        return bytes(CPickleSerializer().dumps(self._reports))

    def publish(self, requests: Mapping[str, WatchRequest]) -> None:
        """Write what has come since the last call for those who watch now (by the name of their condition)."""
        latencies = {name: request for name, request in requests.items() if request.latency}
        if self._is_wanted or latencies:
            if self._is_wanted != bool(latencies):
                self._is_wanted = bool(latencies)
                self._java.want(self._is_wanted)
            self._publish_tasks(latencies)
        self._publish_calls(requests)

    def _publish_tasks(self, latencies: Mapping[str, WatchRequest]) -> None:
        *lines, lost = str(self._java.taken()).split("\n")
        fitting: dict[str, list[str]] = {}
        for task in map(json.loads, lines):
            action, _, site = task["action"].partition("\u0001")
            if action not in fitting:
                fitting[action] = [*self._fitting(latencies, action, site)]
            facts, document = _written(task, site)
            for name in fitting[action]:
                self._write(name, facts, [document])
        for name in latencies if lost not in {"", "0"} else ():
            self._write(
                name, {"node": "", "label": "tasks", "partition": 0}, [{"problem": MORE_TASKS}]
            )

    def _fitting(
        self, latencies: Mapping[str, WatchRequest], action: str, site: str
    ) -> Iterator[str]:
        """Who watches an action, or an operator of it: all its tasks are told, as generated code has several operators in each."""
        operators = self._operators(action)
        for name, request in latencies.items():
            if request.node == site or any(map(request.fits, operators)):
                yield name

    def _publish_calls(self, requests: Mapping[str, WatchRequest]) -> None:
        while True:
            try:
                report = self._queue.get_nowait()
            except Empty:
                return
            # The workers run code of the user: what they send may be anything.
            with suppress(KeyError, TypeError):
                if report["watch"] in requests:
                    self._write(report["watch"], report["place"], report["lines"])

    def _write(self, name: str, facts: dict[str, Any], documents: Sequence[dict[str, Any]]) -> None:
        hits = Hits(str(self._folder / HITS / name / f"{uuid.uuid4().hex}.jsonl"), facts, 0)
        for document in documents:
            hits.write(document)
        hits.close()

    def close(self, requests: Mapping[str, WatchRequest]) -> None:
        """The application ends: write what has come for those who watch until now."""
        self._java.end()
        self.publish(requests)


def _keys(names: Sequence[str], partitions: int, first: int, last: int) -> str:
    """Which rows of a shuffle, as a condition in SQL on the columns that it hashes."""
    columns = ", ".join(name if name.isidentifier() else quoted(name) for name in names)
    partition = f"pmod(hash({columns}), {partitions})"
    read = f"= {first}" if first == last else f"BETWEEN {first} AND {last}"
    return f"rows with {partition} {read}"


def _written(task: dict[str, Any], site: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The facts and the line of a task, or of what it read."""
    stage = f"stage {task['stage']}"
    does = f" ({task['does']})" if task["does"] else ""
    facts = {"node": stage, "label": f"{stage}{does} of {site}", "partition": task["partition"]}
    if "seconds" in task:
        return facts, {"records": task["records"], "seconds": task["seconds"], "is_whole": True}
    reads = [split_name(*part) for part in task["parts"]]
    reads += dict.fromkeys(_keys(*keys) for keys in task["keys"])
    if task["more"]:
        reads.append(f"{task['more']:,} more parts of files")
    return facts, {"reads": reads}
