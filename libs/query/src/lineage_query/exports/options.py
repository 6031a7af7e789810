"""What a caller chooses of an export."""

from __future__ import annotations

from dataclasses import dataclass

DERIVED_ITEMS_MAX = 10_000
"""Items of an export that is built in memory with its derivations: at most some 100 MB then."""
PAIRS_PER_ITEM = 3


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """``in_between``: tables also list the items of the query and those in between, not only the results.

    ``texts``: with what rows look like. ``items_max``: items that PROV and GraphML take, with
    :data:`PAIRS_PER_ITEM` times as many derivations.
    """

    in_between: bool = False
    texts: bool = True
    items_max: int = DERIVED_ITEMS_MAX

    @property
    def pairs_max(self) -> int:
        """Derivations that go with ``items_max`` items."""
        return PAIRS_PER_ITEM * self.items_max
