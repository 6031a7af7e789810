"""The array benchmarks, over small arrays: their answers are those of the definition, and true under perturbation."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.arrays import __main__ as command
from benchmarks.arrays.astronomy import BUILT_INS, astronomy, exposures
from benchmarks.arrays.figures import row_of
from benchmarks.arrays.kinds import kinds, kinds_row
from benchmarks.arrays.microbenchmark import micro_rows
from benchmarks.arrays.query_time import query_time_rows
from benchmarks.arrays.solving import solver_row
from benchmarks.arrays.spatial import curve, spatial_rows
from benchmarks.arrays.workflows import astronomy_rows, genomics_rows, in_turns, numpy_row
from benchmarks.arrays.workloads import without_lineage
from benchmarks.report.rows import read_rows

pytestmark = pytest.mark.unit

SMALL = (16, 70)


def test_all_strategies_of_the_astronomy_workflow_give_the_same_answers() -> None:
    rows = list(astronomy_rows((16, 72), SMALL, pairs=1))
    assert [row["strategy"] for row in rows] == [
        "blackbox-all", "blackbox", "composite-one", "composite-many", "full-one", "full-many", "plan-quick", "plan-any",
        "blackbox-all", "blackbox", "composite-one", "composite-many", "full-one", "full-many", "full-one-forward", "ranges", "plan-quick", "plan-any",
    ]  # fmt: skip
    assert all(row["same"] for row in rows)
    row = row_of("astronomy", rows)
    whole = {part["strategy"]: part for part in rows[:8]}
    assert row["figures"]["lineage_over_inputs"] == whole["plan-any"]["lineage_over_inputs"]
    asked = [
        whole["plan-any"]["query_s"][name]
        for name in ("star", "star-pixel", "cosmic-ray", "clean-pixel", "clean-part")
    ]
    assert row["figures"]["backward_ms_max"] == pytest.approx(1e3 * max(asked))
    assert row["parts"] == rows
    assert row_of("numpy", [numpy_row(SMALL, pairs=1)])["same"]


def test_all_strategies_of_the_genomics_workflow_give_the_same_answers() -> None:
    rows = list(genomics_rows(1, pairs=1))
    assert len(rows) == 16
    assert all(row["same"] for row in rows)
    within = {row["strategy"]: row["lineage_bytes"] for row in rows}
    assert within["plan-1"] <= 1_000_000
    figures = row_of("genomics", rows)["figures"]
    assert figures["lineage_mb"] == pytest.approx(within["plan-any"] / 1e6, abs=1e-3)
    assert figures["slower_max"] > 0


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
    figures = row_of("microbenchmark", rows)["figures"]
    smallest = [
        min(
            row["bytes"]
            for row in point
            if row["encoding"] in ("full-one-backward", "full-many-backward", "ranges")
        )
        / min(row["bytes"] for row in point if row["encoding"].startswith("paper"))
        for point in (rows[at : at + 9] for at in range(0, len(rows), 9))
    ]
    assert figures["bytes_over_paper_max"] == pytest.approx(max(smallest), abs=1e-4)


def test_spatial_indexes_give_the_definition() -> None:
    rows = list(spatial_rows((60, 70), (1, 6), times=1))
    assert len(rows) == 4 * 5
    assert all(row["same"] for row in rows)
    figures = row_of("spatial", rows)["figures"]
    assert list(figures) == ["grid", "r-tree", "roaring", "z-order", "hilbert"]
    assert set(figures["grid"].values()) == {1.0}
    assert all("backward_1_s" in ratios for ratios in figures.values())


def test_a_curve_goes_through_each_cell_once_and_that_of_hilbert_from_neighbour_to_neighbour() -> (
    None
):
    for hilbert in (False, True):
        codes = curve((16, 16), hilbert).codes.reshape(-1)
        assert sorted(codes.tolist()) == list(range(256))
    row, column = np.divmod(np.argsort(curve((16, 16), hilbert=True).codes, axis=None), 16)
    assert set((abs(np.diff(row)) + abs(np.diff(column))).tolist()) == {1}


def test_kinds_of_operators_take_a_range_where_one_says_all() -> None:
    row = kinds_row(12, 40_000, times=1)
    assert row["same"]
    assert row["ranges_max"] == 1
    assert row["kinds"]["convolution, mode same"]["ranges"] == 9  # edges and corners are cut off
    assert [kind.name for kind in kinds(4) if not kind.allows] == ["convolution, mode same", "sort"]
    assert all(query["associations"] >= 35_000 for query in row["queries"].values())


def test_the_solver_is_held_against_the_programme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert solver_row(8, 5, 3)["same"]
    for name, size in (("OPERATORS", 5), ("STRATEGIES", 3), ("DRAWS", 2)):
        monkeypatch.setattr(command, name, size)
    monkeypatch.setattr(sys, "argv", ["arrays", "solver", "--json-out", str(tmp_path / "a.jsonl")])
    assert command.main() == 0
    (row,) = read_rows(tmp_path)
    assert (row.benchmark, row.at("operators"), row.at("strategies")) == ("arrays-solver", 5, 3)


def test_questions_give_the_definition_by_what_is_kept_by_another_run_and_by_the_quicker_one() -> (
    None
):
    (row,) = query_time_rows(1, (40, 50), (20, 30), 100, (1, 4))
    assert row["same"]
    assert len(row["questions"]) == 4 * 6
    assert {one["auto"].partition(":")[0] for one in row["questions"]} <= {"stored", "rerun"}
    assert row["worst_over_blackbox"] > 0


def test_runs_take_turns() -> None:
    order: list[str] = []
    in_turns(lambda: order.append("plain"), lambda: order.append("recorded"), pairs=2)
    assert order == ["plain", "recorded", "recorded", "plain"]
