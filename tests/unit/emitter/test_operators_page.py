"""docs/reference/operators.md against PySpark's methods and what is captured of them."""

from __future__ import annotations

import re

import pytest
from pyspark import RDD, SparkContext

from lineage_emitter import context_methods
from lineage_emitter.context import CAPTURED, LineageContext
from lineage_emitter.driver.rdd import (
    BY_RECORD,
    COMPOSED,
    REDUCING,
    WITH_OTHER_RDDS,
    WITHOUT_RECORDS,
    LineageRDD,
)
from tests.support.reference_pages import section

pytestmark = pytest.mark.unit


def claims(of: str = "RDD") -> dict[str, str]:
    """What the page says of each method."""
    found: dict[str, str] = {}
    for line in section("operators.md", of):
        names, claim = line.split("|")[1:3]
        for name in re.findall(r"`(\w+)`", names):
            assert name not in found, f"{name} has two rows"
            found[name] = claim.strip()
    return found


def test_every_public_method_has_a_row() -> None:
    for owner in (RDD, SparkContext):
        public = {name for name in dir(owner) if not name.startswith("_")}
        assert set(claims(owner.__name__)) == public


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
    assert silent == WITHOUT_RECORDS
    captured = {*BY_RECORD, *COMPOSED, *WITH_OTHER_RDDS, *REDUCING} - {"__add__"}
    assert captured <= methods - refused - silent


def test_a_context_captures_what_the_page_claims() -> None:
    claimed = claims("SparkContext")
    assert set(claimed.values()) == {"exact", "no records"}
    captured = {name for name, claim in claimed.items() if claim == "exact"}
    assert captured == set(CAPTURED) == {*context_methods.SOURCES, *context_methods.OF_RDDS}
    assert captured == {name for name in claimed if name in vars(LineageContext)}
