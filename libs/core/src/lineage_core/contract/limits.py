"""Capture that a user's rules limit to some records."""

from __future__ import annotations

LIMITED_REASON = "some records have no lineage, by choice: a rule limits capture"
"""Of flows that leave out records: fewer inputs than were used, not more."""
