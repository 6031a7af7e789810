"""Call sites in Spark's UI, event log and history: those of the program, as without capture.

PySpark names a job and the RDDs of a shuffle by the outermost call of its own and the line that made it.
Captured RDDs stand between the program and PySpark: their frames count as PySpark's.
"""

from __future__ import annotations

import functools
import os
import sys
from types import FrameType

import pyspark
from pyspark import traceback_utils
from pyspark.traceback_utils import CallSite

from lineage_emitter import scope

_PYSPARK = os.path.dirname(pyspark.__file__) + os.sep
_RUNNER = "lineage_emitter.autorun"


@functools.cache
def install() -> None:
    """Name jobs by the program's own calls, from now on; a second call changes nothing."""
    stock = traceback_utils.first_spark_call

    def first_spark_call() -> CallSite | None:
        return first_call() or stock()  # type: ignore[no-untyped-call]

    traceback_utils.first_spark_call = first_spark_call


def first_call() -> CallSite | None:
    """The program's outermost call that came to us, with the name that it has there; None: there is none."""
    frames = _of_program()
    first = next((at for at, frame in enumerate(frames) if _is_spark(frame)), 0)
    if not first or not any(_is_ours(frame) for frame in frames[first:]):
        return None
    caller = frames[first - 1]
    name = _operator() or next(
        (frame.f_code.co_name for frame in frames[first:] if not _is_ours(frame)), ""
    )
    return CallSite(function=name, file=caller.f_code.co_filename, linenum=caller.f_lineno)


def _operator() -> str:
    """The public method that is running, without the class that a DataFrame's has before it."""
    running = scope.outermost()
    return "" if running is None else running.name.rpartition(".")[2]


def _of_program() -> list[FrameType]:
    """The calls under way, outermost first, without those that run the program itself."""
    frames: list[FrameType] = []
    # Without this function's own frame: a list that holds its own frame keeps all running calls alive.
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if _module(frame) == _RUNNER and frame.f_code.co_name == "_execute":
            break
        frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def _is_spark(frame: FrameType) -> bool:
    return _is_ours(frame) or frame.f_code.co_filename.startswith(_PYSPARK)


def _is_ours(frame: FrameType) -> bool:
    return _module(frame).startswith("lineage_emitter.")


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
