"""Names that a job gives its nodes and datasets cost a bounded amount where rules are looked up, and are words in commands."""

from __future__ import annotations

import resource
import shlex
import time
from dataclasses import replace

import numpy as np
import pytest

from lineage_core.contract.message import Recipe as RecipeMessage
from lineage_core.contract.message import Register
from lineage_core.contract.region import Region
from lineage_core.recipe.document import Recipe, Source
from lineage_core.tracing.budget import Budget, TimeUpError, use_budget
from lineage_query.names import Names
from lineage_query.record_trace import NamedRows, RowsInFiles
from lineage_query_api.grants import Mask
from lineage_query_api.visibility import Visibility, build_visible_application
from tests.unit.core.test_recipe import RECIPE

pytestmark = pytest.mark.security
ALL = (frozenset({"*"}),)
HOSTILE = "/d/'; touch pwned; '$(id)`id`"


def rules(*hidden: str) -> Visibility:
    return Visibility(ALL, ALL, frozenset(hidden), (Mask(frozenset(hidden), ("ssn",)),))


def source(table: str) -> Register:
    return Register(app="e", node="1", kind="frame-source", op="table", path=table)


def test_a_table_of_very_many_parts_counts_as_hidden_and_takes_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for table in ("a." * 32_000 + "a", "x" * 30_000 + "." * 35_000, "jdbc:" + "." * 60_000):
        shown = build_visible_application([source(table)], rules("secret.*"), final=True)
        assert shown.hides
        assert build_visible_application([source(table)], rules(), final=True).is_fully_visible
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize(("table", "hides"), [("c.secret.t", True), ("c.s.t.u.v", False)])
def test_a_table_is_hidden_by_its_last_names(table: str, hides: bool) -> None:
    assert build_visible_application([source(table)], rules("secret.*"), final=True).hides == hides


@pytest.mark.parametrize("node_name", ["a", "other"])
def test_sources_of_recipes_are_matched_with_nodes_within_the_time(node_name: str) -> None:
    read = Source("parquet", (), "", table="a")
    recipe: Recipe = replace(RECIPE, sources=(*RECIPE.sources, *[read] * 4_000))
    nodes = [
        Register(app="e", node=f"{n}", kind="frame-source", op="table", path=node_name)
        for n in range(4_000)
    ]
    written = RecipeMessage(app="e", node="9", recipe=recipe.to_json())
    began = time.process_time()
    try:
        with use_budget(Budget(seconds=0.5)):
            build_visible_application([*nodes, written], rules("secret.*"), final=True)
    except TimeUpError:
        pass
    assert time.process_time() - began < 3


def test_a_source_has_the_rules_of_each_node_that_is_called_as_it_is() -> None:
    read = Source("parquet", ("file:/data/secret/x",), "", table="plain")
    recipe: Recipe = replace(RECIPE, sources=(*RECIPE.sources, read))
    written = RecipeMessage(app="e", node="9", recipe=recipe.to_json())
    shown = build_visible_application(
        [source("plain"), written], rules("/data/secret/*"), final=True
    )
    assert not shown.of_node("1").visible
    assert [one.table for one in shown.sources["1"]] == ["plain"]


def test_what_a_job_named_is_one_word_of_a_command_that_is_told() -> None:
    names = Names([])
    rows = Region.from_positions(np.array([7]))
    told = RowsInFiles("3", "4", {HOSTILE: rows}).end_warning("x; id", names)
    command = shlex.split(told[told.index("lineage forward '") :])
    assert command == ["lineage", "forward", f"{HOSTILE}#7", "--app", "x; id"]
    told = NamedRows("3", HOSTILE, rows, 1).end_warning("x; id", names)
    command = shlex.split(told[told.rindex("lineage back") :])
    assert command[:2] + command[3:] == ["lineage", "back", "--app", "x; id"]
    assert command[2].startswith(f"{HOSTILE}#")
