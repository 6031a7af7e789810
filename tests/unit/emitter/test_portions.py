"""Portions of records: all of them, in order, and few enough that something is looked after in time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.worker import portions
from lineage_emitter.worker.portions import POLL_S, PORTION_MAX, SLICE_MAX

pytestmark = pytest.mark.unit

COUNT = 6 * PORTION_MAX


class Clock:
    now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@given(
    st.integers(1, COUNT), st.sampled_from([0.0, POLL_S / 1000, POLL_S / 100, POLL_S, 10 * POLL_S])
)
def test_records_that_become_slow_all_at_once_make_small_portions(
    quick: int, slow_s: float
) -> None:
    clock = Clock()

    def source() -> Iterator[int]:
        for record in range(COUNT):
            # Who takes the record before is slow with it.
            clock.now_s += slow_s if record > quick else 0.0
            yield record

    taken, began_s = list[int](), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portions, "time", clock)
        for portion in portions.portions(source()):
            records = list(portion)
            assert 0 < len(records) <= PORTION_MAX
            # At most a slice more than what fits the time.
            assert clock.now_s - began_s <= POLL_S + (SLICE_MAX + 1) * slow_s + 1e-6
            if slow_s and records[0] > quick + 2 * SLICE_MAX:
                assert len(records) <= max(SLICE_MAX // 2, 2 * POLL_S / slow_s) + 1
            taken += records
            began_s = clock.now_s
    assert taken == list(range(COUNT))
