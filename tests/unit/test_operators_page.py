"""docs/reference/operators.md against PySpark's methods and what is captured of them."""

from __future__ import annotations

import re

import pytest
from pyspark import RDD

from lineage_emitter.rdd import ABSORBING, BY_RECORD, COMPOSED, OF_TWO, UNTOUCHED, LineageRDD
from tests.reference_pages import section

pytestmark = pytest.mark.unit


def claims() -> dict[str, str]:
    """What the page says of each method."""
    found: dict[str, str] = {}
    for line in section("operators.md", "RDD"):
        names, claim = line.split("|")[1:3]
        for name in re.findall(r"`(\w+)`", names):
            assert name not in found, f"{name} has two rows"
            found[name] = claim.strip()
    return found


def test_every_public_method_has_a_row() -> None:
    assert set(claims()) == {name for name in dir(RDD) if not name.startswith("_")}


def test_what_a_row_claims_is_what_the_method_does() -> None:
    refused, silent = set(), set()
    for name, claim in claims().items():
        if claim == "refused":
            refused.add(name)
        elif claim == "no records":
            silent.add(name)
        else:
            assert claim in {"exact", "superset"}, name
    methods = {name for name in claims() if callable(getattr(RDD, name))}
    assert refused == {n for n in methods if getattr(getattr(LineageRDD, n), "refused", False)}
    assert silent == UNTOUCHED
    captured = {*BY_RECORD, *COMPOSED, *OF_TWO, *ABSORBING} - {"__add__"}
    assert captured <= methods - refused - silent
