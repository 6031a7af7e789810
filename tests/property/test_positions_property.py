"""Equal keys have equal positions, different keys have different ones."""

import datetime as dt
import itertools
import math
from collections import namedtuple
from decimal import Decimal
from enum import Enum, IntEnum
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract.positions import key_position, key_positions

pytestmark = pytest.mark.property

Pair = namedtuple("Pair", ["left", "right"])


class Colour(Enum):
    RED = 1


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Folded(str):
    """Text that ignores case: its equality is its own."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __hash__(self) -> int:
        return hash(self.lower())


class Word(str):
    """Text with nothing of its own."""

    __slots__ = ()


ZONES = (None, dt.UTC, dt.timezone(dt.timedelta(hours=2)), ZoneInfo("Europe/Berlin"))

whole = st.one_of(
    st.integers(-3, 3),
    st.integers(-(2**70), 2**70),
    st.builds(
        lambda bits, sign, more: sign * 2**bits + more,
        st.sampled_from((31, 53, 63, 64, 1023)),
        st.sampled_from((1, -1)),
        st.sampled_from((-1, 0, 1)),
    ),
)


def _forms_of(number: int) -> st.SearchStrategy[Any]:
    forms: list[Any] = [number, Decimal(number), Fraction(number)]
    if abs(number) < 2**53:
        forms += [float(number), complex(number), np.float64(number), np.complex128(number)]
        forms += [np.longdouble(number), Decimal(number).quantize(Decimal("0.00"))]
    if abs(number) < 2**63:
        forms += [np.int64(number)]
    if abs(number) < 128:
        forms += [np.int8(number), np.float32(number), np.float16(number)]
    if number in (0, 1):
        forms += [bool(number), np.bool_(number)]
    if number in (1, 2):
        forms += [Level(number)]
    if number == 0:
        forms += [-0.0, complex(0, -0.0), Decimal("-0.000"), Decimal("0E+7")]
    return st.sampled_from(forms)


def _forms_of_half(number: int) -> st.SearchStrategy[Any]:
    half = number / 2 + 0.25
    exact = Fraction(half)
    return st.sampled_from(
        [
            half,
            exact,
            Decimal(half),
            np.float64(half),
            complex(half),
            np.longdouble(half),
            half * 1j,
            np.complex128(half * 1j),
            Fraction(1, 10),
            Decimal("0.1"),
            0.1,
            np.float32(0.1),
        ]
    )


numbers = st.one_of(
    whole.flatmap(_forms_of),
    st.integers(-3, 3).flatmap(_forms_of_half),
    st.floats(allow_nan=True),
    st.sampled_from([math.inf, -math.inf, Decimal("inf"), Decimal("-inf"), np.float32(math.inf)]),
    st.sampled_from([Decimal("NaN"), np.float64("nan"), Decimal("1E+6000")]),
    st.builds(pow, st.just(10), st.just(6000)),
    st.decimals(allow_nan=False),
    st.fractions(),
    st.complex_numbers(allow_nan=False),
)
texts = st.one_of(
    st.sampled_from(["", "a", "A", "s", "\ud800", "\udc00", "\ud800\udc00", "𐀀", "é", "1", "None"]),
    st.text(st.characters(), max_size=3),
)
moments = st.one_of(
    st.datetimes(
        dt.datetime(2020, 10, 25),  # noqa: DTZ001
        dt.datetime(2020, 10, 25, 4),  # noqa: DTZ001
        timezones=st.sampled_from(ZONES),
        allow_imaginary=True,
    ).map(lambda moment: moment.replace(minute=0, second=0, microsecond=0)),
    st.datetimes(timezones=st.sampled_from(ZONES)),
    st.dates(),
    st.sampled_from([dt.date(2020, 10, 25), dt.datetime(2020, 10, 25)]),  # noqa: DTZ001
    st.times(timezones=st.sampled_from(ZONES)),
    st.builds(dt.time, st.integers(0, 3), tzinfo=st.sampled_from(ZONES)),
    st.timedeltas(),
    st.builds(dt.timedelta, hours=st.integers(-3, 3)),
)
plain = st.one_of(
    st.none(),
    numbers,
    texts,
    texts.map(Word),
    texts.map(str.upper).map(Folded),
    texts.filter(lambda text: "\0" not in text).map(np.str_),
    st.binary(max_size=3),
    st.sampled_from([b"a", b"1", np.bytes_(b"a"), UUID(int=1), UUID(int=2), Colour.RED]),
    moments,
)
keys = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.frozensets(inner, max_size=3),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=4,
)


def _equal(left: Any, right: Any) -> bool:
    """Equal as a dict sees it, which compares hashes first."""
    return hash(left) == hash(right) and bool(left == right)


def _has(key: Any, kind: type) -> bool:
    if isinstance(key, tuple | frozenset):
        return any(_has(part, kind) for part in key)
    return isinstance(key, kind)


def _check(found: list[Any]) -> None:
    for left, right in itertools.combinations(found, 2):
        (a, a_canonical), (b, b_canonical) = key_position(left), key_position(right)
        canonical = a_canonical and b_canonical
        if _equal(left, right):
            # What has an equality of its own is not canonical: see the next test.
            assert a == b or not canonical, (left, right)
        elif canonical and not (_has(left, np.generic) or _has(right, np.generic)):
            # NumPy's equality is not transitive: np.int64(1) == 1 == Decimal(1) != np.int64(1).
            assert a != b, (left, right)


@given(st.lists(keys, min_size=2, max_size=8))
def test_only_equalities_of_their_own_are_not_canonical(found: list[Any]) -> None:
    for left, right in itertools.combinations(found, 2):
        own = any(_has(key, Folded) for key in (left, right))
        if _equal(left, right) and not own:
            assert key_position(left)[0] == key_position(right)[0], (left, right)
        if own:
            assert not all(key_position(key)[1] for key in (left, right))


@settings(max_examples=300)
@given(st.lists(keys, min_size=2, max_size=8))
def test_positions_are_equal_where_keys_are(found: list[Any]) -> None:
    _check(found)


@settings(max_examples=300)
@given(st.lists(numbers, min_size=2, max_size=12))
def test_positions_of_numbers(found: list[Any]) -> None:
    _check(found)


@settings(max_examples=300)
@given(st.lists(moments, min_size=2, max_size=12))
def test_positions_of_times(found: list[Any]) -> None:
    _check(found)


@given(st.lists(keys))
def test_columns_of_keys_have_the_positions_of_each(found: list[Any]) -> None:
    each = [key_position(key) for key in found]
    positions, canonical = key_positions(found)
    assert positions.dtype == np.uint64
    assert positions.tolist() == [position for position, _ in each]
    assert canonical == all(own for _, own in each)


@given(st.lists(texts))
def test_columns_of_texts_have_the_positions_of_each(found: list[str]) -> None:
    positions, canonical = key_positions(found)
    assert canonical
    assert positions.tolist() == [key_position(text)[0] for text in found]
