"""Pairs of items, one made from the other, as queries give them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lineage_core.contract.runs import sorted_unique
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import Scan
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.built import Leaf, NamedQuery
from lineage_dataframes.rewrite.keys import distinct
from lineage_dataframes.sources.file_codes import OUTPUT_FILES, FileCodes
from lineage_dataframes.trace.results import Result

Hashes = NDArray[np.uint64]

OUT_FILE, OUT_ROW = "lineage_out_file", "lineage_out_row"
OUT_GROUP, OUT_CHECK = "lineage_out_group", "lineage_out_check"
"""Columns that say which item a row of a query is of: a row of the output, or a group."""


@dataclass(frozen=True)
class Items:
    """Items of one kind.

    ``of`` output: rows of the output's files. source: of a source's (``place``: in the recipe). plan: rows
    that stand in the plan (``place``: the node). group: groups of a node, positions are hashes of keys;
    subquery: the one group of a scalar subquery.
    """

    of: Literal["output", "source", "plan", "group", "subquery"]
    place: int = 0


@dataclass(frozen=True)
class Pairs:
    """``made[i]`` was made from ``used[i]``; uint64. ``made_file``, ``used_file``: of rows of files."""

    made_of: Items
    used_of: Items
    made_file: str
    used_file: str
    made: NDArray[np.uint64]
    used: NDArray[np.uint64]


@dataclass(frozen=True)
class Stage:
    """A query that has run: each row of ``result`` says what an item of ``made`` was made from.

    ``files``: those that rows name by numbers. ``reasons``: why they may be too many.
    """

    made: Items
    built: NamedQuery
    result: Result
    files: FileCodes
    reasons: tuple[str, ...] = ()

    def named(self, leaf: Leaf | None = None) -> Hashes:
        """The groups that rows name by ``leaf``, or (None) those that they are of; each once.

        Raises:
            RefusedError: two of them have one hash.
        """
        columns = [OUT_GROUP, OUT_CHECK] if leaf is None else list(group_columns(leaf))
        found = pa.table({name: pa.array([], pa.int64()) for name in columns})
        for table in self.result.tables(columns):
            rows = table.cast(found.schema)
            some = distinct(rows.filter(pc.is_valid(rows[columns[0]])))
            found = distinct(pa.concat_tables([found, some]))
        hashes = sorted_unique(_unsigned(found[columns[0]]))
        if len(hashes) != found.num_rows:
            raise RefusedError("two groups have keys of the same 64-bit hash")
        return hashes

    def doubts(self) -> list[str]:
        """Why rows may name too much, as they themselves say."""
        doubts = [leaf for leaf in self.built.leaves if leaf.doubt]
        if not doubts:
            return []
        found = pa.concat_tables(self.result.tables([leaf.columns[0] for leaf in doubts]))
        return [leaf.doubt for leaf in doubts if found[leaf.columns[0]].null_count < found.num_rows]

    def pairs(self, recipe: Recipe) -> Iterator[Pairs]:
        """All pairs, table by table."""
        for table in self.result.tables():
            for leaf in self.built.leaves:
                if not leaf.doubt:
                    yield from self._of_leaf(recipe, leaf, table)

    def _of_leaf(self, recipe: Recipe, leaf: Leaf, table: pa.Table) -> Iterator[Pairs]:
        file, (row, _), used = "", group_columns(leaf), groups_of(leaf)
        if leaf.stored:
            file, row = leaf.columns
            node = recipe.plan[leaf.of]
            used = (
                Items("source", node.source) if isinstance(node, Scan) else Items("plan", leaf.of)
            )
        there = table.filter(pc.is_valid(table[row]))
        out_file, out = (OUT_FILE, OUT_ROW) if self.made.of == "output" else ("", OUT_GROUP)
        made_files, made_codes = self._places(self.made, there, out_file)
        used_files, used_codes = self._places(used, there, file)
        made_at, used_at = _unsigned(there[out]), _unsigned(there[row])
        which = made_codes * len(used_files) + used_codes
        for one in sorted_unique(which).tolist():
            mine = which == one
            made_file, used_file = divmod(one, len(used_files))
            yield Pairs(
                self.made,
                used,
                made_files[made_file],
                used_files[used_file],
                made_at[mine],
                used_at[mine],
            )

    def _places(
        self, items: Items, table: pa.Table, column: str
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The files of the items that rows name, and which one each has."""
        if items.of not in {"output", "source"} or not table.num_rows:
            return [""], np.zeros(table.num_rows, np.int64)
        return self.files.named(
            OUTPUT_FILES if items.of == "output" else items.place, table[column]
        )


def groups_of(leaf: Leaf) -> Items:
    """The groups that a leaf names."""
    return Items("subquery" if leaf.subquery else "group", leaf.of)


def group_columns(leaf: Leaf) -> tuple[str, str]:
    """The columns that name a leaf's groups by hashes of their keys, by two different ones."""
    return f"{leaf.columns[0]}_group", f"{leaf.columns[0]}_check"


def keys_in(result: Result, there: str, names: Sequence[str], most: int) -> pa.Table | None:
    """The values of columns in a query's rows that have ``there``, each row once; None where they are more than ``most``."""
    keys: pa.Table | None = None
    for rows in result.tables([there, *names]):
        some = distinct(rows.filter(rows[there]).select(names))
        keys = some if keys is None else distinct(pa.concat_tables([keys, some]))
        if keys.num_rows > most:
            return None
    return keys


def _unsigned(column: Any) -> NDArray[np.uint64]:
    values: NDArray[np.uint64] = column.to_numpy().astype(np.int64).view(np.uint64)
    return values
