"""Unsigned 64-bit positions in stores whose integers are signed."""

from __future__ import annotations

BIAS = 1 << 63
"""Positions are stored less this, which keeps their order."""
INTEGER_MAX = (1 << 63) - 1
"""The largest count that is stored; larger ones are stored as this."""
