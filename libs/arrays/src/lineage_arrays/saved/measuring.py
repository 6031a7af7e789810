"""What each strategy of the operators of a run costs in a stored recording: of its bytes there, of its writing, of questions about it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from functools import partial

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.costs import Costs
from lineage_arrays.operators.graph import Step, Version
from lineage_arrays.operators.measuring import measured
from lineage_arrays.operators.operator import Operator, named_operators
from lineage_arrays.operators.questions import Question, samples_of
from lineage_arrays.operators.strategies import Strategy
from lineage_arrays.saved.columns import ColumnReader, ColumnWriter
from lineage_arrays.saved.mapping_packing import packed_mapping
from lineage_arrays.saved.mapping_reading import MappingReader
from lineage_arrays.saved.storing import LEVEL
from lineage_core.codec.zstd import compress

SAMPLES_MAX = 20
"""Queries of a step that are timed with each strategy: the first of the workload."""


def measured_run(
    version: Version,
    questions: Sequence[Question],
    *,
    among: Sequence[Strategy] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Costs:
    """Run the operators of a run again with each strategy, as a stored recording keeps it, and time the queries of questions.

    Args:
        version: a run whose arrays are kept.
        questions: a sample of those that people ask; each counts the same.
        among: as for :func:`lineage_arrays.operators.measuring.measured`: strategies that are tried beside re-execution; None: all.
        clock: seconds.

    Returns:
        Costs for `store_recording`, `write_costs` or `choose`. ``disk_bytes`` are compressed; a black box is run once more when it is stored.

    Raises:
        ArrayLineageError: there is no question, or one about another graph.
        RecordingError: an operator's lineage can't be stored.
        ModeError: an operator gives another output when it is run again, or writes what is not valid.
    """
    if not questions:
        raise ArrayLineageError(
            "no question: the costs of queries are measured by a sample of them"
        )
    samples = samples_of(version, questions)
    alternatives = {}
    for step, of_step in samples.items():
        assert step.operator is not None, "samples are of operators"
        alternatives[step] = measured(
            step.operator,
            tuple(version.array(before) for before in step.inputs),
            of_step[:SAMPLES_MAX],
            clock,
            among,
            partial(_kept, step.operator),
        )
    workload: dict[Step, float] = {
        step: len(of_step) / len(questions) for step, of_step in samples.items()
    }
    return Costs(alternatives, workload)


def _kept(operator: Operator, ways: Sequence[Mapping]) -> tuple[Sequence[Mapping], int]:
    """Mappings as they are read from a stored recording, and the bytes that they take there."""
    columns = ColumnWriter()
    packed = [packed_mapping(way, columns) for way in ways]
    content = b"".join(columns.parts)
    stored_bytes = len(
        compress(json.dumps(packed, separators=(",", ":")).encode() + content, LEVEL)
    )
    reader = MappingReader(
        ColumnReader(memoryview(content), [len(part) for part in columns.parts]),
        named_operators([operator]),
    )
    kept = [
        reader.read(plain, way.source, way.target) for plain, way in zip(packed, ways, strict=True)
    ]
    return kept, stored_bytes
