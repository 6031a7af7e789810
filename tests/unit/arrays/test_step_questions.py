"""Steps of a trace as confined processes answer them: those of the recording, and refusals of what can't be."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Recording
from lineage_arrays.cells import Cells
from lineage_arrays.saved import questions, step_questions
from lineage_arrays.saved.document import pack_workflow
from lineage_arrays.saved.reading import StoredRecording
from lineage_core.codec.zstd import compress
from lineage_core.contract.region import Region

pytestmark = pytest.mark.unit


def recorded(name: str = "image") -> Recording:
    recording = Recording()
    image = recording.source(name, np.random.default_rng(1).normal(size=(4, 5)))
    ordered: Any = np.sort(image, axis=1)
    recording.output("sorted", ordered)
    recording.output("total", image.sum(axis=0))
    return recording


def parts_of(recording: Recording) -> list[tuple[int, int, str]]:
    return [(0, 1, base64.b64encode(compress(pack_workflow(recording.flow))).decode())]


def asked(operation: Any, recording: Recording, *arguments: Any) -> dict[str, Any]:
    answer: dict[str, Any] = operation(io.BytesIO(), "app-1", parts_of(recording), *arguments)
    return answer


def runs(*pairs: tuple[int, int]) -> tuple[bytes, bytes]:
    first, last = (np.array(side, np.uint64).tobytes() for side in zip(*pairs, strict=True))
    return first, last


def cells_of(shape: tuple[int, ...], packed: tuple[bytes, bytes]) -> Cells:
    first, last = (np.frombuffer(side, np.uint64) for side in packed)
    return Cells.of_region(shape, Region(first, last))


@pytest.mark.parametrize("choices", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_steps_are_those_of_the_recording(choices: bool, whole: bool) -> None:
    recording = recorded()
    stored = StoredRecording("app-1", recording.flow)
    named = asked(step_questions.list_whole_names, recording)["arrays"]
    assert [one["name"] for one in named] == ["image", "sorted", "total"]
    by_name = {one["name"]: one for one in named}
    for name, address in (("sorted", "sorted[1,2:4]"), ("total", "total[3]")):
        array = by_name[name]
        at = address.partition("[")[0] if whole else address
        start = asked(step_questions.cells_at, recording, array["number"], at)["cells"]
        back = asked(step_questions.back_to_sources, recording, array["number"], start, choices)
        index = ... if whole else {"sorted": np.s_[1, 2:4], "total": 3}[name]
        expected = stored.back(name, index, choices=choices)
        [(place, found)] = back["found"]
        assert (place, cells_of((4, 5), found)) == (0, expected.cells["image"])
        assert back["chosen_by"] == list(expected.chosen_by)
    forward = asked(
        step_questions.forward_to_outputs, recording, by_name["image"]["number"], runs((7, 8)), None, choices
    )["found"]  # fmt: skip
    for one, name in zip(forward, ("sorted", "total"), strict=True):
        shape = tuple(by_name[name]["shape"])
        expected = stored.forward("image", name, np.s_[1, 2:4], choices=choices)
        assert [cells_of(shape, one["cells"])] == list(expected.cells.values())


@pytest.mark.parametrize("packed", [runs((19, 20)), runs((3, 2)), runs((1, 4), (3, 5)), (b"123", b"1"), (b"", b"12345678")])  # fmt: skip
def test_cells_that_the_array_lacks_are_refused(packed: tuple[bytes, bytes]) -> None:
    recording = recorded()
    answer = asked(step_questions.back_to_sources, recording, 1, packed, False)
    assert list(answer) == ["refused"]


def test_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_questions, "RUNS_MAX", 1)
    recording = recorded()
    refused = asked(step_questions.cells_at, recording, 0, "image[::2,1]")
    assert "ask for fewer cells" in refused["refused"]
    # A name that is cut would link to no file, and the trace would say that it is complete.
    long = recorded("x" * (questions.NAME_MAX + 1))
    assert "characters" in asked(step_questions.list_whole_names, long)["refused"]
    monkeypatch.setattr(step_questions, "NAMED_MAX", 2)
    assert "named arrays" in asked(step_questions.list_whole_names, recording)["refused"]
