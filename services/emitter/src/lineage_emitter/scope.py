"""Which public operator is running: PySpark's operators are compositions of a dozen primitives.

The outermost operator names the nodes that its primitives make and gives them its call site. In a
suspended scope captured RDDs behave as plain ones: jobs that PySpark runs for itself.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from types import FrameType

_local = threading.local()
_suspended: ContextVar[bool] = ContextVar("suspended", default=False)
"""Threads that work for another one, as those of a trace, take its context with them."""
_OWN = ("lineage_emitter.", "pyspark.", "py4j.", "contextlib", "runpy")


@dataclass(frozen=True, slots=True)
class Operator:
    """A running operator. ``by_record``: it works record by record; None: not for it to say.

    ``nodes`` numbers the nodes that it makes.
    """

    name: str
    by_record: bool | None
    call_site: str
    call_path: str
    nodes: Iterator[int] = field(default_factory=count)


def _stack() -> list[Operator]:
    stack: list[Operator] | None = getattr(_local, "stack", None)
    if stack is None:
        stack = _local.stack = []
    return stack


@contextmanager
def operator(name: str, by_record: bool | None = None) -> Iterator[Operator]:
    """The body makes up the operator ``name``."""
    stack = _stack()
    site, path = (stack[0].call_site, stack[0].call_path) if stack else (call_site(), call_path())
    stack.append(Operator(name, by_record, site, path))
    try:
        yield stack[-1]
    finally:
        stack.pop()


@contextmanager
def resumed(running: Operator) -> Iterator[None]:
    """In the body, in a thread of ours, an operator of the program's thread is the outermost one."""
    stack = _stack()
    stack.append(running)
    try:
        yield
    finally:
        stack.pop()


@contextmanager
def suspended() -> Iterator[None]:
    """In the body captured RDDs behave as plain ones."""
    before = _suspended.get()
    _suspended.set(True)
    try:
        yield
    finally:
        _suspended.set(before)


def is_suspended() -> bool:
    """Whether captured RDDs behave as plain ones now."""
    return _suspended.get()


def outermost() -> Operator | None:
    """The operator that the user called, if one is running."""
    stack = _stack()
    return stack[0] if stack else None


def is_outermost(name: str) -> bool:
    """Whether the operator that the user called is called so."""
    running = outermost()
    return running is not None and running.name == name


def running_site() -> str:
    """The operator that the user called, and where: for people."""
    running = outermost()
    return f"at {call_site()}" if running is None else f"{running.name} at {running.call_site}"


def by_record_operator() -> Operator | None:
    """The outermost running operator that works record by record."""
    return next((op for op in _stack() if op.by_record), None)


def works_by_record() -> bool:
    """What the outermost operator that says so says of the primitive now being made."""
    return next((op.by_record for op in _stack() if op.by_record is not None), False)


def _is_own(frame: FrameType) -> bool:
    module = str(frame.f_globals.get("__name__", ""))
    return module.startswith(_OWN)


def call_site() -> str:
    """``file:line`` of the innermost frame that is neither PySpark's nor ours; empty where PySpark runs by itself, as batches of streams do."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        _is_own(frame) or frame.f_globals.get("__name__") == threading.__name__
    ):
        frame = frame.f_back
    if frame is None:
        return ""
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def call_path() -> str:
    """A digest of all calls of the program that are under way, down to the very call in a line.

    A second call with the same digest is the first one over again: in a loop.
    """
    digest = blake2b(digest_size=6)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not _is_own(frame):
            code = frame.f_code
            # Python 3.10 has the plain name alone.
            name = getattr(code, "co_qualname", code.co_name)
            at = (code.co_filename, name, code.co_firstlineno, frame.f_lasti)
            digest.update(repr(at).encode("utf-8", "backslashreplace"))
        frame = frame.f_back
    return digest.hexdigest()


def called_from_pyspark(depth: int = 2) -> str:
    """The PySpark function that called the public method, or "" when the user did."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith(
        ("lineage_emitter.", "contextlib")
    ):
        frame = frame.f_back
    if frame is None:
        return ""
    module = str(frame.f_globals.get("__name__", ""))
    return f"{module}.{frame.f_code.co_name}" if module.startswith("pyspark.") else ""
