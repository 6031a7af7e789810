"""Ranks what went into bad outputs against what went into good ones: rows of sources, and tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction, NodeItems, TraceError
from lineage_query.answers import Answer, Composer, Item
from lineage_query.comparing import check_same_application
from lineage_query.names import Names
from lineage_query.record_trace import RecordTrace
from lineage_query.snapshot import ApplicationSnapshot
from lineage_query.suspects.answer import Rank, SuspectKey, SuspectRow, Suspects, SuspectTask
from lineage_query.suspects.health import (
    DeviatingKey,
    Deviation,
    deviating_keys,
    deviations_of_tasks,
)
from lineage_query.suspects.outliers import MODIFIED_Z_MAX
from lineage_query.suspects.spectrum import Formula, Spectrum
from lineage_query.suspects.tasks import Measures, StepOfTask, Task, measure
from lineage_query.trace import Trace

RANKED_MAX = 200_000
"""Inputs of all bad outputs together that are counted one by one."""
ROWS_OF_KEY = 3
"""Rows of outputs that are listed for a key."""
NO_TASKS = "DataFrames leave no flows of tasks: tasks are ranked for RDDs alone"
TOO_MANY_KEYS = "the application has too many keys to compare them"

T = TypeVar("T", bound=Hashable)
RowKey: TypeAlias = tuple[str, str, str, int]
"""Application (empty: that of the records), node, space or address, position."""


class TooManyInputsError(LineageError):
    """Outputs that have more inputs than are counted."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Rows of outputs: bad ones (at least one, but for the health alone), and good ones."""

    bad: tuple[Trace, ...]
    good: tuple[Trace, ...] = ()

    @classmethod
    def of(cls, bad: Iterable[Trace], good: Iterable[Trace] = ()) -> Labels:
        """Traces of one output each; an output that is named twice counts once.

        Raises:
            TraceError: an output is bad and good, or they are of different applications.
        """
        unique_bad, unique_good = (
            {_start_key(trace): trace for trace in reversed(list(traces))} for traces in (bad, good)
        )
        both = unique_bad.keys() & unique_good.keys()
        if both:
            named = ", ".join(unique_bad[next(iter(both))].query.places)
            raise TraceError(f"{named} is named as bad and as good")
        labels = cls(tuple(unique_bad.values())[::-1], tuple(unique_good.values())[::-1])
        check_same_application((trace.app, trace.query.places) for trace in labels.all)
        return labels

    @property
    def all(self) -> tuple[Trace, ...]:
        """Bad ones, then good ones."""
        return (*self.bad, *self.good)

    def spectra(self, things_of: Callable[[Trace], Iterable[T]]) -> dict[T, Spectrum]:
        """For each thing of a bad output, into how many outputs it went."""
        bad = Counter(thing for trace in self.bad for thing in things_of(trace))
        good = Counter(thing for trace in self.good for thing in things_of(trace) if thing in bad)
        return {
            thing: Spectrum(count, good[thing], len(self.bad), len(self.good))
            for thing, count in bad.items()
        }


def _start_key(trace: Trace) -> Hashable:
    """The same for traces of the same items, however their places are spelled."""
    if trace.records is not None:
        return frozenset(
            (space, region.first.tobytes(), region.last.tobytes())
            for space, region in trace.records.start_regions.items()
        )
    assert trace.recomputed is not None
    # Rows that lie in no file are told apart by how they are named alone.
    locations = {item.location for group in trace.recomputed.start for item in group.items}
    return trace.query.places if None in locations else frozenset(locations) or trace.query.places


def rank_suspects(
    opened: ApplicationSnapshot,
    labels: Labels,
    limit: int,
    *,
    formula: Formula = "ochiai",
    with_tasks: bool = True,
    texts: bool = True,
) -> Suspects:
    """Rank the rows and tasks that went into bad outputs; without outputs, the tasks and keys that stand out.

    Args:
        opened: the application.
        labels: outputs of it.
        limit: suspects of each kind that are listed.
        formula: what they are ranked by.
        with_tasks: rank tasks, too: this reads all flows of the application.
        texts: include the texts of rows.

    Raises:
        TooManyInputsError: the outputs have more inputs than are counted.
        BudgetError: it costs more than the query may.
    """
    composer = opened.composer()
    rows, total, suspected, changed = _rank_rows(
        opened, composer, labels, formula, limit, texts=texts
    )
    warnings: list[str] = []
    measures = None
    if with_tasks:
        measures = measure(opened.graph, opened.nodes)
        warnings += [NO_TASKS] if not measures.steps else []
        warnings += [TOO_MANY_KEYS] if measures.keys is None and not labels.bad else []
    tasks: tuple[SuspectTask, ...] = ()
    tasks_total = 0
    if measures is not None:
        tasks, tasks_total = _rank_tasks(opened, labels, formula, measures, limit)
    keys: list[DeviatingKey] = []
    if measures is not None and not labels.bad:
        keys = deviating_keys(measures.keys or ())
    facts = _Facts.of(opened, labels)
    return Suspects(
        app=opened.app,
        requested_places=_places(labels.bad),
        items=rows,
        total=total,
        exact=facts.exact,
        reasons=facts.reasons,
        complete=facts.complete,
        changed=facts.changed or changed,
        warnings=tuple(dict.fromkeys((*facts.warnings, *composer.warnings, *warnings))),
        good_places=_places(labels.good),
        formula=formula,
        suspected=suspected,
        tasks=tasks,
        tasks_total=tasks_total,
        keys=tuple(_key(opened, composer, key, texts=texts) for key in keys[:limit]),
        keys_total=len(keys),
    )


def _places(traces: Iterable[Trace]) -> tuple[str, ...]:
    return tuple(place for trace in traces for place in trace.query.places)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What holds for all traces together, or for the application where there are none."""

    exact: bool
    reasons: tuple[str, ...]
    complete: bool
    changed: bool
    warnings: tuple[str, ...]

    @classmethod
    def of(cls, opened: ApplicationSnapshot, labels: Labels) -> _Facts:
        if not labels.all:
            reasons = [
                f"{node}: {why}" for node, whys in opened.verdict.superset.items() for why in whys
            ]
            return cls(not reasons, tuple(reasons), opened.verdict.complete, False, ())
        end_warnings = (
            text
            for trace in labels.all
            if trace.records is not None and trace.recomputed is None
            for text in trace.records.end_warnings()
        )
        trace_warnings = (text for trace in labels.all for text in trace.warnings)
        return cls(
            exact=all(trace.exact for trace in labels.all),
            reasons=tuple(dict.fromkeys(why for trace in labels.all for why in _reasons(trace))),
            complete=all(map(_is_complete, labels.all)),
            changed=any(trace.changed for trace in labels.all),
            warnings=(*trace_warnings, *end_warnings),
        )


def _reasons(trace: Trace) -> tuple[str, ...]:
    if trace.recomputed is not None:
        return trace.recomputed.reasons
    assert trace.records is not None
    return trace.records.result.reasons


def _is_complete(trace: Trace) -> bool:
    crosses = trace.recomputed is None and trace.records is not None and trace.records.crosses
    return trace.complete and not crosses


# -- rows ------------------------------------------------------------------------------------------


def _rank_rows(
    opened: ApplicationSnapshot,
    composer: Composer,
    labels: Labels,
    formula: Formula,
    limit: int,
    *,
    texts: bool,
) -> tuple[tuple[SuspectRow, ...], int, int, bool]:
    """The first suspect rows, how many inputs the bad outputs have, how many are suspect, and whether a file has changed."""
    listed: dict[RowKey, Item] = {}
    spectra = labels.spectra(_InputsOf(labels, listed))
    places = ranked(
        {key: (spectrum.key(formula),) for key, spectrum in spectra.items() if spectrum.is_suspect}
    )
    rows: list[SuspectRow] = []
    changed = False
    for key in sorted(places, key=lambda key: (places[key][0], key))[:limit]:
        _, node, space, position = key
        item = listed.get(key)
        if item is None:
            group = composer.group(
                NodeItems(node, {space: Region.from_positions([position])}), None, texts=texts
            )
            changed |= group.changed
            item = group.items[0]
        spectrum = spectra[key]
        place = Rank(*places[key], spectrum.score(formula))
        rows.append(
            SuspectRow(node, opened.names.label(node), item, spectrum.bad, spectrum.good, place)
        )
    return tuple(rows), len(spectra), len(places), changed


class _InputsOf:
    """The inputs of an output, each once; of good outputs those alone that a bad one has, too.

    Items of answers, which list them, are put into ``listed``.
    """

    def __init__(self, labels: Labels, listed: dict[RowKey, Item]) -> None:
        self._listed = listed
        self._counted = 0
        self._regions: dict[tuple[str, str], Region] = {}
        self._bad = {id(trace) for trace in labels.bad}

    def __call__(self, trace: Trace) -> Iterator[RowKey]:
        current_budget().check()
        is_bad = id(trace) in self._bad
        if trace.recomputed is not None:
            yield from self._of_answer(trace.recomputed, is_bad=is_bad)
            return
        assert trace.records is not None
        for node, items in trace.records.result.found.items():
            for space, region in items.spaces.items():
                counted = self._of_region((node, space), region, is_bad=is_bad)
                yield from (("", node, space, at) for at in counted.positions().tolist())

    def _of_region(self, place: tuple[str, str], region: Region, *, is_bad: bool) -> Region:
        known = self._regions.get(place, Region())
        if not is_bad:
            return region & known
        self._count((region - known).count)
        self._regions[place] = known | region
        return region

    def _of_answer(self, answer: Answer, *, is_bad: bool) -> Iterator[RowKey]:
        for group in answer.groups:
            if len(group.items) != group.count:
                raise TooManyInputsError(
                    f"an output has {group.count:,} inputs: more than are listed"
                )
            keys = {
                (group.app, group.node, f"{item.address} {item.location}", -1): item
                for item in group.items
            }
            if is_bad:
                self._count(len(keys.keys() - self._listed.keys()))
                self._listed |= keys
            yield from keys

    def _count(self, inputs: int) -> None:
        self._counted += inputs
        if self._counted > RANKED_MAX:
            raise TooManyInputsError(f"the outputs have more than {RANKED_MAX:,} inputs")


Orderable = TypeVar("Orderable", bound=tuple[object, ...])


def ranked(keys: Mapping[T, Orderable]) -> dict[T, tuple[int, int]]:
    """The rank of each thing, the greatest key first, and how many things share it: equal keys have one rank."""
    counts = Counter(keys.values())
    ranks: dict[Orderable, int] = {}
    above = 0
    for key in sorted(counts, reverse=True):
        ranks[key] = above + 1
        above += counts[key]
    return {thing: (ranks[key], counts[key]) for thing, key in keys.items()}


# -- tasks and keys --------------------------------------------------------------------------------


def _rank_tasks(
    opened: ApplicationSnapshot, labels: Labels, formula: Formula, measures: Measures, limit: int
) -> tuple[tuple[SuspectTask, ...], int]:
    """The first suspect tasks, and how many there are."""
    deviations = deviations_of_tasks(measures.steps)
    suspects: dict[Task, Spectrum | None]
    if labels.bad:
        spectra = labels.spectra(_TasksOf(measures.steps))
        suspects = {
            task: spectrum
            for task, spectrum in spectra.items()
            if spectrum.is_suspect or _distance(deviations.get(task, ()))
        }
    else:
        suspects = {task: None for task, each in deviations.items() if each[0].tests}
    scores = {
        task: _TaskScore.of(spectrum, deviations.get(task, ()), formula)
        for task, spectrum in suspects.items()
    }
    places = ranked({task: score.key for task, score in scores.items()})
    listed = sorted(suspects, key=lambda task: (places[task], task))[:limit]
    chosen = set(listed)
    operators = _operators(opened, [step for step in measures.steps if step.task in chosen])
    tasks: list[SuspectTask] = []
    for task in listed:
        spectrum, label = suspects[task], opened.names.label(task.node)
        each = tuple(one for one in deviations.get(task, ()) if one.tests)
        for name in (label, operators[task], *(name for one in each for name in one.step)):
            current_budget().count_name(name)
        tasks.append(
            SuspectTask(
                task.node,
                label,
                task.partition,
                operators[task],
                0 if spectrum is None else spectrum.bad,
                0 if spectrum is None else spectrum.good,
                tuple(_labelled(opened.names, one) for one in each),
                Rank(*places[task], scores[task].score),
            )
        )
    return tuple(tasks), len(suspects)


@dataclass(frozen=True, slots=True)
class _TaskScore:
    """What tasks are ranked by.

    Few outputs tell little, and a task that stands out and is on the way of bad outputs is more suspect than by either alone: the formula's value is
    multiplied by one plus the logarithm (base 2) of how many times `MODIFIED_Z_MAX` the task stands out. Those that are no suspects by outputs come last, by
    their distance.
    """

    key: tuple[bool, bool, float, float]
    score: float | None

    @classmethod
    def of(
        cls, spectrum: Spectrum | None, deviations: Sequence[Deviation], formula: Formula
    ) -> _TaskScore:
        distance = _distance(deviations)
        if spectrum is None:
            return cls((True, False, distance, distance), distance)
        score = spectrum.score(formula)
        _, is_unbounded, bound = spectrum.key(formula)
        value = (float(bound) if score is None else score) * (
            1 + math.log2(max(distance / MODIFIED_Z_MAX, 1))
        )
        return cls(
            (spectrum.is_suspect, is_unbounded, value, distance), None if is_unbounded else value
        )


def _distance(deviations: Sequence[Deviation]) -> float:
    return deviations[0].distance if deviations and deviations[0].tests else 0.0


class _TasksOf:
    """The tasks on the way to an output."""

    def __init__(self, steps: Sequence[StepOfTask]) -> None:
        self._readers: dict[str, list[StepOfTask]] = {}
        for step in steps:
            for space in step.spaces:
                self._readers.setdefault(space, []).append(step)

    def __call__(self, trace: Trace) -> set[Task]:
        current_budget().check()
        return set() if trace.records is None else self._of(trace.records)

    def _of(self, records: RecordTrace) -> set[Task]:
        spaces = {space for space, region in records.taking_part().items() if region}
        partitions: dict[str, set[int] | None] = {}
        for space in map(parse_space, spaces):
            if space.kind is SpaceKind.PARTITION:
                of_node = partitions.setdefault(space.name, set())
                if of_node is not None:
                    of_node.add(space.partition)
            else:
                # Whichever task put out a key, or a record that it sent through a shuffle.
                partitions.setdefault(space.name, None)
        return {
            step.task
            for space in spaces
            for step in self._readers.get(space, ())
            if step.step.node in partitions
            and _has(partitions[step.step.node], step.task.partition)
        }


def _has(partitions: set[int] | None, partition: int) -> bool:
    return partitions is None or partition in partitions


def _operators(opened: ApplicationSnapshot, steps: Sequence[StepOfTask]) -> dict[Task, str]:
    """What each task goes from and to, in words."""
    names = {node.node: operator_name(opened.names, node) for node in opened.nodes}
    texts: dict[Task, dict[str, None]] = {}
    for step in steps:
        source, node = (names.get(each, each) for each in step.step)
        texts.setdefault(step.task, {})[f"{source} to {node}"] = None
    return {task: ", ".join(each) for task, each in texts.items()}


def operator_name(names: Names, node: NodeRecord) -> str:
    """The name of a node, with what it does where that is but a number."""
    label = names.label(node.node)
    is_number = label == node.node and node.name not in {"", label}
    return f"{label} ({node.name})" if is_number else label


def _labelled(names: Names, deviation: Deviation) -> Deviation:
    source, node = deviation.step
    return Deviation(
        deviation.measure,
        deviation.value,
        deviation.of,
        deviation.count,
        deviation.median,
        deviation.distance,
        deviation.tests,
        (names.label(source), names.label(node)),
    )


def _key(
    opened: ApplicationSnapshot, composer: Composer, key: DeviatingKey, *, texts: bool
) -> SuspectKey:
    """A key with the rows of outputs that it went into."""
    region = Region.from_positions([key.position])
    result = opened.tracer.trace(Direction.FORWARD, {key.space: region})
    groups = composer.groups(result, ROWS_OF_KEY, texts=texts)
    items = tuple(item for group in groups for item in group.items)[:ROWS_OF_KEY]
    return SuspectKey(
        key.node,
        opened.names.label(key.node),
        f"{opened.names.space(key.space)}#{key.position}",
        _labelled(opened.names, key.deviation),
        items,
        result.count,
    )
