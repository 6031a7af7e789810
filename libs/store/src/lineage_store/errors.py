"""Errors of the store.

LineageError
└── StoreError    the store can't be opened or used
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class StoreError(LineageError):
    """The store can't be opened or used; the message says what to do."""
