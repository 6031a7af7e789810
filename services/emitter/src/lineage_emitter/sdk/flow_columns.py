"""Flows that were captured one by one, in columns: by input space, as blocks hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.codec import arrow_text as arrow
from lineage_core.codec.csv_codec import clean_value
from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.block import Section
from lineage_core.contract.positions import text_positions
from lineage_core.contract.runs import spread
from lineage_emitter.worker.recorders import FLOWS_MAX, RUNS_MAX

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64

FlowContent = tuple[str, str, str | None]
"""hashIn, hashOut and value of a flow, as captured."""
RunLists = tuple[list[int], list[int]]
"""First and last positions of the runs of a region."""


@dataclass(frozen=True, slots=True, eq=False)
class CapturedFlows:
    """Flows in the order captured.

    ``regions``: of the flows whose input is not one position; ``opaque_in``, ``opaque_out``: flows
    (by their place in ``rows``) whose input or output is an opaque string. All other inputs and
    outputs are addresses of one item.
    """

    rows: Sequence[FlowContent]
    regions: Mapping[int, RunLists]
    opaque_in: Sequence[int]
    opaque_out: Sequence[int]


@dataclass(frozen=True, slots=True, eq=False)
class FlowColumns:
    """Flows of one input space in columns.

    ``sections``: output space and number of flows, in order. ``ptr`` (int64[n + 1]) None: one run
    a flow; ``last`` None: runs of one position. ``out_last`` None: outputs of one position.
    """

    sections: list[tuple[str, int]]
    outs: U64
    first: U64
    ptr: I64 | None = None
    last: U64 | None = None
    values: Sequence[str | None] | None = None
    in_text: Sequence[str] | None = None
    out_text: Sequence[str] | None = None
    out_last: U64 | None = None

    def blocks(self) -> Iterator[FlowColumns]:
        """The flows in pieces that fit a block."""
        start, rows = 0, len(self.outs)
        while start < rows:
            stop = min(start + FLOWS_MAX, rows)
            if self.ptr is not None:
                last_fitting = (
                    int(np.searchsorted(self.ptr, self.ptr[start] + RUNS_MAX, "right")) - 1
                )
                stop = max(min(stop, last_fitting), start + 1)
            yield self if stop - start == rows else self._part(start, stop)
            start = stop

    def _part(self, start: int, stop: int) -> FlowColumns:
        low, high, ptr = start, stop, None
        if self.ptr is not None:
            low, high = int(self.ptr[start]), int(self.ptr[stop])
            ptr = self.ptr[start : stop + 1] - low
        sections, row = [], 0
        for space, rows in self.sections:
            inside = min(row + rows, stop) - max(row, start)
            if inside > 0:
                sections.append((space, inside))
            row += rows
        return FlowColumns(
            sections,
            self.outs[start:stop],
            self.first[low:high],
            ptr,
            None if self.last is None else self.last[low:high],
            None if self.values is None else self.values[start:stop],
            None if self.in_text is None else self.in_text[start:stop],
            None if self.out_text is None else self.out_text[start:stop],
            None if self.out_last is None else self.out_last[start:stop],
        )

    def directory(self) -> tuple[Section, ...]:
        """The sections as a block has them."""
        sections, row = [], 0
        for space, rows in self.sections:
            sections.append(Section(space, row, row + rows))
            row += rows
        return tuple(sections)


def concatenated(parts: Sequence[FlowColumns]) -> FlowColumns:
    """Flows of one input space, one part behind the other; all or no outputs are opaque."""
    if len(parts) == 1:
        return parts[0]
    counts = [np.ones(len(p.outs), np.int64) if p.ptr is None else np.diff(p.ptr) for p in parts]
    plain = all(part.ptr is None for part in parts)
    single = all(part.last is None for part in parts)
    valued = any(part.values is not None for part in parts)
    return FlowColumns(
        [section for part in parts for section in part.sections],
        np.concatenate([part.outs for part in parts]),
        np.concatenate([part.first for part in parts]),
        None if plain else np.concatenate(([0], np.cumsum(np.concatenate(counts)))),
        None if single else np.concatenate([p.first if p.last is None else p.last for p in parts]),
        [v for p in parts for v in p.values or [None] * len(p.outs)] if valued else None,
        _texts([part.in_text for part in parts]),
        _texts([part.out_text for part in parts]),
        None
        if all(part.out_last is None for part in parts)
        else np.concatenate([p.outs if p.out_last is None else p.out_last for p in parts]),
    )


def _texts(parts: Sequence[Sequence[str] | None]) -> list[str] | None:
    if parts[0] is None:
        return None
    return [text for part in parts for text in part or ()]


def by_space(
    captured: CapturedFlows, new_rows: I64 | None = None
) -> Iterator[tuple[str, bool, FlowColumns]]:
    """Flows by input space, and apart those whose outputs are opaque (the second of each three).

    ``new_rows``: indexes in ``captured.rows`` of the flows that count, in order; None: all do.
    """
    inputs = [row[0] for row in captured.rows]
    outputs = [row[1] for row in captured.rows]
    in_codes, in_spaces, first = _items(inputs, captured.opaque_in, captured.regions)
    out_codes, out_spaces, outs = _items(outputs, captured.opaque_out, {})
    columns = _Columns(captured, inputs, outputs, first, outs)
    if new_rows is None and len(in_spaces) == 1 and len(out_spaces) == 1:
        opaque_out = out_spaces[0] == OPAQUE_SPACE
        sections = [(out_spaces[0], len(inputs))]
        yield in_spaces[0], opaque_out, columns.of(None, in_spaces[0], sections)
        return
    opaque = np.array([space == OPAQUE_SPACE for space in out_spaces])[out_codes]
    group = in_codes * 2 + opaque
    # By group, then by output space, so that sections are few; else in the order captured.
    key = group * len(out_spaces) + out_codes
    rows = np.arange(len(key)) if new_rows is None else new_rows
    rows = rows[np.argsort(key[rows], kind="stable")]
    for start, stop in equal_runs(group[rows]):
        part = rows[start:stop]
        spaces = out_codes[part]
        sections = [(out_spaces[spaces[at]], end - at) for at, end in equal_runs(spaces)]
        in_space = in_spaces[in_codes[part[0]]]
        yield in_space, bool(opaque[part[0]]), columns.of(part, in_space, sections)


def equal_runs(codes: I64) -> Iterator[tuple[int, int]]:
    """Where equal codes next to each other begin and end."""
    ends = [*np.flatnonzero(np.diff(codes, prepend=-1)).tolist(), len(codes)]
    yield from pairwise(ends)


def _items(
    texts: list[str], opaque: Sequence[int], regions: Mapping[int, RunLists]
) -> tuple[I64, list[str], U64]:
    """Space (a number of the list) and position of each text; of a region any position."""
    if len(opaque) == len(texts):
        return np.zeros(len(texts), np.int64), [OPAQUE_SPACE], text_positions(texts)
    addresses = texts
    if opaque or regions:
        addresses = list(texts)
        for row in opaque:
            addresses[row] = f"{OPAQUE_SPACE}#0"
        for row in regions:
            addresses[row] = f"{texts[row].rpartition('#')[0]}#0"
    column = arrow.text_column(addresses)
    assert column is not None
    spaces, numbers = arrow.split_last(column, "#")
    positions = arrow.to_integers(numbers)
    if opaque:
        positions = positions.copy()
        positions[opaque] = text_positions([texts[row] for row in opaque])
    return *arrow.encode_dictionary(spaces), positions


class _Columns:
    """Columns of all flows, to take those of one input space from."""

    def __init__(
        self, captured: CapturedFlows, inputs: list[str], outputs: list[str], first: U64, outs: U64
    ) -> None:
        self._inputs, self._outputs, self._outs = inputs, outputs, outs
        self._first = first
        self._last: U64 | None = None
        self._ptr: I64 | None = None
        if captured.regions:
            self._widen(captured.regions)
        values = [row[2] for row in captured.rows]
        self._values = clean_values(values) if any(value is not None for value in values) else None

    def _widen(self, regions: Mapping[int, RunLists]) -> None:
        """Runs of all flows behind one another."""
        counts = np.ones(len(self._outs), np.int64)
        rows = np.fromiter(regions, np.int64, len(regions))
        counts[rows] = [len(first) for first, _ in regions.values()]
        self._ptr = np.concatenate(([0], np.cumsum(counts)))
        owner, step = spread(counts[rows])
        run_index = self._ptr[rows][owner] + step
        self._first = np.repeat(self._first, counts)
        self._last = self._first.copy()
        firsts, lasts = zip(*regions.values(), strict=True)
        self._first[run_index] = np.fromiter(chain.from_iterable(firsts), np.uint64, len(run_index))
        self._last[run_index] = np.fromiter(chain.from_iterable(lasts), np.uint64, len(run_index))

    def of(self, rows: I64 | None, in_space: str, sections: list[tuple[str, int]]) -> FlowColumns:
        """The flows ``rows``; None: all."""
        opaque_in, opaque_out = in_space == OPAQUE_SPACE, sections[0][0] == OPAQUE_SPACE
        if rows is None:
            values, in_text, out_text = self._values, self._inputs, self._outputs
            runs, ptr, outs = None, self._ptr, self._outs
        else:
            row_list = rows.tolist()
            values = None if self._values is None else [self._values[row] for row in row_list]
            in_text = [self._inputs[row] for row in row_list] if opaque_in else []
            out_text = [self._outputs[row] for row in row_list] if opaque_out else []
            outs = self._outs[rows]
            runs, ptr = self._runs(rows)
        return FlowColumns(
            sections,
            outs,
            self._first if runs is None else self._first[runs],
            ptr,
            self._last if self._last is None or runs is None else self._last[runs],
            values,
            in_text if opaque_in else None,
            out_text if opaque_out else None,
        )

    def _runs(self, rows: I64) -> tuple[I64, I64 | None]:
        """Places of the runs of some flows, and their pointer."""
        if self._ptr is None:
            return rows, None
        counts = np.diff(self._ptr)[rows]
        owner, step = spread(counts)
        return self._ptr[rows][owner] + step, np.concatenate(([0], np.cumsum(counts)))


def clean_values(values: list[str | None]) -> list[str | None]:
    """Values as a block can hold them."""
    text = "".join([value for value in values if value])
    if text.isascii() and "\0" not in text:
        return values
    return [value and clean_value(value) for value in values]
