"""docs/reference/arrays-numpy.md against NumPy's functions and what traces say of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Recording, UntracedError
from lineage_arrays.functions.coverage import coverage_of, page, public_functions
from lineage_arrays.functions.submodules import SUBMODULES
from tests.unit.arrays.test_numpy_functions import CHOOSING, PLAIN, traces

pytestmark = pytest.mark.unit

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/arrays-numpy.md"


def test_page_is_up_to_date() -> None:
    """Of functions that this NumPy has: newer ones have others."""
    written = PAGE.read_text(encoding="utf-8").splitlines()
    assert [line for line in page().splitlines() if line not in written] == []
    names = {name for name, _ in public_functions()}
    names |= {module.prefix + name for module in SUBMODULES for name in module.names()}
    assert all(sum(line.startswith(f"| `{name}` |") for line in written) == 1 for name in names)


def test_claims_are_what_traces_say() -> None:
    """A function that is called exact has no trace that is not, unless the row says so."""
    for case in (*PLAIN, *CHOOSING):
        claims = {coverage_of(one) for one in case.covers if one is not None}
        if not claims:
            continue
        _, _, ways = traces(case, choices=False)
        found = [way for of_array in ways for way in of_array if any(way.cells.values())]
        (claim,) = claims
        if claim.kind in ("exact", "chosen") and "superset" not in claim.cells:
            assert all(way.exact for way in found), case.covers
        if claim.kind == "superset":
            assert any(not way.exact for way in found) or case.covers[0] in ONE_OPERAND, case.covers
        if claim.kind == "chosen":
            assert any(way.chosen_by for way in found) or case in PLAIN, case.covers


ONE_OPERAND = (np.digitize, np.searchsorted)
"""With a constant to look up in."""


def test_what_is_called_refused_is() -> None:
    image = Recording().source("image", np.ones((3, 3)))
    refused = [
        function for _, function in public_functions() if coverage_of(function).kind == "refused"
    ]
    assert refused
    for function in refused:
        with pytest.raises(UntracedError):
            function(*[image] * needed(function))


def needed(function: Callable[..., Any]) -> int:
    """How many arguments a function must have."""
    parameters = inspect.signature(function).parameters.values()
    return max(
        1, sum(one.default is one.empty and one.kind < one.VAR_POSITIONAL for one in parameters)
    )
