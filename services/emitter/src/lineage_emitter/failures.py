"""What something failed of, in words: behind the JVM's error lies one of the program's own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice

from lineage_store.rerun_plan import RaisedError

ERRORS_MAX = 100
"""Errors that one is traced back to."""
ERROR_CHARS_MAX = 500
"""Characters that are kept of the error of a record that is set aside."""
MESSAGE_MAX = 10_000
"""Characters of what an error says."""
_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<type>[A-Za-z_][\w.]*)"
)

_FROM_JVM = ("py4j.", "pyspark.errors.")
_BETWEEN = ("During handling of the above exception, ", "The above exception was the direct cause ")
_CULPRITS = "lineage: while working on "
_HEAD = re.compile(r"(?:: |Caused by: )?(?P<type>[A-Za-z_][\w.$]*)(?:: ?(?P<message>.*))?")


def error_type(problem: BaseException) -> str:
    """The type of the error, after it the type of the Python error that a task raised."""
    name = type(problem).__name__
    if not type(problem).__module__.startswith("py4j."):
        return name
    try:
        # The stack trace comes from the JVM, which may be what failed.
        text = str(problem)
    except Exception:
        return name
    raised = [match["type"] for match in _TRACEBACK.finditer(text)]
    # An error raised while another was handled comes last: it is the one that ended the task.
    return f"{raised[-1]} ({name})" if raised else name


def in_words(problem: BaseException, chars_max: int = 300) -> str:
    """An error in one line: its type, and what it says; where it says nothing, where it was raised. Never empty.

    The first line of an error of the JVM says which call failed, the second one of what.
    """
    of_jvm = type(problem).__module__.startswith("py4j.")
    try:
        text = str(problem)
    except Exception:
        text = ""
    lines = [line.strip().removeprefix(": ") for line in text.splitlines()]
    message = " ".join([line for line in lines if line][: 2 if of_jvm else 1])
    name = type(problem).__name__
    return (f"{name}: {message}" if message else f"{name}{_raised_at(problem)}")[:chars_max]


def add_note(problem: BaseException, text: str) -> None:
    """Have an error say ``lineage: TEXT``, too, where it is written out, as `BaseException.add_note` does since Python 3.11."""
    problem.__notes__ = [*getattr(problem, "__notes__", []), f"lineage: {text}"]


def _raised_at(problem: BaseException) -> str:
    traceback = problem.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (
        f" at {os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"
        if traceback
        else ""
    )


def raised_errors(problem: BaseException) -> list[RaisedError]:
    """An error, those that it came from, and those of tasks and of the JVM that its text reports: their types, and what they say."""
    return list(dict.fromkeys(islice(_raised(problem), ERRORS_MAX)))


def _raised(problem: BaseException | None) -> Iterator[RaisedError]:
    seen: set[int] = set()
    while problem is not None and id(problem) not in seen:
        seen.add(id(problem))
        kind = type(problem)
        try:
            text = str(problem)
        except Exception:
            text = ""
        of_jvm = kind.__module__.startswith(_FROM_JVM)
        own = text.split("\n", 1)[0] if of_jvm else text
        yield RaisedError(_qualified(kind), own[:MESSAGE_MAX])
        if of_jvm:
            yield from _in_text(text)
        problem = problem.__cause__ or (
            None if problem.__suppress_context__ else problem.__context__
        )


def _qualified(kind: type[BaseException]) -> str:
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


def _in_text(text: str) -> Iterator[RaisedError]:
    """The errors whose tracebacks, of Python or of the JVM, a text holds."""
    lines = iter(text.splitlines())
    in_traceback, current = False, None
    for line in lines:
        if line.endswith("Traceback (most recent call last):"):
            # The JVM's own error stands before it on the line.
            yield from _error(current)
            in_traceback, current = True, None
        elif line.startswith(_BETWEEN):
            yield from _error(current)
            current = None
        elif line.startswith((" ", "\t")):
            if line.startswith("\tat "):
                yield from _error(current)
                in_traceback, current = False, None
            elif current is not None and in_traceback:
                current.append(line)
        elif current is not None and in_traceback and not line.startswith("Caused by: "):
            # What an error says may have several lines.
            current.append(line)
        elif in_traceback or line.startswith((": ", "Caused by: ")):
            yield from _error(current)
            current = [line]
    yield from _error(current)


def _error(lines: list[str] | None) -> Iterator[RaisedError]:
    head = _HEAD.fullmatch(lines[0]) if lines else None
    if lines and head:
        rest = [line for line in lines[1:] if not line.startswith(_CULPRITS)]
        message = "\n".join([head["message"] or "", *rest]).strip()
        yield RaisedError(head["type"], message[:MESSAGE_MAX])
