"""When the recipe of a batch is that of an earlier one with other files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from lineage_core.recipe.document import File, Function, Output, Recipe, Source, StreamBatch
from lineage_core.recipe.functions import FUNCTIONS_KEY, has_valid_signature
from lineage_core.recipe.plan import Attribute, Scan
from lineage_emitter.dataframes import stream_repeats
from lineage_emitter.dataframes.stream_plans import BatchPlan
from lineage_emitter.dataframes.stream_repeats import Repeated

SOURCE = Source("csv", ("file:/in/a",), "{}", files=(File("file:/in/a", 3, 10),))
COLUMN = Attribute(1, "n", "int")
FIRST = Recipe(
    "4.1.4", {}, (SOURCE,), (Scan((COLUMN,), 0, ("n",)),), Output("files", "out"), "job.py:3"
).of_batch(StreamBatch("q", "r", 0))
STREAM = object()
SETTINGS = {"spark.sql.ansi.enabled": "true"}
NEXT = StreamBatch("q", "r", 1)
OUTPUT = Output("files", "out", files=(File("file:/out/1", 5, 30),))
FUNCTION = Function("f", "", 100, '"integer"', "3.11")
KEY = b"0123456789abcdef0123456789abcdef"


class Logs:
    """Stands in for what reads Spark's logs. ``files``: size, time, time in the log and path of each; None: one is gone."""

    def __init__(self, *files: tuple[int, int, int, str], gone: bool = False) -> None:
        self.files = files
        self.gone = gone
        self.read: list[tuple[int, int]] = []

    def found(self, stream: Any, first: int, last: int) -> str:
        assert stream is STREAM
        self.read.append((first, last))
        if self.gone:
            raise Py4JError("no such file")
        return "".join(f"{field}\u0001" for file in self.files for field in file)


def recipe_of(
    monkeypatch: pytest.MonkeyPatch,
    logs: Logs,
    *,
    first: Recipe = FIRST,
    start: str = '{"logOffset":0}',
    end: str = '{"logOffset":2}',
    settings: dict[str, str] = SETTINGS,
) -> Recipe | None:
    monkeypatch.setattr(stream_repeats, "helper", lambda: logs)
    repeated = Repeated.of(first, SETTINGS, BatchPlan(None, (SOURCE,), STREAM))
    assert repeated is not None
    return repeated.recipe_of((start, end), OUTPUT, NEXT, settings)


def test_another_batch_has_its_own_files(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs((7, 20, 20, "file:/in/c"), (8, 21, 21, "file:/in/b"))
    recipe = recipe_of(monkeypatch, logs)
    files = (File("file:/in/b", 8, 21), File("file:/in/c", 7, 20))
    read = replace(SOURCE, paths=("file:/in/c", "file:/in/b"), files=files)
    assert recipe == replace(FIRST, sources=(read,), output=OUTPUT, batch=NEXT)
    assert logs.read == [(1, 2)]


def test_the_first_batch_begins_at_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs((7, 20, 20, "file:/in/c"))
    assert recipe_of(monkeypatch, logs, start="", end='{"logOffset":0}') is not None
    assert logs.read == [(0, 0)]


@pytest.mark.parametrize(
    ("logs", "changes"),
    [
        (Logs((7, 21, 20, "file:/in/c")), {}),
        (Logs((7, 20, 20, "file:/in/c"), (8, 22, 21, "file:/in/b")), {}),
        (Logs(gone=True), {}),
        (Logs(), {}),
        (Logs((7, 20, 20, "file:/in/c")), {"settings": {}}),
        (Logs((7, 20, 20, "file:/in/c")), {"start": '{"logOffset":2}'}),
        (Logs((7, 20, 20, "file:/in/c")), {"end": ""}),
    ],
    ids=["changed", "one changed", "gone", "no files", "settings", "nothing new", "no end"],
)
def test_it_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, logs: Logs, changes: dict[str, Any]
) -> None:
    assert recipe_of(monkeypatch, logs, **changes) is None


@pytest.mark.parametrize(
    ("plan", "sources"),
    [
        (BatchPlan(None, (SOURCE,)), (SOURCE,)),
        (BatchPlan(None, (SOURCE,), STREAM), (SOURCE, replace(SOURCE, paths=("file:/other",)))),
        (BatchPlan(None, (SOURCE,), STREAM), ()),
    ],
    ids=["may differ", "joined with a table", "reads nothing"],
)
def test_no_other_batch_is_like_it(plan: BatchPlan, sources: tuple[Source, ...]) -> None:
    assert Repeated.of(replace(FIRST, sources=sources), SETTINGS, plan) is None


def test_a_function_may_import_a_module_that_changes() -> None:
    first = replace(FIRST, functions=(replace(FUNCTION, modules={"prices": "1a"}),))
    assert Repeated.of(first, SETTINGS, BatchPlan(None, (SOURCE,), STREAM)) is None


def test_functions_are_signed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    first = replace(FIRST, functions=(FUNCTION,), signature="of the first")
    logs = Logs((7, 20, 20, "file:/in/c"))
    monkeypatch.setenv(FUNCTIONS_KEY, KEY.decode())
    recipe = recipe_of(monkeypatch, logs, first=first)
    assert recipe is not None
    assert has_valid_signature(recipe, KEY)
    monkeypatch.delenv(FUNCTIONS_KEY)
    assert recipe_of(monkeypatch, logs, first=first) is None
