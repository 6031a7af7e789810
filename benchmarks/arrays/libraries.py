"""A workflow of functions that nobody here wrote: photutils, astroscrappy, scikit-image and astropy, as they are."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import astroscrappy
import numpy as np
import numpy.typing as npt
import skimage.filters
from astropy.stats import SigmaClip
from photutils.aperture import CircularAperture
from photutils.background import Background2D, MedianBackground
from photutils.segmentation import SourceCatalog, detect_sources

from benchmarks.arrays.workflows import in_turns, ratio
from lineage_arrays import Recording
from lineage_arrays.libraries import tracing
from lineage_arrays.mappings import Mapping, SamePositions
from lineage_arrays.operators import Encoding, Mode, Operator, Regions, Shapes, Strategy

F64 = npt.NDArray[np.float64]
LIBRARIES = ("photutils", "skimage", "astropy.stats", "astropy.nddata", "astroscrappy")


def background_of(image: Any) -> Any:
    """The sky between the stars."""
    clip, median = SigmaClip(sigma=3), MedianBackground()
    boxes = Background2D(
        image, (32, 32), sigma_clip=clip, bkg_estimator=median, exclude_percentile=50
    )
    return boxes.background


def without_rays(image: Any) -> Any:
    """The image with cosmic rays filled in."""
    return astroscrappy.detect_cosmics(image, satlevel=np.inf)[1]


def stars_of(clean: Any) -> tuple[Any, F64]:
    """Which pixels are whose star (0: none), and where the stars are, as x and y."""
    smooth = skimage.filters.gaussian(clean, sigma=1.0)  # type: ignore[no-untyped-call]
    segments = detect_sources(smooth, threshold=10.0, n_pixels=5)
    stars = SourceCatalog(clean, segments)
    return segments.data, np.transpose([stars.x_centroid, stars.y_centroid])


def fluxes_of(clean: Any, places: F64) -> Any:
    """How bright stars are, in circles around their places."""
    fluxes, _ = CircularAperture(places, r=4).do_photometry(clean)
    return fluxes


def exposure(shape: tuple[int, int], seed: int = 1) -> F64:
    """Stars on a sky that brightens to one side, with noise and cosmic rays. Stars lie apart, rays anywhere."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[: shape[0], : shape[1]]
    image: F64 = 100 + 0.02 * x + random.normal(0, 2, shape)
    for corner_y in range(0, shape[0] - 39, 40):
        for corner_x in range(0, shape[1] - 39, 40):
            star_y = corner_y + random.uniform(12, 28)
            star_x = corner_x + random.uniform(12, 28)
            near = (slice(corner_y, corner_y + 40), slice(corner_x, corner_x + 40))
            distance = (y[near] - star_y) ** 2 + (x[near] - star_x) ** 2
            image[near] += random.uniform(100, 400) * np.exp(-distance / 5)
    rays = random.integers(0, image.size, max(image.size // 1500, 3))
    image.reshape(-1)[rays] += random.uniform(500, 3000, len(rays))
    return image


class WithoutRays(Operator):
    """`without_rays`, and which pixels it filled in from which: its documentation has means of the good ones in 5 x 5 pixels."""

    name = "astroscrappy.detect_cosmics"
    version = str(astroscrappy.__version__)
    chooses = True

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.COMP})

    def run(self, *inputs: F64, modes: frozenset[Mode]) -> Any:
        rays, clean = astroscrappy.detect_cosmics(inputs[0], satlevel=np.inf)
        if Mode.COMP in modes:
            # Pixels at the edge are never filled in.
            filled = np.argwhere(rays[2:-2, 2:-2]) + 2
            good = [_good_around(rays, y, x).tobytes() for y, x in filled.tolist()]
            at = np.ravel_multi_index((filled[:, 0], filled[:, 1]), rays.shape)
            self.lwrite_many(Regions.of_rows(rays.shape, at), good)
        return clean

    def map_b(self, cell: tuple[int, ...], operand: int, shapes: Shapes) -> Any:
        return cell

    map_f = map_b

    def mapping(self, operand: int, shapes: Shapes) -> Mapping:
        return SamePositions(shapes.inputs[operand], shapes.output)

    def map_p(self, cell: tuple[int, ...], payload: bytes, operand: int, shapes: Shapes) -> Any:
        # Where all are bad, it takes the median of the image.
        return np.unravel_index(np.frombuffer(payload, np.int64), shapes.output) if payload else ...


def _good_around(rays: npt.NDArray[np.bool_], y: int, x: int) -> npt.NDArray[np.int64]:
    down, right = np.nonzero(~rays[y - 2 : y + 3, x - 2 : x + 3])
    positions: npt.NDArray[np.int64] = (y - 2 + down) * rays.shape[1] + x - 2 + right
    return positions


@dataclass(frozen=True)
class Catalogue:
    """The workflow's arrays, plain ones or traced ones."""

    sky: Any
    clean: Any
    segments: Any
    places: F64
    fluxes: Any


def catalogue(image: Any, filled: Callable[[Any], Any] = without_rays) -> Catalogue:
    """The whole workflow. ``filled``: takes cosmic rays away."""
    sky = background_of(image)
    clean = filled(image - sky)
    segments, places = stars_of(clean)
    return Catalogue(sky, clean, segments, places, fluxes_of(clean, places))


def traced(image: F64) -> tuple[Recording, Catalogue]:
    """The workflow with lineage, by the same functions."""
    recording = Recording()
    kept = [Strategy(Mode.COMP, Encoding.ONE)]
    with tracing(*LIBRARIES):
        made = catalogue(
            recording.source("exposure", image),
            lambda flat: recording.run(WithoutRays(), flat, strategies=kept),
        )
    return recording, made


def library_row(shape: tuple[int, int], pairs: int) -> dict[str, Any]:
    """What the workflow costs with lineage, over without it, and what questions about it take."""
    image = exposure(shape)
    plain, recorded = in_turns(lambda: catalogue(image), lambda: traced(image), pairs=pairs)
    recording, made = traced(image)
    questions = {
        "star": lambda: recording.back(made.fluxes, 0, until={"sky": made.sky}),
        "sky": lambda: recording.back(made.sky, (5, 5)),
        "pixel_forward": lambda: recording.forward("exposure", made.fluxes, (5, 5)),
    }
    expected = catalogue(image)
    return {
        "shape": list(shape),
        "stars": len(made.places),
        "calls": len(recording.flow.nodes),
        "plain_s": statistics.median(plain.seconds),
        "recorded_over_plain": ratio(plain, recorded),
        "question_ms": {name: 1e3 * in_turns(ask, pairs=3)[0].seconds[-1] for name, ask in questions.items()},
        "same": bool(np.array_equal(made.fluxes.current, expected.fluxes) and np.array_equal(made.segments.current, expected.segments)),
    }  # fmt: skip
