"""Where a trace of records starts: the items of one application that places name, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from lineage_core.contract.address import split_address
from lineage_core.contract.region import Region
from lineage_query.finding import FileUse
from lineage_query.names import looks_like_address
from lineage_query.rows.locations import Locations
from lineage_query.rows.places import Location, LocationError, parse_place
from lineage_query.snapshot import ApplicationSnapshot

ROWS_MAX = 1_000_000
"""Rows that a list names: each takes some 20 microseconds, and 100 bytes."""


@dataclass(frozen=True, slots=True, eq=False)
class RecordStart:
    """Where a trace starts in one application.

    ``regions``: the items that places name, by space. ``complete``: the application's lineage is complete, and nothing is left out.
    ``changed``: a file that a place names has changed since. ``warnings``: of the places and the application.
    """

    opened: ApplicationSnapshot
    regions: Mapping[str, Region]
    complete: bool
    changed: bool
    warnings: tuple[str, ...]


@dataclass(slots=True)
class ListedRows:
    """Rows of a list by what they are rows of: for each file and each space the first one stands for the others.

    ``places``: whole files, and those that stand for others. ``lines``: rows of a file by the one that stands for them;
    ``positions``: of a space likewise.
    """

    places: dict[str, None] = field(default_factory=dict)
    lines: dict[str, list[Location]] = field(default_factory=dict)
    positions: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: Iterable[str]) -> ListedRows:
        """Of rows as people write them.

        Raises:
            LocationError: one names no row.
            AddressError: likewise.
        """
        listed = cls()
        standing: dict[tuple[str, str], str] = {}
        for row in rows:
            if looks_like_address(row):
                space, position = split_address(row)
                place = standing.setdefault(("", space), row)
                listed.positions.setdefault(place, []).append(position)
            else:
                location = parse_place(row)
                place = row
                if location.number is not None:
                    place = standing.setdefault((location.path, location.unit), row)
                    listed.lines.setdefault(place, []).append(location)
            listed.places[place] = None
        return listed

    def add_to(
        self,
        regions: Mapping[str, Region],
        opened: ApplicationSnapshot,
        uses: Mapping[str, Sequence[FileUse]],
    ) -> dict[str, Region]:
        """Regions with the items of all rows.

        Raises:
            LocationError: there is no such row.
            RowsError: rows must be counted in a file that can't be read.
        """
        parts = {space: [region] for space, region in regions.items()}
        for place, rows in self.lines.items():
            for space, some in _items_of(opened.locations, rows, uses[place]):
                parts.setdefault(space, []).append(some)
        for place, positions in self.positions.items():
            region = Region.from_positions(np.array(positions, np.uint64))
            for space in opened.names.find(place, opened.graph):
                opened.locations.check(space, region, opened.names.space(space))
                parts.setdefault(space, []).append(region)
        return {space: Region.union(some) for space, some in parts.items()}


def _items_of(
    locations: Locations, rows: Sequence[Location], uses: Sequence[FileUse]
) -> Iterable[tuple[str, Region]]:
    path = locations.spelled(rows[0].path)
    nodes = [use.node for use in uses if locations.unit(use.node, path) == rows[0].unit]
    for row in rows:
        for node in nodes:
            yield from locations.items_at(node, replace(row, path=path)).items()


def check_listed(rows: Sequence[str]) -> None:
    """See that a list of rows is neither empty nor too long.

    Raises:
        LocationError: it is.
    """
    if not 0 < len(rows) <= ROWS_MAX:
        raise LocationError(
            f"the list has {len(rows):,} rows: give 1 to {ROWS_MAX:,}, or name whole files"
        )
