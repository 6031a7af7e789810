"""Which errors ended a program, by type and by what they say."""

from __future__ import annotations

import pytest

from lineage_emitter.failures import raised_errors
from lineage_store.rerun_plan import RaisedError

TEXT = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 0.0 failed: \
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process(of, "KeyError: none of ours")
  File "job.py", line 9, in <lambda>
    f(x)
    ^^^^
KeyError: 'two'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "job.py", line 11, in <lambda>
helpers.BrokenRowError: no number:
two lines
lineage: while working on 0#1#2

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
\t... 1 more
Caused by: java.io.IOException: disk full
\tat java.base/java.lang.Thread.run(Thread.java:840)
"""


class Py4JJavaError(Exception):
    """As PySpark raises it."""


Py4JJavaError.__module__ = "py4j.protocol"


def test_errors_of_tasks_are_read_from_the_text_of_the_jvm() -> None:
    errors = {error.type: error.message for error in raised_errors(Py4JJavaError(TEXT))}
    assert errors["KeyError"] == "'two'"
    assert errors["helpers.BrokenRowError"] == "no number:\ntwo lines"
    assert errors["java.io.IOException"] == "disk full"
    # Lines of code say nothing.
    assert not any("none of ours" in message for message in errors.values())


@pytest.mark.parametrize(
    ("is_hidden", "types"), [(False, ["RuntimeError", "ValueError"]), (True, ["RuntimeError"])]
)
def test_what_an_error_came_from_is_named_unless_it_is_hidden(
    is_hidden: bool, types: list[str]
) -> None:
    outer, inner = RuntimeError("outer"), ValueError("inner")
    outer.__context__, outer.__suppress_context__ = inner, is_hidden
    assert [error.type for error in raised_errors(outer)] == types


def test_a_circle_of_errors_ends() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert len(raised_errors(first)) == 2


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("ValueError", True),
        ("helpers.ValueError", True),
        ("Value", False),
        ("Error", False),
        ("invalid lit", True),
        ("ValueError: inv", True),
        ("helpers.ValueError: inv", True),
        ("KeyError: inv", False),
    ],
)
def test_an_error_is_named_by_its_type_or_by_a_part_of_what_it_says(
    text: str, is_named: bool
) -> None:
    assert RaisedError("helpers.ValueError", "invalid literal").is_named(text) is is_named


def test_a_longer_type_is_another() -> None:
    assert not RaisedError("MyValueError", "").is_named("ValueError")
