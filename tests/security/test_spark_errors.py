"""What Spark says of a row that it can't compute may hold its values: a server tells it to those alone who may read rows."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lineage_core.recipe.document import File, Output
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import NotComputedError, RefusedError
from lineage_dataframes.rewrite.functions import NO_CODE, Runnable
from lineage_dataframes.trace import answers
from lineage_dataframes.trace.crossing import DataFrameCrossing
from lineage_query.answers import Answer
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query_api.errors import ProblemError
from lineage_query_api.recipe_traces import _answer
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
SECRET = "5000kr"
QUESTION = TraceQuery(Direction.FORWARD, ("x:1",))


def refuse(*_: object, **__: object) -> Any:
    raise NotComputedError(f"Spark can't compute the plan anew: {SECRET!r} is no number")


@pytest.mark.parametrize("why", [(), ("the code of 'clean' is not run here",)])
def test_who_may_not_read_rows_is_not_told_what_spark_says(why: tuple[str, ...]) -> None:
    code = Runnable(cast(Any, None), why)

    def trace(*_: object) -> Answer:
        with code.explained():
            refuse()
        raise AssertionError

    session = cast(Any, None)
    with pytest.raises(ProblemError) as refused:
        _answer(session, QUESTION, trace, rows=False)
    assert SECRET not in f"{refused.value.detail} {refused.value.hint}"
    with pytest.raises(NotComputedError, match=SECRET):
        _answer(session, QUESTION, trace, rows=True)


def test_what_is_refused_for_what_a_plan_holds_stays_that() -> None:
    code = Runnable(cast(Any, None), ("the code of 'clean' is not run here",))
    with pytest.raises(RefusedError, match="not run here") as refused, code.explained():
        raise RefusedError("no")
    assert not isinstance(refused.value, NotComputedError)


@pytest.mark.parametrize(("key", "told"), [(NO_CODE, False), (None, True)])
def test_why_rows_have_no_place_tells_no_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None, told: bool
) -> None:
    store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path, "app-1")
    monkeypatch.setattr(answers, "find_standing", refuse)
    outcome = cast(Any, SimpleNamespace(rows=[[1]], columns=("a",), warnings=[]))
    output = Output(files=(File("file:/gone", 1, 1),), format="csv")
    recipe = cast(Any, SimpleNamespace(output=output, names_rows=False))
    with SqliteStore(tmp_path / "lineage.db") as store:
        frames = DataFrameCrossing(cast(Any, None), store, RowReader(), "app-1", QUESTION, key)
        node = next(one.node for one in store.graph("app-1").nodes())
        frames._output_group(node, recipe, outcome, [])
    assert (SECRET in str(frames._warnings)) == told
