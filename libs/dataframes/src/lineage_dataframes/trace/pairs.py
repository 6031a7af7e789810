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
from lineage_dataframes.rewrite.keys import distinct
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.sources.file_codes import OUTPUT_FILES, FileCodes
from lineage_dataframes.trace.results import Result

Hashes = NDArray[np.uint64]

OUT_FILE, OUT_ROW = "lineage_out_file", "lineage_out_row"
OUT_GROUP, OUT_CHECK = "lineage_out_group", "lineage_out_check"
"""Columns that say which item a row of a query is of: a row of the output, or a group."""


@dataclass(frozen=True)
class ItemKind:
    """Items of one kind.

    ``type`` output: rows of the output's files. source: of a source's (``place``: in the recipe). plan: rows
    that stand in the plan (``place``: the node). group: groups of a node, positions are hashes of keys;
    subquery: the one group of a scalar subquery.
    """

    type: Literal["output", "source", "plan", "group", "subquery"]
    place: int = 0


@dataclass(frozen=True)
class ItemPairs:
    """``outputs[i]`` was made from ``inputs[i]``; uint64. ``output_file``, ``input_file``: of rows of files."""

    output_kind: ItemKind
    input_kind: ItemKind
    output_file: str
    input_file: str
    outputs: NDArray[np.uint64]
    inputs: NDArray[np.uint64]


@dataclass(frozen=True)
class CompletedQuery:
    """A query that has run: each row of ``result`` says what an item of ``kind`` was made from.

    ``files``: those that rows name by numbers. ``reasons``: why they may be too many.
    """

    kind: ItemKind
    built: NamedQuery
    result: Result
    files: FileCodes
    reasons: tuple[str, ...] = ()

    def group_hashes(self, leaf: Leaf | None = None) -> Hashes:
        """The groups that rows name by ``leaf``, or (None) those that they are of; each once.

        Raises:
            RefusedError: two of them have one hash.
        """
        columns = [OUT_GROUP, OUT_CHECK] if leaf is None else list(group_columns(leaf))
        keys = pa.table({name: pa.array([], pa.int64()) for name in columns})
        for table in self.result.tables(columns):
            rows = table.cast(keys.schema)
            new_keys = distinct(rows.filter(pc.is_valid(rows[columns[0]])))
            keys = distinct(pa.concat_tables([keys, new_keys]))
        hashes = sorted_unique(_unsigned(keys[columns[0]]))
        if len(hashes) != keys.num_rows:
            raise RefusedError("two groups have keys of the same 64-bit hash")
        return hashes

    def inexact_reasons(self) -> list[str]:
        """Why rows may name too much, as they themselves say."""
        leaves = [leaf for leaf in self.built.leaves if leaf.inexact_reason]
        if not leaves:
            return []
        columns = pa.concat_tables(self.result.tables([leaf.columns[0] for leaf in leaves]))
        return [
            leaf.inexact_reason
            for leaf in leaves
            if columns[leaf.columns[0]].null_count < columns.num_rows
        ]

    def pairs(self, recipe: Recipe) -> Iterator[ItemPairs]:
        """All pairs, table by table."""
        for table in self.result.tables():
            for leaf in self.built.leaves:
                if not leaf.inexact_reason:
                    yield from self._pairs_of_leaf(recipe, leaf, table)

    def _pairs_of_leaf(self, recipe: Recipe, leaf: Leaf, table: pa.Table) -> Iterator[ItemPairs]:
        file, (row, _), input_kind = "", group_columns(leaf), groups_of(leaf)
        if leaf.stored:
            file, row = leaf.columns
            node = recipe.plan[leaf.of]
            input_kind = (
                ItemKind("source", node.source)
                if isinstance(node, Scan)
                else ItemKind("plan", leaf.of)
            )
        rows = table.filter(pc.is_valid(table[row]))
        out_file, out = (OUT_FILE, OUT_ROW) if self.kind.type == "output" else ("", OUT_GROUP)
        output_files, output_codes = self._files_of_items(self.kind, rows, out_file)
        input_files, input_codes = self._files_of_items(input_kind, rows, file)
        output_positions, input_positions = _unsigned(rows[out]), _unsigned(rows[row])
        file_pairs = output_codes * len(input_files) + input_codes
        for file_pair in sorted_unique(file_pairs).tolist():
            in_pair = file_pairs == file_pair
            output_file_number, input_file_number = divmod(file_pair, len(input_files))
            yield ItemPairs(
                self.kind,
                input_kind,
                output_files[output_file_number],
                input_files[input_file_number],
                output_positions[in_pair],
                input_positions[in_pair],
            )

    def _files_of_items(
        self, items: ItemKind, table: pa.Table, column: str
    ) -> tuple[list[str], NDArray[np.int64]]:
        """The files of the items that rows name, and which one each has."""
        if items.type not in {"output", "source"} or not table.num_rows:
            return [""], np.zeros(table.num_rows, np.int64)
        return self.files.named(
            OUTPUT_FILES if items.type == "output" else items.place, table[column]
        )


def groups_of(leaf: Leaf) -> ItemKind:
    """The groups that a leaf names."""
    return ItemKind("subquery" if leaf.subquery else "group", leaf.of)


def group_columns(leaf: Leaf) -> tuple[str, str]:
    """The columns that name a leaf's groups by hashes of their keys, by two different ones."""
    return f"{leaf.columns[0]}_group", f"{leaf.columns[0]}_check"


def distinct_keys(
    result: Result, condition_column: str, names: Sequence[str], keys_max: int
) -> pa.Table | None:
    """The values of columns in a query's rows that have ``condition_column``, each row once; None where they are more than ``keys_max``."""
    keys: pa.Table | None = None
    for rows in result.tables([condition_column, *names]):
        new_keys = distinct(rows.filter(rows[condition_column]).select(names))
        keys = new_keys if keys is None else distinct(pa.concat_tables([keys, new_keys]))
        if keys.num_rows > keys_max:
            return None
    return keys


def _unsigned(column: Any) -> NDArray[np.uint64]:
    values: NDArray[np.uint64] = column.to_numpy().astype(np.int64).view(np.uint64)
    return values
