"""A program may name any argument of PySpark's: captured methods take those of PySpark, and no others."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from pyspark import RDD, SparkContext

from lineage_emitter import LineageContext, LineageRDD
from lineage_emitter.context import CAPTURED

pytestmark = pytest.mark.unit

RDDS = [name for name in dir(RDD) if not name.startswith("_") and callable(getattr(RDD, name))]


def parameters(method: Callable[..., Any]) -> list[tuple[str, Any, Any]]:
    """Name, kind and default of each argument. Functions that are defaults differ anyway."""
    found = inspect.signature(method).parameters.values()
    return [
        (one.name, one.kind, "function" if inspect.isfunction(one.default) else one.default)
        for one in found
    ]


@pytest.mark.parametrize("name", ["__add__", *RDDS])
def test_methods_of_rdds_take_what_pysparks_take(name: str) -> None:
    assert parameters(getattr(LineageRDD, name)) == parameters(getattr(RDD, name))


@pytest.mark.parametrize("name", CAPTURED)
def test_methods_of_contexts_take_what_pysparks_take(name: str) -> None:
    stock = getattr(SparkContext, name)
    own = getattr(LineageContext, name)
    assert parameters(own) == parameters(getattr(stock, "lineage_stock", stock))


@pytest.mark.parametrize("name", CAPTURED)
def test_no_argument_of_ours_has_a_name(name: str) -> None:
    """Each argument of PySpark's can be given by its name, beside those that capture gives."""
    named = dict.fromkeys(list(inspect.signature(getattr(SparkContext, name)).parameters)[1:])
    inspect.signature(CAPTURED[name]).bind(object(), **named)
