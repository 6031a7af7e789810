"""What keys of a program's own classes compare, and the positions that follow from it."""

from __future__ import annotations

from typing import Any

import pytest

from lineage_core.contract.positions import key_position, positions_of
from lineage_emitter.code.key_parts import hash_fields, parts_of
from lineage_emitter.worker.equal_keys import EqualKeys
from tests.support.own_keys import (
    NOT_SURE,
    SURE,
    Colour,
    HashesLess,
    Inherits,
    Place,
    Point,
    Slotted,
    User,
)

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("kind", SURE)
def test_what_is_sure(kind: type) -> None:
    assert hash_fields(kind) == SURE[kind]


@pytest.mark.parametrize("kind", NOT_SURE)
def test_what_is_not_sure(kind: type) -> None:
    assert hash_fields(kind) is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Point(1, 2.0, "a"), Point(True, 2, "b")),
        (User("a", 1), User("a", 1)),
        (Slotted(1, 2), Slotted(1, 2)),
        (Colour.RED, Colour.RED),
        ((1, Point(1)), (1.0, Point(1))),
    ],
)
def test_equal_keys_have_one_position(one: Any, other: Any) -> None:
    assert one == other
    positions, canonical, hashed = positions_of([one, other], parts_of)
    assert positions[0] == positions[1]
    assert not canonical
    assert not hashed


def test_other_keys_have_other_positions() -> None:
    keys = [Point(1), Point(2), Place(1), Place(1, name="x"), User("a", 1), User("b", 1)]
    keys += [Slotted(1, 2), Slotted(2, 1), Colour.RED, Colour.BLUE, (1, Point(1)), (1, 0.0), 1]
    positions, _, hashed = positions_of(keys, parts_of)
    assert len(set(positions.tolist())) == len(keys)
    assert not hashed


def test_a_hash_of_less_shares_a_position() -> None:
    """The reduce side sees it, as any two keys on one position."""
    positions, _, hashed = positions_of([HashesLess("a", 1), HashesLess("a", 2)], parts_of)
    assert positions[0] == positions[1]
    assert not hashed


@pytest.mark.parametrize("key", [Inherits(1), (1, Inherits(1)), Point(1, float("nan"))])
def test_what_is_known_by_hash_alone_is_said(key: Any) -> None:
    assert positions_of([key], parts_of).hashed


def test_the_common_keys_are_where_they_were() -> None:
    keys = [1, "a", ("a", 1), 2.5, None, b"x", (1.5, "a")]
    positions, canonical, hashed = positions_of(keys, parts_of)
    assert positions.tolist() == [key_position(key)[0] for key in keys]
    assert canonical
    assert not hashed


def test_equal_keys_of_own_classes_are_not_by_hash() -> None:
    equal = EqualKeys(lambda action: action())
    assert len(list(equal.watch([(Point(1), 0), (Point(1.0), 1), ("a", 2)]))) == 3  # type: ignore[arg-type]
    assert equal
    assert not equal.hashed
    list(equal.watch([(Inherits(1), 0)]))
    assert equal.hashed
