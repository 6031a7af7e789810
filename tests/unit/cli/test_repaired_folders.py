"""The folders that outputs of a job with repaired rows are written to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lineage.repairing import _Recipes
from lineage_core.recipe.document import Output, Recipe

pytestmark = pytest.mark.unit


def test_no_name_leads_out_of_the_folder() -> None:
    paths = ["/data/out", "file:/b/out", "/data/..", "..", "/", ""]
    recipes = {
        str(n): Recipe("4.1", {}, (), (), Output(kind="files", action="write", path=path))
        for n, path in enumerate(paths)
    }
    recipes["6"] = Recipe("4.1", {}, (), (), Output(kind="table", action="write", table=".."))
    folders = [output.folder for output in _Recipes(recipes, []).named(Path("/to"))]
    names = ["out", "out-1", "2", "3", "4", "5", "6"]
    assert folders == [Path("/to") / name for name in names]
