"""What something failed of, in words: behind the JVM's error lies one of the program's own."""

from __future__ import annotations

import os
import re

_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<type>[A-Za-z_][\w.]*)"
)


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


def _raised_at(problem: BaseException) -> str:
    traceback = problem.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return (
        f" at {os.path.basename(traceback.tb_frame.f_code.co_filename)}:{traceback.tb_lineno}"
        if traceback
        else ""
    )
