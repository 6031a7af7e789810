"""Texts that are cut to a width which values decided: the cells of the trace are not all that they depend on, and it says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Recording

pytestmark = pytest.mark.unit

COUNTS = np.array([1, 3])
LONGER: Any = {0xDF: "xyz"}


def assigned(texts: Any, value: Any) -> Any:
    texts = texts.copy()
    texts[0] = value
    return texts


CUT: dict[str, Callable[[Any], Any]] = {
    "upper": lambda s: np.strings.upper(np.strings.multiply(s, COUNTS)),
    "upper of a part": lambda s: np.strings.upper(np.strings.multiply(s, COUNTS)[:1]),
    "upper of joined parts": lambda s: np.strings.upper(np.concatenate([np.strings.multiply(s, COUNTS)[:1]] * 2)),
    "title": lambda s: np.strings.title(np.strings.ljust(s, np.strings.str_len(s) * COUNTS)),
    "capitalize": lambda s: np.strings.capitalize(np.strings.zfill(s, 0)),
    "swapcase": lambda s: np.strings.swapcase(np.strings.expandtabs(s)),
    "replace": lambda s: np.strings.replace(np.strings.multiply(s, COUNTS), "ß", "xyz"),
    "partition": lambda s: np.strings.partition(np.strings.multiply(s, COUNTS), "ßq")[0],
    "translate": lambda s: np.strings.translate(np.strings.multiply(s, COUNTS), LONGER),
    "assignment": lambda s: assigned(np.strings.multiply(s, COUNTS), "long"),
    "insert": lambda s: np.insert(np.strings.multiply(s, COUNTS), 0, "long"),
    "pad": lambda s: np.pad(np.strings.multiply(s, COUNTS), 1, constant_values="long"),
    "type": lambda s: np.where(COUNTS > 0, np.array(["long"] * 2).astype(np.strings.multiply(s, COUNTS).dtype), s),
    "type of traced texts": lambda s: np.strings.add(s, ["xyz", ""]).astype(np.strings.multiply(s, COUNTS).dtype),
    "array alike": lambda s: np.where(COUNTS > 0, assigned(np.zeros_like(np.strings.multiply(s, COUNTS)), "long"), s),
}  # fmt: skip


@pytest.mark.parametrize("name", CUT)
def test_other_cells_change_a_text_that_is_cut_and_the_trace_is_not_complete(name: str) -> None:
    compute = CUT[name]
    before, after = compute(np.array(["ß", "q"])), compute(np.array(["ß", ""]))
    if name not in ("capitalize", "swapcase"):
        # The oracle: the first cell changes though only the second one of the source did.
        assert before[0] != after[0], (before, after)
    recording = Recording()
    result = compute(recording.source("texts", np.array(["ß", "q"])))
    assert result.current.tolist() == before.tolist()
    trace = recording.back(result, np.s_[0])
    assert not trace.complete
    assert "width of texts, which values decided" in trace.incomplete_reasons[0] or "size values decided" in trace.incomplete_reasons[0]  # fmt: skip


WHOLE: dict[str, Callable[[Any], Any]] = {
    "upper of ASCII": lambda s: np.strings.upper(np.strings.multiply(s, COUNTS)),
    "partition": lambda s: np.strings.partition(np.strings.multiply(s, COUNTS), "a")[0],
    "replace": lambda s: np.strings.replace(np.strings.multiply(s, COUNTS), "a", "b"),
    "width of a source": lambda s: assigned(s, "long"),
    "upper of a source": lambda s: np.strings.upper(np.where(COUNTS > 0, s, "ß")),
    "shape": lambda s: np.strings.multiply(s, np.full(np.strings.multiply(s, COUNTS).shape, 2)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_what_fits_into_its_own_cell_and_types_of_sources_keep_a_trace_complete(name: str) -> None:
    compute = WHOLE[name]
    recording = Recording()
    source = recording.source("texts", np.array(["a", "q"]))
    trace = recording.back(compute(source), np.s_[1])
    assert (trace.exact, trace.complete) == (True, True)
    assert trace.cells["texts"].positions().tolist() == [1]
    before, after = compute(np.array(["a", "q"])), compute(np.array(["", "q"]))
    assert before[1] == after[1]
