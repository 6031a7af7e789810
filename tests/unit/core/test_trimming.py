"""Cutting a block to the rows that reached the user keeps just their associations."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.block_check import check_block
from lineage_core.contract.trimming import cut_block
from tests.property.test_tracing_property import flow_blocks
from tests.support.memory_graph import associations

pytestmark = pytest.mark.unit

BLOCK_ID = BlockId("9", 0, 7, 0)


@given(
    made=st.one_of(
        flow_blocks(BLOCK_ID, "4@0", ["9#0"]), flow_blocks(BLOCK_ID, "4@0", ["9#0", "9#1"])
    ),
    keep=st.integers(0, 12),
    valued=st.booleans(),
)
def test_a_cut_block_has_the_associations_below(made: FlowBlock, keep: int, valued: bool) -> None:
    values = [str(row) for row in range(made.rows)] if valued else None
    made = dataclasses.replace(made, values=values, app="app")
    wanted = {one for one in associations(made) if one[2] != "9#0" or one[3] < keep}
    cut = cut_block(made, "9#0", keep)
    check_block(cut)
    assert set(associations(cut)) == wanted
    if valued and cut.values is not None:
        assert [made.out_first[int(value or 0)] for value in cut.values] == cut.out_first.tolist()


def test_nothing_to_cut_is_the_same_block() -> None:
    made = flow_blocks(BLOCK_ID, "4@0", ["9#0"])

    @given(made=made)
    def check(made: FlowBlock) -> None:
        assert cut_block(made, "9#1", 0) is made
        assert cut_block(made, "9#0", 100) is made

    check()
