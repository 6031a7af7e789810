"""What the Spark that tests run in has: `make test` runs them in 4.1, `make test-spark` in another."""

from __future__ import annotations

import pyspark
import pytest

VERSION = ".".join(pyspark.__version__.split(".")[:2])
IN_35, IN_41 = VERSION == "3.5", VERSION == "4.1"
BEFORE_41 = VERSION in {"3.5", "4.0"}


def not_in_35(what: str) -> pytest.MarkDecorator:
    """A test, or one of its parameters, that needs what Spark 3.5 does not have."""
    return pytest.mark.skipif(IN_35, reason=f"Spark 3.5 has no {what}")


def not_before_41(what: str) -> pytest.MarkDecorator:
    """A test, or one of its parameters, that needs what Spark 3.5 and 4.0 do not have."""
    return pytest.mark.skipif(BEFORE_41, reason=f"Spark {VERSION} has no {what}")


def only_in(what: str, *versions: str) -> pytest.MarkDecorator:
    """A test of what is supported in some versions alone."""
    reason = f"{what} is not supported in Spark {VERSION}"
    return pytest.mark.skipif(VERSION not in versions, reason=reason)
