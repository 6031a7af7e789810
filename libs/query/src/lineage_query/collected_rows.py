"""Rows that an action gave its program, and that another application goes on with: arrays of numbers, say.

They lie in no file. Their place is a path that stands for them (`lineage_store.dataset_paths`), with the partition of the action's sink, and the
row there from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np

from lineage_core.contract.address import SpaceKind, parse_space, split_address
from lineage_core.contract.region import Region
from lineage_core.errors import AddressError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Item
from lineage_query.finding import UNREAD_REASON
from lineage_query.rows.places import Location
from lineage_store.dataset_paths import action_of_rows, rows_of_action
from lineage_store.paths import Spellings
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, RecordedFiles


class CellBackend(Protocol):
    """Traces rows of files, and collected rows, through the arrays that a program made of them, or wrote."""

    def trace_rows(
        self, direction: Direction, app: str, node: str, rows: Sequence[Location]
    ) -> Answer:
        """Trace rows that are those of an array of a recording.

        Args:
            direction: backward, of an array that was written; forward, of one that was read.
            app: the recording's application.
            node: the array.
            rows: of one file that the array is, or collected rows that it was made of.

        Returns:
            The rows and cells at the other end; it lists all of them.

        Raises:
            LineageError: the recording can't be read, or has no such rows.
        """


def place_of_row(app: str, node: str, partition: int, ordinal: int) -> Location:
    """The place of a collected row."""
    return Location(f"{rows_of_action(app, node).path}/{partition}", ordinal, "record")


def row_at(place: Location) -> tuple[str, str, int, int] | None:
    """The application, the sink, the partition and the ordinal of a collected row; None: the place is in a file."""
    path, _, partition = place.path.rpartition("/")
    action = action_of_rows(path)
    if action is None or not partition.isdecimal() or place.number is None:
        return None
    return *action, int(partition), place.number


def regions_of_rows(rows: Iterable[Location]) -> dict[str, Region]:
    """The items that collected rows are, by space; of places in files none."""
    ordinals: dict[str, list[int]] = {}
    for place in rows:
        row = row_at(place)
        if row is not None:
            _, node, partition, ordinal = row
            ordinals.setdefault(f"{node}#{partition}", []).append(ordinal)
    return {
        space: Region.from_positions(np.array(sorted(of_space), np.uint64))
        for space, of_space in ordinals.items()
    }


class CollectedLinks:
    """Which applications went on with the rows that actions gave. Looks each action up once.

    Args:
        store: has the applications.
        direction: backward, to the action that gave rows; forward, to who went on with them.
    """

    def __init__(self, store: GraphStore, direction: Direction) -> None:
        self._store = store
        self._is_backward = direction is Direction.BACKWARD
        self._users: dict[tuple[str, str], RecordedFiles] = {}

    def places(
        self, app: str, node: str, items: Sequence[Item], places: Sequence[Location | None]
    ) -> Sequence[Location | None]:
        """Places of items of a node, for those that have none because an action gave them to its program, where somebody went on with these."""
        if self._is_backward or all(places) or not self._recorded(app, node).items:
            return places
        return [
            _place_of(app, node, item) if place is None else place
            for item, place in zip(items, places, strict=True)
        ]

    def of(self, path: str) -> tuple[list[tuple[str, str]], Mapping[str, str]] | None:
        """Where a trace goes on from collected rows: applications and nodes; and applications that can't be queried, with the reason.

        None: the path is that of a file.
        """
        action = action_of_rows(path.rpartition("/")[0])
        if action is None:
            return None
        if self._is_backward:
            is_there = action[0] in self._store.application_ids()
            reason = "its rows made an array, and it is not in the store"
            return ([action], {}) if is_there else ([], {action[0]: reason})
        recorded = self._recorded(*action)
        nodes = [(one.app, one.node) for one in recorded.items]
        reason = f"whether it went on with rows of {action[0]} is not known: {UNREAD_REASON}"
        return list(dict.fromkeys(nodes)), dict.fromkeys(recorded.unread, reason)

    def _recorded(self, app: str, node: str) -> RecordedFiles:
        if (app, node) not in self._users:
            path = rows_of_action(app, node).path
            found = self._store.recorded_files(FileQuery(path, Spellings(), in_any_folder=True))
            items = [one for one in found.items if not one.wrote and one.path == path]
            self._users[app, node] = RecordedFiles(items, found.unread)
        return self._users[app, node]


def _place_of(app: str, node: str, item: Item) -> Location | None:
    try:
        space_text, ordinal = split_address(item.address)
        space = parse_space(space_text)
    except AddressError:
        return None
    if space.kind is not SpaceKind.PARTITION:
        return None
    return place_of_row(app, node, space.partition, ordinal)
