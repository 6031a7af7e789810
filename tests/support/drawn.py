"""Cases of which `make test` runs some, and `make test-long` the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def drawn(cases: Iterable[str], every: int) -> list[Any]:
    """Cases to parametrize a test with: all but every ``every``-th, the first among them, are ``long``."""
    return [
        pytest.param(case, marks=[pytest.mark.long] if number % every else [])
        for number, case in enumerate(cases)
    ]
