"""Which rows a job reads where rows of jobs before it are left out."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from lineage_core.recipe.plan import Scan
from lineage_dataframes.errors import NotReadError
from lineage_dataframes.sources.views import FILE_COLUMN, ROW_COLUMN
from lineage_dataframes.trace import job_chains
from lineage_dataframes.trace.job_chains import JobChain, Write
from lineage_dataframes.trace.output_changes import ChangedSource
from lineage_query.job_links import FileNode

pytestmark = pytest.mark.unit

FIRST, LAST = "file:/first", "file:/staged"


def recipe_of(path: str) -> Any:
    return SimpleNamespace(plan=[Scan((), 0, ())], sources=[SimpleNamespace(name=path)])


class _TwoJobs(JobChain):
    """A job that read what one other wrote."""

    def __post_init__(self) -> None:
        pass

    def _writes_of(self, write: Write, number: int) -> list[Write]:
        is_last = write.recipe.sources[number].name == LAST
        return [Write(FileNode("a", "1"), recipe_of(FIRST))] if is_last else []


def rows_at(_: Any, recipe: Any, places: Sequence[str]) -> dict[tuple[int, str], Any]:
    (place,) = places
    path, _, ordinal = place.partition("#")
    if path != recipe.sources[0].name:
        raise NotReadError(place)
    return {(0, path): np.array([int(ordinal)], np.uint64)}


@pytest.mark.parametrize(
    ("places", "left_out", "besides"),
    [
        ((f"{FIRST}#1",), [3, 4], [3, 4]),
        ((f"{FIRST}#1", f"{LAST}#3"), [3, 4], [4]),
        ((f"{FIRST}#1", f"{LAST}#3", f"{LAST}#4"), [3, 4], None),
        ((f"{FIRST}#1", f"{LAST}#7"), [3, 4, 7], [3, 4]),
    ],
)
def test_a_row_that_is_left_out_does_not_come_back_with_other_values(
    monkeypatch: pytest.MonkeyPatch,
    places: Sequence[str],
    left_out: list[int],
    besides: list[int] | None,
) -> None:
    added = pa.table({"v": ["b", "c"], FILE_COLUMN: [LAST, LAST], ROW_COLUMN: [3, 4]})
    changed = ChangedSource({LAST: np.array([3, 4], np.uint64)}, added)
    monkeypatch.setattr(job_chains, "source_rows_at", rows_at)
    monkeypatch.setattr(job_chains, "output_changes", lambda *_: "changes")
    monkeypatch.setattr(job_chains, "changed_source", lambda *_: changed)
    requested = SimpleNamespace(app="b", node="1", recipe=recipe_of(LAST))
    chain = _TwoJobs(cast("Any", None), cast("Any", None), cast("Any", None))
    before = chain.without(cast("Any", requested), places)
    assert before.left_out[0, LAST].tolist() == left_out
    rows = {} if before.added is None else before.added
    assert (rows[0][ROW_COLUMN].to_pylist() if 0 in rows else None) == besides
