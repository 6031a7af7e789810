"""What an application is called: as in Spark, else as its program."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from lineage_emitter.session.session import application_name

pytestmark = pytest.mark.unit


def named(
    monkeypatch: pytest.MonkeyPatch, spark: str | None, file: str | None, module: str | None = None
) -> str:
    """What an application is called that Spark calls ``spark``, run from a file or as a module."""
    main = ModuleType("__main__")
    main.__spec__ = None if module is None else ModuleSpec(module, None)
    if file is not None:
        main.__file__ = file
    monkeypatch.setitem(sys.modules, "__main__", main)
    sc: Any = SimpleNamespace(appName=spark)
    return application_name(sc)


@pytest.mark.parametrize(
    ("spark", "file", "module", "expected"),
    [
        ("daily report", "/jobs/report.py", None, "daily report"),
        ("pyspark-shell", "/jobs/report.py", None, "report.py"),
        (None, "jobs/report.py", None, "report.py"),
        ("pyspark-shell", "/lib/jobs/__main__.py", "jobs.__main__", "jobs"),
        ("pyspark-shell", "/lib/jobs/report.py", "jobs.report", "jobs.report"),
        ("pyspark-shell", "/lib/jobs.zip/__main__.py", "__main__", "jobs.zip"),
        ("pyspark-shell", None, None, "pyspark-shell"),
        (None, None, None, ""),
    ],
)
def test_an_application_is_named_as_in_spark_else_as_its_program(
    monkeypatch: pytest.MonkeyPatch,
    spark: str | None,
    file: str | None,
    module: str | None,
    expected: str,
) -> None:
    assert named(monkeypatch, spark, file, module) == expected
