"""Rows of sources that several failing output rows are made from: a fault of one of them would explain all.

Gulzar et al., "Automated Debugging in Data-Intensive Scalable Computing" (BigSift, SoCC 2017), prioritize backward traces by their overlap: the rows that failing
outputs share are tried first. They only say where a search begins.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from lineage_core.contract.region import Region
from lineage_core.errors import LineageError
from lineage_query.minimising import Part, first_suspects

Witnesses: TypeAlias = "Mapping[Hashable, Region]"
"""Rows of sources: ordinals by what they are rows of. Of an output row whose witnesses are not known: none."""

TRACED_MAX = 8
"""Failing output rows whose lineage is looked up."""
Row = TypeVar("Row")


def traced_each(
    failing: Iterable[Row], witnesses_of: Callable[[Row], Witnesses], stop: Callable[[int], str]
) -> list[Witnesses]:
    """What failing rows are made from, each by itself; nothing of one that can't be traced.

    Args:
        failing: the rows.
        witnesses_of: traces one of them.
        stop: as in `lineage_query.minimising.minimise`; these traces are no runs, and once it gives a text no other row is traced.
    """
    traced: list[Witnesses] = []
    for row in failing:
        if stop(0):
            break
        try:
            traced.append(witnesses_of(row))
        except LineageError:
            traced.append({})
    return traced


def most_overlapping(traced: Sequence[Witnesses]) -> int:
    """The number of the failing row that shares rows of sources with most others; of these, of the one that is made from the fewest; the first.

    ``traced``: what each failing row is made from, as far as is known.
    """
    best, best_key = 0, (0, 0)
    for number, witnesses in enumerate(traced):
        others = sum(_share(witnesses, other) for at, other in enumerate(traced) if at != number)
        key = (others, -sum(region.count for region in witnesses.values()))
        if number == 0 or (others and key > best_key):
            best, best_key = number, key
    return best


def sharing(traced: Sequence[Witnesses], rows: Sequence[tuple[Hashable, int]]) -> NDArray[np.int64]:
    """Of how many of the failing rows each row of a source is a witness."""
    counts = np.zeros(len(rows), np.int64)
    places: dict[Hashable, list[int]] = {}
    for place, (of, _) in enumerate(rows):
        places.setdefault(of, []).append(place)
    for of, numbers in places.items():
        ordinals = np.array([rows[place][1] for place in numbers], np.uint64)
        for witnesses in traced:
            counts[numbers] += witnesses.get(of, Region()).contains(ordinals)
    return counts


def shared_parts(counts: NDArray[np.int64], suspects: Sequence[int] = ()) -> Iterator[Part]:
    """The parts of the searched rows that are tried first, as several failing rows share them: none where none is shared.

    Args:
        counts: as `sharing` gives them, of the rows that are searched.
        suspects: their numbers, those first that are suspected for other reasons; empty: there are none.

    Yields:
        The first few, those that most failing rows share before others. Then all that as many share as share any, and all that any two share.
    """
    most = int(counts.max(initial=0))
    if most < 2:
        return
    if suspects:
        yield from first_suspects(sorted(suspects, key=lambda number: -counts[number]))
    for least in dict.fromkeys((most, 2)):
        shared = np.flatnonzero(counts >= least).tolist()
        if len(shared) < len(counts):
            yield Part(shared)


def _share(one: Witnesses, other: Witnesses) -> bool:
    return any(region.intersect(other[of]) for of, region in one.items() if of in other)
