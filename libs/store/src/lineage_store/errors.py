"""Errors of the store.

LineageError
├── NoSuchRowError                no row is what was asked for, and all were looked at
└── StoreError                    the store can't be opened or used
    ├── StoreUnavailableError     not now: the same may work later
    └── UnfitStoreError           not by a store of this kind
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class NoSuchRowError(LineageError):
    """No row of what was asked has the values that were given, or fulfils the condition; all were looked at."""


class StoreError(LineageError):
    """The store can't be opened or used; the message says what to do."""


class StoreUnavailableError(StoreError):
    """The store does not answer or refuses to write for now: try again later."""


class UnfitStoreError(StoreError):
    """Stores of another kind can do it; the message names them."""
