import copy
import pickle

import numpy as np
import pytest

from lineage_core.contract.region import Region
from lineage_core.errors import RegionError

pytestmark = pytest.mark.unit

TOP = 2**64 - 1


def u64(*numbers: int) -> "np.typing.NDArray[np.uint64]":
    return np.array(numbers, np.uint64)


def test_text_names_runs_and_single_positions() -> None:
    region = Region.from_positions([12, 3, 1, 0, 7, 2, 2])
    assert region.to_text() == "0-3 7 12"
    assert list(region) == [(0, 3), (7, 7), (12, 12)]
    assert (region.count, region.runs, bool(region)) == (6, 3, True)
    assert region.positions().tolist() == [0, 1, 2, 3, 7, 12]
    assert repr(region) == "Region('0-3 7 12')"


def test_the_empty_region() -> None:
    empty = Region()
    assert empty == Region.from_text("") == Region.from_positions([])
    assert (empty.to_text(), empty.count, bool(empty)) == ("", 0, False)
    assert empty.positions().tolist() == empty.slice(0, 5).positions().tolist() == []
    assert not empty.contains(np.array([0])).any()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        *[(text, "run 0") for text in ("01", "5-5", "5-3", "-1", "1-", "a", "1,2", "+1", " ")],
        *[(text, "run 0") for text in (" 1", "1--2", "1-2-3", "18446744073709551616", "9" * 21)],
        *[(text, "run 1") for text in ("1 2", "3 1", "1-4 3", "1-2 3", "1  3", "1 ", "0 0")],
        *[(text, "") for text in ("٣", "1\u00a02")],
    ],
)
def test_text_in_any_other_form_is_refused(text: str, where: str) -> None:
    with pytest.raises(RegionError) as caught:
        Region.from_text(text)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("first", "last"),
    [
        (u64(2), u64(1)),
        (u64(1, 2), u64(1, 2)),
        (u64(5, 1), u64(5, 1)),
        (u64(1, 3), u64(3, 4)),
        (u64(1), u64(1, 3)),
        (np.array([1]), np.array([1])),
        (u64(1, 3).reshape(1, 2), u64(1, 3).reshape(1, 2)),
    ],
)
def test_runs_that_are_not_normal_are_refused(first: np.ndarray, last: np.ndarray) -> None:
    with pytest.raises(RegionError):
        Region(first, last)


@pytest.mark.parametrize("positions", [[-1], [2**64], ["a"], np.array([-1]), np.array([1.5])])
def test_what_is_no_position_is_refused(positions: object) -> None:
    with pytest.raises(RegionError):
        Region.from_positions(positions)  # type: ignore[arg-type]


def test_pages_of_a_wide_region_cost_only_themselves() -> None:
    whole = Region.from_text(f"0-{TOP}")
    assert whole.count == 2**64
    assert whole.slice(2**63, 3).positions().tolist() == [2**63, 2**63 + 1, 2**63 + 2]
    assert whole.slice(2**64 - 1, 9).to_text() == str(TOP)
    assert whole.slice(2**64, 9) == Region()
    assert whole.positions(limit=2).tolist() == [0, 1]
    with pytest.raises(RegionError):
        whole.slice(-1, 1)


def test_regions_are_values() -> None:
    region = Region.from_text("1-3")
    assert pickle.loads(pickle.dumps(region)) == copy.deepcopy(region) == region
    assert hash(Region.from_text("1-3")) == hash(region)
    assert region != "1-3"
    with pytest.raises(AttributeError):
        region.first = u64(1)
    with pytest.raises(AttributeError):
        del region.first
    with pytest.raises(ValueError, match="read-only"):
        region.first[0] = 0
