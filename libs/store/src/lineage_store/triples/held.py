"""An index as it is, to which triples are added: what of them it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lineage_store.triples.columns import Part
from lineage_store.triples.files import Columns, Numbers, PartFile
from lineage_store.triples.finding import numbers_of, places_of
from lineage_store.triples.numbering import Values, sorted_distinct
from lineage_store.triples.reading import GroupReader, SortedPart

LOOKED_UP: Final = 1 << 16
"""Items whose triples are held in memory at a time."""


class HeldIndex:
    """An index. ``counts``: of each segment what it added, the first first.

    Args:
        reader: reads its files.
        files: all of it.
    """

    def __init__(self, reader: GroupReader, files: Sequence[PartFile]) -> None:
        self._reader = reader
        self._files = files
        self.counts = self.part(Part.COUNTS).all()

    def part(
        self, part: Part, segments: Sequence[int] | None = None, names: Sequence[str] = ()
    ) -> SortedPart:
        """The rows of a part; of some segments, or of all; and of these columns alone, or of all."""
        files = [
            file
            for file in self._files
            if file.part is part and (segments is None or file.segment in segments)
        ]
        return SortedPart(self._reader, part, files, names)

    def count(self, name: str) -> int:
        """How many items, triples, ops or nodes there are."""
        return int(self.counts[name].sum())

    def numbers_of(self, items: Values) -> Numbers:
        """The numbers of some items, which are distinct and in order; -1 for those that it does not have."""
        return numbers_of(self.part(Part.KEYS), self.part(Part.ITEMS), items)

    def labels(self, part: Part, texts: Any) -> tuple[Numbers, Numbers]:
        """The codes of some ops or nodes, new ones after those that are there; and the places of the new ones."""
        held = self.part(part).all()
        code, text = ("op", "op_text") if part is Part.OPS else ("node", "node_text")
        codes = places_of(texts, held[text], held[code])
        is_new = codes < 0
        codes[is_new] = len(held[code]) + np.arange(is_new.sum())
        return codes, np.flatnonzero(is_new)

    def has(self, src: Numbers, dst: Numbers, op: Numbers) -> npt.NDArray[np.bool_]:
        """Which of some triples, that are distinct, it has; -1 stands for an item that it does not have."""
        asked = np.flatnonzero((src >= 0) & (dst >= 0))
        near = sorted_distinct(dst[asked])
        pairs, back = self.part(Part.BACK, names=("dst", "src")), self.part(Part.BACK)
        sources, ops = sorted_distinct(src[asked]), sorted_distinct(op[asked])
        alike: list[Numbers] = []
        for first in range(0, len(near), LOOKED_UP):
            some = pairs.equal(near[first : first + LOOKED_UP])
            # The operations of few are looked at.
            rows = back.equal(sorted_distinct(some["dst"][np.isin(some["src"], sources)]))
            kept = np.isin(rows["src"], sources) & np.isin(rows["op"], ops)
            alike.append(np.stack([rows[name][kept] for name in ("src", "dst", "op")]))
        held = np.concatenate([np.empty((3, 0), np.int64), *alike], axis=1)
        both = np.concatenate([held, np.stack([src[asked], dst[asked], op[asked]])], axis=1)
        order = np.lexsort(both)
        same = np.all(both[:, order[1:]] == both[:, order[:-1]], axis=0)
        # The sort is stable: of two that are equal the held one is first.
        has = np.zeros(len(src), bool)
        has[asked[order[1:][same] - held.shape[1]]] = True
        return has

    def sets_of(self, numbers: Numbers) -> tuple[Numbers, Numbers]:
        """Of each of some items the first item of its set, and the root of its component."""
        distinct, place = np.unique(numbers, return_inverse=True)
        sets = self.part(Part.SETS, names=("first", "component")).floors(distinct)
        components, of_set = np.unique(sets["component"], return_inverse=True)
        roots = components.copy()
        moved = self.part(Part.ROOTS).equal(components)
        roots[np.searchsorted(components, moved["component"])] = moved["root"]
        return sets["first"][place], roots[of_set][place]

    def members(self) -> Columns:
        """The ranges of all components that grew."""
        return self.part(Part.MEMBERS).all()

    def single_members(self, roots: Numbers) -> Columns:
        """The ranges of components that did not grow yet."""
        sets = self.part(Part.SETS).equal(roots)
        return {
            "root": roots,
            "component": roots,
            "last": sets["component_last"],
            "triples": sets["component_rows"],
        }
