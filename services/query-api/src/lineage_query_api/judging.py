"""Verdicts for one list, within the time that the list may take."""

from __future__ import annotations

import time

from lineage_core.contract.verdict import Verdict
from lineage_query_api.lineages import Lineages

JUDGED_S = 5.0
"""How long verdicts of a list may take together."""
JUDGED_EACH_S = 1.0
JUDGED_ANYWAY_S = 0.1
"""How long one may take where that time is over: most take some milliseconds."""


class Judge:
    """Verdicts for one list: one application that said very much, or several, take the list's time from no other."""

    def __init__(self, store: Lineages) -> None:
        self._store = store
        self._remaining_s = JUDGED_S
        self._verdicts: dict[str, Verdict | None] = {}

    def verdict(self, app: str) -> Verdict | None:
        """The verdict on an application; None: it takes too long."""
        if app not in self._verdicts:
            started = time.monotonic()
            seconds = min(JUDGED_EACH_S, max(self._remaining_s, JUDGED_ANYWAY_S))
            self._verdicts[app] = self._store.verdict_within(app, seconds)
            self._remaining_s -= time.monotonic() - started
        return self._verdicts[app]

    def is_complete(self, app: str) -> bool:
        """Whether an application is known to be complete."""
        verdict = self.verdict(app)
        return verdict is not None and verdict.complete
