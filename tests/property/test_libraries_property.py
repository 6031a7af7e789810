"""A catalogue of stars by photutils, astroscrappy, scikit-image and astropy as they are, from a star to its pixels and back, against what changes."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lineage_arrays import Cells, Recording
from lineage_arrays.libraries import tracing
from lineage_arrays.querying import backward
from tests.support.stored_arrays import reloaded

pytestmark = [pytest.mark.property, pytest.mark.long]

SHAPE = (104, 130)
F64 = npt.NDArray[np.float64]


@functools.cache
def workflow() -> Any:
    """The benchmark's module: its libraries take seconds to import, which tests that don't run need not."""
    return import_module("benchmarks.arrays.libraries")


@functools.cache
def run(seed: int) -> tuple[F64, Recording, Any]:
    image = workflow().exposure(SHAPE, seed)
    return image, *workflow().traced(image)


def rays_of(flat: F64) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = workflow().astroscrappy.detect_cosmics(flat, satlevel=np.inf)[0]
    return found


def value(array: Any) -> Any:
    return array.current


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_arrays_are_those_of_the_plain_program(seed: int) -> None:
    image, _, made = run(seed)
    plain = workflow().catalogue(image)
    assert np.array_equal(value(made.sky), plain.sky)
    assert np.array_equal(value(made.clean), plain.clean)
    assert np.array_equal(value(made.segments), plain.segments)
    assert np.array_equal(made.places, plain.places)
    assert np.array_equal(value(made.fluxes), plain.fluxes)
    assert len(plain.fluxes) >= 6


@pytest.mark.parametrize("seed", [1, 2])
def test_a_star_is_made_from_its_pixels(seed: int) -> None:
    """Other pixels don't change its flux, each of its own does: with the same sky, places and cosmic rays."""
    image, recording, made = run(seed)
    random = np.random.default_rng(seed)
    sky, places = value(made.sky), made.places
    rays = rays_of(image - sky)
    for star in range(len(places)):
        trace = recording.back(made.fluxes, star, until={"sky": made.sky})
        assert trace.exact
        assert any("detect_cosmics" in site for site in trace.chosen_by)
        pixels = trace.cells["exposure"].mask()
        assert np.array_equal(trace.cells["sky"].mask(), pixels)
        assert 0 < pixels.sum() < 150
        others = image + np.where(pixels, 0, random.normal(0, 1e-2, SHAPE))
        assert np.array_equal(rays_of(others - sky), rays)
        assert (
            workflow().fluxes_of(workflow().without_rays(others - sky), places)[star]
            == value(made.fluxes)[star]
        )
        for y, x in random.choice(np.argwhere(pixels), 4, replace=False)[:2].tolist():
            other = image.copy()
            other[y, x] += 0.5
            if np.array_equal(rays_of(other - sky), rays):
                changed = workflow().fluxes_of(workflow().without_rays(other - sky), places)[star]
                assert changed != value(made.fluxes)[star]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_pixel_goes_into_the_stars_that_have_it(seed: int) -> None:
    _, recording, made = run(seed)
    back = [
        recording.back(made.fluxes, star, until={"sky": made.sky}).cells["exposure"].mask()
        for star in range(len(made.places))
    ]
    # The sky takes all pixels to all stars.
    assert recording.forward("exposure", made.fluxes, (0, 0)).cells["array"].is_whole
    measured = Recording()
    with tracing(*workflow().LIBRARIES):
        fluxes = workflow().fluxes_of(measured.source("clean", value(made.clean)), made.places)
    random = np.random.default_rng(seed)
    rays = rays_of(value(made.clean))
    for y, x in random.choice(np.argwhere(np.any(back, axis=0) & ~rays), 20).tolist():
        found = measured.forward("clean", fluxes, (y, x)).cells["array"].positions().tolist()
        expected = [
            star
            for star in range(len(back))
            if measured.back(fluxes, star).cells["clean"].mask()[y, x]
        ]
        assert found == expected


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_what_the_operator_says_of_cosmic_rays(seed: int) -> None:
    """A pixel is as it was, or the mean of the good ones that the trace names."""
    image, recording, made = run(seed)
    flat = image - value(made.sky)
    rays, clean = rays_of(flat), workflow().without_rays(flat)
    assert rays.any()
    for y, x in np.argwhere(rays).tolist():
        cells = recording.back(made.clean, (y, x), until={"sky": made.sky}).cells["exposure"].mask()
        assert np.isclose(clean[y, x], flat[cells].astype(np.float32).mean(), rtol=1e-4)
    assert np.array_equal(clean[~rays], flat.astype(np.float32)[~rays])
    every = recording.back(made.clean, (3, 3), until={"sky": made.sky}, choices=True)
    assert every.cells["exposure"].is_whole


def test_the_sky_of_a_box() -> None:
    """Splines go through all boxes, so that each may count for each cell of the sky: a superset."""
    image, recording, made = run(1)
    trace = recording.back(made.sky, (5, 5), choices=True)
    assert not trace.exact
    pixels = trace.cells["exposure"].mask()
    assert np.array_equal(workflow().background_of(image + ~pixels), value(made.sky))
    # A box of too few pixels is left out.
    assert SHAPE[0] * SHAPE[1] - pixels.sum() == (SHAPE[0] % 32) * (SHAPE[1] % 32)
    changed = image.copy()
    changed[32:] += 3
    assert workflow().background_of(changed)[5, 5] != value(made.sky)[5, 5]


def test_pixels_around_decide_what_is_a_star() -> None:
    _, recording, made = run(1)
    inside = np.argwhere(value(made.segments) > 0)[0]
    trace = recording.back(made.segments, tuple(inside), until={"clean": made.clean})
    assert trace.cells["clean"].mask()[tuple(inside)]
    assert not trace.complete, "detect_sources asks which labels there are"
    assert "before, values left by" in trace.incomplete_reasons[0]


def test_smoothing_by_scikit_image_is_exact() -> None:
    clean = np.asarray(value(run(1)[2].clean), np.float64)
    recording = Recording()
    with tracing("skimage"):
        smooth = workflow().skimage.filters.gaussian(recording.source("clean", clean), sigma=1.0)
    trace = recording.back(smooth, (50, 60))
    assert trace.exact
    assert trace.complete
    y, x = np.nonzero(trace.cells["clean"].mask())
    assert (y.min(), y.max(), x.min(), x.max()) == (46, 54, 56, 64)


def test_compiled_functions_as_they_are() -> None:
    """Without an operator that knows better, astroscrappy is a black box of all cells."""
    recording = Recording()
    image = recording.source("exposure", workflow().exposure(SHAPE))
    with tracing("astroscrappy"):
        clean = workflow().without_rays(image)
    trace = recording.back(clean, (3, 3))
    assert trace.cells["exposure"].is_whole
    assert "detect_cosmics" in trace.superset_reasons[0]
    assert trace.complete


def test_a_stored_catalogue_answers_the_same() -> None:
    _, recording, made = run(1)
    again = reloaded(recording.flow, [workflow().WithoutRays()])
    for array, cells in ((made.fluxes, [0, 3]), (made.clean, [0, 777]), (made.sky, [5])):
        for at in cells:
            asked = Cells.at(array.shape, [at])
            before = backward(recording.flow, array.node, asked)
            assert backward(again, again.nodes[array.node.number], asked) == before
