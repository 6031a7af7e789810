"""Tables of cells of arrays: of workflows by how the lineage of their operators is kept, of how questions cross operators, and of encodings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, NOTHING, number, table

PREFIX = "arrays-"
"""Of the names of all benchmarks of arrays."""
FORWARD = "forward"


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


def astronomy(rows: Sequence[Row]) -> str:
    """A line for each strategy and size of exposures."""
    heads = (
        "exposures", "strategy of the UDFs", "run time, over without lineage", "lineage over inputs", "backward: mean ms", "longest ms", "forward ms",
        "the quicker way at each operator: backward mean ms", "longest", "forward",
    )  # fmt: skip
    lines = [
        [" x ".join(map(str, part["shape"])), f"`{part['strategy']}`", _ratio(part), f"{part['lineage_over_inputs']:.3g}",
         *_of_directions(part, "query_s"), *_of_directions(part, "auto_s")]
        for row in rows
        for part in row.at("parts")
    ]  # fmt: skip
    return _shown(rows, heads, lines)


def genomics(rows: Sequence[Row]) -> str:
    """A line for each strategy."""
    questions = list(rows[0].at("parts")[0]["query_s"]) if rows else []
    heads = (
        "strategy of the UDFs", "run time, over without lineage", "lineage, MB", *(f"{name}, ms" for name in questions),
        *(f"{name}, the quicker way" for name in questions),
    )  # fmt: skip
    lines = [
        [f"`{part['strategy']}`", _ratio(part), f"{part['lineage_bytes'] / 1e6:.3g}",
         *(_ms(part[kind][name]) for kind in ("query_s", "auto_s") for name in questions)]
        for row in rows
        for part in row.at("parts")
    ]  # fmt: skip
    return _shown(rows, heads, lines)


def query_time(rows: Sequence[Row]) -> str:
    """A line for each question of each operator."""
    heads = (
        "operator", "question", "black box, ms", "by what is kept, ms", "the quicker way, ms", "over the black box", "which way, and why",
    )  # fmt: skip
    lines = [
        [one["operator"], one["question"], _ms(one["blackbox_s"]), _ms(one["stored_s"]), _ms(one["auto_s"]),
         _interval(one["auto_over_blackbox"]), one["auto"]]
        for row in rows
        for one in row.at("questions")
    ]  # fmt: skip
    return _shown(rows, heads, lines)


def _shown(rows: Sequence[Row], heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    if not rows:
        return NO_ROWS
    commands = "\n".join(
        dict.fromkeys(f"{row.provenance['commit']}: {row.command}" for row in rows)
    )
    return f"{table(heads, lines)}\n\n```\n{commands}\n```"


def _of_directions(part: Mapping[str, Any], kind: str) -> list[str]:
    seconds = part[kind]
    back = [taken for name, taken in seconds.items() if not name.endswith(FORWARD)]
    forth = [taken for name, taken in seconds.items() if name.endswith(FORWARD)]
    return [_ms(sum(back) / len(back)), _ms(max(back)), *map(_ms, forth)]


def _ratio(part: Mapping[str, Any]) -> str:
    ratio = part.get("wall_ratio")
    return _interval(ratio) if ratio else NOTHING


def _interval(ratio: dict[str, float]) -> str:
    if ratio["low"] == ratio["high"]:
        return f"{ratio['median']:.3g}"
    return f"{ratio['median']:.3g} ({ratio['low']:.3g} to {ratio['high']:.3g})"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g}"
