"""The fused map side against a plain dict: values, their order, and which records went into each key.

A combiner keeps keys in three ways and goes from one to the next by how many there are. Limits are
drawn small, so that short inputs go through all of them.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

from lineage_core.contract.block import FlowBlock
from lineage_core.contract.positions import key_position
from lineage_emitter.pyspark_parts import portable_hash
from lineage_emitter.worker import combiner
from lineage_emitter.worker.combiner import KeyFlows, LineageMerger
from lineage_emitter.worker.segment import Numbering, Segment
from lineage_emitter.worker.task_config import TaskConfig
from tests.support.memory_graph import associations

pytestmark = pytest.mark.property

PARTITIONS = 3
KEYS: Any = st.one_of(
    st.integers(-40, 40), st.text("ab", max_size=3), st.floats(-2, 2), st.tuples(st.integers(0, 3))
)


class Limits(SimpleNamespace):
    """When a combiner goes over to another way."""

    trial: int
    many: int
    records_max: int
    positions_max: int
    keys_max: int
    at_once: int
    batch: int


LIMITS = st.builds(
    Limits,
    trial=st.integers(0, 30),
    many=st.integers(1, 6),
    records_max=st.integers(1, 40),
    positions_max=st.integers(1, 40),
    keys_max=st.integers(1, 30),
    at_once=st.integers(1, 9),
    batch=st.integers(1, 20),
)


def combined(keys: list[Any], limits: Limits) -> tuple[list[tuple[Any, str]], list[FlowBlock]]:
    """What comes out, and the blocks."""
    with pytest.MonkeyPatch.context() as small:
        small.setattr(combiner, "TRIAL_RECORDS", limits.trial)
        small.setattr(combiner, "MANY_RECORDS", limits.many)
        small.setattr(combiner, "POSITIONS_PER_EMIT", limits.at_once)
        segment = Segment(TaskConfig("app", "nowhere", None, 1 << 20, True), "1", 0, 0)  # type: ignore[arg-type]
        blocks: list[FlowBlock] = []
        small.setattr(Segment, "emit", lambda _, block: blocks.append(block))
        small.setattr(Segment, "incarnation", 0)
        numbering = Numbering.of_space("0#0")
        flows = KeyFlows(segment, numbering, "2", PARTITIONS, portable_hash)
        merger = LineageMerger(
            flows, (str, _joined, _joined), 10_000, AutoBatchedSerializer(CPickleSerializer())
        )
        merger.batch = limits.batch
        merger.records_max, merger.positions_max = limits.records_max, limits.positions_max
        merger.keys_max = limits.keys_max

        def records() -> Any:
            for ordinal, key in enumerate(keys):
                numbering.cell[0] = ordinal
                yield key, ordinal

        merger.mergeValues(records())
        return list(merger.items()), blocks


def _joined(text: str, value: object) -> str:
    return f"{text} {value}"


@given(keys=st.lists(KEYS, max_size=200), limits=LIMITS)
def test_values_and_flows_are_those_of_a_plain_dict(keys: list[Any], limits: Limits) -> None:
    with pytest.MonkeyPatch.context() as env:
        # Else portable_hash refuses to be called; its result is the same for all of this process.
        env.setenv("PYTHONHASHSEED", "0")
        given_out, blocks = combined(keys, limits)
        targets = [portable_hash(key) % PARTITIONS for key in dict.fromkeys(keys)]
    rows: dict[Any, list[int]] = defaultdict(list)
    for ordinal, key in enumerate(keys):
        rows[key].append(ordinal)
    assert given_out == [(key, " ".join(map(str, row))) for key, row in rows.items()]
    assert list(map(repr, (key for key, _ in given_out))) == list(map(repr, rows))
    found = [pair for block in blocks for pair in associations(block)]
    wanted = {
        ("0#0", ordinal, f"2@{target}", key_position(key)[0])
        for target, (key, ordinals) in zip(targets, rows.items(), strict=True)
        for ordinal in ordinals
    }
    assert len(found) == len(wanted)
    assert set(found) == wanted
