"""Traced arrays that go from process to process have the lineage that the same program has in one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch
from weakref import WeakValueDictionary

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import ArrayLineageError, Recording, TracedArray, UntracedError, carrying
from lineage_arrays.libraries import black_box
from lineage_arrays.scipy import ndimage

pytestmark = pytest.mark.property


def written(a: Any, b: Any) -> Any:
    made = a.copy()
    made[0] = b[-1]
    return made


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b[:1],
    "sort": lambda a, b: np.sort(a, axis=0),
    "turn": lambda a, b: a[::-1],
    "pick": lambda a, b: a[a[:, 0] > 0],
    "total": lambda a, b: a.sum(axis=0, keepdims=True),
    "roll": lambda a, b: np.roll(a, 1, 0),
    "join": lambda a, b: np.concatenate((a, b)),
    "choose": lambda a, b: np.where(a > 0, a, b[:1]),
    "twice": lambda a, b: a[[0, 0]],
    "largest": lambda a, b: a * a.max(),
    "differences": lambda a, b: np.gradient(a, axis=1),
    "smooth": lambda a, b: ndimage.gaussian_filter1d(a, 0.6, axis=1, mode="nearest"),
    "write": written,
    "all": lambda a, b: black_box(lambda x: x - 1)(a),
}
VALUES = np.random.default_rng(5).normal(0, 2, (3, 4))


@dataclass
class Process:
    """What a process knows of workflows."""

    homes: Any = field(default_factory=WeakValueDictionary)
    away: Any = field(default_factory=WeakValueDictionary)

    @contextmanager
    def running(self) -> Iterator[None]:
        with patch.multiple(carrying, _homes=self.homes, _away=self.away):
            yield


@dataclass(frozen=True)
class Step:
    name: str
    operands: tuple[int, int]
    process: int
    tries: int


steps = st.builds(
    Step,
    st.sampled_from(sorted(STEPS)),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.integers(0, 2),
    st.integers(1, 2),
)


def sent(array: TracedArray, sender: Process, receiver: Process) -> TracedArray:
    with sender.running():
        content = pickle.dumps(array)
    with receiver.running():
        received: TracedArray = pickle.loads(content)
    return received


@settings(max_examples=30)
@given(st.lists(steps, min_size=1, max_size=8))
def test_lineage_is_that_of_one_process(program: list[Step]) -> None:
    """Process 0 has the recording; steps that are tried again leave nothing behind."""
    one, several = Recording(), Recording()
    processes = [Process(), Process(), Process()]
    alone = [one.source("x", VALUES)]
    spread = [(0, several.source("x", VALUES))]
    for step in program:
        left, right = (at % len(alone) for at in step.operands)
        try:
            alone.append(STEPS[step.name](alone[left], alone[right]))
        except (IndexError, ValueError):
            continue
        made = spread[left][1]
        for _ in range(step.tries):
            taken = [
                sent(array, processes[where], processes[step.process])
                for where, array in (spread[left], spread[right])
            ]
            with processes[step.process].running():
                made = STEPS[step.name](*taken)
        spread.append((step.process, made))
    before = len(several.flow.nodes)
    home = [sent(array, processes[where], processes[0]) for where, array in spread]
    again = [sent(array, processes[where], processes[0]) for where, array in spread]
    assert [array.node for array in home] == [array.node for array in again]
    nodes = several.flow.nodes
    assert len(nodes) >= before
    assert [node.number for node in nodes] == list(range(len(nodes)))
    assert all(edge.node.number < node.number for node in nodes for edge in node.inputs)
    for expected, array in zip(alone, home, strict=True):
        np.testing.assert_array_equal(array.current, expected.current)
        assert array.is_number == expected.is_number
        for choices in (False, True):
            for cell in range(expected.size):
                where = np.unravel_index(cell, expected.shape)
                trace = several.back(array, where, choices=choices)
                reference = one.back(expected, where, choices=choices)
                assert trace.cells == reference.cells
                assert (trace.exact, trace.complete) == (reference.exact, reference.complete)
                assert len(trace.chosen_by) == len(reference.chosen_by)


def halves(array: Any) -> Any:
    return np.sort(array)[::-1][:2] / 2, array.max()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_processes_give_their_results_back() -> None:
    """They have copies of the recording, which they don't add to."""
    recording = Recording()
    array = recording.source("x", np.array([3.0, 1.0, 2.0]))
    pickle.dumps(array)
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        half, highest = pool.submit(halves, array).result()
        with pytest.raises(UntracedError, match=r"float .* another process"):
            pool.submit(float, array[0]).result()
    assert recording.back(half, 1).cells["x"].positions().tolist() == [2]
    assert (highest.is_number, float(highest.current)) == (True, 3.0)
    both = half + recording.source("y", np.ones(2))
    assert sorted(recording.back(both).cells) == ["x", "y"]


INHERITED: dict[str, Any] = {}


def of_inherited(take: Callable[[Any], Any]) -> Any:
    return take(INHERITED["x"])


def summed(array: Any) -> float:
    return float(array.sum())


def counted(array: Any) -> int:
    return len(array[array > 1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_takes_no_values_out_of_what_it_inherits() -> None:
    recording = Recording()
    INHERITED["x"] = recording.source("x", np.array([3.0, 1.0, 2.0]))
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
            for take in (summed, counted):
                with pytest.raises(UntracedError, match="inherited"):
                    pool.submit(of_inherited, take).result()
    finally:
        INHERITED.clear()


def test_values_that_left_before_may_come_back_by_another_process() -> None:
    recording = Recording()
    array = recording.source("x", VALUES)
    home, away = Process(), Process()
    with away.running():
        inside = sent(array, home, away)
    early = sent(inside, away, home)
    top = float(array.max())
    with away.running():
        scaled = inside / top
        assert (inside + inside).size == VALUES.size
    assert recording.back(early).complete
    trace = recording.back(sent(scaled, away, home))
    assert not trace.complete
    assert "float at test_array_processes.py" in trace.incomplete_reasons[0]


def test_sizes_that_values_decided_stay_known_as_such() -> None:
    recording = Recording()
    home, away = Process(), Process()
    array = recording.source("x", VALUES)
    inside = sent(array, home, away)
    with away.running():
        picked = inside[inside > 0] * 2
        with pytest.raises(UntracedError, match="another process"):
            len(picked)
    came = sent(picked, away, home)
    assert recording.back(came).complete
    assert not recording.back(array * len(came)).complete


def test_arrays_of_unknown_recordings_are_never_taken_for_others() -> None:
    home, elsewhere = Process(), Process()
    with elsewhere.running():
        theirs = Recording().source("x", VALUES)
    mine = Recording()
    array = mine.source("x", VALUES)
    came = sent(theirs, elsewhere, home)
    with pytest.raises(ArrayLineageError, match="several workflows"):
        array + came
    with pytest.raises(ArrayLineageError, match="another recording"):
        mine.back(came)
    # A copy of a workflow that a fork left does not pass for the one of the other process.
    with home.running():
        pickle.dumps(array)
    with Process().running(), pytest.raises(UntracedError, match="inherited"):
        pickle.dumps(array)


@pytest.mark.parametrize(
    "leave",
    [bool, float, np.asarray, str, lambda x: np.save("never.npy", x), lambda x: np.array_equal(x, x)],
)  # fmt: skip
def test_nothing_leaves_in_another_process(
    leave: Callable[[Any], Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    away = Process()
    array = sent(Recording().source("x", VALUES)[0, 0], Process(), away)
    with away.running(), pytest.raises(UntracedError, match="another process"):
        leave(array)
    assert not list(tmp_path.iterdir())
