"""What the Spark that tests run in has: `make test` runs them in 4.1, `make test-spark35` in 3.5."""

from __future__ import annotations

import pyspark
import pytest

IN_35 = pyspark.__version__.startswith("3.5.")


def not_in_35(what: str) -> pytest.MarkDecorator:
    """A test, or one of its parameters, that needs what Spark 3.5 does not have."""
    return pytest.mark.skipif(IN_35, reason=f"Spark 3.5 has no {what}")
