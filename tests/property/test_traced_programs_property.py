"""Random programs of reads, writes and views: traced they compute what they compute plainly, and no change escapes a trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import Cells, Recording
from tests.support.cell_oracle import same
from tests.support.stored_arrays import assert_same_answers, reloaded

pytestmark = pytest.mark.property

Names: TypeAlias = dict[str, Any]
Step: TypeAlias = Callable[[Names], None]

INDICES: list[Any] = [
    np.s_[0], np.s_[1:], np.s_[::-1], np.s_[:, ::2], np.s_[..., 1], np.s_[1, 1], np.s_[:, None], [0, 0], np.s_[:, [1, 0]],
    np.s_[-1:], np.s_[1:2], (np.array([0, 1]), np.array([1, 0])), ...,
]  # fmt: skip
OF_TWO: list[Any] = [np.add, np.multiply, np.maximum, np.subtract]
OF_ONE: list[Any] = [
    np.transpose,
    np.ravel,
    np.copy,
    np.flip,
    np.squeeze,
    lambda x: np.roll(x, 1),
    lambda x: x.reshape(-1),
]
ALONG: list[Any] = [np.sum, np.mean, np.max, np.cumsum, np.sort, np.argsort, np.prod, np.std]


def drawn_step(source: random.Random) -> Step:
    kind = source.choice(
        ["view", "write", "set", "augment", "two", "out", "along", "sort", "mask", "one"]
    )
    a, b, to = (source.choice("abcd") for _ in range(3))
    i, j, axis = source.choice(INDICES), source.choice(INDICES), source.choice([0, -1, None])
    two, one, along = source.choice(OF_TWO), source.choice(OF_ONE), source.choice(ALONG)
    number = source.random()

    def step(names: Names) -> None:
        x: Any = names.get(a, names["a"])
        y: Any = names.get(b, names["a"])
        match kind:
            case "view":
                names[to] = x[i]
            case "write":
                x[i] = number
            case "set":
                x[i] = y[j]
            case "augment":
                part = x[i]
                part += y[j]
                x[i] = names[to] = part
            case "two":
                names[to] = two(x, y)
            case "out":
                two(x, y, out=x)
            case "along":
                names[to] = along(x, axis=axis)
            case "sort":
                x.sort(axis=-1)
            case "mask":
                x[x > number] = number
            case "one":
                names[to] = one(x)

    return step


def run(steps: Sequence[Step], values: Any) -> Names:
    names = {"a": values}
    for step in steps:
        step(names)
    return names


def valid_program(source: random.Random, values: Any) -> list[Step]:
    """Steps that NumPy takes, and whose arrays stay small."""
    steps: list[Step] = []
    for _ in range(source.randint(2, 7)):
        step = drawn_step(source)
        try:
            names = run([*steps, step], values.copy())
        except (IndexError, TypeError, ValueError):
            continue
        if all(np.size(one) < 60 for one in names.values()):
            steps.append(step)
    return steps


@given(st.integers(0, 2**32))
def test_programs_compute_the_same_and_traces_hold(seed: int) -> None:
    source = random.Random(seed)
    values = np.random.default_rng(seed).random((2, 3))
    steps = valid_program(source, values)
    recording = Recording()
    traced = run(steps, recording.source("x", values))
    plain = run(steps, values.copy())
    for name, array in traced.items():
        assert array.shape == np.shape(plain[name])
        assert same(np.asarray(plain[name]), array.current).all()
    # Stored and read again, the recording answers as it does here.
    ends = [array.node for array in traced.values()]
    assert_same_answers(recording.flow, reloaded(recording.flow), ends)
    for cell in range(values.size):
        for change in (1e-3, -1e-3, 2.0, -5.0):
            changed = values.copy()
            changed.reshape(-1)[cell] += change
            after = run(steps, changed)
            for name, array in traced.items():
                differs = ~same(np.asarray(after[name]), np.asarray(plain[name]))
                if differs.any():
                    trace = recording.forward(
                        "x", array, Cells.at(values.shape, [cell]), choices=True
                    )
                    (went,) = trace.cells.values()
                    assert not (differs & ~went.mask()).any()
