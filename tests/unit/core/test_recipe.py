import dataclasses
import json

import pytest

from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.document import (
    ERASED,
    FAILED_VERSION,
    RECIPE_VERSION,
    STREAM_VERSION,
    Failure,
    File,
    Function,
    Output,
    Recipe,
    Source,
    StreamBatch,
)
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Filter,
    Literal,
    OpaqueExpression,
    OpaqueNode,
    Over,
    Project,
    PythonCall,
    PythonRows,
    Scan,
    SortKey,
    Subquery,
    Window,
    WindowFrame,
    expressions_of,
    input_nodes_of,
)

pytestmark = pytest.mark.unit

CITY, SALES = Attribute(1, "city", "string"), Attribute(2, "sales", "decimal(7,2)")
SOURCE = Source(
    "parquet",
    ("file:/data/sales",),
    '{"type":"struct","fields":[]}',
    options={"mergeSchema": "true"},
    files=(File("file:/data/sales/a", 12, 1_700_000_000_000),),
)
SCAN = Scan((CITY, SALES), 0, ("city", "sales"))
TOTAL = Aggregate(
    (CITY, Attribute(3, "total", "decimal(17,2)")),
    0,
    (Column(1),),
    (Column(1), Call("sum", (Column(2),), distinct=True, where=Call("is not null", (Column(1),)))),
)
RUNNING = Over(
    Call("sum", (Column(3),)),
    (),
    (SortKey(Column(1), descending=True),),
    WindowFrame("range", None, Literal("0", "int")),
)
RECIPE = Recipe(
    spark="4.1.4",
    settings={"spark.sql.ansi.enabled": "true"},
    sources=(SOURCE,),
    plan=(
        SCAN,
        TOTAL,
        Window((*TOTAL.columns, Attribute(4, "so far", "decimal(27,2)")), 1, (RUNNING,)),
        Filter(
            (*TOTAL.columns, Attribute(4, "so far", "decimal(27,2)")),
            2,
            Call(">", (Column(4), Subquery(1))),
        ),
    ),
    output=Output("files", path="file:/out", format="csv", files=(File("file:/out/p", 1, 2, 3),)),
    site="job.py:12",
)


def test_a_recipe_reads_back_as_it_was_written() -> None:
    text = RECIPE.to_json()
    assert Recipe.from_json(text) == RECIPE
    assert Recipe.from_json(text).to_json() == text
    assert "\n" not in text
    assert json.loads(text)["version"] == RECIPE_VERSION


def test_a_recipe_says_what_it_reads_gives_and_can_not_say() -> None:
    assert RECIPE.reads() == (SOURCE,)
    assert [one.name for one in RECIPE.columns] == ["city", "total", "so far"]
    assert RECIPE.opaque() == []
    dark = Project(
        (CITY,), 0, (OpaqueExpression("f", "a Python function", (Column(1),), "string"),)
    )
    unknown = OpaqueNode((CITY,), "MapInPandas", "not known to recipes", (1,))
    recipe = Recipe("4.1.4", {}, (SOURCE,), (SCAN, dark, unknown))
    assert recipe.opaque() == ["MapInPandas: not known to recipes", "f: a Python function"]
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_inputs_and_expressions_of_nodes() -> None:
    assert [input_nodes_of(node) for node in RECIPE.plan] == [(), (0,), (1,), (2,)]
    assert expressions_of(TOTAL) == (*TOTAL.keys, *TOTAL.expressions)


def test_another_version_is_refused_by_its_own_error() -> None:
    raw = json.loads(RECIPE.to_json()) | {"version": FAILED_VERSION + 1, "new": True}
    with pytest.raises(VersionError, match=f"version {FAILED_VERSION + 1}"):
        Recipe.from_json(json.dumps(raw))


def test_a_recipe_of_a_batch_has_a_version_of_its_own() -> None:
    batch = StreamBatch("q", "r", 7, "2026-01-01T00:00:00.000Z", 2)
    recipe = RECIPE.of_batch(batch)
    raw = json.loads(recipe.to_json())
    assert (raw["version"], raw["batch"]["number"]) == (STREAM_VERSION, 7)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert "batch" not in json.loads(RECIPE.to_json())
    assert batch.text == (
        "batch 7 of the streaming query q, run r, watermark 2026-01-01T00:00:00.000Z, 2 late rows dropped"
    )


def test_a_recipe_of_a_failed_action_has_a_version_of_its_own() -> None:
    failure = Failure("NumberFormatException", "CAST_INVALID_INPUT", "'two' is no number")
    output = dataclasses.replace(RECIPE.output, failure=failure)
    recipe = dataclasses.replace(RECIPE, output=output).of_failure()
    raw = json.loads(recipe.to_json())
    assert (raw["version"], raw["output"]["failure"]["type"]) == (FAILED_VERSION, failure.type)
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert "failure" not in json.loads(RECIPE.to_json())["output"]
    assert failure.text == "NumberFormatException [CAST_INVALID_INPUT]: 'two' is no number"


def test_recipes_of_version_1_are_read() -> None:
    older = json.dumps(json.loads(RECIPE.to_json()) | {"version": 1})
    recipe = Recipe.from_json(older)
    assert recipe == dataclasses.replace(RECIPE, version=1)
    assert json.loads(recipe.to_json()) == json.loads(older)


def test_functions_are_those_of_the_recipe() -> None:
    call = PythonCall("f", 0, (Column(1),), "string")
    recipe = dataclasses.replace(
        RECIPE,
        plan=(SCAN, Project((CITY,), 0, (call,)), PythonRows((CITY,), (1,), "g", "made of many")),
        functions=(Function("f", "AAAA", 100, '"string"', "3.11", {"pandas": "pandas 2.0"}),),
    )
    assert Recipe.from_json(recipe.to_json()) == recipe
    assert recipe.opaque() == ["g: made of many"]
    with pytest.raises(RecipeError, match="no such function"):
        Recipe.from_json(dataclasses.replace(recipe, functions=()).to_json())


def changed(path: list[str | int], value: object) -> str:
    raw = json.loads(RECIPE.to_json())
    held = raw
    for step in path[:-1]:
        held = held[step]
    held[path[-1]] = value
    return json.dumps(raw)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no JSON"),
        ("[]", "an object"),
        ("[" * 100_000, "no JSON"),
        ("{}", "spark is missing"),
        (changed(["plan"], []), "no node"),
        (changed(["plan", 1, "input"], 1), "must stand after"),
        (changed(["plan", 1, "input"], -1), "must stand after"),
        (changed(["plan", 3, "condition", "args", 1, "node"], 3), "must stand after"),
        (changed(["plan", 0, "source"], 1), "no source 1"),
        (changed(["plan", 0, "is"], "scam"), "'scam' is not known"),
        (changed(["plan", 0, "more"], 1), "unknown more"),
        (changed(["plan", 0, "source"], "0"), "int is wanted, not str"),
        (changed(["plan", 0, "source"], True), "int is wanted, not bool"),
        (changed(["plan", 1, "keys", 0, "is"], "cool"), "'cool' is not known"),
        (changed(["output", "kind"], "wire"), "none of driver"),
    ],
)
def test_what_breaks_the_contract_is_refused(text: str, says: str) -> None:
    with pytest.raises(RecipeError, match=says):
        Recipe.from_json(text)


def test_an_erased_recipe_says_so() -> None:
    with pytest.raises(RecipeError, match="erased, as it held values of a person"):
        Recipe.from_json(ERASED)
