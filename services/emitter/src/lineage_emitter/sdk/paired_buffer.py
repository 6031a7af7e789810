"""Inputs and outputs added one by one, until they are paired in columns."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from lineage_core.codec import arrow_text as arrow
from lineage_core.contract.address import OPAQUE_SPACE, parse_space
from lineage_core.contract.positions import text_positions
from lineage_core.errors import BlockError, RegionError
from lineage_emitter.sdk.flow_buffer import ADDRESS, WAITING_TEXT_MAX, runs_of
from lineage_emitter.sdk.flow_columns import clean_values
from lineage_emitter.sdk.pairing import Events, Items, Pairing, Spaces
from lineage_emitter.worker.recorders import FLOWS_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from lineage_core.contract.block import I64, U64

EVENTS_MAX = FLOWS_MAX
COLUMN_EVENTS_MAX = 1 << 19
"""Events of a column batch that are paired at a time: bounds the memory of the columns in the making."""
LAST_INPUTS_MAX = 1_000
"""Inputs that a failure names."""
_ONE_ITEM = (
    r"\A[A-Za-z0-9_][A-Za-z0-9_.:-]*(?:#[0-9]+(?:\.[0-9]+)?|@[0-9]+|#\*)#(?:0|[1-9][0-9]{0,18})\z"
)

INPUT, OUTPUT, RESET = 0, 1, 2
"""What an event is: an input or an output, plus a reset."""


class _Waiting:
    """Events in the order in which they were added: of each its item, its tag and what it is, by their rows the values."""

    __slots__ = ("items", "kinds", "tags", "values")

    def __init__(self) -> None:
        self.items: list[str] = []
        self.tags: list[Hashable] = []
        self.kinds = bytearray()
        self.values: dict[int, str] = {}


class PairedBuffer:
    """Takes inputs and outputs in order. Not thread-safe."""

    def __init__(self, pairing: Pairing) -> None:
        self._pairing = pairing
        self._waiting = _Waiting()
        self._text_room = WAITING_TEXT_MAX
        self._last_inputs: list[str] = []

    def add(self, item: str, tag: Hashable, kind: int, value: str | None = None) -> None:
        """Take an input or an output.

        Args:
            item: as :meth:`TaskCapture.add_input` takes it.
            tag: any hashable value.
            kind: ``INPUT`` or ``OUTPUT``, plus ``RESET``.
            value: of an output.

        Raises:
            AddressError, RegionError: an item added since the last call that paired can't be read.
            CaptureFailedError: too many tags hold inputs.
            TypeError: an item or a value is no text.
            OSError: the spool can't be written.
        """
        # Half a million calls a second: a list for each column takes no object for each event.
        waiting = self._waiting
        self._text_room -= len(item)
        if value is not None:
            self._text_room -= len(value)
            waiting.values[len(waiting.kinds)] = value
        waiting.items.append(item)
        waiting.tags.append(tag)
        waiting.kinds.append(kind)
        if self._text_room < 0 or len(waiting.kinds) >= EVENTS_MAX:
            self.pair()

    def add_columns(self, events: Events) -> None:
        """Take inputs and outputs in columns.

        Raises:
            BlockError: the columns do not fit each other.
            AddressError: a space can't be read.
            CaptureFailedError: too many tags hold inputs.
            OSError: the spool can't be written.
        """
        _check_columns(events)
        self.pair()
        self._last_inputs = []
        for start in range(0, len(events.items), COLUMN_EVENTS_MAX):
            part = np.arange(start, min(start + COLUMN_EVENTS_MAX, len(events.items)))
            self._pairing.add(
                Events(
                    events.items.take(part),
                    events.is_output[part],
                    events.reset[part],
                    events.tag[start : start + len(part)],
                    None if events.values is None else events.values[part],
                )
            )

    def pair(self) -> None:
        """Pair all that waits; as :meth:`add`."""
        waiting, self._waiting = self._waiting, _Waiting()
        self._text_room = WAITING_TEXT_MAX
        rows = len(waiting.kinds)
        if not rows:
            return
        self._last_inputs = _trailing_inputs(waiting)
        items, counts = items_of(waiting.items)
        kinds = np.frombuffer(waiting.kinds, np.uint8)
        is_output, reset = kinds & OUTPUT > 0, kinds & RESET > 0
        tags: list[Hashable] = waiting.tags
        values = None
        if waiting.values:
            values = _objects(clean_values([waiting.values.get(row) for row in range(rows)]))
        if bool((counts[is_output] != 1).any()):
            raise RegionError("an output is one run of positions")
        if len(items) != rows:
            event = np.repeat(np.arange(rows), counts)
            reset = reset[event] & (np.diff(event, prepend=-1) > 0)
            is_output, tags = is_output[event], [tags[at] for at in event.tolist()]
            values = None if values is None else values[event]
        self._pairing.add(Events(items, is_output, reset, tags, values))

    def last_inputs(self) -> list[str]:
        """The inputs added last, since the output before them; at most so many as a failure names."""
        if self._waiting.kinds:
            return _trailing_inputs(self._waiting)
        return self._last_inputs


def _trailing_inputs(waiting: _Waiting) -> list[str]:
    inputs: list[str] = []
    for item, kind in zip(reversed(waiting.items), reversed(waiting.kinds), strict=True):
        if kind & OUTPUT or len(inputs) == LAST_INPUTS_MAX:
            break
        inputs.append(item)
        if kind & RESET:
            break
    return inputs[::-1]


def items_of(texts: Sequence[str]) -> tuple[Items, I64]:
    """Items that addresses, regions and opaque strings name, and how many runs each text is.

    Raises:
        AddressError, RegionError: an address can't be read, or names no position.
    """
    column = _text_column(texts)
    plain = np.zeros(len(texts), np.bool_)
    if column is not None:
        plain = arrow.matches(column, _ONE_ITEM)
        if plain.all():
            return _addressed(column), np.ones(len(texts), np.int64)
    counts = np.ones(len(texts), np.int64)
    spaces: dict[str, int] = {}
    code: list[int] = []
    first: list[int] = []
    last: list[int] = []
    opaque: list[tuple[int, str]] = []
    for row, text in enumerate(texts):
        space, _, region = text.rpartition("#")
        if not plain[row] and ("#" not in text or not ADDRESS.fullmatch(text)):
            opaque.append((len(code), text))
            space, firsts, lasts = OPAQUE_SPACE, [0], [0]
        elif plain[row]:
            firsts = lasts = [int(region)]
        else:
            firsts, lasts = runs_of(region)
            if not firsts:
                raise RegionError(f"{text!r:.80} names no item")
        counts[row] = len(firsts)
        if space not in spaces:
            parse_space(space)
            spaces[space] = len(spaces)
        code.extend([spaces[space]] * len(firsts))
        first.extend(firsts)
        last.extend(lasts)
    first_column = np.array(first, np.uint64)
    last_column = np.array(last, np.uint64)
    text_column = None
    if opaque:
        rows, strings = zip(*opaque, strict=True)
        at = np.array(rows, np.int64)
        first_column[at] = last_column[at] = text_positions(strings)
        text_column = np.full(len(code), None, np.object_)
        text_column[at] = strings
    return Items(
        tuple(spaces), np.array(code, np.int64), first_column, last_column, text_column
    ), counts


def _text_column(texts: Sequence[str]) -> pa.StringArray | None:
    """Texts as a column; None where some can't be in one.

    Raises:
        TypeError: some are no texts.
    """
    if wrong := set(map(type, texts)) - {str}:
        raise TypeError(f"an item is a text, not {wrong.pop().__name__}")
    try:
        return arrow.text_column(texts)
    except UnicodeEncodeError:
        return None


def _addressed(column: pa.StringArray) -> Items:
    spaces, numbers = arrow.split_last(column, "#")
    positions = arrow.to_integers(numbers)
    codes, names = arrow.encode_dictionary(spaces)
    for name in names:
        parse_space(name)
    return Items(tuple(names), codes, positions, positions)


def column_events(
    space: str | Spaces,
    first: U64,
    last: U64 | None,
    tags: I64 | None,
    values: Sequence[str | None] | None,
    *,
    is_output: bool,
    reset: bool,
) -> Events:
    """A column batch as events.

    All inputs of a batch are added together: a reset of inputs comes before the batch, one of outputs behind it.
    """
    first = np.asarray(first, np.uint64)
    rows = len(first)
    if isinstance(space, str):
        space = Spaces((space,), np.zeros(rows, np.int64))
    tag = np.zeros(rows, np.int64) if tags is None else np.asarray(tags)
    resets = np.zeros(rows, np.bool_)
    if reset and rows:
        resets[_last_of_tags(tag) if is_output else _first_of_tags(tag)] = True
    return Events(
        Items(
            *space,
            first,
            first if last is None else np.asarray(last, np.uint64),
        ),
        np.full(rows, is_output),
        resets,
        tag if tags is not None else [""] * rows,
        None if values is None else _objects(clean_values(list(values))),
    )


def _first_of_tags(tag: I64) -> I64:
    return np.unique(tag, return_index=True)[1]


def _last_of_tags(tag: I64) -> I64:
    return len(tag) - 1 - np.unique(tag[::-1], return_index=True)[1]


def _check_columns(events: Events) -> None:
    items = events.items
    for space in items.spaces:
        parse_space(space)
        if space == OPAQUE_SPACE:
            raise BlockError("columns are of positions, not of opaque strings", where="space")
    rows = len(events.is_output)
    for name, length in (
        ("space", len(items)),
        ("last", len(items.last)),
        ("tags", len(events.tag)),
        ("values", rows if events.values is None else len(events.values)),
    ):
        if length != rows:
            raise BlockError(f"{length} entries for {rows} items", where=name)
    if bool((items.space < 0).any() or (items.space >= len(items.spaces)).any()):
        raise BlockError(f"an item is of none of the {len(items.spaces)} spaces", where="space")
    if bool((items.last < items.first).any()):
        raise BlockError("an item ends before it begins", where="last")


def _objects(values: Sequence[str | None]) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    column = np.full(len(values), None, np.object_)
    column[:] = values
    return column
