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
from lineage_emitter.program.numbering import Numbered, SourceRows
from lineage_emitter.program.recipes import Source
from lineage_emitter.session import hadoop
from lineage_emitter.showing import Shown, record_text
from lineage_emitter.worker.record_selection import OrdinalsBySplit
from lineage_query.answers import Group
from lineage_store.paths import plain_path

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

NO_ORDINALS = (
    "filter takes a function of an item's value, an ordinal or a list of ordinals: "
    "a value is found by filter(lambda value: value == ...)"
)


def in_order(look: LineageView, items: Items) -> list[tuple[str, Region]]:
    """Spaces and their items in the order in which they are shown: by node, then partition."""
    nodes = {node: at for at, node in enumerate(look.nodes)}

    def place(space: str) -> tuple[int, int, int, str]:
        parsed = parse_space(space)
        return nodes.get(parsed.name, -1), parsed.partition, parsed.incarnation or 0, space

    return [(space, items[space]) for space in sorted(items, key=place)]


def ordinals_of(chosen: SupportsIndex | Iterable[int]) -> list[int]:
    """The ordinals that somebody names: one, or several in a list, a range or the like.

    Raises:
        TypeError: what is named is no ordinal but a value, say: a record may be a tuple of numbers.
    """
    if isinstance(chosen, tuple | Mapping | str | bytes):
        raise TypeError(NO_ORDINALS)
    listed: list[Any] = list(chosen) if isinstance(chosen, Iterable) else [chosen]
    if any(
        isinstance(one, bool | np.bool_) or not isinstance(one, SupportsIndex) for one in listed
    ):
        raise TypeError(NO_ORDINALS)
    return [index(one) for one in listed]


def at_ordinals(ordered: Iterable[tuple[str, Region]], ordinals: Iterable[int]) -> Items:
    """The items at some places (from 0) of an order.

    Raises:
        IndexError: there is no such place.
    """
    left = sorted(set(ordinals))
    if left and left[0] < 0:
        raise IndexError(f"ordinals count from 0; there is no item {left[0]}")
    found: dict[str, Region] = {}
    first, at = 0, 0
    for space, region in ordered:
        here = []
        while at < len(left) and left[at] < first + region.count:
            here.append(int(region.slice(left[at] - first, 1).first[0]))
            at += 1
        if here:
            found[space] = Region.from_positions(here)
        first += region.count
    if at < len(left):
        raise IndexError(f"there is no item {left[at]}: {first} items, counted from 0")
    return found


class Records:
    """What gives the records of items: those that ``getLineage`` numbered, and rows of sources."""

    def __init__(self, look: LineageView, session: Session) -> None:
        self._look = look
        self._session = session

    def of(self, node: str, splits: Iterable[int]) -> Numbered | SourceRows | None:
        """What gives the records of a node; None: it is none whose records can be had.

        Raises:
            TracingError: they could be had, but a file has changed or the RDD was dropped.
        """
        held = self._session.records.get(node)
        if isinstance(held, Source):
            self.refuse_changed(node, splits)
            return SourceRows(held) if held.lasting else None
        if isinstance(held, Numbered):
            return held
        if self._look.is_numbering(node):
            raise TracingError(
                f"the records of node {self._look.text(node)} were dropped: call getLineage() again"
            )
        return None

    def refuse_changed(self, node: str, splits: Iterable[int]) -> None:
        """Refuse to read rows again where they are not any more what they were.

        Raises:
            TracingError: a file of the partitions has changed since it was read.
        """
        wanted = set(splits)
        noted = [one for one in self._look.graph.splits(node) if one.partition in wanted]
        standing = self._look.locations.as_now().has_splits(node, wanted)
        if standing in {"same", "touched"} and all(one.unit == "line" for one in noted):
            return
        changed = hadoop.changed_file(self._session.sc, noted)
        if changed is None and standing == "changed":
            changed = noted[0].path
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
        kept = by_split(spaces)
        records = self.of(node, kept)
        if records is not None:
            chosen = records.choose(kept, function)
            return {f"{node}#{split}": region for split, region in chosen.items()}
        found: dict[str, list[int]] = {}
        for space, position, value in self._shown(node, spaces):
            if function(value):
                found.setdefault(space, []).append(position)
        return {space: Region.from_positions(positions) for space, positions in found.items()}

    def group(self, node: str, spaces: Items, limit: int | None, *, texts: bool) -> Group:
        """The items with their lines and, if asked for, texts."""
        return self._look.composer().group(NodeItems(node, spaces), limit, texts=texts)

    def values(self, node: str, spaces: Items, limit: int | None = None) -> list[Any] | None:
        """The records of the first items, in order; None where they can't be had.

        Raises:
            TracingError: records are lost, or a file has changed.
        """
        kept: OrdinalsBySplit = by_split(spaces)
        if limit is not None:
            kept = by_split(_first(in_order(self._look, spaces), limit))
        records = self.of(node, kept)
        return None if records is None else [record for _, _, record in records.pick(kept)]

    def shown(self, node: str, spaces: Items, limit: int) -> tuple[Shown, dict[str, None]]:
        """The first items as a person sees them, and what is to be warned of.

        Rows of text files are looked up in the files; what can't be is asked of Spark.
        """
        composer = self._look.composer()
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
        shown = Shown(self._heading(node, group), rows, group.count - len(rows))
        return shown, dict.fromkeys(composer.warnings)

    def _heading(self, node: str, group: Group) -> str:
        noun = "item" if group.count == 1 else "items"
        changed = ", gone since" if group.gone else ", changed since" if group.changed else ""
        of = f" in {group.path}" if group.path else ""
        return f"{group.count:,} {noun} of node {self._look.text(node)}{of}{changed}"

    def _shown(self, node: str, spaces: Items) -> Iterator[tuple[str, int, str]]:
        group = self.group(node, spaces, None, texts=True)
        items = iter(group.items)
        for space, region in in_order(self._look, spaces):
            for position in region.positions().tolist():
                item = next(items)
                if item.binding == "now":
                    raise TracingError(
                        f"{item.location} has changed since the program read it: what it was can't be told"
                    )
                yield space, position, item.address if item.text is None else item.text


def _first(ordered: list[tuple[str, Region]], limit: int) -> dict[str, Region]:
    found: dict[str, Region] = {}
    for space, region in ordered:
        found[space] = region.slice(0, limit)
        limit -= found[space].count
    return found


def counted(items: Items) -> int:
    """Number of items."""
    return sum(region.count for region in items.values())
