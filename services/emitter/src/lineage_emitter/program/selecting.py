"""Some of a set of items, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from lineage_core.contract.address import parse_space
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import NodeItems
from lineage_emitter.errors import TracingError
from lineage_emitter.program.lookups import Items, LineageView, by_split
from lineage_emitter.program.numbering import NumberedRdd, SourceRows
from lineage_emitter.program.recipes import SourceRecipe
from lineage_emitter.session import hadoop
from lineage_emitter.worker.record_selection import OrdinalsBySplit
from lineage_query.answers import Group
from lineage_query.showing import ItemGroup, record_text
from lineage_store.paths import plain_path

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

NO_ORDINALS = (
    "filter takes a function of an item's value, an ordinal or a list of ordinals: "
    "a value is found by filter(lambda value: value == ...)"
)


def ordered_spaces(view: LineageView, items: Items) -> list[tuple[str, Region]]:
    """Spaces and their items in the order in which they are shown: by node, then partition."""
    nodes = {node: index for index, node in enumerate(view.nodes)}

    def sort_key(space: str) -> tuple[int, int, int, str]:
        parsed = parse_space(space)
        return nodes.get(parsed.name, -1), parsed.partition, parsed.incarnation or 0, space

    return [(space, items[space]) for space in sorted(items, key=sort_key)]


def ordinals_of(chosen: SupportsIndex | Iterable[int]) -> list[int]:
    """The ordinals that somebody names: one, or several in a list, a range or the like.

    Raises:
        TypeError: what is named is no ordinal but a value, say: a record may be a tuple of numbers.
    """
    if isinstance(chosen, tuple | Mapping | str | bytes):
        raise TypeError(NO_ORDINALS)
    listed: list[Any] = list(chosen) if isinstance(chosen, Iterable) else [chosen]
    if any(
        isinstance(ordinal, bool | np.bool_) or not isinstance(ordinal, SupportsIndex)
        for ordinal in listed
    ):
        raise TypeError(NO_ORDINALS)
    return [index(ordinal) for ordinal in listed]


def at_ordinals(ordered: Iterable[tuple[str, Region]], ordinals: Iterable[int]) -> Items:
    """The items at some places (from 0) of an order.

    Raises:
        IndexError: there is no such place.
    """
    remaining = sorted(set(ordinals))
    if remaining and remaining[0] < 0:
        raise IndexError(f"ordinals count from 0; there is no item {remaining[0]}")
    selected: dict[str, Region] = {}
    first, at = 0, 0
    for space, region in ordered:
        positions = []
        while at < len(remaining) and remaining[at] < first + region.count:
            positions.append(int(region.slice(remaining[at] - first, 1).first[0]))
            at += 1
        if positions:
            selected[space] = Region.from_positions(positions)
        first += region.count
    if at < len(remaining):
        raise IndexError(f"there is no item {remaining[at]}: {first} items, counted from 0")
    return selected


class RecordReader:
    """What gives the records of items: those that ``getLineage`` numbered, and rows of sources."""

    def __init__(self, view: LineageView, session: Session) -> None:
        self._view = view
        self._session = session

    def source_of(self, node: str, splits: Iterable[int]) -> NumberedRdd | SourceRows | None:
        """What gives the records of a node; None: it is none whose records can be had.

        Raises:
            TracingError: they could be had, but a file has changed or the RDD was dropped.
        """
        held = self._session.records.get(node)
        if isinstance(held, SourceRecipe):
            self.refuse_changed(node, splits)
            return SourceRows(held) if held.repeatable else None
        if isinstance(held, NumberedRdd):
            return held
        if self._view.is_numbering(node):
            raise TracingError(
                f"the records of node {self._view.text(node)} were dropped: call getLineage() again"
            )
        return None

    def refuse_changed(self, node: str, splits: Iterable[int]) -> None:
        """Refuse to read rows again where they are not any more what they were.

        Raises:
            TracingError: a file of the partitions has changed since it was read.
        """
        partitions = set(splits)
        split_records = [
            split for split in self._view.graph.splits(node) if split.partition in partitions
        ]
        file_state = self._view.locations.as_now().has_splits(node, partitions)
        if file_state in {"same", "touched"} and all(
            split.unit == "line" for split in split_records
        ):
            return
        changed = hadoop.changed_file(self._session.sc, split_records)
        if changed is None and file_state == "changed":
            changed = split_records[0].path
        if changed is not None:
            raise TracingError(
                f"{plain_path(changed)} has changed since the program read it: its rows can't "
                "be read again"
            )

    def choose(self, node: str, spaces: Items, function: Callable[[Any], Any]) -> dict[str, Region]:
        """The items whose value ``function`` holds of.

        Raises:
            TracingError: records of theirs are lost, or a file has changed.
        """
        ordinals = by_split(spaces)
        records = self.source_of(node, ordinals)
        if records is not None:
            chosen = records.choose(ordinals, function)
            return {f"{node}#{split}": region for split, region in chosen.items()}
        positions_by_space: dict[str, list[int]] = {}
        for space, position, value in self._shown(node, spaces):
            if function(value):
                positions_by_space.setdefault(space, []).append(position)
        return {
            space: Region.from_positions(positions)
            for space, positions in positions_by_space.items()
        }

    def group(self, node: str, spaces: Items, limit: int | None, *, texts: bool) -> Group:
        """The items with their lines and, if requested, texts."""
        return self._view.composer().group(NodeItems(node, spaces), limit, texts=texts)

    def values(self, node: str, spaces: Items, limit: int | None = None) -> list[Any] | None:
        """The records of the first items, in order; None where they can't be had.

        Raises:
            TracingError: records are lost, or a file has changed.
        """
        ordinals: OrdinalsBySplit = by_split(spaces)
        if limit is not None:
            ordinals = by_split(_first(ordered_spaces(self._view, spaces), limit))
        records = self.source_of(node, ordinals)
        return None if records is None else [record for _, _, record in records.pick(ordinals)]

    def shown(self, node: str, spaces: Items, limit: int) -> tuple[ItemGroup, dict[str, None]]:
        """The first items as a person sees them, and what is to be warned of.

        Rows of text files are looked up in the files; other records are read by Spark.
        """
        composer = self._view.composer()
        group = composer.group(NodeItems(node, spaces), limit, texts=True)
        texts = [item.shown for item in group.items]
        if None in texts and not group.changed:
            try:
                records = self.values(node, spaces, limit)
                texts = texts if records is None else [record_text(record) for record in records]
            except TracingError as gone:
                composer.warnings[str(gone)] = None
        places = [item.location or item.address for item in group.items]
        rows = list(zip(places, texts, strict=True))
        shown = ItemGroup(self._heading(node, group), rows, group.count - len(rows))
        return shown, dict.fromkeys(composer.warnings)

    def _heading(self, node: str, group: Group) -> str:
        noun = "item" if group.count == 1 else "items"
        changed = ", gone since" if group.gone else ", changed since" if group.changed else ""
        in_path = f" in {group.path}" if group.path else ""
        return f"{group.count:,} {noun} of node {self._view.text(node)}{in_path}{changed}"

    def _shown(self, node: str, spaces: Items) -> Iterator[tuple[str, int, str]]:
        group = self.group(node, spaces, None, texts=True)
        items = iter(group.items)
        for space, region in ordered_spaces(self._view, spaces):
            for position in region.positions().tolist():
                item = next(items)
                if item.binding == "now":
                    raise TracingError(
                        f"{item.location} has changed since the program read it: what it was is unknown"
                    )
                yield space, position, item.address if item.text is None else item.text


def _first(ordered: list[tuple[str, Region]], limit: int) -> dict[str, Region]:
    first_items: dict[str, Region] = {}
    for space, region in ordered:
        first_items[space] = region.slice(0, limit)
        limit -= first_items[space].count
    return first_items


def count_items(items: Items) -> int:
    """Number of items."""
    return sum(region.count for region in items.values())
