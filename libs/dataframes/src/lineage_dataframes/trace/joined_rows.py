"""Which rows of sources a row was joined of: what the rows of a trace's queries name side by side.

A row of such a query names, by its leaves, one row of each source that it was made from. So two rows that it names were
joined; whether rows that two queries name were, it does not say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import Scan
from lineage_core.tracing.joined_items import JOINED_MAX, OF_GROUPS, TOO_MANY
from lineage_dataframes.rewrite.named_query import Leaf
from lineage_dataframes.sources.file_codes import FileCodes
from lineage_dataframes.sources.witnesses import JoinedRows, SourceRow


@dataclass
class JoinedCollector:
    """Combinations as queries find them."""

    recipe: Recipe
    files: FileCodes
    _rows: dict[tuple[SourceRow, ...], None] = field(default_factory=dict)
    _unknown: dict[str, None] = field(default_factory=dict)

    def add(self, leaves: Sequence[Leaf], table: pa.Table) -> None:
        """Add what each row of a query names by several leaves."""
        stored = [leaf for leaf in leaves if leaf.stored]
        if len(leaves) < 2 or TOO_MANY in self._unknown:
            return
        named = _count(table, stored)
        grouped = _count(table, [leaf for leaf in leaves if leaf.grouped])
        if bool(np.any((grouped > 0) & (named + grouped > 1))):
            self._unknown[OF_GROUPS] = None
        columns = list(dict.fromkeys(column for leaf in stored for column in leaf.columns))
        joined = table.filter(pa.array(named > 1)).select(columns)
        if not joined.num_rows:
            return
        combinations = joined.group_by(columns).aggregate([])
        if len(self._rows) + combinations.num_rows > JOINED_MAX:
            self._rows.clear()
            self._unknown[TOO_MANY] = None
            return
        by_leaf = [self._named(leaf, combinations) for leaf in stored]
        for side_by_side in zip(*by_leaf, strict=True):
            self._rows[tuple(row for row in side_by_side if row is not None)] = None

    def joined(self) -> JoinedRows:
        """All that was found, each once."""
        return JoinedRows(tuple(self._rows), tuple(self._unknown))

    def _named(self, leaf: Leaf, table: pa.Table) -> list[SourceRow | None]:
        """The row that each row of a query names by a leaf; None where it names none."""
        node = self.recipe.plan[leaf.of]
        names: list[SourceRow | None] = [None] * table.num_rows
        is_named = _is_named(leaf, table)
        places = np.flatnonzero(is_named).tolist()
        valid = table.filter(pa.array(is_named))
        ordinals = valid[leaf.columns[1]].to_numpy().tolist()
        if not isinstance(node, Scan):
            paths = [f"plan:{leaf.of}"] * len(places)
            source = None
        else:
            source = node.source
            listed, numbers = self.files.named(source, valid[leaf.columns[0]])
            paths = [listed[number] for number in numbers.tolist()]
        for place, path, ordinal in zip(places, paths, ordinals, strict=True):
            names[place] = source, path, int(ordinal)
        return names


def _count(table: pa.Table, leaves: Sequence[Leaf]) -> NDArray[np.int64]:
    """How many of some leaves each row names something by; int64[rows]."""
    named = np.zeros(table.num_rows, np.int64)
    for leaf in leaves:
        named += _is_named(leaf, table)
    return named


def _is_named(leaf: Leaf, table: pa.Table) -> NDArray[np.bool_]:
    mark = table[leaf.columns[-1 if leaf.stored else 0]]
    valid: NDArray[np.bool_] = pc.is_valid(mark).to_numpy()
    return valid
