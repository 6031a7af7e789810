"""How many examples a slow property gets."""

from __future__ import annotations

from hypothesis import settings

DEEP_FACTOR = 25


def examples(count: int) -> int:
    """``count`` under the profile ``ci``, many times that under ``deep``."""
    deep = settings.default is not None and not settings.default.derandomize
    return count * DEEP_FACTOR if deep else count
