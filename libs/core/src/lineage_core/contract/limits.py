"""Capture that a user's rules limit to some records, and bounds of what a user can set."""

from __future__ import annotations

LIMITED_REASON = "some records have no lineage, by choice: a rule limits capture"
"""Of flows that leave out records: fewer inputs than were used, not more."""
SET_ASIDE_MAX = 100_000
"""The most records that one task may set aside, whatever the user says."""
