"""Recipes of rows that a Python function of a DataFrame failed on, as they are written and read."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lineage_core.contract.verdict import QUARANTINE
from lineage_core.errors import RecipeError
from lineage_core.recipe.document import ERASED, File, Output, Recipe, Source
from lineage_core.recipe.plan import (
    Attribute,
    Call,
    Column,
    Expression,
    Filter,
    Literal,
    Node,
    OpaqueExpression,
    Project,
    Scan,
    Union,
)
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.trace.repairing import TRUE, without_set_aside
from lineage_emitter.dataframes.set_aside import (
    CALLS_MAX,
    CalledRows,
    SetAsideRows,
    _Reported,
    balanced,
)
from lineage_query.erasure.erased_texts import nodes_to_erase
from lineage_query.set_aside_calls import FailedCall, set_aside_nodes

pytestmark = pytest.mark.unit

COLUMNS = (Attribute(1, "k", "string"), Attribute(2, "d", "double"), Attribute(3, "t", "timestamp"))
SCAN = Scan(COLUMNS, 0, ("k", "d", "t"))
SOURCE = Source("csv", ("file:/in.csv",), "", files=(File("file:/in.csv", 1, 1),))
CALLS = {
    ("it's", "-0.0", "5"): "ValueError: no",
    (None, "1.5", None): "KeyError: 7",
}


def rows(calls: Any) -> SetAsideRows:
    arguments = tuple(Column(column.id) for column in COLUMNS)
    types = tuple(column.type for column in COLUMNS)
    return SetAsideRows(9, "outer(inner)", (CalledRows(0, arguments),), types, calls)


def condition_of(left_out: SetAsideRows) -> Expression:
    (called,) = left_out.inputs
    return left_out.condition(called.arguments)


def recipe_of(plan: list[Node]) -> Recipe:
    return Recipe("4.1", {}, (SOURCE,), tuple(plan), Output(kind="files", action="write"))


def output(left_out: SetAsideRows) -> Recipe:
    """What a job wrote that left rows out, beside rows that its own filter left out."""
    kept = Filter(COLUMNS, 0, Call("not", (condition_of(left_out),)))
    own = Filter(COLUMNS, 1, Call("not", (Call("is null", (Column(1),)),)))
    return recipe_of([SCAN, kept, own])


def opened_with(recipe: Recipe) -> Any:
    """An application with a recipe of rows that were set aside."""
    node = SimpleNamespace(
        kind="frame", op=QUARANTINE, node="4", name="outer(inner) of write", call_site="job.py:9"
    )
    graph = SimpleNamespace(
        recipe=lambda _: recipe.to_json(),
        **dict.fromkeys(("sink_files", "record_files", "splits", "links"), lambda *_: ()),
    )
    return SimpleNamespace(nodes=[node], graph=graph)


def test_calls_are_read_as_they_failed() -> None:
    recipe = rows(CALLS).recipe(output(rows(CALLS)), [SCAN])
    recipe = Recipe.from_json(recipe.to_json())
    opened = opened_with(recipe)
    assert recipe.output.action == QUARANTINE
    assert [column.name for column in recipe.columns] == [
        "k",
        "d",
        "t",
        "lineage_call",
        "lineage_error",
    ]
    first, second = failed_calls(opened)
    assert first.what == (
        'outer(inner("it\'s", -0.0, timestamp_micros(5))) of write at job.py:9: ValueError: no'
    )
    assert second.what.startswith("outer(inner(NULL, 1.5, NULL)) of write")
    assert (second.node, second.condition) == ("4", "lineage_call = 2")


def failed_calls(opened: Any) -> list[FailedCall]:
    return [call for node in set_aside_nodes(opened, opened.nodes) for call in node.calls()]


def test_a_text_that_reads_as_a_number_is_a_text() -> None:
    arguments = (Call("cast", (Column(2),), type="string"), Column(2))
    calls: dict[tuple[str | None, ...], str] = {("NaN", "NaN"): "ValueError: no"}
    left_out = SetAsideRows(9, "f", (CalledRows(0, arguments),), ("string", "double"), calls)
    (call,) = failed_calls(opened_with(left_out.recipe(output(left_out), [SCAN])))
    assert call.values == ("'NaN'", "NaN")


def test_recipes_that_name_calls_otherwise_are_refused() -> None:
    recipe = rows(CALLS).recipe(output(rows(CALLS)), [SCAN])
    last = recipe.plan[-1]
    assert isinstance(last, Project)
    number = Call("case", (Column(1), Column(2)))
    call = Call("case", (Call("and", (Column(1),)), Literal("no", "string")))
    for plan in (
        (SCAN,),
        (SCAN, replace(last, input=0, expressions=(*last.expressions[:-1], number))),
        (SCAN, replace(last, input=0, expressions=(*last.expressions[:-1], call))),
        (SCAN, replace(last, input=0, expressions=(*last.expressions[:-1], Column(1)))),
    ):
        with pytest.raises(RecipeError):
            list(failed_calls(opened_with(replace(recipe, plan=plan))))


def test_a_report_is_not_lost_where_spark_did_not_hear_of_it() -> None:
    heard, is_away = list[int](), [True]

    def left_out(function: int) -> None:
        if is_away[0]:
            raise ConnectionError("away")
        heard.append(function)

    reported = _Reported()
    reported.rule = SimpleNamespace(leftOut=left_out)
    reported.put({"function": 3})
    is_away[0] = False
    for function in (3, 3, 4):
        reported.put({"function": function})
    assert heard == [3, 4]


def test_a_condition_tells_a_zero_from_the_other_and_a_time_by_its_microseconds() -> None:
    builder = Builder(recipe_of([SCAN]))
    builder.build(0, ids=False)
    text = builder.writer().of(condition_of(rows(CALLS)))
    assert "(cast(c2 AS string) <=> '-0.0')" in text
    assert "timestamp_micros(CAST('5' AS bigint))" in text
    assert "(c1 is null)" in text


def test_the_plan_as_the_program_made_it_keeps_its_own_filters() -> None:
    left_out = rows(CALLS)
    recipe, set_aside = output(left_out), left_out.recipe(output(left_out), [SCAN])
    plan = without_set_aside(recipe, [set_aside]).plan
    assert plan[1] == Filter(COLUMNS, 0, TRUE)
    assert plan[2] == recipe.plan[2]
    # Of several functions that Spark calls at once.
    other = rows({("b", "2.0", None): "KeyError: 8"})
    both = Call("not", (balanced("or", [condition_of(left_out), condition_of(other)]),))
    together = recipe_of([SCAN, Filter(COLUMNS, 0, both)])
    parts = [one.recipe(together, [SCAN]) for one in (left_out, other)]
    assert without_set_aside(together, parts).plan[1] == Filter(COLUMNS, 0, TRUE)
    assert without_set_aside(together, parts[:1]) == together


def test_recipes_that_say_what_was_set_aside_are_erased() -> None:
    left_out = rows(CALLS)
    other = recipe_of([SCAN])
    recipes = [
        ("1", output(left_out).to_json()),
        ("2", left_out.recipe(output(left_out), [SCAN]).to_json()),
        ("3", other.to_json()),
    ]
    # What identifies the subject is in none of them.
    keys = [(("somebody",),)]
    assert nodes_to_erase(recipes, keys) == ["1", "2"]
    own = recipe_of([SCAN, Filter(COLUMNS, 0, Call("not", (Call("is null", (Column(1),)),)))])
    assert nodes_to_erase([("1", own.to_json()), ("4", ERASED)], keys) == []
    assert nodes_to_erase([("1", "no recipe")], keys) == ["1"]


def test_rows_of_both_frames_of_a_pair_of_groups_are_of_one_call() -> None:
    right = Scan((Attribute(5, "v", "int"), Attribute(6, "other", "string")), 0, ("v", "other"))
    inputs = (CalledRows(0, (Column(1),)), CalledRows(1, (Column(6),)))
    calls: dict[tuple[str | None, ...], str] = {("a",): "ValueError: no", (None,): "KeyError: 7"}
    left_out = SetAsideRows(9, "paired", inputs, ("string",), calls)
    recipe = left_out.recipe(recipe_of([SCAN, right]), [SCAN, right])
    recipe = Recipe.from_json(recipe.to_json())
    assert [call.values for call in failed_calls(opened_with(recipe))] == [("'a'",), ("NULL",)]
    assert [column.name for column in recipe.columns] == ["k", "lineage_call", "lineage_error"]
    *sides, united, kept, last = recipe.plan[2:]
    assert [(side.input, side.expressions) for side in sides if isinstance(side, Project)] == [
        (0, (Column(1),)),
        (1, (Column(6),)),
    ]
    assert isinstance(united, Union)
    assert united.inputs == (2, 3)
    assert isinstance(kept, Filter)
    assert isinstance(last, Project)
    ids = [column.id for node in (*sides, last) for column in node.columns]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & {1, 2, 3, 5, 6}


def test_too_many_calls_are_not_named() -> None:
    many = rows({(str(n), "1.0", None): "no" for n in range(CALLS_MAX + 1)})
    assert isinstance(condition_of(many), OpaqueExpression)
    last = many.nodes([SCAN])[-1]
    assert isinstance(last, Project)
    errors = last.expressions[-1]
    assert isinstance(errors, Call)
    assert len(errors.args) == 2 * CALLS_MAX
    for calls, are_more in (
        (CALLS, False),
        ({(str(n), "1.0", None): "no" for n in range(CALLS_MAX + 1)}, True),
    ):
        opened = opened_with(rows(calls).recipe(output(rows(calls)), [SCAN]))
        (node,) = set_aside_nodes(opened, opened.nodes)
        assert node.has_more_calls == are_more
