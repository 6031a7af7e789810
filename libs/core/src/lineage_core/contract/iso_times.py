"""Reads times of ISO 8601 as Python 3.11 does, in 3.10 as well."""

from __future__ import annotations

import re
import sys
from datetime import datetime

_FRACTION = re.compile(r"\.\d{1,6}(?!\d)")


def iso_time(text: str) -> datetime:
    """A time such as ``2026-11-26T04:10:00.25Z``.

    Raises:
        ValueError: it is none.
    """
    return datetime.fromisoformat(text if sys.version_info >= (3, 11) else written_out(text))


def written_out(text: str) -> str:
    """The same time with a fraction of six digits and ``+00:00`` for ``Z``: Python 3.10 reads no other forms."""
    if text.endswith("Z"):
        text = text[:-1] + "+00:00"
    return _FRACTION.sub(lambda fraction: fraction[0].ljust(7, "0"), text)
