"""Tasks whose work differs from that of other tasks, or along its records, and keys that combine unusually many or few records.

After Logothetis et al., Newt (SoCC 2013), which compares actors by their selectivity: outputs of inputs. A task that stands out is no fault by
itself: the data may be what differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lineage_core.tracing.budget import current_budget
from lineage_query.suspects.outliers import (
    F64,
    MODIFIED_Z_MAX,
    VALUES_MIN,
    find_outliers,
    modified_z,
)
from lineage_query.suspects.tasks import KeyCounts, StepOfTask, Task

KEYS_COMPARED_MIN = 8
"""With fewer keys of a shuffle, none stands out."""
KEYS_LISTED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Deviation:
    """How one figure of a task or key stands out.

    ``measure``: the figure with its unit; ``of``: what it is compared with, ``count`` of them, whose median is ``median``. ``distance``: from it, in
    robust standard deviations. ``tests``: those by which it is an outlier. ``step``: the operators between which it was measured.
    """

    measure: str
    value: float
    of: str
    count: int
    median: float
    distance: float
    tests: tuple[str, ...]
    step: tuple[str, str]

    @property
    def reason(self) -> str:
        """In words and numbers."""
        tests = f"; an outlier by {', '.join(self.tests)}" if self.tests else ""
        return (
            f"{self.value:,.4g} {self.measure}, where the median of {self.count:,} {self.of} is {self.median:,.4g} "
            f"({self.distance:,.1f} robust deviations away{tests})"
        )

    def to_json(self) -> dict[str, Any]:
        """As tools read it."""
        return {
            "measure": self.measure,
            "value": self.value,
            "of": self.of,
            "count": self.count,
            "median": self.median,
            "distance": self.distance,
            "tests": list(self.tests),
            "step": list(self.step),
            "reason": self.reason,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Deviation:
        """Read what :meth:`to_json` gave.

        Raises:
            KeyError: something is missing.
        """
        fields = {name: document[name] for name in cls.__dataclass_fields__}
        source, node = document["step"]
        return cls(**fields | {"tests": tuple(document["tests"]), "step": (source, node)})


@dataclass(frozen=True, slots=True)
class DeviatingKey:
    """A key of a shuffle that stands out by the number of its records."""

    node: str
    space: str
    position: int
    deviation: Deviation


def deviations_of_tasks(steps: Sequence[StepOfTask]) -> dict[Task, tuple[Deviation, ...]]:
    """How the figures of each task stand beside others, the farthest first; those without tests stand out by none."""
    found: defaultdict[Task, list[Deviation]] = defaultdict(list)
    by_step: defaultdict[tuple[str, str], list[StepOfTask]] = defaultdict(list)
    for step in steps:
        current_budget().check()
        by_step[step.step].append(step)
        for deviation in _along(step):
            found[step.task].append(deviation)
    for compared in by_step.values():
        for task, deviation in _across(compared):
            found[task].append(deviation)
    return {
        task: tuple(sorted(each, key=lambda one: (bool(one.tests), one.distance), reverse=True))
        for task, each in found.items()
    }


def _across(steps: Sequence[StepOfTask]) -> Iterator[tuple[Task, Deviation]]:
    """The figures of one step beside those of the other tasks; what read nothing has none."""
    steps = [step for step in steps if step.records]
    if len(steps) < VALUES_MIN:
        return
    figures = {
        "outputs a record": [step.pairs / step.records for step in steps],
        "of its records used": [step.used / step.records for step in steps],
    }
    for measure, values in figures.items():
        outliers = find_outliers(values)
        for n, step in enumerate(steps):
            distance = float(outliers.distances[n])
            if distance > 0:
                yield (
                    step.task,
                    Deviation(
                        measure,
                        values[n],
                        "tasks",
                        len(steps),
                        outliers.median,
                        distance,
                        outliers.tests(n),
                        step.step,
                    ),
                )


def _along(step: StepOfTask) -> Iterator[Deviation]:
    """The part of a task's records, in order, that stands out most."""
    if not len(step.outputs):
        return
    distances = _distances_of_counts(step.outputs)
    at = int(distances.argmax())
    if distances[at] <= MODIFIED_Z_MAX:
        return
    first, last = at * step.part + 1, (at + 1) * step.part
    yield Deviation(
        f"outputs a record in its records {first:,} to {last:,}",
        float(step.outputs[at]) / step.part,
        "such parts",
        len(step.outputs),
        float(np.median(step.outputs)) / step.part,
        float(distances[at]),
        ("median deviations",),
        step.step,
    )


def _distances_of_counts(counts: F64) -> F64:
    """Robust distances of counts from their median, but no greater than chance alone allows for.

    Counts of rare events differ by chance: the square root of F. Anscombe (Biometrika 35, 1948) gives events that come independently of each
    other a standard deviation of about 1, whatever their number.
    """
    by_chance = 2 * np.sqrt(counts + 3 / 8)
    distances: F64 = np.minimum(modified_z(counts), np.abs(by_chance - np.median(by_chance)))
    return distances


def deviating_keys(counts: Sequence[KeyCounts]) -> list[DeviatingKey]:
    """Keys that stand out among those of their shuffle, the farthest first; up to `KEYS_LISTED_MAX`.

    Numbers of records are compared by their logarithms, as those of keys often differ by factors.
    """
    by_node: defaultdict[str, list[KeyCounts]] = defaultdict(list)
    for part in counts:
        by_node[part.node].append(part)
    found = [key for parts in by_node.values() for key in _keys_of_shuffle(parts)]
    found.sort(key=lambda key: (-key.deviation.distance, key.space, key.position))
    return found[:KEYS_LISTED_MAX]


def _keys_of_shuffle(parts: Sequence[KeyCounts]) -> Iterator[DeviatingKey]:
    records = np.concatenate([part.records for part in parts]).astype(np.float64)
    if len(records) < KEYS_COMPARED_MIN:
        return
    by_chance = 2 * np.sqrt(records + 3 / 8)
    distances = np.minimum(
        modified_z(np.log(np.maximum(records, 1))), np.abs(by_chance - np.median(by_chance))
    )
    farthest = np.argsort(-distances, kind="stable")[:KEYS_LISTED_MAX]
    starts = np.cumsum([0, *(len(part.positions) for part in parts)])
    median, node = float(np.median(records)), parts[0].node
    template = Deviation(
        "records", 0, "keys", len(records), median, 0, ("median deviations",), (node, node)
    )
    for n in farthest[distances[farthest] > MODIFIED_Z_MAX].tolist():
        at = int(np.searchsorted(starts, n, side="right")) - 1
        position = int(parts[at].positions[n - starts[at]])
        deviation = replace(template, value=float(records[n]), distance=float(distances[n]))
        yield DeviatingKey(node, parts[at].space, position, deviation)
