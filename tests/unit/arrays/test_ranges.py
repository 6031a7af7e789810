"""How few ranges ProvRC's kinds of operators take, and that no range is asked by writing it out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lineage_arrays import Cells, ModeError, Recording
from lineage_arrays.operators.encodings import RangeStore
from lineage_arrays.operators.ranges import RangeTable

pytestmark = pytest.mark.unit

N = 24


def filtered(x: Any) -> Any:
    padded = np.pad(x, 1)
    return sum(padded[r : r + N, c : c + N] for r in range(3) for c in range(3))


@pytest.mark.parametrize(
    ("call", "rows"),
    [
        (lambda x: x * 2, 1),
        (lambda x: x.T, 1),
        (lambda x: x.sum(axis=0), 1),
        (lambda x: x.sum(), 1),
        (lambda x: x[5:, ::-1], N),  # against the order of the axis: a range for each column
        (lambda x: x[1:] - x[:-1], 1),
        (lambda x: x @ np.ones((N, 4)), 1),
        (lambda x: np.concatenate((x, x)), 2),
        (filtered, 9),  # the middle, four edges and four corners
    ],
)  # fmt: skip
def test_rows_follow_from_the_structure(call: Any, rows: int) -> None:
    recording = Recording()
    source = recording.source("x", np.zeros((N, N)))
    result = call(source)
    outputs, inputs = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for at in range(result.size):
        came = recording.back(result, Cells.at(result.shape, [at])).cells["x"].positions()
        inputs.append(came)
        outputs.append(np.full(len(came), at))
    table = RangeTable.of_pairs(
        (N, N), result.shape, np.concatenate(outputs), np.concatenate(inputs)
    )
    assert len(table.rows) == rows
    assert table.nbytes <= rows * 8 * 24
    some = Cells.at(result.shape, [0, result.size // 2, result.size - 1])
    assert table.backward(some) == recording.back(result, some).cells["x"]
    (went,) = recording.forward("x", result, np.s_[3, 4]).cells.values()
    assert table.forward(Cells.of((N, N), np.s_[3, 4])) == went


def test_what_comes_after_a_question_is_refused() -> None:
    store = RangeStore((3,), (3,))
    store.append(Cells.at((3,), [0]), Cells.at((3,), [1, 2]))
    assert store.backward(Cells.whole((3,))).positions().tolist() == [1, 2]
    with pytest.raises(ModeError):
        store.append(Cells.at((3,), [1]), Cells.at((3,), [1]))
