"""The fused map side of a combining shuffle: one look-up finds each key's value and its rows.

PySpark's own :class:`~pyspark.shuffle.ExternalMerger` looks a key up three times a record; here
one look-up finds the value and where to record the input ordinal, so capture costs about what it
saves. Keys of few records each have numbers, and a record is stored as its key's number and its
ordinal: no object a key for Python's garbage collector to visit. Once keys are seen to be of many
records, each gets an array of its ordinals, which saves sorting them. Once the worker's memory
limit makes PySpark spill, values go on in PySpark's own structures and rows in bounded buffers
beside them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
from pyspark.shuffle import Aggregator, ExternalMerger, get_used_memory

from lineage_core.contract.limits import LIMITED_REASON
from lineage_core.contract.positions import positions_of
from lineage_core.contract.region import Region
from lineage_emitter.code.key_parts import parts_of
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.pyspark_parts import portable_hash
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.attempts import AttemptsSeen
from lineage_emitter.worker.buckets import MemoisedPartitionFunction, targets_of
from lineage_emitter.worker.by_record import stop_iteration_error
from lineage_emitter.worker.equal_keys import EqualKeys, all_canonical
from lineage_emitter.worker.partition_inputs import NumberedRecords
from lineage_emitter.worker.recorders import (
    FLOWS_MAX,
    PREFIX_REASON,
    FlowRegions,
    PositionRecorder,
    emit_csr,
    emit_regions,
    fallback_space,
    prefix_runs,
    runs_of,
)
from lineage_emitter.worker.segment import EXCLUDED, NOTHING_READ, Numbering, Segment
from lineage_emitter.worker.task_config import TaskConfig

KEYS_MAX = 100_000
"""Above this many keys in one task their arrays would outgrow the bound: they get numbers."""
TRIAL_RECORDS = 10_000
"""So many records tell whether keys are of many records each."""
MANY_RECORDS = 16
"""Records a key from which on it gets an array of its own."""
BYTES_PER_RECORD = 64
"""Of a key's number and an ordinal, while they are sorted."""
BYTES_PER_POSITION = 9
POSITIONS_PER_EMIT = 65_536
"""Positions that are made into columns at a time; it bounds blocks, too, so that a trace of a rare
key reads little."""
UNCANONICAL_REASON = "keys of a type without a canonical form are distinguished by hash(key) only"
COLLISION_REASON = "two keys fell on one position"

_END = object()

Combiners = tuple[Callable[[Any], Any], Callable[[Any, Any], Any], Callable[[Any, Any], Any]]
"""createCombiner, mergeValue, mergeCombiners, as the user gave them."""


class KeyFlows:
    """Emits flows from regions of a numbering to key positions of a shuffle."""

    def __init__(
        self,
        segment: Segment,
        numbering: Numbering,
        node: str,
        num_partitions: int,
        partition_function: Callable[[Any], int] | None,
    ) -> None:
        self.segment = segment
        self.numbering = numbering
        self.node = node
        self.num_partitions = num_partitions
        self.partition_function = partition_function
        self.memoised_function: MemoisedPartitionFunction | None = None
        if partition_function is not None and partition_function is not portable_hash:
            self.memoised_function = MemoisedPartitionFunction(partition_function)
            self.partition_function = self.memoised_function.compute

    def emit(
        self,
        keys: list[Any],
        lengths: list[int] | np.ndarray[Any, Any],
        ordinals: np.ndarray[Any, Any],
    ) -> None:
        """One flow a key: ``lengths[i]`` ascending ordinals of key ``i``, one after another."""
        if not keys:
            return
        positions, _, hashed = positions_of(keys, parts_of)
        reason = UNCANONICAL_REASON if hashed else ""
        sizes = np.array(lengths, dtype=np.int64)
        self._digest(positions, sizes, ordinals)
        targets = self._targets(keys)
        if self.numbering.unlimited is not None:
            sizes, ordinals = self._without_excluded(positions, targets, sizes, ordinals)
            if not len(ordinals):
                return
        if self.numbering.opaque:
            self._emit_prefixes(positions, targets, sizes, ordinals)
            return
        key_of = np.repeat(np.arange(len(keys)), sizes)
        for space, rows, items in self.numbering.resolve(ordinals):
            owner = key_of[rows]
            firsts, counts = _groups(owner)
            present = owner[firsts]
            per_key, first, last = runs_of(*_ascending(items, owner, counts))
            regions = FlowRegions(per_key, first, last, positions[present], reason)
            self._emit_runs(space, targets[present], regions)

    def _without_excluded(
        self,
        positions: np.ndarray[Any, Any],
        targets: np.ndarray[Any, Any],
        sizes: np.ndarray[Any, Any],
        ordinals: np.ndarray[Any, Any],
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The sizes and ordinals without excluded records; keys of excluded records get a reason."""
        is_captured = ordinals != EXCLUDED
        if bool(is_captured.all()):
            return sizes, ordinals
        key_of = np.repeat(np.arange(len(sizes)), sizes)
        captured_sizes = np.bincount(key_of[is_captured], minlength=len(sizes))
        lacking = np.flatnonzero(captured_sizes < sizes)
        empty = np.zeros(0, dtype=np.uint64)
        no_runs = np.zeros(len(lacking), dtype=np.int64)
        regions = FlowRegions(no_runs, empty, empty, positions[lacking], LIMITED_REASON)
        fallback = fallback_space(self.segment, self.numbering)
        self._emit_runs(fallback, targets[lacking], regions)
        return captured_sizes, ordinals[is_captured]

    def forget_targets(self) -> None:
        """Keys go out of memory, and so does where they go."""
        if self.memoised_function is not None:
            self.memoised_function.stop_caching()

    def _targets(self, keys: list[Any]) -> np.ndarray[Any, Any]:
        if self.partition_function is None:
            return np.full(len(keys), self.segment.partition, dtype=np.int64)
        return targets_of(keys, self.partition_function, self.num_partitions)

    def _emit_runs(self, space: str, targets: np.ndarray[Any, Any], regions: FlowRegions) -> None:
        order = np.lexsort((regions.outs, targets))
        cuts = np.flatnonzero(np.diff(targets[order])) + 1
        sections = [
            (f"{self.node}@{targets[rows[0]]}", rows) for rows in np.split(order, cuts) if len(rows)
        ]
        emit_csr(self.segment, self.node, space, sections, regions)

    def _emit_prefixes(
        self,
        positions: np.ndarray[Any, Any],
        targets: np.ndarray[Any, Any],
        sizes: np.ndarray[Any, Any],
        ordinals: np.ndarray[Any, Any],
    ) -> None:
        last = ordinals[np.cumsum(sizes) - 1]
        for target in np.unique(targets):
            rows = np.flatnonzero(targets == target)
            regions = [
                prefix_runs(self.numbering, int(o)) if o != NOTHING_READ else [] for o in last[rows]
            ]
            outs = positions[rows]
            space = f"{self.node}@{target}"
            fallback = fallback_space(self.segment, self.numbering)
            emit_regions(self.segment, self.node, space, regions, outs, PREFIX_REASON, fallback)

    def _digest(
        self,
        positions: np.ndarray[Any, Any],
        sizes: np.ndarray[Any, Any],
        ordinals: np.ndarray[Any, Any],
    ) -> None:
        """An order-free sum over (key, row): says whether two runs of a task put out the same."""
        with np.errstate(over="ignore"):
            weighted = positions * sizes.astype(np.uint64)
            total = int(weighted.sum(dtype=np.uint64))
        self.segment.digest = (self.segment.digest + total) & (2**64 - 1)


def _groups(owners: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where each group of equal neighbours begins, and how long it is (int64 both)."""
    if not len(owners):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    firsts = np.append(0, np.flatnonzero(np.diff(owners)) + 1)
    return firsts, np.diff(firsts, append=len(owners))


def _ascending(
    items: np.ndarray[Any, Any], owner: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sort items within each owner where pieces of a stream put them out of order."""
    falls = (items[1:] < items[:-1]) & (owner[1:] == owner[:-1])
    if bool(falls.any()):
        items = items[np.lexsort((items, owner))]
    return items, counts


class LineageMerger(ExternalMerger):
    """An ``ExternalMerger`` whose ``mergeValues`` records which rows went into each key."""

    def __init__(
        self, flows: KeyFlows, combiners: Combiners, memory_mb: float, serializer: Any
    ) -> None:
        super().__init__(Aggregator(*combiners), memory_mb, serializer)
        self.create, self.combine, _ = combiners
        self.flows = flows
        memory_bytes = flows.segment.config.memory_bytes
        self.positions_max = max(memory_bytes // (3 * BYTES_PER_POSITION), 10_000)
        self.records_max = max(memory_bytes // BYTES_PER_RECORD, 10_000)
        self.keys_max = max(min(KEYS_MAX, memory_bytes // 512), 1_000)
        self.numbers: dict[Any, int] = {}
        """By key, in PySpark's order: where its value is, and the number that its records are stored as."""
        self.values: list[Any] = []
        self.key_numbers, self.ordinals = array("I"), array("Q")
        """Of each record that is to be emitted: its key's number, its ordinal."""
        self.entries: dict[Any, list[Any]] = {}
        """Instead, where keys are of many records: value and array of ordinals, by key."""
        self.forms: set[str] = set()
        """Of keys emitted from beside PySpark's own dicts: canonical, parts, hashed."""

    def mergeValues(self, iterator: Iterable[Any]) -> None:
        """Combine values by key, as PySpark does, and emit the flows."""
        try:
            self._merge(iter(iterator), float(self.batch), is_trial=True)
        except StopIteration as stop:
            # The functions come unwrapped (a call less a record), so what PySpark's
            # fail_on_stopiteration does around each call is done here around them all.
            raise stop_iteration_error(stop) from stop

    def _merge(self, records: Iterator[Any], batch: float, *, is_trial: bool) -> None:
        """Keys have numbers; in a trial until they are seen to be of many records each."""
        create, combine, cell = self.create, self.combine, self.flows.numbering.cell
        numbers, values, get = self.numbers, self.values, self.numbers.get
        seen = 0
        while True:
            chunk = min(int(batch), self.records_max)
            if len(self.ordinals) + chunk > self.records_max:
                self.flows.segment.guard(self._emit_numbered)
            before = len(self.ordinals)
            append_number, append_ordinal = self.key_numbers.append, self.ordinals.append
            for key, value in islice(records, chunk):
                number = get(key)
                if number is None:
                    values.append(create(value))
                    numbers[key] = number = len(values) - 1
                else:
                    values[number] = combine(values[number], value)
                append_number(number)
                append_ordinal(cell[0])
            if len(self.ordinals) - before < chunk:
                break
            seen += chunk
            if get_used_memory() >= self.memory_limit:
                self._spill_all()
                self._merge_after_spill(records, self._next_limit(), batch / 2)
                return
            batch = min(batch * 1.5, 1_000_000)
            if is_trial and seen >= max(TRIAL_RECORDS, MANY_RECORDS * len(values)):
                self._switch_to_arrays()
                self._merge_few_keys(records, batch)
                return
        self.flows.segment.guard(self._emit_numbered)
        if get_used_memory() >= self.memory_limit:
            self._spill_all()

    def _switch_to_arrays(self) -> None:
        entries = [[value, array("Q")] for value in self.values]
        for number, ordinal in zip(self.key_numbers, self.ordinals, strict=True):
            entries[number][1].append(ordinal)
        self.entries = dict(zip(self.numbers, entries, strict=True))
        self._clear_numbers()

    def _switch_to_numbers(self) -> None:
        self.flows.segment.guard(self._emit_entries)
        self.numbers = {key: number for number, key in enumerate(self.entries)}
        self.values = [entry[0] for entry in self.entries.values()]
        self.entries = {}

    def _clear_numbers(self) -> None:
        self.numbers, self.values = {}, []
        self.key_numbers, self.ordinals = array("I"), array("Q")

    def _merge_few_keys(self, records: Iterator[Any], batch: float) -> None:
        """Keys have arrays, as long as they are few."""
        create, combine = self.create, self.combine
        cell, entries, get = self.flows.numbering.cell, self.entries, self.entries.get
        guard, held_positions = self.flows.segment.guard, 0
        while True:
            chunk = min(int(batch), self.positions_max)
            for key, value in islice(records, chunk):
                entry = get(key)
                if entry is None:
                    entries[key] = [create(value), array("Q", cell)]
                else:
                    entry[0] = combine(entry[0], value)
                    entry[1].append(cell[0])
            following: Any = next(records, _END)
            if following is _END:
                break
            held_positions += chunk + 1
            key, value = following
            entry = get(key)
            if entry is None:
                entries[key] = [create(value), array("Q", cell)]
            else:
                entry[0] = combine(entry[0], value)
                entry[1].append(cell[0])
            if get_used_memory() >= self.memory_limit:
                self._spill_all()
                self._merge_after_spill(records, self._next_limit(), batch / 2)
                return
            if len(entries) > self.keys_max:
                self._switch_to_numbers()
                self._merge(records, batch, is_trial=False)
                return
            if held_positions + chunk > self.positions_max:
                guard(self._emit_entries)
                held_positions = 0
            batch = min(batch * 1.5, 1_000_000)
        guard(self._emit_entries)
        if get_used_memory() >= self.memory_limit:
            self._spill_all()

    def items(self) -> Iterator[tuple[Any, Any]]:
        """(key, combined value), in PySpark's order."""
        if self.numbers:
            return zip(self.numbers, self.values, strict=True)
        if self.entries:
            return zip(self.entries.keys(), map(itemgetter(0), self.entries.values()), strict=True)
        combined: Iterator[tuple[Any, Any]] = super().items()
        return combined

    def _emit_numbered(self) -> None:
        """Emit and clear the stored records, sorted by key, whole keys at a time where they fit."""
        key_numbers, ordinals = self.key_numbers, self.ordinals
        self.key_numbers, self.ordinals = array("I"), array("Q")
        if not key_numbers:
            return
        by_key = np.array(key_numbers, dtype=np.uint64) << np.uint64(32)
        by_key |= np.arange(len(key_numbers), dtype=np.uint64)
        # Each number is there once, so any sort is stable; the quickest is of whole numbers.
        by_key.sort()
        rows = np.frombuffer(ordinals, dtype=np.uint64)[by_key & np.uint64(2**32 - 1)]
        owners = (by_key >> np.uint64(32)).astype(np.int64)
        starts, _ = _groups(owners)
        keys = list(self.numbers)
        start = 0
        while start < len(rows):
            stop = min(start + POSITIONS_PER_EMIT, len(rows))
            if stop < len(rows):
                key_start = int(starts[np.searchsorted(starts, stop, side="right") - 1])
                stop = key_start if key_start > start else stop
            firsts, lengths = _groups(owners[start:stop])
            group_numbers = owners[start:stop][firsts].tolist()
            self.flows.emit([keys[number] for number in group_numbers], lengths, rows[start:stop])
            start = stop

    def _emit_entries(self) -> None:
        """Emit and clear the buffered rows, some keys at a time: columns cost many times a row."""
        keys: list[Any] = []
        rows: list[array[int]] = []
        held_positions = 0
        for key, entry in self.entries.items():
            if not entry[1]:
                continue
            row, entry[1] = entry[1], array("Q")
            for start in range(0, len(row), POSITIONS_PER_EMIT):
                keys.append(key)
                rows.append(row[start : start + POSITIONS_PER_EMIT])
                held_positions += len(rows[-1])
                if held_positions >= POSITIONS_PER_EMIT:
                    self._emit_rows(keys, rows)
                    held_positions = 0
        self._emit_rows(keys, rows)

    def _emit_rows(self, keys: list[Any], rows: list[array[int]]) -> None:
        ordinals = np.frombuffer(b"".join(rows), dtype=np.uint64)
        lengths = list(map(len, rows))
        rows.clear()
        self.flows.emit(keys, lengths, ordinals)
        keys.clear()

    def _spill_all(self) -> None:
        """Emit what is held, and hand the values to PySpark's own dict, which spills them."""
        self.flows.segment.guard(self._emit_numbered)
        self.flows.segment.guard(self._emit_entries)
        self.flows.forget_targets()
        self.data = dict(self.items())
        self.entries = {}
        self._clear_numbers()
        self._spill()

    def _merge_after_spill(self, records: Iterator[Any], limit: float, batch: float) -> None:
        """PySpark's loop, with keys and rows in two buffers that are emitted when full."""
        create, combine, cell = self.create, self.combine, self.flows.numbering.cell
        data, pdata, partition_of = self.data, self.pdata, self._partition
        keys: list[Any] = []
        rows = array("Q")
        key_append, row_append = keys.append, rows.append
        count = 0
        for key, value in records:
            target = pdata[partition_of(key)] if pdata else data
            target[key] = combine(target[key], value) if key in target else create(value)
            key_append(key)
            row_append(cell[0])
            count += 1
            if len(rows) >= self.keys_max:
                self._emit_pairs(keys, rows)
            if count >= batch:
                if get_used_memory() >= limit:
                    self._emit_pairs(keys, rows)
                    self._spill()
                    data, pdata = self.data, self.pdata
                    limit = self._next_limit()
                    batch /= 2
                    count = 0
                else:
                    batch *= 1.5
        self._emit_pairs(keys, rows)
        if get_used_memory() >= limit:
            self._spill()

    def _emit_pairs(self, keys: list[Any], rows: array[int]) -> None:
        def emit() -> None:
            index: dict[Any, int] = {}
            of_row = np.array([index.setdefault(key, len(index)) for key in keys], dtype=np.int64)
            order = np.argsort(of_row, kind="stable")
            lengths = np.bincount(of_row, minlength=len(index)).tolist()
            self.flows.emit(list(index), lengths, np.array(rows, dtype=np.uint64)[order])
            self._refuse_mixed_forms(list(index))

        if keys:
            self.flows.segment.guard(emit)
        keys.clear()
        del rows[:]

    def _refuse_mixed_forms(self, keys: list[Any]) -> None:
        """Beside PySpark's dicts nobody knows which of several equal keys goes to the reduce side.

        Keys that equal each other have one position, but for those whose positions are found in
        several ways: by a canonical form, by what they compare, by hash.
        """
        if all_canonical(keys):
            self.forms.add("canonical")
        else:
            self.forms.update(map(_form_of, keys))
        if len(self.forms) > 1:
            raise CaptureFailedError(
                "a task spilled, and its keys are of types whose positions are found in several ways"
            )


def _form_of(key: Any) -> str:
    _, canonical, hashed = positions_of([key], parts_of)
    return "canonical" if canonical else "hashed" if hashed else "parts"


class CombineMapSide:
    """Map side of ``combineByKey`` and ``groupByKey``; the segment ends with its last flow.

    ``in_place``: the data are already partitioned so; nothing is shuffled and the segment goes on.
    """

    def __init__(
        self,
        node: str,
        combiners: Combiners,
        memory_mb: float,
        serializer: Any,
        num_partitions: int,
        partition_function: Callable[[Any], int],
        in_place: bool,
    ) -> None:
        self.node = node
        self.combiners = combiners
        self.memory_mb = memory_mb
        self.serializer = serializer
        self.num_partitions = num_partitions
        self.partition_function = partition_function
        self.in_place = in_place

    def __call__(self, split: int, iterator: Iterable[Any]) -> Iterable[Any]:
        segment = segments.current_segment()
        function = None if self.in_place else self.partition_function
        flows = KeyFlows(segment, segment.numbering, self.node, self.num_partitions, function)
        merger = LineageMerger(flows, self.combiners, self.memory_mb * 0.9, self.serializer)
        merger.mergeValues(iterator)
        segment.names_attempts = True
        if not self.in_place:
            segment.finish()
        if flows.memoised_function is None:
            return merger.items()
        return CombinedRecords(merger.items(), flows.memoised_function.take)


class CombinedRecords:
    """Combined records, and the partition function that knows already where they go."""

    def __init__(
        self, items: Iterator[tuple[Any, Any]], partition_function: Callable[[Any], int]
    ) -> None:
        self.items = items
        self.partition_function = partition_function

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self.items


class Merge(Protocol):
    """PySpark's own reduce side. ``kind``: of iterator that it gives."""

    kind: type

    def __call__(self, records: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """The combined records."""


class ReadKeys:
    """Reduce side of a combining shuffle: numbers the combined records, one flow a key."""

    def __init__(
        self,
        config: TaskConfig,
        node: str,
        source: str,
        merge: Merge,
        in_place: bool,
    ) -> None:
        self.config = config
        self.node = node
        self.source = source
        self.merge = merge
        self.in_place = in_place

    def __call__(self, split: int, iterator: Iterable[Any]) -> NumberedRecords:
        attempts: Callable[[], Region]
        if self.in_place:
            segment = segments.current_segment()
            attempts = partial(Region.from_positions, [segment.incarnation])
        else:
            segment = segments.begin_segment(self.config, self.node, split)
            attempts = AttemptsSeen(iterator).region
        equal = EqualKeys(segment.guard)
        reader = KeyReader(segment, self.node, f"{self.source}@{split}", equal, attempts)
        segment.numbering = Numbering.of_space(segment.space(self.node))
        segment.numbering.origin = reader.current
        # In place, the map side's own dict holds the keys already.
        records = iterator if self.in_place else equal.watch(iterator)
        merged = reader.records(self.merge(records), segment.numbering)
        return NumberedRecords(merged, self.merge.kind)


class KeyReader:
    """Flows from a shuffle's key positions to the ordinals of the combined records.

    ``attempts``: those at map tasks whose outputs were read; called when all are.
    """

    def __init__(
        self,
        segment: Segment,
        node: str,
        in_space: str,
        equal: EqualKeys,
        attempts: Callable[[], Region],
    ) -> None:
        self.segment = segment
        self.equal = equal
        self.attempts = attempts
        self.recorder = PositionRecorder(segment, node, in_space, segment.space(node))
        self.keys: list[Any] = []
        self.first = 0
        self.seen: list[np.ndarray[Any, Any]] = []
        segment.on_flush(self.flush_keys)
        segment.on_end(self.emit_collisions)

    def current(self) -> list[tuple[str, int, int]]:
        """The key (a run) whose values are being combined, or whose record went on last."""
        keys = self.keys[-1:] or self.equal.current()
        positions = positions_of(keys, parts_of).positions.tolist()
        return [(self.recorder.in_space, position, position) for position in positions]

    def records(
        self, items: Iterable[tuple[Any, Any]], numbering: Numbering
    ) -> Iterator[tuple[Any, Any]]:
        """Pass items on, numbering them."""
        cell, append = numbering.cell, self.keys.append
        for ordinal, item in enumerate(items):
            append(item[0])
            cell[0] = ordinal
            yield item
            if len(self.keys) >= FLOWS_MAX:
                self.segment.guard(self.flush_keys)

    def flush_keys(self) -> None:
        """Emit the keys read so far."""
        if not self.keys:
            return
        keys = self.keys[:]
        self.keys.clear()
        positions, _, hashed = positions_of(keys, parts_of)
        hashed = hashed or self.equal.hashed
        reason = UNCANONICAL_REASON if hashed else ""
        outs = np.arange(self.first, self.first + len(keys), dtype=np.uint64)
        self.first += len(keys)
        self.seen.append(positions)
        if self.equal:
            self._emit(FlowRegions(*self.equal.runs(keys), outs, reason))
        else:
            self._emit_single(positions, outs, reason)

    def emit_collisions(self) -> None:
        """Emit once more, as supersets, the keys whose position another key has too."""
        self.flush_keys()
        if not self.seen:
            return
        positions = np.concatenate(self.seen)
        _, inverse, counts = np.unique(positions, return_inverse=True, return_counts=True)
        shared = np.flatnonzero(counts[inverse] > 1)
        if len(shared):
            self.segment.collisions += len(shared)
            self.segment.reasons.append(COLLISION_REASON)
            self._emit_single(positions[shared], shared.astype(np.uint64), COLLISION_REASON)

    def _emit_single(
        self, positions: np.ndarray[Any, Any], outs: np.ndarray[Any, Any], reason: str
    ) -> None:
        ones = np.ones(len(positions), dtype=np.int64)
        self._emit(FlowRegions(ones, positions, positions, outs, reason))

    def _emit(self, regions: FlowRegions) -> None:
        sections = [(self.recorder.space, np.arange(len(regions.outs)))]
        node, in_space = self.recorder.node, self.recorder.in_space
        emit_csr(self.segment, node, in_space, sections, regions, self.attempts())
