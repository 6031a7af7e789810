"""Capture for every program of a site that requests it: ``spark-submit --conf spark.lineage.enabled=true job.py``.

Imported by Python itself before the program, from a ``sitecustomize.py`` or a ``.pth`` file with the line
``import lineage_emitter.preload``. It loads neither PySpark nor anything that capture needs: until a SparkContext starts whose
configuration requests capture in so many words, nothing is changed. What goes wrong is said on stderr, and the program goes on.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from lineage_emitter.module_watch import call_on_load

KEY = "spark.lineage.enabled"
ON_ERROR = "spark.lineage.on.error"
MODULES = ("pyspark.core.context", "pyspark.context")
"""Where SparkContext is defined, in PySpark 4 and 3."""


def install() -> None:
    """Attach capture to SparkContexts that request it, from now on; a second call changes nothing."""
    for module in MODULES:
        call_on_load(module, _watch_contexts)


def _watch_contexts(module: Any) -> None:
    context = module.SparkContext
    stock = context._do_init
    if hasattr(stock, "lineage_preload"):
        return

    @functools.wraps(stock)
    def initialise(self: Any, *arguments: Any, **named: Any) -> None:
        stock(self, *arguments, **named)
        if str(self._conf.get(KEY, "")).lower() == "true":
            _attach(self)

    initialise.lineage_preload = True  # type: ignore[attr-defined]
    context._do_init = initialise


def _attach(sc: Any) -> None:
    try:
        from lineage_emitter.attaching import attach
        from lineage_emitter.errors import CaptureFailedError
        from lineage_store.run_notes import note_uncaptured
    except ImportError as problem:
        sys.stderr.write(f"lineage: not captured: {problem}\n")
        return
    try:
        attach(sc)
    except CaptureFailedError:
        # The settings want the job to fail.
        raise
    except Exception as problem:
        if sc._conf.get(ON_ERROR, os.environ.get("LINEAGE_ON_ERROR", "")).lower() == "fail":
            raise
        sys.stderr.write(f"lineage: not captured: {problem}\n")
        note_uncaptured(str(problem))


install()
