"""Pictures of traces of the workflows, for docs/benchmarks.md: the same program draws the same ones."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from matplotlib.figure import Figure
from PIL import Image

from benchmarks.arrays import libraries
from benchmarks.arrays.astronomy import astronomy
from benchmarks.arrays.genomics import genomics
from benchmarks.arrays.workloads import Question, Workload
from lineage_arrays import Cells, CellTrace
from lineage_arrays.operators import Version

Panel: TypeAlias = "tuple[str, npt.NDArray[Any], npt.NDArray[np.bool_]]"
"""What a panel shows: its title, an array, and the cells of it that are marked."""
EXPOSURES = (128, 192)
MARK = (0.88, 0.14, 0.37)
OVER = 0.6
"""How much of a marked cell is its colour."""
SHADES = 16
ROBUST = (1.0, 99.0)
"""Percentiles of the values that are black and white."""


def draw_all(folder: Path) -> list[Path]:
    """Draw the pictures of all workflows into a folder."""
    return [
        _drawn(folder / "cells-astronomy.png", _astronomy_panels()),
        _drawn(folder / "cells-genomics.png", _genomics_panels()),
        _drawn(folder / "cells-libraries.png", _library_panels()),
    ]


def _astronomy_panels() -> list[Panel]:
    workload, version, asked = _run(astronomy(EXPOSURES))
    star = asked["star"]
    stars = version.array(star.step)
    return [
        ("stars: one of them", np.log1p(stars), stars == stars[star.where][0]),
        *_sources(workload, version, star.ask(version)),
    ]


def _genomics_panels() -> list[Panel]:
    workload, version, asked = _run(genomics(1))
    prediction, cell = asked["prediction"], asked["training-forward"]
    final, model = version.array(prediction.step), version.array(cell.step)
    trace = prediction.ask(version)
    (into,) = cell.ask(version).cells.values()
    assert cell.source is not None
    training = version.array(cell.source)
    return [
        ("a prediction", _wide(final), _wide(Cells.of(final.shape, prediction.where).mask())),
        *_sources(workload, version, trace),
        ("a training cell", training, Cells.of(training.shape, cell.where).mask()),
        ("the model's cells with it", model, into.mask()),
    ]


def _library_panels() -> list[Panel]:
    image = libraries.exposure(EXPOSURES)
    recording, made = libraries.traced(image)
    star = int(np.argmax(made.fluxes.current))
    trace = recording.back(made.fluxes, star, until={"sky": made.sky, "clean": made.clean})
    whole = recording.back(made.fluxes, star, until={"sky": made.sky})
    x, y = (round(float(at)) for at in made.places[star])
    segments = made.segments.current
    return [
        ("segments: the star", segments > 0, segments == segments[y, x]),
        ("clean: the pixels of its flux", made.clean.current, trace.cells["clean"].mask()),
        ("exposure: what they were made from", image, whole.cells["exposure"].mask()),
    ]


def _run(workload: Workload) -> tuple[Workload, Version, dict[str, Question]]:
    version = workload.graph.run(workload.sources())
    arrays = {step: version.array(step) for step in version.steps}
    return workload, version, {one.name: one for one in workload.questions(arrays)}


def _sources(workload: Workload, version: Version, trace: CellTrace) -> list[Panel]:
    return [
        (f"{step.name}: {trace.cells[step.name].count:,} cells", _wide(version.array(step)), _wide(trace.cells[step.name].mask()))
        for step in workload.graph.steps
        if step.is_source and step.name in trace.cells
    ]  # fmt: skip


def _wide(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A vector as a row."""
    return array if array.ndim > 1 else array[None, :]


def _drawn(target: Path, panels: Sequence[Panel]) -> Path:
    tall = [min(max(values.shape[0] / values.shape[1], 0.06), 0.67) for _, values, _ in panels]
    width = 5.0
    figure = Figure(figsize=(width, sum(tall) * width + 0.35 * len(panels)), dpi=90)
    for axes, (title, values, marked) in zip(
        figure.subplots(len(panels), 1, height_ratios=tall), panels, strict=True
    ):
        numbers = values.astype(np.float64)
        low, high = np.nanpercentile(numbers, ROBUST)
        axes.imshow(numbers, cmap="gray", vmin=low, vmax=high, aspect="auto")
        over = np.zeros((*marked.shape, 4))
        over[marked] = (*MARK, OVER)
        axes.imshow(over, aspect="auto", interpolation="nearest")
        axes.set_title(title, fontsize=8)
        axes.set_axis_off()
    figure.tight_layout(pad=0.4)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    shown = Image.open(drawn).convert("RGB")
    # Noise takes many bytes: few shades show it as well.
    shown.quantize(palette=_palette(), dither=Image.Dither.NONE).save(target, optimize=True)
    return target


def _palette() -> Image.Image:
    """Greys, and greys under the colour of marked cells."""
    greys = [at / (SHADES - 1) for at in range(SHADES)]
    under = [tuple((1 - OVER) * grey + OVER * part for part in MARK) for grey in greys]
    colours = [(grey, grey, grey) for grey in greys] + under
    palette = Image.new("P", (1, 1))
    palette.putpalette([round(255 * part) for colour in colours for part in colour])
    return palette
