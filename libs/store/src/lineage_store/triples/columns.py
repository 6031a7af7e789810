"""Parts of the table of triples: which columns each has, and by which its rows are ordered.

Items are numbered in the order of their component, their set, their node and themselves. So a component or a set is a range of numbers, a
triple needs no set of its ends, and neighbours lie in the same row group. What is imported later becomes a segment: its items have the
numbers after those of the segments before, which stay as they are. A component that grew is a range of numbers of each of some segments.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lineage_core.text_enum import StrEnum
from lineage_store.lake.columns import APP
from lineage_store.lake.table import TableForm


class Part(StrEnum):
    """What the rows of a file are. Those that wait are in no index yet; the others than sources are the index."""

    SOURCE = "source"
    WAITING = "waiting"
    WAITING_NODES = "waiting_nodes"
    KEYS = "keys"
    ITEMS = "items"
    OPS = "ops"
    NODES = "nodes"
    BACK = "back"
    FORWARD = "forward"
    SETS = "sets"
    PARENTS = "parents"
    CHILDREN = "children"
    NODE_OF = "node_of"
    COUNTS = "counts"
    MEMBERS = "members"
    ROOTS = "roots"


NUMBER: Final = pa.int64()
TEXT: Final = pa.string()

COLUMNS: Final[dict[Part, dict[str, pa.DataType]]] = {
    Part.SOURCE: {"digest": TEXT, "source": TEXT, "data_set": TEXT, "rows": NUMBER},
    Part.WAITING: {"src_item": NUMBER, "dst_item": NUMBER, "src_text": TEXT, "dst_text": TEXT, "op_text": TEXT},
    Part.WAITING_NODES: {"item": NUMBER, "item_text": TEXT, "node_text": TEXT},
    Part.KEYS: {"key": NUMBER, "number": NUMBER},
    Part.ITEMS: {"number": NUMBER, "item": NUMBER, "item_text": TEXT, "node": NUMBER},
    Part.OPS: {"op": NUMBER, "op_text": TEXT},
    Part.NODES: {"node": NUMBER, "node_text": TEXT},
    Part.BACK: {"dst": NUMBER, "src": NUMBER, "op": NUMBER},
    Part.FORWARD: {"src": NUMBER, "dst": NUMBER, "op": NUMBER},
    Part.SETS: {
        "first": NUMBER, "last": NUMBER, "component": NUMBER, "component_last": NUMBER,
        "component_rows": NUMBER,
    },
    Part.PARENTS: {"child": NUMBER, "parent": NUMBER},
    Part.CHILDREN: {"parent": NUMBER, "child": NUMBER},
    Part.NODE_OF: {"number": NUMBER, "node": NUMBER},
    Part.COUNTS: {
        "segment": NUMBER, "items": NUMBER, "triples": NUMBER, "components": NUMBER,
        "sets": NUMBER, "ops": NUMBER, "nodes": NUMBER,
    },
    Part.MEMBERS: {"root": NUMBER, "component": NUMBER, "last": NUMBER, "triples": NUMBER},
    Part.ROOTS: {"component": NUMBER, "root": NUMBER},
}  # fmt: skip
"""The first column of a part of the index orders its rows. A file leaves out columns that its items do not use.

``NODE_OF``: nodes that became known after their items were indexed, for when all of the index is made again. ``COUNTS``: how many each
segment added. ``MEMBERS``: the ranges of each component that grew; the smallest is its root. ``ROOTS``: the root of each of them.
"""

NO_INDEX: Final = frozenset({Part.SOURCE, Part.WAITING, Part.WAITING_NODES})
WAITING: Final = frozenset({Part.WAITING, Part.WAITING_NODES})
OF_ALL_SEGMENTS: Final = frozenset({Part.COUNTS, Part.MEMBERS, Part.ROOTS})
"""Written anew by each commit of an index, so that two of them never go together."""

REPEATING: Final = frozenset({"op", "node", "op_text", "node_text"})
"""Columns of few different values in a row group: a dictionary holds them."""


VERSION: Final = 2
"""Since 2 an index may have segments."""


def _schema() -> pa.Schema:
    types = {name: kind for columns in COLUMNS.values() for name, kind in columns.items()}
    return pa.schema({APP: TEXT, **types})


TRIPLES: Final = TableForm(
    "triples", "lineage triples, version ", VERSION, _schema(), "triples import FILE --as NAME"
)
