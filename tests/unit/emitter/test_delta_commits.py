"""Which commits of a Delta table may be those of a write."""

from __future__ import annotations

from typing import Any

import pytest

from lineage_emitter.dataframes.delta import may_be_written

pytestmark = pytest.mark.unit


def commit(operation: str | None, **parameters: str) -> list[dict[str, Any]]:
    said = {} if operation is None else {"operation": operation, "operationParameters": parameters}
    return [{"commitInfo": said}, {"add": {"path": "part-0"}}]


@pytest.mark.parametrize(
    ("actions", "mode", "may"),
    [
        (commit("WRITE", mode="Append"), "append", True),
        (commit("WRITE", mode="Append"), "", True),
        (commit("WRITE", mode="ErrorIfExists"), "errorifexists", True),
        (commit("WRITE", mode="ErrorIfExists"), "error", True),
        (commit("WRITE"), "append", True),
        (commit("CREATE TABLE AS SELECT"), "append", True),
        (commit("CREATE OR REPLACE TABLE AS SELECT"), "overwrite", True),
        (commit(None), "append", True),
        ([{"add": {"path": "part-0"}}], "append", True),
        (commit("WRITE", mode="Overwrite"), "append", False),
        (commit("WRITE", mode="Append"), "overwrite", False),
        (commit("OPTIMIZE"), "append", False),
        (commit("MERGE"), "", False),
        (commit("UPDATE"), "append", False),
        (commit("DELETE"), "overwrite", False),
        (commit("STREAMING UPDATE", outputMode="Append"), "append", False),
    ],
)
def test_what_did_something_else_is_no_write(
    actions: list[dict[str, Any]], mode: str, *, may: bool
) -> None:
    assert may_be_written(actions, mode) is may
