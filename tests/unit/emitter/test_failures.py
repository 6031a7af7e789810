"""What an error is called in verdicts."""

import pytest
from py4j.protocol import Py4JError

from lineage_emitter.failures import error_type, in_words

pytestmark = pytest.mark.unit

TASK = """An error occurred while calling z:org.apache.spark.api.python.PythonRDD.runJob.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.internal.io.SparkHadoopWriter$.write(SparkHadoopWriter.scala:110)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
  File "job.py", line 3, in <lambda>
KeyError: 'a'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "job.py", line 5, in parse
    raise BadRowError(line)
rows.BadRowError: row 7
of two lines

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:581)
"""


def test_a_tasks_own_error_is_named_before_that_of_the_jvm() -> None:
    assert error_type(Py4JError(TASK)) == "rows.BadRowError (Py4JError)"
    assert error_type(Py4JError("No such file: in.txt")) == "Py4JError"
    assert error_type(ValueError(TASK)) == "ValueError"


def test_what_an_error_says_is_one_line_and_never_empty() -> None:
    call = "An error occurred while calling o12.of"
    gone = "py4j.Py4JException: Method of([class a.B]) does not exist"
    trace = f"{call}. Trace:\n{gone}\n\tat py4j.reflection.ReflectionEngine.getMethod"
    assert in_words(Py4JError(trace)) == f"Py4JError: {call}. Trace: {gone}"
    assert in_words(Py4JError(f"{call}.\n: a.NullError\n\tat b")) == (
        f"Py4JError: {call}. a.NullError"
    )
    assert in_words(ValueError("\none line\nand more")) == "ValueError: one line"
    assert len(in_words(ValueError("x" * 999))) == 300
    with pytest.raises(AssertionError) as raised:
        raise AssertionError
    assert in_words(raised.value).startswith("AssertionError at test_failures.py:")
    assert in_words(KeyboardInterrupt()) == "KeyboardInterrupt"
