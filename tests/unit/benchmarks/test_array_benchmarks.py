"""The array benchmarks, over small arrays: their answers are those of the definition, and true under perturbation."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.arrays.astronomy import BUILT_INS, astronomy, exposures
from benchmarks.arrays.microbenchmark import micro_rows
from benchmarks.arrays.workflows import astronomy_rows, genomics_rows, in_turns, numpy_row
from benchmarks.arrays.workloads import without_lineage

pytestmark = pytest.mark.unit

SMALL = (16, 70)


def test_all_strategies_of_the_astronomy_workflow_give_the_same_answers() -> None:
    rows = list(astronomy_rows((24, 80), SMALL, pairs=1))
    assert [row["strategy"] for row in rows] == [
        "blackbox", "composite-one", "composite-many", "plan-quick", "plan-any",
        "blackbox", "composite-one", "composite-many", "full-one", "full-many", "full-one-forward", "ranges", "plan-quick", "plan-any",
    ]  # fmt: skip
    assert all(row["same"] for row in rows)
    assert numpy_row(SMALL, pairs=1)["same"]


def test_all_strategies_of_the_genomics_workflow_give_the_same_answers() -> None:
    rows = list(genomics_rows(1, pairs=1))
    assert len(rows) == 13
    assert all(row["same"] for row in rows)
    within = {row["strategy"]: row["lineage_bytes"] for row in rows}
    assert within["plan-1"] <= 1_000_000


def test_pixels_outside_of_the_lineage_do_not_change_what_was_asked_about() -> None:
    workflow, taken = astronomy(SMALL), exposures(SMALL)
    assert sum(step.function is not None for step in workflow.graph.steps) == BUILT_INS == 22
    arrays = without_lineage(workflow.graph, taken)
    version = workflow.graph.run(taken)
    random = np.random.default_rng(11)
    for question in workflow.questions(arrays)[:5]:
        cells = version.back(question.step, question.where).cells
        assert any(cells.values())
        inside = {
            name: cells[name].mask() if name in cells else np.zeros(SMALL, np.bool_)
            for name in taken
        }
        inside = {
            name: cells[name].mask() if name in cells else np.zeros(SMALL, np.bool_)
            for name in taken
        }
        for _ in range(3):
            changed = {}
            for name, image in taken.items():
                noise = random.choice([0.0, 5000.0, -40.0], image.shape)
                changed[name] = np.where(inside[name], image, image + noise)
            after = without_lineage(workflow.graph, changed)
            np.testing.assert_array_equal(
                after[question.step][question.where], arrays[question.step][question.where]
            )
        # And a change of all pixels inside does change them.
        other = {
            name: np.where(inside[name], 100.0 - 7 * (name == "first"), image)
            for name, image in taken.items()
        }
        after = without_lineage(workflow.graph, other)
        assert not np.array_equal(
            after[question.step][question.where], arrays[question.step][question.where]
        )


def test_all_encodings_of_the_microbenchmark_give_the_definition() -> None:
    rows = list(micro_rows((60, 60), (1, 6)))
    assert len(rows) == 4 * 9
    assert all(row["same"] for row in rows)


def test_runs_take_turns() -> None:
    order: list[str] = []
    in_turns(lambda: order.append("plain"), lambda: order.append("recorded"), pairs=2)
    assert order == ["plain", "recorded", "recorded", "plain"]
