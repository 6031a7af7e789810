"""What a trace of cells says about itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class TraceClaims:
    """What a trace of cells says about itself.

    ``exact``: these cells and no others; else ``superset_reasons`` says which operators may add some. ``complete``:
    no other cells; else ``incomplete_reasons`` says where lineage ends. ``chosen_by``: operators whose values chose
    among cells (a sort, a mask): the trace has the chosen cells, with ``choices=True`` all that took part.
    """

    superset_reasons: tuple[str, ...] = ()
    incomplete_reasons: tuple[str, ...] = ()
    chosen_by: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not self.superset_reasons

    @property
    def complete(self) -> bool:
        return not self.incomplete_reasons
