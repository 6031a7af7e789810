"""What a failed action failed of: behind the JVM's error lies one of the program's own."""

from __future__ import annotations

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
        # The stack trace is asked of the JVM, which may be what failed.
        text = str(problem)
    except Exception:
        return name
    raised = [found["type"] for found in _TRACEBACK.finditer(text)]
    # An error raised while another was handled comes last: it is the one that ended the task.
    return f"{raised[-1]} ({name})" if raised else name
