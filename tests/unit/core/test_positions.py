import datetime as dt
import os
import subprocess
import sys
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import Row

from lineage_core.contract.positions import (
    key_position,
    key_positions,
    text_position,
    text_positions,
)

pytestmark = pytest.mark.unit

FIXED: list[tuple[object, int]] = [
    (None, 1874492674255557078),
    (True, 4678170435044338961),
    (0, 1424196680925763178),
    (-1, 7614535501727829113),
    (2**63, 7275613968587976251),
    (1.5, 17960641479154597488),
    (Decimal("0.1"), 12290759709942334664),
    (Fraction(1, 3), 10603237938996546402),
    (1j, 16775151614903190069),
    (float("inf"), 16277243513240563765),
    ("", 5604079703740606211),
    ("word", 13880471004575844831),
    ("\ud800", 6636480450444292010),
    (b"word", 2388713458988768866),
    ((), 15560499704274435721),
    (("word", 1), 2051223032406560881),
    (frozenset({1, 2}), 1799105037359068492),
    (dt.date(2013, 1, 1), 11572091378281050630),
    (dt.datetime(2013, 1, 1, 5, 17), 13094595460475130775),  # noqa: DTZ001
    (dt.datetime(2013, 1, 1, 5, 17, tzinfo=dt.UTC), 13161505407272436833),
    (dt.time(5, 17), 11403013980598448886),
    (dt.timedelta(days=1), 16603229347469727341),
    (UUID(int=1), 7023843947824167734),
]


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(("key", "position"), FIXED, ids=repr)
def test_positions_are_part_of_the_contract(key: object, position: int) -> None:
    assert key_position(key) == (position, True)


def test_positions_are_the_same_in_every_process() -> None:
    program = (
        "from lineage_core.contract.positions import key_position as p\n"
        "print(p(('a', frozenset({'b', 'c', None}), b'd'))[0])"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert found == {f"{key_position(('a', frozenset({'b', 'c', None}), b'd'))[0]}\n"}


@pytest.mark.parametrize(
    "equal",
    [
        (
            1,
            1.0,
            True,
            Decimal(1),
            Decimal("1.00"),
            Fraction(1),
            1 + 0j,
            np.int8(1),
            np.bool_(True),
        ),
        (0, 0.0, -0.0, False, Decimal("-0"), np.float32(-0.0)),
        (2**70, float(2**70), Decimal(2**70), Decimal("1180591620717411303424E+0")),
        (0.5, Fraction(1, 2), Decimal("0.50"), np.float16(0.5), np.longdouble(0.5)),
        ("a", np.str_("a")),
        (b"a", np.bytes_(b"a")),
        (("a", 1), ("a", True), Row(x="a", y=1)),
        (
            dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC),
            dt.datetime(2013, 1, 1, 7, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        ),
    ],
    ids=repr,
)
def test_equal_keys_have_one_position(equal: tuple[object, ...]) -> None:
    assert len({key_position(key) for key in equal}) == 1
    assert key_positions(equal)[1]


def test_different_keys_have_different_positions() -> None:
    keys = [key for key, _ in FIXED]
    keys += [
        "1",
        b"1",
        (1,),
        ((1,),),
        frozenset({1}),
        frozenset(),
        "None",
        ("a", "b"),
        ("ab",),
        ("", "ab"),
    ]
    keys += [("s",), (b"s",), 2**64, -(2**64), 0.1, np.float32(0.1), Decimal("0.1000001")]
    assert len({key_position(key)[0] for key in keys}) == len(keys)


@pytest.mark.parametrize(
    "key",
    [
        Colour.RED,
        object,
        range(3),
        float("nan"),
        Decimal("nan"),
        10**6000,
        Decimal("1E+99999"),
        (1, Colour.RED),
        frozenset({Colour.RED}),
        pd.Timestamp(2013, 1, 1),
        np.datetime64("2013-01-01"),
    ],
    ids=lambda key: type(key).__name__,
)
def test_what_is_not_canonical_is_told(key: object) -> None:
    position, canonical = key_position(key)
    assert not canonical
    assert 0 <= position < 2**64
    assert key_position(key)[0] == position
    assert not key_positions(["a", key])[1]


def test_huge_numbers_that_are_equal_have_one_position() -> None:
    assert key_position(10**6000) == key_position(Decimal("1E+6000"))
    assert key_position((10**6000,)) == key_position((Decimal("1E+6000"),))


def test_nan_has_one_position() -> None:
    nans = [float("nan"), np.float32("nan"), Decimal("nan"), np.longdouble("nan")]
    assert len({key_position(nan)[0] for nan in nans}) == 1


def test_deep_tuples_are_not_canonical() -> None:
    deep: tuple[object, ...] = ()
    for _ in range(500):
        deep = (deep,)
    assert not key_position(deep)[1]


def test_keys_that_cannot_be_hashed_are_refused() -> None:
    unhashable: list[object] = [[], (1, []), {}]
    for key in unhashable:
        with pytest.raises(TypeError):
            key_position(key)


def test_texts_are_keys() -> None:
    assert text_position("word") == key_position("word")[0] == int(text_positions(["word"])[0])
    assert text_positions([]).tolist() == key_positions([])[0].tolist() == []
