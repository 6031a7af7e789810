"""Brings an index up to date: by a segment of what waits, or by making all of it again.

A segment takes in those after the first that are not larger than twice what it has, so there are few, and each triple is written again few times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from lineage_store.lake.arrow import array_of
from lineage_store.lake.table import LakeTable
from lineage_store.triples.columns import (
    COLUMNS,
    NO_INDEX,
    OF_ALL_SEGMENTS,
    WAITING,
    Part,
)
from lineage_store.triples.files import Columns, Numbers, PartFile, PartWriter, segment_name
from lineage_store.triples.growing import Growth, grow
from lineage_store.triples.held import HeldIndex
from lineage_store.triples.indexing import Counts, Graph, differs_from_former, whole_index
from lineage_store.triples.loading import check_items, load_graph
from lineage_store.triples.reading import GroupReader, KeptFiles

TAKEN_IN: Final = 2
"""A segment is taken in that has at most so many times the items and triples of the new one."""
_COUNTED: Final = tuple(name for name in COLUMNS[Part.COUNTS] if name != "segment")


@dataclass(frozen=True, slots=True)
class Update:
    """``counts``: of all of the index. ``replaced``: files that the written ones replace."""

    counts: Counts
    replaced: list[PartFile]


def update_index(
    table: LakeTable,
    files: Sequence[PartFile],
    writer: PartWriter,
    set_items: int,
    *,
    is_whole: bool,
) -> Update:
    """Write the files by which an index has what waits.

    Args:
        table: where it is.
        files: all of the data set.
        writer: takes the files.
        set_items: components of more items are split into sets.
        is_whole: whether all of it is made again.

    Raises:
        StoreError: items are of two types, or the storage can't be read or written.
        FileNotFoundError: somebody else replaced a file meanwhile.
    """
    check_items(table, files)
    held = [file for file in files if file.part not in NO_INDEX]
    waiting = [file for file in files if file.part in WAITING]
    # What earlier versions made has no counts.
    if not is_whole and any(file.part is Part.COUNTS for file in held):
        reader = GroupReader(KeptFiles(table))
        try:
            index, graph = HeldIndex(reader, held), load_graph(table, waiting).distinct()
            if _is_less(index, graph):
                growth = grow(index, graph, set_items)
                return _written_segment(index, growth, held, waiting, writer)
        finally:
            reader.close()
    counts: list[Columns] = []
    for part, columns in whole_index(load_graph(table, [*held, *waiting]), set_items):
        writer.write(part, columns, segment_name(0))
        if part is Part.COUNTS:
            counts.append(columns)
    return Update(_totals(counts), [*held, *waiting])


def _weights(counts: Columns) -> Numbers:
    return np.asarray(counts["items"] + counts["triples"], np.int64)


def _is_less(index: HeldIndex, graph: Graph) -> bool:
    """Whether the first segment would not be taken in."""
    weights = _weights(index.counts)
    added = len(graph.items) + len(graph.src) + int(weights[1:].sum())
    return bool(weights[0] > TAKEN_IN * added)


def _written_segment(
    index: HeldIndex,
    growth: Growth,
    held: Sequence[PartFile],
    waiting: Sequence[PartFile],
    writer: PartWriter,
) -> Update:
    segments = index.counts["segment"].tolist()
    taken = _taken_in(index, growth.counts)
    kept = np.isin(index.counts["segment"], taken, invert=True)
    segment = segments[-1] + 1
    for part, columns in growth.parts.items():
        former = index.part(part, taken).all() if taken else {}
        writer.write(part, _merged(part, former, columns), segment_name(segment))
    added = growth.counts.row(segment)
    merged = {name: added[name] + index.counts[name][~kept].sum() for name in _COUNTED}
    rows = {
        name: np.concatenate([index.counts[name][kept], merged.get(name, added[name])])
        for name in added
    }
    writer.write(Part.COUNTS, rows)
    writer.write(Part.MEMBERS, growth.members)
    by_component = np.argsort(growth.members["component"])
    roots = {name: growth.members[name][by_component] for name in ("component", "root")}
    writer.write(Part.ROOTS, roots)
    replaced = [file for file in held if file.part in OF_ALL_SEGMENTS or file.segment in taken]
    return Update(_totals([rows]), [*replaced, *waiting])


def _taken_in(index: HeldIndex, added: Counts) -> list[int]:
    """The last segments that are not much larger than the new one with those after them."""
    total, taken = added.items + added.triples + 1, []
    weights = _weights(index.counts)
    for at in range(len(weights) - 1, 0, -1):
        if weights[at] > TAKEN_IN * total:
            break
        total += int(weights[at])
        taken.append(int(index.counts["segment"][at]))
    return taken


def _merged(part: Part, former: Columns, added: Columns) -> Columns:
    """Rows of two segments, each once, in order."""
    if not former or not len(former[next(iter(COLUMNS[part]))]):
        return added
    names = [name for name in COLUMNS[part] if name in added]
    rows = {name: _joined(former[name], added[name]) for name in names}
    keys = [rows[name] for name in names if isinstance(rows[name], np.ndarray)]
    order = np.lexsort(keys[::-1])
    order = order[differs_from_former(*(column[order] for column in keys))]
    return {
        name: column[order] if isinstance(column, np.ndarray) else column.take(array_of(order))
        for name, column in rows.items()
    }


def _joined(former: Any, added: Any) -> Any:
    if isinstance(former, np.ndarray):
        return np.concatenate([former, np.asarray(added, np.int64)])
    chunks = [*former.chunks] if isinstance(former, pa.ChunkedArray) else [former]
    return pa.chunked_array([*chunks, added]).combine_chunks()


def _totals(rows: Sequence[Columns]) -> Counts:
    return Counts(**{name: int(sum(row[name].sum() for row in rows)) for name in _COUNTED})
