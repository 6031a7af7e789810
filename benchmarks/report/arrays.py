"""Tables of cells of arrays."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report.rows import Row
from benchmarks.report.tables import number, table

PREFIX = "arrays-"
"""Of the names of all benchmarks of arrays."""


def kinds(rows: Sequence[Row]) -> str:
    """How many ranges operators take, and what range queries over many associations do."""
    lines = [
        [
            name,
            *map(
                number, (kind["associations"], kind["ranges"], kind["bytes"], 1e3 * kind["write_s"])
            ),
        ]
        for row in rows
        for name, kind in row.fields["kinds"].items()
    ]
    asked = [
        [
            name,
            number(query["associations"]),
            *(
                number(1e3 * query[way][field])
                for way in ("backward", "forward")
                for field in ("s", "first_s")
            ),
        ]
        for row in rows
        for name, query in row.fields["queries"].items()
    ]
    return "\n\n".join(
        (
            table(["operator", "associations", "ranges", "bytes", "ms to write"], lines),
            table(
                ["range query over", "associations", "backward, ms", "first asked", "forward, ms", "first asked"],
                asked,
            ),
        )
    )  # fmt: skip


def spatial(rows: Sequence[Row]) -> str:
    """Spatial indexes over the one that is used: the geometric mean over all points."""
    fields = ("bytes", "write_s", "backward_s", "forward_s", "backward_1_s", "forward_1_s")
    return table(
        [
            "regions by", "bytes", "time to write", "1,000 cells, backward", "forward", "1 cell, backward", "forward",
        ],
        (
            [name, *(number(ratios[field]) for field in fields)]
            for row in rows
            for name, ratios in row.fields["figures"].items()
        ),
    )  # fmt: skip
