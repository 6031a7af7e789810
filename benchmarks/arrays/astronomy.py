"""The paper's astronomy workflow: two exposures become a clean image and the stars in it (section VIII.A)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from benchmarks.arrays.workloads import Question, Workload
from lineage_arrays.cells import Cells
from lineage_arrays.mappings import AllFrom, Boxes, Mapping, SamePositions, Span
from lineage_arrays.operators import Mode, Operator, OperatorGraph, Regions, Shapes, Step

SHAPE = (512, 2000)
"""Of an exposure."""
RADIUS = 3
"""Cells around a suspected cosmic ray that decide whether it is one."""
SUSPECT = 60.0
"""Brightness over the background from which a pixel may be a cosmic ray."""
CONTRAST = 8.0
STAR = 12.0
"""Brightness over the background of a star."""
RAYS_IN_A_MILLION = 800
STARS_IN_A_MILLION = 120

F64 = npt.NDArray[np.float64]
UDF_MODES = frozenset({Mode.FULL, Mode.COMP})


def exposures(shape: tuple[int, int] = SHAPE, seed: int = 1) -> dict[str, F64]:
    """Two exposures of the same stars, with noise and cosmic rays of their own."""
    random = np.random.default_rng(seed)
    size = shape[0] * shape[1]
    sky = np.zeros(shape)
    stars = random.integers(0, size, max(STARS_IN_A_MILLION * size // 1_000_000, 1))
    sky.reshape(-1)[stars] = random.uniform(800, 3000, len(stars))
    sky = ndimage.gaussian_filter(sky, 1.6)
    rays = max(RAYS_IN_A_MILLION * size // 1_000_000, 2)
    taken = {}
    for name in ("first", "second"):
        exposure = 100 + sky + random.normal(0, 1, shape)
        exposure.reshape(-1)[random.integers(0, size, rays)] += random.uniform(400, 3000, rays)
        taken[name] = exposure
    return taken


def around(cell: Sequence[int], shape: Sequence[int]) -> tuple[slice, ...]:
    """The cells within the radius."""
    return tuple(
        slice(max(at - RADIUS, 0), min(at + RADIUS + 1, length))
        for at, length in zip(cell, shape, strict=True)
    )


def within_radius(operand: int, shapes: Shapes) -> Mapping:
    """As `around`, of any output cell."""
    spans = tuple(Span(-RADIUS, RADIUS, axis, 1, 1) for axis in range(len(shapes.output)))
    return Boxes(shapes.inputs[operand], shapes.output, spans)


class CellAlone(Operator):
    """Most output cells are made from the same cell of each operand."""

    def supported_modes(self) -> frozenset[Mode]:
        return UDF_MODES

    def map_b(self, cell: tuple[int, ...], operand: int, shapes: Shapes) -> Any:
        return cell

    def map_f(self, cell: tuple[int, ...], operand: int, shapes: Shapes) -> Any:
        return cell

    def mapping(self, operand: int, shapes: Shapes) -> Mapping:
        return SamePositions(shapes.inputs[operand], shapes.output)

    def write_others(self, other: npt.NDArray[np.bool_], operands: int) -> None:
        """Region pairs of the cells that are made from the same cells alone."""
        cells = Regions.of_rows(other.shape, np.flatnonzero(other))
        self.lwrite_many(cells, *[cells] * operands)


class CosmicRays(CellAlone):
    """UDF A: 1 where a bright pixel stands out from those within the radius. Dark pixels are no suspects, whatever is around them."""

    name = "cosmic-rays"

    def run(self, *inputs: F64, modes: frozenset[Mode]) -> npt.NDArray[np.uint8]:
        (image,) = inputs
        suspects = image > SUSPECT
        rays = np.zeros(image.shape, np.uint8)
        for cell in zip(*(axis.tolist() for axis in np.nonzero(suspects)), strict=True):
            near = around(cell, image.shape)
            rays[cell] = image[cell] > CONTRAST * max(abs(float(image[near].mean())), 1.0)
            if Mode.FULL in modes:
                self.lwrite(cell, near)
        if Mode.COMP in modes:
            self.lwrite(suspects, b"")
        if Mode.FULL in modes:
            self.write_others(~suspects, 1)
        return rays

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        return around(cell, shapes.inputs[operand])

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping:
        return within_radius(operand, shapes)


class Composite(CellAlone):
    """UDF B: the mean of both exposures; where one has a cosmic ray, the other one's pixel."""

    name = "composite"

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        first, second, first_rays, second_rays = inputs
        ray_in_first = (first_rays == 1) & (second_rays == 0)
        ray_in_second = (second_rays == 1) & (first_rays == 0)
        image: F64 = np.where(
            ray_in_first, second, np.where(ray_in_second, first, (first + second) / 2)
        )
        for unused, cells in enumerate((ray_in_first, ray_in_second)):
            if Mode.COMP in modes:
                self.lwrite(cells, bytes([unused]))
            if Mode.FULL in modes:
                for cell in zip(*(axis.tolist() for axis in np.nonzero(cells)), strict=True):
                    self.lwrite(cell, *([] if at == unused else cell for at in range(4)))
        if Mode.FULL in modes:
            self.write_others(~ray_in_first & ~ray_in_second, 4)
        return image

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        return [] if operand == payload[0] else cell

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping:
        source, target = shapes.inputs[operand], shapes.output
        if operand == payload[0]:
            return Boxes(source, target, (Span(1, 0), Span(1, 0)))
        return SamePositions(source, target)


class WithoutRays(CellAlone):
    """UDF C: where both exposures have a cosmic ray, the median of the pixels within the radius."""

    name = "without-rays"

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> F64:
        image, first_rays, second_rays = inputs
        both = (first_rays == 1) & (second_rays == 1)
        clean: F64 = image.copy()
        for cell in zip(*(axis.tolist() for axis in np.nonzero(both)), strict=True):
            near = around(cell, image.shape)
            clean[cell] = np.median(image[near])
            if Mode.FULL in modes:
                self.lwrite(cell, near, cell, cell)
        if Mode.COMP in modes:
            self.lwrite(both, b"")
        if Mode.FULL in modes:
            self.write_others(~both, 3)
        return clean

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        return around(cell, shapes.inputs[operand]) if operand == 0 else cell

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping:
        if operand == 0:
            return within_radius(operand, shapes)
        return SamePositions(shapes.inputs[operand], shapes.output)


class Stars(CellAlone):
    """UDF D: in each pixel of a star the light of the star, 0 elsewhere. A star's pixels and those at its border decide what it is."""

    name = "stars"

    def run(self, *inputs: F64, modes: frozenset[Mode]) -> F64:
        (image,) = inputs
        light = np.zeros(image.shape)
        for star, cells in stars_in(image):
            light[star] = image[star].sum()
            if Mode.FULL in modes:
                self.lwrite(star, cells)
            if Mode.COMP in modes:
                positions = np.ravel_multi_index(cells, image.shape)
                self.lwrite(star, positions.astype("<u4").tobytes())
        if Mode.FULL in modes:
            self.write_others(image <= STAR, 1)
        return light

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        return np.unravel_index(np.frombuffer(payload, "<u4"), shapes.inputs[operand])

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping:
        image = shapes.inputs[operand]
        return AllFrom(image, shapes.output, Cells.at(image, np.frombuffer(payload, "<u4")))


def stars_in(image: F64) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """The cells of each star, and those with its border."""
    labels, _ = ndimage.label(image > STAR)
    for number, box in enumerate(ndimage.find_objects(labels), start=1):
        wide = tuple(slice(max(side.start - 1, 0), side.stop + 1) for side in box)
        star = labels[wide] == number
        corner = [side.start for side in wide]
        with_border = ndimage.binary_dilation(star)
        yield (
            tuple(axis + begin for axis, begin in zip(np.nonzero(star), corner, strict=True)),
            tuple(
                axis + begin for axis, begin in zip(np.nonzero(with_border), corner, strict=True)
            ),
        )


# The built-in operators, as plain NumPy code.


def without_offset(image: Any) -> Any:
    return image - 100.0


def mirrored(image: Any) -> Any:
    return image[:, ::-1]


def turned(image: Any) -> Any:
    return np.transpose(image)


def scaled(image: Any) -> Any:
    return image * 1.02


def clipped(image: Any) -> Any:
    return np.clip(image, -50.0, 60_000.0)


def row_background(image: Any) -> Any:
    return np.mean(image[:, :64], axis=1, keepdims=True)


def difference(image: Any, background: Any) -> Any:
    return image - background


def rounded(image: Any) -> Any:
    return np.round(image, 3)


def smoothed(image: Any) -> Any:
    wide = np.pad(image, ((0, 0), (1, 1)))
    return 0.2 * wide[:, :-2] + 0.6 * wide[:, 1:-1] + 0.2 * wide[:, 2:]


def smoothed_by_names(image: Any) -> Any:
    """As `smoothed`, without temporary arrays: NumPy reuses the memory of one that nothing names."""
    wide = np.pad(image, ((0, 0), (1, 1)))
    left, middle, right = 0.2 * wide[:, :-2], 0.6 * wide[:, 1:-1], 0.2 * wide[:, 2:]
    both = left + middle
    return both + right


PREPARING = (without_offset, mirrored, turned, scaled, turned, mirrored, clipped, rounded)
"""Of each exposure, before its background is taken away."""
BUILT_INS = 2 * (len(PREPARING) + 2) + 2


def astronomy(shape: tuple[int, int] = SHAPE) -> Workload:
    """22 built-in operators and the UDFs A to D, A once for each exposure."""
    graph = OperatorGraph()
    sources = (graph.source("first"), graph.source("second"))
    first, second = (_prepared(graph, source) for source in sources)
    first_rays, second_rays = (
        graph.add(CosmicRays(), image, name=f"rays-{source.name}")
        for image, source in zip((first, second), sources, strict=True)
    )
    composite = graph.add(Composite(), first, second, first_rays, second_rays, name="composite")
    clean = graph.add(WithoutRays(), composite, first_rays, second_rays, name="clean")
    smooth = graph.apply(smoothed, clean)
    stars = graph.add(Stars(), graph.apply(rounded, smooth), name="stars")

    def questions(arrays: dict[Step, Any]) -> list[Question]:
        """Five backward, one forward: of a star, one of its pixels, a cosmic ray, a pixel and a part of the clean image."""
        light = arrays[stars]
        star = tuple(int(axis[0]) for axis in np.nonzero(light))
        ray = tuple(int(axis[0]) for axis in np.nonzero(arrays[first_rays]))
        middle = tuple(length // 2 for length in light.shape)
        part = tuple(slice(at, at + 10) for at in middle)
        return [
            Question("star", stars, light == light[star]),
            Question("star-pixel", stars, star),
            Question("cosmic-ray", first_rays, ray),
            Question("clean-pixel", clean, middle),
            Question("clean-part", clean, part),
            Question("pixel-forward", stars, star, source=sources[0]),
        ]

    return Workload(graph, lambda: exposures(shape), questions)


def _prepared(graph: OperatorGraph, exposure: Step) -> Step:
    image = exposure
    for function in PREPARING:
        image = graph.apply(function, image)
    background = graph.apply(row_background, image)
    return graph.apply(difference, image, background)


def prepared_by_numpy(exposure: Any, smooth: Callable[[Any], Any] = smoothed) -> Any:
    """The built-in operators of one exposure as a program has them: of plain arrays, or of traced ones."""
    image = exposure
    for function in PREPARING:
        image = function(image)
    return smooth(difference(image, row_background(image)))
