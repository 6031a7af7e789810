"""What an output row would be without each of the rows that it was made from.

For a row that is one group of a plan's last aggregate, in closed form (`combined_groups`). For other rows the plan runs again without each row in turn, as a replay does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lineage_core.tracing.budget import current_budget
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.combined_groups import NoClosedFormError, Witness, combined_group
from lineage_dataframes.trace.held_rows import SourceRows
from lineage_dataframes.trace.replay import COMBINED_MAX, Replayer, without


@dataclass(frozen=True)
class Influence:
    """What the row would be without ``witness``; None: it would not be there. ``sure``: by column, whether Spark gives just this value."""

    witness: Witness
    values: tuple[Any, ...] | None
    sure: tuple[bool, ...]


@dataclass(frozen=True)
class Influences:
    """The influence of witnesses on a row, the first of ``witnesses``. ``uncertain``: why values may come out otherwise.

    ``why``: why there is no closed form; empty: it is one.
    """

    columns: tuple[str, ...]
    before: tuple[Any, ...]
    rows: tuple[Influence, ...]
    witnesses: int
    how: Literal["closed form", "re-execution"]
    why: str
    uncertain: tuple[str, ...]


def influences(replayer: Replayer, runs_max: int) -> Influences:
    """The influence of each witness of the requested row.

    Args:
        replayer: of one row.
        runs_max: where there is no closed form, so many witnesses are left out, one after the other.

    Raises:
        RefusedError: several rows are requested, or the plan can't be computed without a row.
        ChangedSourceError: a source was written meanwhile.
        BudgetError: it takes more than the query may.
    """
    witnesses = _witnesses(replayer)
    try:
        return _closed(replayer, witnesses, COMBINED_MAX)
    except NoClosedFormError as reason:
        why = str(reason)
    rows = tuple(_by_running(replayer, witnesses[:runs_max]))
    before = replayer.requested[0].values
    uncertain = replayer.uncertain
    return Influences(
        replayer.columns, before, rows, len(witnesses), "re-execution", why, uncertain
    )


def influences_in_closed_form(replayer: Replayer, combined_max: int = COMBINED_MAX) -> Influences:
    """The influence of each witness of the requested row, without running the plan again.

    Args:
        replayer: of one row.
        combined_max: rows of its group whose values are read.

    Raises:
        RefusedError: several rows are requested, there are more witnesses, or no closed form.
        ChangedSourceError: a source was written meanwhile.
        BudgetError: it takes more than the query may.
    """
    witnesses = _witnesses(replayer)
    if len(witnesses) > combined_max:
        raise RefusedError(f"the row is made from more than {combined_max:,} rows")
    try:
        return _closed(replayer, witnesses, combined_max)
    except NoClosedFormError as reason:
        raise RefusedError(f"the influence of rows has no closed form here: {reason}") from reason


def _witnesses(replayer: Replayer) -> list[Witness]:
    if len(replayer.requested) != 1:
        raise RefusedError(
            f"the influence on one row is computed, and these are {len(replayer.requested):,}"
        )
    return sorted(
        {
            (path, at)
            for (_, path), ordinals in replayer.witnesses.items()
            for at in ordinals.tolist()
        }
    )


# -- in closed form --------------------------------------------------------------------------------


def _closed(replayer: Replayer, witnesses: Sequence[Witness], combined_max: int) -> Influences:
    rows = tuple(_in_closed_form(replayer, witnesses, combined_max))
    before = replayer.requested[0].values
    return Influences(replayer.columns, before, rows, len(witnesses), "closed form", "", ())


def _in_closed_form(
    replayer: Replayer, witnesses: Sequence[Witness], combined_max: int
) -> Iterator[Influence]:
    group = combined_group(replayer, witnesses, combined_max)
    for witness in witnesses:
        current_budget().check()
        values, sure = group.without(group.rows_of[witness])
        yield Influence(witness, values, sure)


# -- by running the plan again ---------------------------------------------------------------------


def _by_running(replayer: Replayer, witnesses: Sequence[Witness]) -> Iterator[Influence]:
    identity = replayer.requested[0].identity
    sources = sorted({source for source, _ in replayer.witnesses})
    if replayer.reasons:
        for witness in witnesses:
            yield _one_run(replayer, witness, identity, sources, others=True)
        return
    with replayer.holding_witnesses():
        for witness in witnesses:
            yield _one_run(replayer, witness, identity, sources, others=False)


def _one_run(
    replayer: Replayer,
    witness: Witness,
    identity: tuple[Any, ...],
    sources: Sequence[int],
    *,
    others: bool,
) -> Influence:
    current_budget().check()
    path, ordinal = witness
    left_out: SourceRows = {(source, path): np.array([ordinal], np.uint64) for source in sources}
    rows = left_out if others else without(replayer.witnesses, left_out)[0]
    found = [row for row in replayer.outcome(rows, others=others) if row.identity == identity]
    if len(found) > 1:
        raise RefusedError("several rows are made from the same rows: which one stays is not known")
    sure = (True,) * len(replayer.columns)
    return Influence(witness, found[0].values if found else None, sure)
