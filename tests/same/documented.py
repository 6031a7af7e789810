"""Runs the examples in PySpark's documentation and writes which of them fail: a line of JSON a docstring."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import json
import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.same.session import quiet_session, write_outcomes
from tests.same.showing import same_text

MODULES = (
    ("pyspark.core.rdd", "pyspark.rdd"),
    ("pyspark.core.context", "pyspark.context"),
    ("pyspark.core.broadcast", "pyspark.broadcast"),
    ("pyspark.accumulators",),
    ("pyspark.statcounter",),
    ("pyspark.taskcontext",),
    ("pyspark.sql.dataframe",),
    ("pyspark.sql.readwriter",),
    ("pyspark.sql.functions.builtin", "pyspark.sql.functions"),
    ("pyspark.sql.group",),
    ("pyspark.sql.column",),
    ("pyspark.sql.window",),
    ("pyspark.sql.udf",),
    ("pyspark.sql.udtf",),
    ("pyspark.sql.session",),
    ("pyspark.sql.types",),
    ("pyspark.sql.observation",),
    ("pyspark.sql.catalog",),
    ("pyspark.sql.pandas.map_ops",),
    ("pyspark.sql.pandas.group_ops",),
    ("pyspark.sql.pandas.functions",),
    ("pyspark.mllib.classification",),
    ("pyspark.mllib.clustering",),
    ("pyspark.mllib.evaluation",),
    ("pyspark.mllib.feature",),
    ("pyspark.mllib.random",),
    ("pyspark.mllib.recommendation",),
    ("pyspark.mllib.regression",),
    ("pyspark.mllib.tree",),
    ("pyspark.ml.feature",),
    ("pyspark.ml.classification",),
    ("pyspark.ml.clustering",),
    ("pyspark.ml.regression",),
)
"""Where PySpark 4.1 has them, then where 3.5 does."""
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
SEEN_MAX = 500


def names() -> list[str]:
    """The docstrings that have examples."""
    return [test.name for module in _modules() for test in _tests(module)]


def _modules() -> Iterator[ModuleType]:
    for places in MODULES:
        yield importlib.import_module(next(one for one in places if _is_there(one)))


def _is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _tests(module: ModuleType) -> list[doctest.DocTest]:
    """Those of the module: of what it takes from others, these tell."""
    found = doctest.DocTestFinder().find(module, module.__name__)
    return [test for test in found if any(not _is_skipped(one) for one in test.examples)]


def _is_skipped(example: doctest.Example) -> bool:
    return bool(example.options.get(doctest.SKIP))


class _Runner(doctest.DocTestRunner):
    """Keeps what failing examples gave instead of printing it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(verbose=False, optionflags=OPTIONS)
        self._folder = folder
        self.wrong: dict[str, str] = {}

    def report_failure(self, out: Any, test: Any, example: Any, got: str) -> None:
        self._keep(example, got)

    def report_unexpected_exception(self, out: Any, test: Any, example: Any, exc_info: Any) -> None:
        self._keep(example, f"{exc_info[0].__name__}: {exc_info[1]}")

    def _keep(self, example: Any, got: str) -> None:
        self.wrong[f"{example.lineno}: {example.source[:80]}"] = same_text(got, self._folder)[
            :SEEN_MAX
        ]


def main() -> None:
    """``python -m tests.same.documented WORK OUTCOMES NAMES``: a file of the docstrings' names."""
    work, outcomes, wanted = (Path(one) for one in sys.argv[1:4])
    chosen = set(json.loads(wanted.read_text()))
    spark = quiet_session("documented", work, {"spark.sql.shuffle.partitions": "4"})
    warnings.simplefilter("ignore")
    tests = ((module, test) for module in _modules() for test in _tests(module))
    write_outcomes(
        outcomes,
        (
            (test.name, _outcome(spark, module, test, work))
            for module, test in tests
            if test.name in chosen
        ),
    )
    spark.stop()


def _outcome(spark: Any, module: ModuleType, test: doctest.DocTest, work: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=work) as folder:
        # By this name the documentation's code is the user's, not PySpark's.
        test.globs = dict(vars(module)) | {
            "__name__": "__main__",
            "spark": spark,
            "sc": spark.sparkContext,
            "tempdir": folder,
            "temp_path": folder,
            "os": os,
        }
        runner = _Runner(Path(folder))
        ended = runner.run(test, out=lambda _: None)
    return {"tried": ended.attempted, "failed": runner.wrong}


if __name__ == "__main__":
    main()
