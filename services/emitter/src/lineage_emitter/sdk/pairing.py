"""Paired capture: outputs are associated with the inputs that came before them, in columns.

The program adds inputs and outputs in the order in which it handles them. Each belongs to a tag. An output is made
from all inputs of its tag since the tag's last reset (Logothetis et al., Newt, SoCC 2013, section 3.3.2).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.runs import normalise, spread
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.flow_columns import FlowColumns, equal_runs
from lineage_emitter.worker.recorders import RUNS_MAX, split_by_runs

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64


class Spaces(NamedTuple):
    """The space of each of many items. ``of_item``: int64[n], of each item the place of its space in ``names``."""

    names: tuple[str, ...]
    of_item: I64


Mask = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]

DIRECT_RUNS_MAX = 1 << 21
"""Runs that are written out for the events of one call of :meth:`Pairing.add`: some 100 MB in the making."""
OPEN_INPUTS_MAX = 1 << 20
"""Runs of inputs that wait for outputs of their tags."""
OPEN_TEXT_MAX = 1 << 26
"""Characters of tags and opaque strings that wait with them."""
SPARE_TAGS = 1 << 17
"""Tags without inputs that are remembered before they are forgotten together."""
_ONE = np.uint64(1)


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Runs of positions, each of one space; of the opaque space single positions with their strings.

    ``space``: int64[n], indexes of ``spaces``; ``first``, ``last``: uint64[n], inclusive. ``text``: object[n], None
    where no item is opaque.
    """

    spaces: tuple[str, ...]
    space: I64
    first: U64
    last: U64
    text: Texts | None = None

    def __len__(self) -> int:
        return len(self.space)

    def take(self, rows: I64 | Mask) -> Items:
        """Some of the items, in the order of ``rows``."""
        if rows.dtype == np.bool_ and bool(rows.all()):
            return self
        if rows.dtype == np.bool_ and not rows.any():
            return no_items()
        text = None if self.text is None else self.text[rows]
        return Items(self.spaces, self.space[rows], self.first[rows], self.last[rows], text)

    def followed_by(self, other: Items) -> Items:
        """These items and then the others."""
        if not len(self):
            return other
        spaces = tuple(dict.fromkeys(self.spaces + other.spaces))
        index = {space: number for number, space in enumerate(spaces)}
        codes = np.array([index[space] for space in other.spaces], np.int64)
        text = None
        if self.text is not None or other.text is not None:
            text = np.concatenate([_texts_of(self), _texts_of(other)])
        return Items(
            spaces,
            np.concatenate((self.space, codes[other.space] if len(other) else other.space)),
            np.concatenate((self.first, other.first)),
            np.concatenate((self.last, other.last)),
            text,
        )

    def is_opaque(self) -> Mask:
        """Which items are opaque strings."""
        return np.array([space == OPAQUE_SPACE for space in self.spaces], np.bool_)[self.space]


def _chars(tag: Hashable) -> int:
    return len(tag) if isinstance(tag, str | bytes) else 0


def no_items() -> Items:
    """No item of no space."""
    return Items((), np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def _texts_of(items: Items) -> Texts:
    return np.full(len(items), None, np.object_) if items.text is None else items.text


@dataclass(frozen=True, slots=True, eq=False)
class Events:
    """Inputs and outputs in the order in which the program handled them.

    ``tag``: one of any hashable values for each event, or an array of numbers. ``reset``: of an input, it begins
    anew with this input; of an output, it begins anew behind it. ``values``: texts of outputs, None without any.
    """

    items: Items
    is_output: Mask
    reset: Mask
    tag: Sequence[Hashable] | npt.NDArray[np.integer]
    values: Texts | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """Outputs, and of each the inputs ``low`` to ``high`` (exclusive) that it is made from.

    ``lasts``: whether some of these wait for more outputs.
    """

    outputs: Items
    values: Texts | None
    low: I64
    high: I64
    lasts: Mask

    def take(self, rows: I64) -> _Windows:
        """Some of the windows, in the order of ``rows``."""
        values = None if self.values is None else self.values[rows]
        outputs = self.outputs.take(rows)
        return _Windows(outputs, values, self.low[rows], self.high[rows], self.lasts[rows])


class Pairing:
    """Associates outputs with the inputs since the last reset. Not thread-safe.

    Memory is bounded. Inputs wait as runs of positions. Where outputs share so many inputs that writing out each
    association would take too much, inputs are numbered first: an output's inputs are then one run of numbers. That
    is as exact, and one step more for a trace.

    Args:
        write: takes flows of one input space.
        write_numbered: takes flows whose outputs are numbers of inputs.
        numbered_space: gives the space of these numbers when it is needed.
        own_space: a space of the task; named by flows without inputs.
    """

    def __init__(
        self,
        write: Callable[[str, FlowColumns], None],
        write_numbered: Callable[[str, FlowColumns], None],
        numbered_space: Callable[[], str],
        own_space: str,
    ) -> None:
        self._write = write
        self._write_numbered = write_numbered
        self._numbered_space = numbered_space
        self._own_space = own_space
        self._numbered = ""
        self._next_number = 0
        self._are_numbers = True
        """Whether all tags so far came in arrays of numbers: these are their own codes."""
        self._codes: dict[Hashable, int] = {}
        self._tag_chars = 0
        self._open = no_items()
        """Inputs that outputs to come may be made from, by tag and then in order."""
        self._open_tags = np.zeros(0, np.int64)

    def add(self, events: Events) -> None:
        """Take events, and write the flows of the outputs among them.

        Raises:
            CaptureFailedError: too many tags hold inputs.
            TypeError: a tag is not hashable.
            OSError: the spool can't be written.
        """
        codes = self._tag_codes(events.tag)
        if bool(events.is_output.all()) and bool((codes[1:] > codes[:-1]).all()):
            self._add_outputs(events, codes)
            return
        is_kept = not (events.is_output.any() or events.reset.any())
        if is_kept and not len(self._open) and bool((codes[1:] >= codes[:-1]).all()):
            self._keep(events.items, codes)
            return
        tags = np.concatenate((self._open_tags, codes))
        opened = len(self._open)
        items = self._open.followed_by(events.items)
        order = np.argsort(tags, kind="stable")
        in_order = bool((order[1:] > order[:-1]).all())
        tags = tags[order]
        if is_kept:
            self._keep(items if in_order else items.take(order), tags)
            return
        is_output = np.concatenate((np.zeros(opened, np.bool_), events.is_output))[order]
        reset = np.concatenate((np.zeros(opened, np.bool_), events.reset))[order]
        count = np.cumsum(~is_output)
        low, final = _window_starts(tags, is_output, reset, count)
        inputs = items.take(~is_output if in_order else order[~is_output])
        input_tags = tags[~is_output]
        out = np.flatnonzero(is_output)
        values = None if events.values is None else events.values[order[out] - opened]
        lasts = final[out] < count[out]
        windows = _Windows(items.take(order[out]), values, low[out], count[out], lasts)
        inputs = self._write_windows(inputs, windows)
        is_open = np.arange(len(inputs)) >= final[~is_output]
        self._keep(inputs.take(is_open), input_tags[is_open])

    def _add_outputs(self, events: Events, tags: I64) -> None:
        """Write the flows of outputs, each of a larger tag than the one before: nothing has to be put in order."""
        low, high = (np.searchsorted(self._open_tags, tags, side) for side in ("left", "right"))
        lasts = ~events.reset & (low < high)
        windows = _Windows(events.items, events.values, low, high, lasts)
        inputs, reset = self._write_windows(self._open, windows), events.reset
        ends = np.zeros(len(inputs) + 1, np.int64)
        # No two tags share an input, but one may hold none where another begins or ends.
        np.add.at(ends, low[reset], 1)
        np.add.at(ends, high[reset], -1)
        is_open = np.cumsum(ends[:-1]) == 0
        self._keep(inputs.take(is_open), self._open_tags[is_open])

    def open_inputs(self) -> int:
        """Runs of inputs that wait."""
        return len(self._open)

    def _tag_codes(self, tags: Sequence[Hashable] | npt.NDArray[np.integer]) -> I64:
        if self._are_numbers:
            if isinstance(tags, np.ndarray) and not bool((tags > np.iinfo(np.int64).max).any()):
                return tags.astype(np.int64)
            self._name_numbers()
        codes = self._codes
        if isinstance(tags, np.ndarray):
            if not len(tags):
                return np.zeros(0, np.int64)
            if bool((tags[1:] >= tags[:-1]).all()):
                begins = _changes(tags)
                distinct, inverse = tags[begins], np.cumsum(begins) - 1
            else:
                distinct, inverse = np.unique(tags, return_inverse=True)
            codes_of_tags: I64 = self._tag_codes(distinct.tolist())[inverse]
            return codes_of_tags
        for tag in dict.fromkeys(tags):
            if tag not in codes:
                codes[tag] = len(codes)
                self._tag_chars += _chars(tag)
        return np.fromiter(map(codes.__getitem__, tags), np.int64, len(tags))

    def _name_numbers(self) -> None:
        """Have codes for numbers, too: tags of other kinds follow."""
        kept, self._open_tags = np.unique(self._open_tags, return_inverse=True)
        self._codes = {number: code for code, number in enumerate(kept.tolist())}
        self._are_numbers = False

    # -- open inputs ---------------------------------------------------------------------------

    def _keep(self, inputs: Items, tags: I64) -> None:
        """Keep inputs for outputs to come, in as little memory as they need."""
        inputs, tags = _joined(inputs, tags)
        if not self._fits(inputs):
            inputs, tags = _joined(self._number(inputs, self._unnumbered(inputs)), tags)
        if not self._fits(inputs):
            inputs, tags = _joined(self._number(inputs, np.ones(len(inputs), np.bool_)), tags)
        if not self._fits(inputs):
            raise CaptureFailedError(f"more than {OPEN_INPUTS_MAX} tags hold inputs")
        self._open, self._open_tags = inputs, tags
        if len(self._codes) > 2 * len(tags) + SPARE_TAGS or self._tag_chars > OPEN_TEXT_MAX:
            self._forget_tags()

    def _fits(self, inputs: Items) -> bool:
        chars = 0 if inputs.text is None else sum(len(text) for text in inputs.text if text)
        return len(inputs) <= OPEN_INPUTS_MAX and chars <= OPEN_TEXT_MAX

    def _forget_tags(self) -> None:
        """Forget the tags that hold no input."""
        kept, self._open_tags = np.unique(self._open_tags, return_inverse=True)
        names = list(self._codes)
        self._codes = {names[code]: number for number, code in enumerate(kept.tolist())}
        self._tag_chars = sum(map(_chars, self._codes))
        if self._tag_chars > OPEN_TEXT_MAX:
            raise CaptureFailedError(
                f"tags that hold inputs have more than {OPEN_TEXT_MAX} letters"
            )

    # -- numbers of inputs -----------------------------------------------------------------------

    def _unnumbered(self, inputs: Items) -> Mask:
        codes = [space != self._numbered for space in inputs.spaces]
        return np.array(codes, np.bool_)[inputs.space]

    def _number(self, inputs: Items, chosen: Mask) -> Items:
        """Inputs of which some are replaced by numbers, which rise in order."""
        count = int(np.count_nonzero(chosen))
        if not count:
            return inputs
        if not self._numbered:
            self._numbered = self._numbered_space()
        numbers = np.arange(self._next_number, self._next_number + count, dtype=np.uint64)
        self._next_number += count
        numbered = inputs.take(chosen)
        outs = Items((self._numbered,), np.zeros(count, np.int64), numbers, numbers)
        rows = np.arange(count)
        for in_space, flows in _flows(numbered, outs, None, rows):
            self._write_numbered(in_space, flows)
        spaces = (*inputs.spaces, self._numbered)
        space, first, last = inputs.space.copy(), inputs.first.copy(), inputs.last.copy()
        space[chosen] = spaces.index(self._numbered)
        first[chosen] = last[chosen] = numbers
        text = inputs.text
        if text is not None:
            text = text.copy()
            text[chosen] = None
        return Items(spaces, space, first, last, text)

    # -- flows -----------------------------------------------------------------------------------

    def _write_windows(self, inputs: Items, windows: _Windows) -> Items:
        """Write the flows of outputs; gives the inputs, perhaps by their numbers."""
        if not len(windows.outputs):
            return inputs
        is_opaque = windows.outputs.is_opaque()
        by_space = np.argsort(
            windows.outputs.space + is_opaque * len(windows.outputs.spaces), kind="stable"
        )
        if bool((np.diff(by_space) != 1).any()):
            windows = windows.take(by_space)
        segments = _Segments(inputs)
        counts = segments.counts(windows)
        for chosen in (self._unnumbered(inputs), np.ones(len(inputs), np.bool_)):
            repeats = bool((windows.lasts & (counts > RUNS_MAX)).any())
            if int(counts.sum()) <= DIRECT_RUNS_MAX and not repeats:
                break
            inputs = self._number(inputs, chosen)
            segments = _Segments(inputs)
            counts = segments.counts(windows)
        self._write_without_inputs(windows, counts == 0)
        runs, owner = segments.runs(windows, counts)
        for in_space, flows in _flows(runs, windows.outputs, windows.values, owner):
            self._write(in_space, flows)
        return inputs

    def _write_without_inputs(self, windows: _Windows, chosen: Mask) -> None:
        if not chosen.any():
            return
        rows = np.flatnonzero(chosen)
        for part in _split_opaque(windows.outputs, rows):
            flows = _of_outputs(
                windows.outputs,
                windows.values,
                part,
                np.zeros(0, np.uint64),
                ptr=np.zeros(len(part) + 1, np.int64),
            )
            self._write(self._own_space, flows)


def _changes(values: npt.NDArray[np.integer]) -> Mask:
    """Which values differ from the one before; the first does."""
    changes = np.ones(len(values), np.bool_)
    changes[1:] = values[1:] != values[:-1]
    return changes


def _window_starts(tags: I64, is_output: Mask, reset: Mask, count: I64) -> tuple[I64, I64]:
    """Of each event, sorted by tag, where its window of inputs begins, and where that of its tag begins at the end.

    ``count``: inputs up to and with each event.
    """
    events = len(tags)
    marks = np.zeros(events, np.int64)
    starts = np.flatnonzero(_changes(tags))
    marks[starts] = (count - ~is_output)[starts]
    anew = reset & ~is_output
    marks[anew] = count[anew] - 1
    behind = np.flatnonzero(reset & is_output) + 1
    behind = behind[behind < events]
    marks[behind] = np.maximum(marks[behind], count[behind - 1])
    low = np.maximum.accumulate(marks)
    ends = np.append(starts[1:], events) - 1
    final = np.where(reset[ends] & is_output[ends], count[ends], low[ends]) if events else ends
    return low, np.repeat(final, np.diff(np.append(starts, events)))


class _Segments:
    """Inputs as maximal chains, each of which is one run of positions from its first input to any of the others."""

    def __init__(self, inputs: Items) -> None:
        self._inputs = inputs
        begins = _begins(inputs)
        self._of_input = np.cumsum(begins) - 1
        self._begin = np.flatnonzero(begins)
        self._end = np.append(self._begin[1:], len(inputs)) - 1

    def counts(self, windows: _Windows) -> I64:
        """Runs of each window."""
        counts = np.zeros(len(windows.low), np.int64)
        some = windows.high > windows.low
        segment = self._of_input
        counts[some] = segment[windows.high[some] - 1] - segment[windows.low[some]] + 1
        return counts

    def runs(self, windows: _Windows, counts: I64) -> tuple[Items, I64]:
        """The runs of all windows, and the window of each."""
        low, high = windows.low, windows.high
        points = len(self._begin) == len(self._inputs)
        if (
            points
            and low[0] == 0
            and high[-1] == len(self._inputs)
            and bool((low[1:] == high[:-1]).all())
        ):
            return self._inputs, np.repeat(np.arange(len(counts)), counts)
        owner, step = spread(counts)
        if points or not len(owner):
            return self._inputs.take(low[owner] + step), owner
        segment = self._of_input[windows.low[owner]] + step
        first = np.maximum(self._begin[segment], windows.low[owner])
        last = np.minimum(self._end[segment], windows.high[owner] - 1)
        inputs = self._inputs
        text = None if inputs.text is None else inputs.text[first]
        runs = Items(
            inputs.spaces, inputs.space[first], inputs.first[first], inputs.last[last], text
        )
        return runs, owner


def _begins(inputs: Items) -> Mask:
    """Which inputs do not go on where the one before them is: at a place within it or behind it, and as far at least.

    So the union of inputs of which all but the first go on is from where the first begins to where the last ends.
    """
    begins = np.ones(len(inputs), np.bool_)
    if len(inputs) > 1:
        first, last, before = inputs.first, inputs.last[1:], inputs.last[:-1]
        # There is no place behind the last one: 0 is what this sum is then.
        goes_on = (first[1:] <= before) | (first[1:] == before + _ONE)
        goes_on &= (first[1:] >= first[:-1]) & (last >= before)
        begins[1:] = ~(goes_on & (inputs.space[1:] == inputs.space[:-1]))
        if inputs.text is not None:
            begins |= inputs.is_opaque()
    return begins


def _joined(inputs: Items, tags: I64) -> tuple[Items, I64]:
    """Inputs of one tag that go on from one to the next as one."""
    begins = _begins(inputs)
    begins |= _changes(tags)
    first = np.flatnonzero(begins)
    if len(first) == len(inputs):
        return inputs, tags
    last = np.append(first[1:], len(inputs)) - 1
    text = None if inputs.text is None else inputs.text[first]
    joined = Items(inputs.spaces, inputs.space[first], inputs.first[first], inputs.last[last], text)
    return joined, tags[first]


# -- columns of flows ----------------------------------------------------------------------------


def _flows(
    runs: Items, outputs: Items, values: Texts | None, owner: I64
) -> Iterator[tuple[str, FlowColumns]]:
    """Flows by input space. ``owner``: of each run its row of ``outputs``, which are ordered by space."""
    if not len(owner):
        return
    opaque_out = outputs.is_opaque()[owner]
    group = runs.space * 2 + opaque_out
    if bool((group != group[0]).any()):
        order = np.argsort(group, kind="stable")
        runs, owner, group = runs.take(order), owner[order], group[order]
    for start, stop in equal_runs(group):
        chosen = slice(start, stop)
        in_space = runs.spaces[int(runs.space[start])]
        if in_space == OPAQUE_SPACE:
            assert runs.text is not None
            yield (
                in_space,
                _opaque_flows(
                    runs.first[chosen], runs.text[chosen], owner[chosen], outputs, values
                ),
            )
        else:
            row, first, last = _normal_runs(owner[chosen], runs.first[chosen], runs.last[chosen])
            begins = np.flatnonzero(np.diff(row, prepend=-1))
            # A block takes so many runs of a flow: an output with more has several flows.
            of_row, part, _ = split_by_runs(np.diff(begins, append=len(row)))
            begins = begins[of_row] + part * RUNS_MAX
            single = len(begins) == len(row)
            yield (
                in_space,
                _of_outputs(
                    outputs,
                    values,
                    row[begins],
                    first,
                    last=None if bool((first == last).all()) else last,
                    ptr=None if single else np.append(begins, len(row)),
                ),
            )


def _opaque_flows(
    positions: U64, texts: Texts, owner: I64, outputs: Items, values: Texts | None
) -> FlowColumns:
    """A flow for each association: a row of a block has one string."""
    order = np.lexsort((positions, owner))
    positions, texts, owner = positions[order], texts[order], owner[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (positions[1:] != positions[:-1]) | (owner[1:] != owner[:-1])
    return _of_outputs(
        outputs, values, owner[is_new], positions[is_new], in_text=texts[is_new].tolist()
    )


def _normal_runs(owner: I64, first: U64, last: U64) -> tuple[I64, U64, U64]:
    """Runs by row, of each row in order, disjoint and not adjacent."""
    same_row = owner[1:] == owner[:-1]
    if bool((same_row & (first[1:] < first[:-1])).any()):
        order = np.lexsort((first, owner))
        owner, first, last = owner[order], first[order], last[order]
        same_row = owner[1:] == owner[:-1]
    touches = same_row & ((first[1:] <= last[:-1]) | (first[1:] - last[:-1] == _ONE))
    if not touches.any():
        return owner, first, last
    if bool((same_row & (last[1:] < last[:-1])).any()):
        return _merged_by_row(owner, first, last)
    begin = np.flatnonzero(np.concatenate(([True], ~touches)))
    end = np.append(begin[1:], len(owner)) - 1
    return owner[begin], first[begin], last[end]


def _merged_by_row(owner: I64, first: U64, last: U64) -> tuple[I64, U64, U64]:
    """The same row by row, where runs lie within others."""
    rows, parts = [], []
    for start, stop in equal_runs(owner):
        parts.append(normalise(first[start:stop], last[start:stop]))
        rows.append(np.full(len(parts[-1][0]), owner[start], np.int64))
    firsts, lasts = zip(*parts, strict=True)
    return np.concatenate(rows), np.concatenate(firsts), np.concatenate(lasts)


def _split_opaque(outputs: Items, rows: I64) -> Iterator[I64]:
    """The rows whose outputs are addresses, and those whose outputs are opaque."""
    is_opaque = outputs.is_opaque()[rows]
    for part in (rows[~is_opaque], rows[is_opaque]):
        if len(part):
            yield part


def _of_outputs(
    outputs: Items,
    values: Texts | None,
    rows: I64,
    first: U64,
    *,
    last: U64 | None = None,
    ptr: I64 | None = None,
    in_text: list[str] | None = None,
) -> FlowColumns:
    """Flows into the outputs ``rows``, which are ordered by space."""
    outs = outputs.take(rows)
    sections = [
        (outs.spaces[int(outs.space[start])], stop - start)
        for start, stop in equal_runs(outs.space)
    ]
    opaque = sections[0][0] == OPAQUE_SPACE
    return FlowColumns(
        sections,
        outs.first,
        first,
        ptr,
        last,
        None if values is None else values[rows].tolist(),
        in_text,
        _texts_of(outs).tolist() if opaque else None,
        None if bool((outs.first == outs.last).all()) else outs.last,
    )
