"""Captures on the SparkContext of the whole run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lineage_emitter import LineageContext
from tests.job_runs import STORE

Capture = Callable[..., LineageContext]


@pytest.fixture
def capture(spark_context: SparkContext, tmp_path: Path) -> Capture:
    """Begins a capture of its own on the one SparkContext; end it by ``with``."""

    def begin(**settings: Any) -> LineageContext:
        settings = {"store": f"sqlite:///{tmp_path / STORE}", "link": True} | settings
        return LineageContext(spark_context, **settings)

    return begin
