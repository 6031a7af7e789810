"""A Python function of a DataFrame whose calls can be timed while the job runs.

``TimedFunctions.java`` writes a call of :func:`timed` as the code of the function, with the program's own code in it. A call of the function is a call of that: values
and errors pass as they are. Who watches is looked for between calls, about every `POLL_S`. Slow calls are reported at once; how long a task's calls
took together comes with the accumulators of the task, when it has ended.
"""

from __future__ import annotations

import datetime
import decimal
import json
import math
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer

from lineage_emitter.worker.guarded_function import UNNAMED, internal_text, loaded_chain
from lineage_emitter.worker.latency import Tally
from lineage_emitter.worker.portions import next_portion
from lineage_emitter.worker.values import CUT, ReprEncoder
from lineage_emitter.worker.watch_conditions import Watch, conditions_of
from lineage_emitter.worker.watch_hits import Hits
from lineage_store.watch_folder import HITS, WatchableNode

Lines: TypeAlias = Callable[[], list[dict[str, Any]]]
PLACE_MAX = 2_000
"""Characters of the values that name the rows of a call."""
NOT_TESTED = "calls of a Python function are watched for their time alone: --slower-than, --latency"
IN_THREADS = "calls can't be timed here: they come in several threads"
FIXED = (
    bool,
    int,
    float,
    str,
    bytes,
    decimal.Decimal,
    datetime.date,
    datetime.timedelta,
    type(None),
)
"""Types of values that no function can change."""
AS_LEFT = ", as the call left them"
AMBIGUOUS = "NULL and NaN may reach the function as the same value"


def timed(facts: str, reports: bytes, code: bytes) -> tuple[Callable[..., Any], Any]:
    """What a worker of Spark runs for a function, and its type.

    Args:
        facts: JSON of `Facts`.
        reports: the pickled accumulator for the time of a task's calls.
        code: of the function and its type, as PySpark pickled it.
    """
    (function,), returns, _ = loaded_chain(("", "", code))
    calls = Calls(Facts.of(json.loads(facts)), CPickleSerializer().loads(reports))
    return TimedFunction(function, calls), returns


@dataclass(frozen=True, slots=True)
class Facts:
    """A function of a plan.

    Args:
        folder: by which the job is watched.
        node: what is watched.
        texts: whether values may be shown, up to ``characters_max`` of a call.
        of_rows: it is called for each row; else for batches of them.
        names, types: of its arguments, as a trace of its calls has them.
        unnamed: why there is no such trace; empty: there is one.
        by_arrow: its arguments come by Arrow.
    """

    folder: str
    node: WatchableNode
    texts: bool
    characters_max: int
    of_rows: bool
    names: Sequence[str]
    types: Sequence[str]
    unnamed: str
    by_arrow: bool

    @classmethod
    def of(cls, document: dict[str, Any]) -> Facts:
        """As ``TimedFunctions.java`` writes them."""
        return cls(**document | {"node": WatchableNode(*document["node"])})


class TimedFunction:
    """``function``, which is called as it is."""

    def __init__(self, function: Callable[..., Any], calls: Calls) -> None:
        self._function = function
        self._calls = calls
        self._left = 0
        """Calls until it is looked who watches."""

    def __getattr__(self, name: str) -> Any:
        """What Spark's profilers look at is the function's own."""
        if name == "_function":
            raise AttributeError(name)
        return getattr(self._function, name)

    def __call__(self, *values: Any, **named: Any) -> Any:
        if self._left <= 0:
            self._left = self._calls.poll()
        self._left -= 1
        if not self._calls.are_timed:
            return self._function(*values, **named)
        began = perf_counter()
        try:
            return self._function(*values, **named)
        finally:
            self._calls.add(perf_counter() - began, values, named)


class Calls:
    """The calls of a function in one task. What goes wrong here costs reports, never the task."""

    def __init__(self, facts: Facts, accumulator: Any) -> None:
        self._facts = facts
        self._accumulator = accumulator
        self._conditions = conditions_of(facts.folder)
        self._name = uuid.uuid4().hex
        self._thread = threading.get_ident()
        self._encode = ReprEncoder(facts.characters_max)
        self._hits: dict[str, Hits] = {}
        self._tallies: dict[str, Tally] = {}
        self._bounds: list[tuple[float, Hits]] = []
        self._active: list[Tally] = []
        self._portion = 1
        self._polled_s = time.monotonic()
        self._is_begun = self._is_refused = False
        self._refused = set[str]()
        """Watches that have been told so."""
        self.are_timed = False
        """Whether somebody wants to know."""

    def poll(self) -> int:
        """Take up what is watched for now. Returns after how many calls to look again."""
        now = time.monotonic()
        self._portion = next_portion(self._portion, now - self._polled_s)
        self._polled_s = now
        with suppress(Exception):
            if self._conditions.are_due:
                self._conditions.read()
            self._take_up(self._conditions.in_force.of(self._facts.node))
        self._is_begun = True
        return self._portion

    def _take_up(self, watches: Sequence[Watch]) -> None:
        if not watches and not self.are_timed:
            return
        before, self._bounds, self._active = self._active, [], []
        for watch in watches:
            request = watch.request
            if request.is_timed and self._is_refused:
                self._refuse(watch)
            elif request.slower_than_s is not None:
                self._bounds.append((request.slower_than_s, self._hits_of(watch)))
            elif request.latency:
                self._active.append(self._tally_of(watch))
            elif request.node != self._facts.node.call_site and watch.name not in self._hits:
                self._write(self._hits_of(watch), {"problem": NOT_TESTED})
        self.are_timed = bool(self._bounds or self._active)
        for tally in before:
            # It may count again, as where the folder could not be read for a while.
            tally.sees_first &= any(tally is other for other in self._active)

    def _hits_of(self, watch: Watch) -> Hits:
        if watch.name not in self._hits:
            path = self._conditions.folder / HITS / watch.name / f"{self._name}.jsonl"
            hits = self._hits[watch.name] = Hits(str(path), self._place(), watch.request.limit)
            self._at_end(watch, lambda: [hits.counts] if hits.beyond else [])
        return self._hits[watch.name]

    @staticmethod
    def _write(hits: Hits, document: dict[str, Any]) -> None:
        # Nobody says when the task ends, and the process may run others: no file is left open.
        hits.write(document)
        hits.leave()

    def _tally_of(self, watch: Watch) -> Tally:
        tally = self._tallies.get(watch.name)
        if tally is None:
            tally = self._tallies[watch.name] = Tally(self._description, not self._is_begun)
            self._at_end(watch, partial(self._sum, tally))
        return tally

    def _at_end(self, watch: Watch, lines: Lines) -> None:
        """Have the driver write some lines of a watch when the task has ended."""
        self._accumulator.add([_AtEnd(watch.name, self._place(), lines)])

    def _sum(self, tally: Tally) -> list[dict[str, Any]]:
        """How long the calls of the task took."""
        if not tally.records:
            return []
        is_active = any(tally is other for other in self._active)
        is_whole = tally.sees_first and is_active and not self._is_refused
        total = {"records": tally.records, "seconds": tally.seconds, "is_whole": is_whole}
        return [total, *tally.slowest()]

    def _place(self) -> dict[str, Any]:
        node, context = self._facts.node, TaskContext.get()
        partition = -1 if context is None else context.partitionId()
        return {"node": node.node, "label": node.label, "partition": partition}

    def add(self, seconds: float, values: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        """A call has ended."""
        with suppress(Exception):
            if threading.get_ident() != self._thread:
                self._is_refused = True
                self._take_up(self._conditions.in_force.of(self._facts.node))
                return
            for bound_s, hits in self._bounds:
                if seconds >= bound_s:
                    self._report(hits, (values, named), seconds)
            rows = 1 if self._facts.of_rows else len(next(iter((*values, *named.values()))))
            for tally in self._active:
                tally.add((values, named), seconds, rows)

    def _refuse(self, watch: Watch) -> None:
        if watch.name not in self._refused:
            self._refused.add(watch.name)
            self._write(self._hits_of(watch), {"problem": IN_THREADS})

    def _report(self, hits: Hits, call: Any, seconds: float) -> None:
        if hits.is_full:
            hits.beyond += 1
            return
        self._write(hits, self._description(call, seconds))
        hits.count += 1

    # -- what is said of a call --------------------------------------------------------------------

    def _description(
        self, call: tuple[tuple[Any, ...], Mapping[str, Any]], seconds: float
    ) -> dict[str, Any]:
        values, named = call
        facts = self._facts
        row: list[tuple[str, str | None]] = []
        unnamed = ""
        if facts.texts:
            try:
                row, unnamed = self._rows_of(values), facts.unnamed
            except UNNAMED as problem:
                unnamed = f"its arguments name no rows: {problem}"
        return {
            "text": self._text(values, named) if facts.texts else None,
            "made_from": [],
            "superset": False,
            "values": row,
            "unnamed": unnamed,
            "seconds": seconds,
            "may_buffer": False,
        }

    def _rows_of(self, values: tuple[Any, ...]) -> list[tuple[str, str | None]]:
        """Columns and values, by which a trace names the rows with these arguments; empty: it does not.

        Raises:
            ValueError, OverflowError, OSError: rows can't be told by them.
        """
        facts = self._facts
        if facts.unnamed:
            return []
        row, characters = list[tuple[str, str | None]](), 0
        for name, kind, value in zip(facts.names, facts.types, values, strict=True):
            if facts.by_arrow and isinstance(value, float) and math.isnan(value):
                raise ValueError(AMBIGUOUS)
            text = internal_text(value, kind)
            if text is not None and "\0" in text:
                raise ValueError("a text has the character of code 0")
            row.append((name, text))
            characters += len(name) + len(text or "")
        return row if characters <= PLACE_MAX else []

    def _text(self, values: tuple[Any, ...], named: Mapping[str, Any]) -> str:
        facts = self._facts
        if facts.of_rows:
            given = [*map(self._encode, values)]
            given += [f"{name}={self._encode(value)}" for name, value in named.items()]
            if not all(isinstance(value, FIXED) for value in (*values, *named.values())):
                given[-1] += AS_LEFT
        else:
            given = [f"a batch of {len(next(iter((*values, *named.values())))):,} rows"]
        text = f"{facts.node.name}({', '.join(given)})"
        longest = facts.characters_max
        return text if len(text) <= longest else text[:longest] + CUT


class _AtEnd:
    """What a task says of a watch: accumulators are sent when it has ended."""

    def __init__(self, watch: str, place: dict[str, Any], lines: Lines) -> None:
        self._watch = watch
        self._place = place
        self._lines = lines

    def __reduce__(self) -> tuple[type[dict[str, Any]], tuple[dict[str, Any]]]:
        """The driver gets a dict."""
        lines = list[dict[str, Any]]()
        # The task goes on, whatever it is.
        with suppress(Exception):
            lines = self._lines()
        return dict, ({"watch": self._watch, "place": self._place, "lines": lines},)
