"""What rows of a benchmark come to: the figures that were to be reached, in one row with the parts that they are from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

Part = Mapping[str, Any]
PLAN = "plan-any"
"""The optimiser's, without a limit."""
BOX = "blackbox-all"
"""The paper's, of which built-in operators are black boxes, too."""


def astronomy_figures(parts: Sequence[Part]) -> dict[str, Any]:
    """Of whole exposures, whose rows are the first; of the paper's black box, by which all that a question crosses runs again."""
    whole = {part["strategy"]: part for part in parts if part["shape"] == parts[0]["shape"]}
    plan, box = whole[PLAN], whole[BOX]
    back = [name for name in plan["query_s"] if not name.endswith("forward")]
    return {
        "run_ratio": plan["wall_ratio"],
        "lineage_over_inputs": plan["lineage_over_inputs"],
        "backward_ms": round(1e3 * _mean(plan, back), 3),
        "backward_ms_max": round(1e3 * max(plan["query_s"][name] for name in back), 3),
        "backward_times": round(_mean(box, back) / _mean(plan, back), 2),
    }


def genomics_figures(parts: Sequence[Part]) -> dict[str, Any]:
    """``slower_max``: of the plans with a limit of disk, and of all their questions, the longest over that of UDFs that are black boxes."""
    rows = {part["strategy"]: part for part in parts}
    plan, box, udfs = rows[PLAN], rows[BOX], rows["blackbox"]
    back = [name for name in plan["query_s"] if not name.endswith("forward")]
    forward = [name for name in plan["query_s"] if name.endswith("forward")]
    limited = [rows[name] for name in rows if name.removeprefix("plan-").isdigit()]
    return {
        "slower_max": round(
            max(row["query_s"][name] / seconds for row in limited for name, seconds in udfs["query_s"].items()), 3
        ),
        "backward_times": round(_mean(box, back) / _mean(plan, back), 2),
        "forward_times": round(_mean(box, forward) / _mean(plan, forward), 2),
        "lineage_mb": round(plan["lineage_bytes"] / 1e6, 3),
    }  # fmt: skip


def micro_figures(parts: Sequence[Part]) -> dict[str, Any]:
    """Of our smallest encoding at each point, against the better one of the paper's; the worst point counts.

    Of questions: each direction by the encoding that is stored for it.
    """
    sizes, writes, backward, forward = [], [], [], []
    for _, point in groupby(parts, itemgetter("fan_in", "fan_out")):
        rows = {part["encoding"]: part for part in point}
        papers = [row for name, row in rows.items() if name.startswith("paper-")]
        ours = [
            row
            for name, row in rows.items()
            if (name.startswith("full-") and name.endswith("backward")) or name == "ranges"
        ]
        best = min(ours, key=itemgetter("bytes", "write_s"))
        sizes.append(best["bytes"] / min(row["bytes"] for row in papers))
        writes.append(min(row["write_s"] for row in papers) / best["write_s"])
        backward.append(best["backward_s"])
        forward.append(rows["full-many-forward"]["forward_s"])
    return {
        "bytes_over_paper_max": round(max(sizes), 4),
        "write_times_min": round(min(writes), 2),
        "backward_ms_max": round(1e3 * max(backward), 3),
        "forward_ms_max": round(1e3 * max(forward), 3),
    }


def spatial_figures(parts: Sequence[Part]) -> dict[str, Any]:
    """Of each way that was tried its bytes and times over those of the first, the geometric mean over all points."""
    points = [list(point) for _, point in groupby(parts, itemgetter("fan_in", "fan_out"))]
    fields = [name for name in parts[0] if name.endswith("_s") or name == "bytes"]
    return {
        row["encoding"]: {
            field: round(
                float(np.exp(np.mean([np.log(point[at][field] / point[0][field]) for point in points]))), 3
            )
            for field in fields
        }
        for at, row in enumerate(points[0])
    }  # fmt: skip


FIGURES: Mapping[str, Callable[[Sequence[Part]], dict[str, Any]]] = {
    "astronomy": astronomy_figures,
    "genomics": genomics_figures,
    "microbenchmark": micro_figures,
    "spatial": spatial_figures,
}


def row_of(name: str, parts: Sequence[Part]) -> dict[str, Any]:
    """The one row of a benchmark: a part that stands alone is the row."""
    if name not in FIGURES:
        (part,) = parts
        return {"benchmark": f"arrays-{name}", **part}
    return {
        "benchmark": f"arrays-{name}",
        "figures": FIGURES[name](parts),
        "same": all(part["same"] for part in parts),
        "parts": [dict(part) for part in parts],
    }


def _mean(part: Part, names: Sequence[str]) -> float:
    return float(np.mean([part["query_s"][name] for name in names]))
