"""What a trace of cells says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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


@dataclass(frozen=True)
class StepWay:
    """How a trace crossed a step of an operator graph to one of its operands.

    ``by``: *stored*, what is kept of its lineage was read; *rerun*, the operator ran again (or had, for an earlier question), and ``mode`` is what it
    wrote its lineage in. ``why``: this way. ``read_s`` and ``rerun_s``: the seconds that reading and running again were estimated to take, None where the way was requested and nothing was estimated; ``took_s``: what it took,
    with what was given up. ``unproven``: why the cells of another run may be others than those of what is kept; empty: they are the same.
    """

    step: str
    operand: int
    direction: Literal["backward", "forward"]
    by: Literal["stored", "rerun"]
    why: str
    read_s: float | None
    rerun_s: float | None
    took_s: float
    mode: str
    unproven: str = ""

    def __str__(self) -> str:
        took = f"{self.took_s * 1e3:.3g} ms"
        if self.read_s is not None and self.rerun_s is not None:
            took += f"; reading {self.read_s * 1e3:.3g}, running again {self.rerun_s * 1e3:.3g} estimated"
        return f"{self.step} ({self.direction}, operand {self.operand}): {self.why} ({took})"
