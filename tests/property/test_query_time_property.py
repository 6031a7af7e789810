"""Questions about runs of operators: whichever way they cross the steps, and wherever a reading is given up, the cells are those of all region pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays.cells import Cells
from lineage_arrays.operators import Step, Strategy, Version
from lineage_arrays.operators.measuring import supported
from lineage_arrays.operators.operator import Mode
from lineage_arrays.operators.query_time import BYS, By, Crossings
from lineage_arrays.operators.strategies import WRITING
from lineage_arrays.querying import CellTrace, backward, forward
from tests.support.operator_graphs import Sky, image_of

pytestmark = pytest.mark.property

TICKS_MAX = 60
"""A reading of these arrays looks at the clock less often."""


class Ticks:
    """A clock that goes on by one each time that somebody looks: so a reading that may take n seconds is given up at the n-th look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> float:
        self.now += 1
        return float(self.now)


def pairs_of(version: Version, source: Step, step: Step) -> np.ndarray[Any, Any]:
    """By brute force: whether an output cell (row) was made from an input cell (column), a question for each output cell."""
    node, size = version.node(step), version.array(step).size
    inputs = version.array(source).size
    pairs = np.zeros((size, inputs), np.bool_)
    for at in range(size):
        trace = backward(version.flow, node, Cells.at(node.shape, [at]))
        if source.name in trace.cells:
            pairs[at] = trace.cells[source.name].mask().reshape(-1)
    return pairs


def strategies_of(data: st.DataObject, sky: Sky) -> dict[Step, list[Strategy]]:
    """Strategies of each operator that it can be run with at once."""
    chosen = {}
    for step in (sky.spots, sky.totals, sky.mended):
        assert step.operator is not None
        drawn = data.draw(
            st.lists(st.sampled_from(supported(step.operator)), unique=True, max_size=2)
        )
        modes = {one.mode for one in drawn}
        chosen[step] = drawn[:1] if {Mode.PAY, Mode.COMP} <= modes else drawn
    return chosen


def asked(
    version: Version, sky: Sky, crossings: Crossings, *, where: Cells, end: Step, back: bool
) -> CellTrace:
    if back:
        return backward(version.flow, version.node(end), where, cross=crossings)
    source = version.node(sky.image)
    return forward(version.flow, source, where, version.node(end), cross=crossings)


def drawn_cells(data: st.DataObject, shape: tuple[int, ...]) -> Cells:
    size = int(np.prod(shape))
    return Cells.at(shape, data.draw(st.lists(st.integers(0, size - 1), max_size=6) | st.just(list(range(size)))))  # fmt: skip


@settings(max_examples=30)
@given(data=st.data(), seed=st.integers(0, 2**16), ticks=st.integers(0, TICKS_MAX))
def test_each_way_and_each_point_at_which_reading_is_given_up(
    data: st.DataObject, seed: int, ticks: int
) -> None:
    sky = Sky()
    image = image_of(seed)
    full = sky.run(image, sky.full)
    version = sky.run(image, strategies_of(data, sky))
    clock = Ticks()
    for run in version.runs.values():
        run.clock = clock
        run.times.tracing_s.clear()
        for mode in data.draw(st.sets(st.sampled_from(WRITING)) | st.just(set(WRITING))):
            run.times.tracing_s[mode] = (float(ticks), run.cells)
    end = data.draw(st.sampled_from([sky.spots, sky.totals, sky.mended]))
    pairs = pairs_of(full, sky.image, end)
    for _ in range(2):
        by: By = data.draw(st.sampled_from(BYS))
        back = data.draw(st.booleans())
        where = drawn_cells(data, version.array(end if back else sky.image).shape)
        chosen = where.mask().reshape(-1)
        wanted = pairs[chosen].any(axis=0) if back else pairs[:, chosen].any(axis=1)
        # After a reading that was given up what is kept is whole: it answers by itself, too.
        for way in (by, "stored"):
            crossings = Crossings(version.runs, way, clock)
            trace = asked(version, sky, crossings, where=where, end=end, back=back)
            found = trace.cells[sky.image.name if back else end.name]
            assert np.array_equal(found.mask().reshape(-1), wanted), (way, crossings.ways)
            assert trace.exact
            if way == "rerun":
                assert all(one.by == "rerun" for one in crossings.ways)


@pytest.mark.parametrize("back", [True, False])
@pytest.mark.parametrize(
    ("of_spots", "of_mended"),
    [(Mode.PAY, Mode.COMP), (Mode.COMP, Mode.FULL), (Mode.FULL, Mode.COMP)],
)
def test_a_switch_at_each_look_at_the_clock(of_spots: Mode, of_mended: Mode, back: bool) -> None:
    """Every point in turn: the reading is given up at the first look, at the second, and so on until it is not."""
    sky = Sky()
    image = image_of(7)
    full = sky.run(image, sky.full)
    pairs = pairs_of(full, sky.image, sky.mended)
    given_up = 0
    for ticks in range(1, TICKS_MAX):
        version = sky.run(
            image,
            {sky.spots: [Strategy(of_spots)], sky.totals: [Strategy(Mode.MAP)], sky.mended: [Strategy(of_mended)]},
        )  # fmt: skip
        clock = Ticks()
        for run in version.runs.values():
            run.clock = clock
            run.times.tracing_s.update(dict.fromkeys(WRITING, (float(ticks), run.cells)))
        crossings = Crossings(version.runs, "auto", clock)
        end = sky.mended if back else sky.image
        where = Cells.whole(version.array(end).shape)
        trace = asked(version, sky, crossings, where=where, end=sky.mended, back=back)
        found = trace.cells["image" if back else "mended"].mask().reshape(-1)
        assert np.array_equal(found, pairs.any(axis=0 if back else 1))
        switched = sum("given up" in one.why for one in crossings.ways)
        given_up += switched
        if not switched:
            break
    else:
        pytest.fail("readings are given up however long they may take")
    assert given_up > 2
