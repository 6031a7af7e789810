"""Tables of a Hive catalog: noted in a session with Hive's metastore, traced in one that has none."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import rebuild
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError, RowError
from lineage_dataframes.sources.locations import locations
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.rows import ordinal_in_file, output_of, values_at
from lineage_store.url import open_store
from tests.support.job_runs import STORE, run_captured
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE

pytestmark = [pytest.mark.integration, pytest.mark.long]

CONF = (
    SMALL_SPARK
    + """\
spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:memory:metastore;create=true
"""
)

NUMBERS = [
    "", "1", "-1", "+1", "007", "1.5", "1.", "-1.9", ".5", "-.5", ".", "+", "-", "+.", "127", "128", "-128",
    "-129", "32767", "32768", "-32768", "-32769", "2147483647", "2147483648", "-2147483648", "-2147483649",
    "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "9" * 60, "0" * 50 + "12", "-0", "-0.0", "00", "1..", "1.2.3", "--1", "+-1", "1-", "abc", "12abc", "\u0661",
    "1_0", "1\u00a0", "\\N", "\\n", "NULL", "1L", "e5", "1e", "-5.", "123456.78", "1,",
]  # fmt: skip
INTEGERS = [*NUMBERS, "1e3", " 1", "1 ", " ", "1d", "0x1F", "NaN", "true"]
FLOATING = [
    *NUMBERS, "1e3", "1E3", "1.5e+3", "1.5e-", "NaN", "nan", "-NaN", "+NaN", "Infinity", "-Infinity",
    "+Infinity", "inf", "infinity", "4.9E-324", "1e400", "3.4e39", "1.17549429e-38", "0.1", "16777217",
]  # fmt: skip
DECIMALS = [
    *(one for one in NUMBERS if len(one) < 38 and one not in {"1..", "1.2.3", "12abc", "1_0", "1L", "1e", "1-", "1,", "1\u00a0"}),
    "1.005", "1.0049", "1.015", "-1.005", "99999.99", "99999.994", "99999.995", "-99999.995", "100000",
    "0.123456789012345678901234567890123456", "NaN",
]  # fmt: skip
CELLS = {
    "tinyint": INTEGERS,
    "smallint": INTEGERS,
    "int": INTEGERS,
    "bigint": INTEGERS,
    "double": FLOATING,
    "float": FLOATING,
    "boolean": ["true", "TRUE", "tRuE", "false", "False", "t", "F", "1", "yes", "", "\\N", "true ", "FAL\u017fE"],
    "string": ["", " ", "abc", "\\N", "\\n", "\\", "NULL", "\u00e9", "a,b", "\t", "\u2028", "\U0001f600"],
    "decimal(7,2)": DECIMALS,
    "decimal(38,10)": DECIMALS,
    "date": ["", "2021-01-02", "2021-1-2", "1583-01-01", "9999-12-31", "10000-01-01", "abc", "\\N",
             "2021-01-02 10:11:12", "2021/01/02", "20210102", "2020-02-29", "21-01-02", "2021-01"],
}  # fmt: skip


class Ran:
    """The job's folder after it ran. ``given``: what Hive gave, by name; ``recipes``: by the line's output or name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "conf").mkdir()
        (folder / "conf" / "spark-defaults.conf").write_text(CONF)
        (folder / "cells.json").write_text(json.dumps(CELLS))
        shutil.copy(HERE / "hive_job.py", folder)
        done = run_captured(folder, "hive_job.py", env={"SPARK_CONF_DIR": str(folder / "conf")})
        assert done.returncode == 0, done.stderr
        given = json.loads((folder / "given.json").read_text())
        self.given = {name: [tuple(row) for row in rows] for name, rows in given}
        self.recipes: dict[str, Recipe] = {}
        collected = iter([*self.given, "cached", "others", "elsewhere"])
        with open_store(f"sqlite:///{folder / STORE}") as store:
            (app,) = store.application_ids()
            graph = store.graph(app)
            for node in sorted(graph.nodes(), key=lambda one: float(one.node)):
                text = graph.recipe(node.node)
                if text is None:
                    continue
                recipe = Recipe.from_json(text)
                said = recipe.output.table or Path(recipe.output.path or "").name
                name = f"into {said}" if said else next(collected)
                self.recipes[name] = recipe

    def traced(self, spark: SparkSession, name: str, where: str) -> list[str]:
        """Where the rows stand that some output rows were made from, below the folder."""
        recipe = self.recipes[name]
        found = trace_backward(spark, recipe, where=where)
        assert found.exact, found.reasons
        places = locations(spark, recipe, found)
        return sorted(one.removeprefix(f"{self.folder}/") for one in places)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("hive"))


@pytest.mark.parametrize(
    "name", ["cells", "escaped", "ends", "odd b", "parts", "parts pruned", "columnar", "columnar pruned"]
)  # fmt: skip
def test_rows_are_read_as_hive_read_them(name: str, ran: Ran, spark: SparkSession) -> None:
    rows = [tuple(map(repr, row)) for row in rebuild(spark, ran.recipes[name])]
    assert Counter(rows) == Counter(ran.given[name])
    assert rows


def lines(ran: Ran, places: list[str]) -> list[str]:
    """What stands at lines of files."""
    found = []
    for place in places:
        path, _, line = place.rpartition(":")
        found.append((ran.folder / path).read_text().split("\n")[int(line) - 1])
    return sorted(found)


def test_rows_of_text_tables_are_lines(ran: Ran, spark: SparkSession) -> None:
    assert ran.traced(spark, "ends", "a = 3") == ["ends/file:5"]
    assert ran.traced(spark, "escaped", "c = 4") == ["escaped/file:9"]
    found = ran.traced(spark, "into parts_totals", "c = 'Oslo'")
    assert lines(ran, found) == ["3,b3", "9,b9"]
    assert all("/c=Oslo/n=1/" in one for one in found)
    # What Hive reads for NULL in a partition's name.
    found = ran.traced(spark, "into parts_totals", "c = '__HIVE_DEFAULT_PARTITION__'")
    assert lines(ran, found) == ["11,b11", "5,b5"]


def test_partitioned_tables_of_other_formats(ran: Ran, spark: SparkSession) -> None:
    found = ran.traced(spark, "into columnar_totals", "c IS NULL")
    assert [one.rpartition("#")[2] for one in found] == ["0", "1"]
    assert all("columnar/c=__HIVE_DEFAULT_PARTITION__/n=1/" in one for one in found)
    found = ran.traced(spark, "into spark_catalog.default.joined", "id = 5")
    assert len(found) == 2


def test_a_statement_reads_and_writes_one_table(ran: Ran, spark: SparkSession) -> None:
    found = ran.traced(spark, "into parts", "id = 106")
    assert lines(ran, found) == ["6,b6"]


@pytest.mark.parametrize("name", ["into parts", "into columnar"])
def test_rows_stand_in_the_files_of_the_table(name: str, ran: Ran, spark: SparkSession) -> None:
    recipe = ran.recipes[name]
    output = output_of(spark, recipe)
    given = []
    for file in output.files:
        is_text = output.format == "hive-text"
        place = ordinal_in_file(spark, output, file, 1 if is_text else 0, line=is_text)
        given.append(values_at(spark, recipe, output, file, place))
    first = (100, "b0", "Oslo", 0) if name == "into parts" else (101, "b1", "new", 7)
    assert first in given


REFUSED = {
    "odd short": r"column short \(varchar\(2\)\)",
    "odd at": r"column at \(timestamp\)",
    "odd d": "not sure: 1d",
    "bytes": "Invalid UTF8",
    "quoted": "OpenCSVSerde",
    "cached": "which files of .*parts were read is not certain",
    "others": "which files of .*parts were read is not certain",
    "elsewhere": "does not lie where tables have their files",
}

CONDITIONS = {"odd d": "d > 0", "bytes": "a = 'ok'"}
"""Values that are not sure matter only where they are asked for."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_hive_alone_knows_is_refused(name: str, ran: Ran, spark: SparkSession) -> None:
    with pytest.raises(RefusedError, match=REFUSED[name]):
        trace_backward(spark, ran.recipes[name], where=CONDITIONS.get(name, "true"))


def test_files_whose_columns_have_other_names_are_not_read_by_these(
    ran: Ran, spark: SparkSession
) -> None:
    """``insertInto`` goes by the order of columns, readers of Parquet by their names."""
    with pytest.raises(RowError, match="kept no file"):
        output_of(spark, ran.recipes["into swapped"])
