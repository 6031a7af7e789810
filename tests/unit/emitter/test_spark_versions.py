from __future__ import annotations

import ast
from pathlib import Path

import pyspark
import pytest

from lineage_emitter import spark_versions
from lineage_emitter.errors import SettingsError
from lineage_emitter.spark_versions import check_version, is_untested

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
in_4 = pytest.mark.skipif(pyspark.__version__.startswith("3."), reason="what is looked for is of 4")


@pytest.mark.parametrize(
    "version", ["3.5.0", "3.5.9", "4.0.5", "4.1.4", "4.1.4.dev0", "4.2.1", "4.3.0"]
)
def test_tested_versions_are_taken(version: str) -> None:
    check_version(version)
    assert not is_untested(version)


@pytest.mark.parametrize("version", ["3.4.4", "3.50.1", "2.4.8"])
def test_others_are_refused_in_words(version: str) -> None:
    with pytest.raises(SettingsError, match=f"{version} is not supported: .* 4.2 and 4.3"):
        check_version(version)


@in_4
@pytest.mark.parametrize("version", ["4.4.0", "4.10.0", "5.0.0"])
def test_a_newer_one_is_taken_where_it_has_all_that_capture_leans_on(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_version(version)
    assert is_untested(version)
    monkeypatch.setitem(spark_versions.PARTS, "pyspark.rdd", "PipelinedRDD Gone")
    with pytest.raises(
        SettingsError, match=rf"{version} is not supported: .* no pyspark\.rdd\.Gone"
    ):
        check_version(version)


@in_4
def test_all_that_is_imported_of_pyspark_is_looked_for() -> None:
    wanted = set()
    for file in (ROOT / "services/emitter/src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pyspark"):
                wanted |= {(node.module, one.name) for one in node.names}
    listed = {
        (module, name.partition(".")[0])
        for module, names in spark_versions.PARTS.items()
        for name in names.split()
    }
    typed_only = {("pyspark.core.rdd", name) for _, name in wanted} | {
        ("pyspark.util", "PythonEvalType"), ("pyspark.util", "_load_from_socket"),
    }  # fmt: skip
    assert wanted - listed - typed_only == set()
