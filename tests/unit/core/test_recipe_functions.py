"""Keys of Python functions in recipes, and marks of what they import."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import cloudpickle

from lineage_core.errors import FunctionsKeyError
from lineage_core.recipe.functions import FUNCTIONS_KEY, FUNCTIONS_KEY_FILE, read_key
from lineage_core.recipe.imported import (
    MISSING_MODULE,
    UNREADABLE_MODULE,
    fingerprints_of,
    modules_in,
)

pytestmark = pytest.mark.unit


def test_a_key_is_read_from_its_file_first(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("from a file, long enough\n", encoding="utf-8")
    by_value = {FUNCTIONS_KEY: "by value, long enough"}
    assert read_key({}) is None
    assert read_key(by_value) == b"by value, long enough"
    assert read_key({**by_value, FUNCTIONS_KEY_FILE: str(path)}) == b"from a file, long enough"


@pytest.mark.parametrize(
    ("content", "says"), [("short", "at least 16 bytes"), ("", "at least 16"), (None, "can't read")]
)
def test_a_key_that_can_not_be_used_is_an_error(
    content: str | None, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(FunctionsKeyError, match=says):
        read_key({FUNCTIONS_KEY_FILE: str(path)})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_marks_change_with_what_is_imported(folder: Path) -> None:
    package = folder / "lineage_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("def f():\n    import lineage_single\n", encoding="utf-8")
    single = folder / "lineage_single.py"
    single.write_text("import json, pandas, lineage_nowhere\nX = 1\n", encoding="utf-8")
    before = fingerprints_of(["lineage_package"])
    assert set(before) == {"lineage_package", "lineage_single", "pandas"}
    assert before["pandas"].startswith("pandas ")
    assert fingerprints_of(["lineage_package"]) == before
    single.write_text("import json, pandas, lineage_nowhere\nX = 22\n", encoding="utf-8")
    after = fingerprints_of(["lineage_package"])
    assert {name for name in before if before[name] != after[name]} == {"lineage_single"}
    (package / "more.py").touch()
    assert fingerprints_of(["lineage_package"])["lineage_package"] != before["lineage_package"]


def test_what_can_not_be_read_is_marked_so(folder: Path) -> None:
    (folder / "lineage_compiled.so").touch()
    (folder / "lineage_data").mkdir()
    assert fingerprints_of(["lineage_nowhere"]) == {"lineage_nowhere": MISSING_MODULE}
    assert fingerprints_of(["lineage_data"]) == {"lineage_data": UNREADABLE_MODULE}


def test_modules_of_a_pickle_are_those_that_it_names(folder: Path) -> None:
    (folder / "lineage_single.py").touch()
    (folder / "lineage_data").mkdir()
    program: dict[str, object] = {"__name__": "lineage_program"}
    text = """
import numpy as np
def f(x):
    import lineage_single
    return np.sqrt(x), x["lineage_data"], x["lineage_nowhere"]
"""
    exec(text, program)
    assert modules_in(cloudpickle.dumps(program["f"])) == {"numpy", "lineage_single"}
