"""Paths of a recipe: Spark opens the very file that was checked, or the path is refused."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_core.recipe.document import File, Output, Recipe, Source
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.allowed import check_files_allowed, check_recipe_allowed
from lineage_query.rows.reader import RowReader
from lineage_store.paths import canonical

pytestmark = pytest.mark.security

NO_COLUMNS = '{"type":"struct","fields":[]}'


def source(kind: str, *files: str, path: str = "/x", **options: str) -> Source:
    listed = tuple(File(file, 1, 1) for file in files)
    return Source(kind, (path,), NO_COLUMNS, options=options, files=listed)


def recipe(sources: Iterable[Source] = (), output: Output | None = None) -> Recipe:
    return Recipe("4.1.4", {}, tuple(sources), (), output or Output())


def written(kind: str, *files: str, path: str = "/x", **more: Any) -> Output:
    listed = tuple(File(file, 1, 1) for file in files)
    return Output(kind="files", path=path, format=kind, files=listed, **more)


UP = "/shop/X/../L/staff.json"
PLACES = {
    "file of a source": recipe([source("json", UP)]),
    "file of a second source": recipe([source("json", "/a"), source("csv", "/b", UP)]),
    "table of Delta Lake": recipe([source("delta", path=UP)]),
    "table of Iceberg": recipe([source("iceberg", path=UP)]),
    "metadata of a table": recipe([source("iceberg", metadata=UP)]),
    "file of the output": recipe(output=written("json", UP)),
    "table of the output": recipe(output=written("delta", "/x/a", path=UP)),
    "version of the output": recipe(output=written("delta", path=UP, version="3")),
    "metadata of the output": recipe(output=written("iceberg", "/x/a", options={"metadata": UP})),
    "base of a source": recipe([source("parquet", "/shop/L/a=1/f", basePath="/shop/X/../L")]),
    "encoded": recipe([source("delta", "/shop/X/%2e%2E/L/staff.parquet")]),
    "encoded slashes": recipe([source("delta", "/shop/X%2f..%2FL/staff.parquet")]),
    "scheme": recipe([source("json", f"file:{UP}")]),
    "scheme and slashes": recipe([source("json", f"file://{UP}")]),
    "remote": recipe([source("json", f"s3a://bucket{UP}")]),
    "end": recipe([source("delta", path="/shop/X/..")]),
    "begin": recipe([source("json", "../L/staff.json")]),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_path_that_leads_up_is_refused_wherever_a_recipe_has_one(place: str) -> None:
    with pytest.raises(RefusedError, match=r"has `\.\.`"):
        check_recipe_allowed(PLACES[place], RowReader())


SPELLINGS = (
    "shop/a/b/f", "shop/X/f", "shop/L/f", "shop//L///f", "shop/./L/f", "shop/L/.", "shop/L/", "shop/X/../L/f", "shop/X/%2e%2e/L/f",
    "shop/X/%2E%2E/L/f", "shop/X%2F..%2FL/f", "shop/%58/f", "shop/X/..;/f", "shop/X/.../L/f", "shop/X/..%00/f", "shop/ L/f", "shop/L /f",
    "shop/X/.. /L/f", "shop/L/f#a", "shop/L/f;a", "shop/~/f", "shop/L/f%", "shop/a b/f", "shop/a%20b/f", "shop/a+b/f", "shop/..",
)  # fmt: skip
"""Files as recipes may name them, below a folder."""


def test_spark_opens_the_file_that_was_checked(spark_context: SparkContext, tmp_path: Path) -> None:
    """Held against Hadoop's own reading of paths, by links as the system follows them."""
    for folder in ("hr", "shop/a/b", "shop/a/L", "shop/a b", "shop/a+b", "shop/X%2F..%2FL"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "f").write_text(folder)
    for link, target in (("shop/X", "shop/a/b"), ("shop/L", "hr"), ("shop/%2e%2e", "hr")):
        (tmp_path / link).symlink_to(tmp_path / target)
    context: Any = spark_context
    hadoop = context._jvm.org.apache.hadoop.fs
    local = hadoop.FileSystem.getLocal(context._jsc.hadoopConfiguration()).getRaw()
    opened, refused = set(), set()
    for spelling in SPELLINGS:
        for begin in ("", "file:", "file://"):
            path = f"{begin}{tmp_path}/{spelling}"
            try:
                check_files_allowed(recipe([source("json", path)]), RowReader())
            except RefusedError:
                refused.add(spelling)
                continue
            at = os.path.realpath(local.pathToFile(hadoop.Path(path)).getPath())
            if os.path.exists(at):
                opened.add(spelling)
                assert canonical(path) == at, path
    encoded = {"shop/X/%2e%2e/L/f", "shop/X/%2E%2E/L/f", "shop/X%2F..%2FL/f"}
    assert refused == {"shop/X/../L/f", "shop/..", *encoded}
    assert len(opened) >= 9


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_path_that_names_two_files_is_refused(tmp_path: Path, kind: str) -> None:
    """Logs of tables encode their files: `L%20x` is a folder that was checked, and `L x` may be a link to another."""
    (tmp_path / "hr").mkdir()
    (tmp_path / "hr" / "f").write_text("a secret")
    (tmp_path / "shop" / "L%20x").mkdir(parents=True)
    (tmp_path / "shop" / "L%20x" / "f").write_text("of no use")
    path = f"file:{tmp_path}/shop/L%20x/f"
    named = recipe([source(kind, path, path=str(tmp_path / "shop"))])
    check_files_allowed(named, RowReader())
    (tmp_path / "shop" / "L x").symlink_to(tmp_path / "hr")
    with pytest.raises(RefusedError, match="names a second file"):
        check_files_allowed(named, RowReader())


def test_a_file_that_only_its_decoded_name_names_is_read(tmp_path: Path) -> None:
    (tmp_path / "a b").write_text("a row")
    check_files_allowed(recipe([source("delta", f"file:{tmp_path}/a%20b")]), RowReader())
