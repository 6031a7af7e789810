"""Recipes read back as they were written, whatever they hold."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.errors import ContractError
from lineage_core.recipe.document import Function, Recipe
from lineage_core.recipe.functions import has_valid_signature, sign_recipe
from lineage_core.recipe.plan import (
    Attribute,
    Call,
    Column,
    Expression,
    Join,
    JoinKind,
    Literal,
    Node,
    OpaqueExpression,
    Over,
    Project,
    PythonCall,
    PythonRows,
    SortKey,
    Values,
    WindowFrame,
)

pytestmark = pytest.mark.property

NAMES = st.text(max_size=8)
IDS = st.integers(0, 2**40)
FUNCTIONS = 2
CODE = st.builds(
    Function,
    NAMES,
    NAMES,
    st.integers(0, 300),
    NAMES,
    NAMES,
    st.dictionaries(NAMES, NAMES, max_size=2),
)
LEAVES = st.builds(Column, IDS) | st.builds(Literal, st.none() | NAMES, NAMES)


def deeper(below: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    many = st.lists(below, max_size=3).map(tuple)
    calls = st.builds(
        Call, NAMES, many, st.none() | NAMES, st.booleans(), st.none() | below, st.booleans()
    )
    keys = st.lists(st.builds(SortKey, below, st.booleans(), st.booleans()), max_size=2).map(tuple)
    frames = st.builds(
        WindowFrame, st.sampled_from(["rows", "range"]), st.none() | below, st.none() | below
    )
    opaque = st.builds(OpaqueExpression, NAMES, NAMES, many, NAMES)
    return (
        calls
        | st.builds(Over, calls | opaque, many, keys, st.none() | frames)
        | opaque
        | st.builds(PythonCall, NAMES, st.integers(0, FUNCTIONS - 1), many, NAMES)
    )


EXPRESSIONS = st.recursive(LEAVES, deeper, max_leaves=12)
CONSTANTS = st.builds(Literal, st.none() | NAMES, NAMES)
HOWS = st.sampled_from(typing.get_args(JoinKind))


def tuples(of: st.SearchStrategy[Any], least: int, most: int) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(of, min_size=least, max_size=most).map(tuple)


def columns(least: int = 0, most: int = 3) -> st.SearchStrategy[tuple[Attribute, ...]]:
    return tuples(st.builds(Attribute, IDS, NAMES, NAMES), least, most)


@st.composite
def recipes(draw: st.DrawFn) -> Recipe:
    wide = draw(st.integers(0, 3))
    rows = tuples(tuples(CONSTANTS, wide, wide), 0, 3)
    plan: list[Node] = [draw(st.builds(Values, columns(wide, wide), rows))]
    for place in range(1, draw(st.integers(1, 5))):
        below = st.integers(0, place - 1)
        wide = draw(st.integers(0, 3))
        values = tuples(EXPRESSIONS, wide, wide)
        projects = st.builds(Project, columns(wide, wide), below, values)
        how = draw(HOWS)
        # A join that says whether a row exists has a column of that.
        named = columns(1 if how == "exists" else 0)
        joins = st.builds(Join, named, below, below, st.just(how), st.none() | EXPRESSIONS)
        numbers = st.lists(IDS, max_size=2).map(tuple)
        inputs = st.lists(below, max_size=2).map(tuple)
        made = st.builds(PythonRows, columns(), inputs, NAMES, NAMES, numbers)
        plan.append(draw(projects | joins | made))
    settings = draw(st.dictionaries(NAMES, NAMES, max_size=3))
    functions = tuple(draw(st.lists(CODE, min_size=FUNCTIONS, max_size=FUNCTIONS)))
    return Recipe("4.1.4", settings, (), tuple(plan), site=draw(NAMES), functions=functions)


@given(recipes())
def test_recipes_read_back(recipe: Recipe) -> None:
    text = recipe.to_json()
    assert Recipe.from_json(text) == recipe
    assert Recipe.from_json(text).to_json() == text


KEYS = st.text("abc", min_size=16, max_size=20).map(str.encode)


@given(recipes(), recipes(), KEYS, KEYS)
def test_a_signature_is_of_one_recipe_and_one_key(
    recipe: Recipe, other: Recipe, key: bytes, another: bytes
) -> None:
    made = Recipe.from_json(sign_recipe(recipe, key).to_json())
    assert has_valid_signature(made, key)
    assert has_valid_signature(made, another) == (key == another)
    moved = dataclasses.replace(other, signature=made.signature)
    assert has_valid_signature(moved, key) == (recipe == other)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NAMES,
    lambda one: st.lists(one, max_size=3) | st.dictionaries(NAMES, one, max_size=3),
)


@given(recipes(), st.data())
def test_a_spoilt_recipe_is_refused_or_read_never_anything_else(
    recipe: Recipe, data: st.DataObject
) -> None:
    import json

    raw = json.loads(recipe.to_json())
    place: Any = raw
    while isinstance(place, dict | list) and place:
        steps = sorted(place) if isinstance(place, dict) else range(len(place))
        step = data.draw(st.sampled_from(list(steps)))
        if data.draw(st.booleans()) or not isinstance(place[step], dict | list) or not place[step]:
            place[step] = data.draw(JSON)
            break
        place = place[step]
    try:
        read = Recipe.from_json(json.dumps(raw))
    except ContractError:
        return
    assert Recipe.from_json(read.to_json()) == read
