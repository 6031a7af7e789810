"""Pictures as SVG: the same rows give the same file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report.published import MACHINE, PUBLISHED
from benchmarks.report.rows import Row, by_workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "plain": "#8a8a8a",
    "spool": "#0072b2",
    "detailed": "#56b4e9",
    "kafka": "#009e73",
    "kafka-detailed": "#66c2a5",
    "deployed": "#cc79a7",
    "record-level": "#d55e00",
}
"""By mode; distinct to everybody."""
PANEL_INCHES = (4.2, 3.4)
PANELS_A_LINE = 3
PLAIN_NUMBER = "{x:g}"
"""Of ticks: 100, not a power of ten."""


@dataclass(frozen=True)
class Picture:
    """One picture: a panel a workload. ``field``: of the rows; ``drawn``: how a panel is made of them."""

    name: str
    title: str
    field: str
    unit: str
    scale: str
    modes: tuple[str, ...]
    level: float | None = None
    """A line to compare with."""

    def rows(self, rows: Sequence[Row]) -> list[Row]:
        """Those that it shows."""
        return [row for row in rows if row.mode in self.modes and self.shown(row)]

    def shown(self, row: Row) -> bool:
        """Whether a row says something about it."""
        value = row.value(self.field)
        return value is not None and (value > 0 or self.scale == "linear")


LINEAGE_MODES = ("spool", "detailed", "kafka", "kafka-detailed", "deployed", "record-level")
OVERHEAD = Picture(
    *("overhead", "Time of the jobs over plain", "jobs_ratio", "times plain", "log"),
    modes=("plain", *LINEAGE_MODES),
    level=1.0,
)
QUERYABLE = Picture(
    *("queryable", "From the end of the last job until queryable", "queryable_s", "seconds", "log"),
    modes=LINEAGE_MODES,
)
STORE = Picture(
    *("store", "Store over input", "store_ratio", "times the input", "log"),
    modes=LINEAGE_MODES,
    level=1.0,
)
BY_SIZE = (OVERHEAD, QUERYABLE, STORE)
TRACE = "trace"


def draw_by_size(picture: Picture, rows: Sequence[Row], target: Path) -> None:
    """Draw what ``picture.rows`` chose, a line a mode, against the input's size."""
    workloads = by_workload(rows)

    def panel(axes: Axes, workload: str) -> None:
        for mode, points in workloads[workload].items():
            _line(axes, mode, points, picture.field)
        _mark_published(axes, workload, picture.field)
        axes.set_xscale("log")
        axes.set_yscale(picture.scale)
        axes.set_xlabel("input, MB")
        axes.set_ylabel(picture.unit)
        if picture.level is not None:
            axes.axhline(picture.level, color="#444444", linewidth=0.8, linestyle=":")

    _draw(list(workloads), panel, picture.title, target)


def draw_traces(rows: Sequence[Row], target: Path) -> None:
    """Draw the time of a trace against its witnesses, of the largest input of each mode."""
    workloads = by_workload(rows)

    def panel(axes: Axes, workload: str) -> None:
        for mode, mode_rows in workloads[workload].items():
            points = mode_rows[-1].at("trace.points")
            counts, times = zip(*points, strict=True)
            axes.scatter(counts, times, s=14, color=COLOURS[mode], label=mode)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("witnesses")
        axes.set_ylabel("milliseconds")

    _draw(list(workloads), panel, "Time of a backward trace against its witnesses", target)


def _line(axes: Axes, mode: str, rows: Sequence[Row], field: str) -> None:
    values = [row.value(field) or 0.0 for row in rows]
    around = [row.interval(field) or (v, v) for row, v in zip(rows, values, strict=True)]
    axes.errorbar(
        [row.input_bytes / 1e6 for row in rows],
        values,
        yerr=[
            [v - low for v, (low, _) in zip(values, around, strict=True)],
            [high - v for v, (_, high) in zip(values, around, strict=True)],
        ],
        color=COLOURS[mode],
        marker="o",
        markersize=4,
        capsize=2,
        label=mode,
    )


def _mark_published(axes: Axes, workload: str, field: str) -> None:
    points = [
        published
        for published in PUBLISHED
        if (published.benchmark, published.field) == (workload, field)
    ]
    if points:
        axes.plot(
            [published.input_bytes / 1e6 for published in points],
            [published.value for published in points],
            color="black",
            marker="D",
            markerfacecolor="none",
            linestyle="none",
            label=f"published ({MACHINE})",
        )


def _draw(
    names: Sequence[str], panel: Callable[[Axes, str], None], title: str, target: Path
) -> None:

    across = min(len(names), PANELS_A_LINE)
    down = -(-len(names) // PANELS_A_LINE)
    # Text stays text, to be read and searched; ids and dates would differ from run to run.
    with mpl.rc_context({"svg.hashsalt": title, "svg.fonttype": "none"}):
        size = (PANEL_INCHES[0] * across, PANEL_INCHES[1] * down)
        figure = Figure(figsize=size, layout="constrained")
        figure.suptitle(title)
        for place, name in enumerate(names, start=1):
            axes = figure.add_subplot(down, across, place)
            axes.set_title(name)
            panel(axes, name)
            axes.xaxis.set_major_formatter(PLAIN_NUMBER)
            axes.yaxis.set_major_formatter(PLAIN_NUMBER)
            axes.grid(visible=True, which="major", linewidth=0.3)
            axes.legend(fontsize="x-small")
        target.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(target, format="svg", metadata={"Date": None})
