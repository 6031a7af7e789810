"""The program in docs/guide/arrays.md runs, and gives what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_arrays.saved import parse_address, trace_back
from lineage_store.url import DEFAULT_STORE, open_store

pytestmark = pytest.mark.unit

GUIDE = Path(__file__).resolve().parents[3] / "docs/guide/arrays.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LINEAGE_STORE", raising=False)
    np.save("image.npy", np.random.default_rng(3).random((50, 60)))
    programs = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    for program in programs:
        exec(program, names)
        names.setdefault("first", names["recording"])
    trace = names["trace"]
    assert (trace.exact, trace.complete) == (True, True)
    pixels = trace.cells["image.npy"].coordinates()
    assert {tuple(one) for one in pixels.tolist()} == {
        (row, column) for row in range(50) for column in (39, 40, 41)
    }
    with open_store(DEFAULT_STORE) as store:
        smooth = trace_back(store, parse_address("smooth.npy[12,40]"))
    assert smooth.found[0].cells.coordinates().tolist() == [[12, 40], [12, 41]]
    assert names["filing"].flow.outputs[0].name == "flux.h5/night/flux"
    lit = names["first"].forward("image.npy", names["light"], np.s_[12, 40])
    assert lit.cells["convolve"].positions().tolist() == [39, 40, 41]
    assert names["pair"].cells["cube/flux"].coordinates().tolist() == [
        [time, x] for time in range(3) for x in (3, 4)
    ]
    version, values, mended = names["version"], names["values"], names["mended"]
    assert version.back(mended, np.s_[2]).cells["values"].positions().tolist() == [1]
    assert version.forward(values, mended, np.s_[2]).cells["mended.1"].count == 0
    assert names["later"].back(mended, np.s_[2]).cells["values"].positions().tolist() == [1]
