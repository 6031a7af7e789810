"""Why blocks of an application are inexact, as far as a verdict names it: a program may give each block another reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lineage_core.tracing.budget import current_budget

REASON_CHARS_MAX = 1_000
"""Maximum number of characters of a reason."""
REASONS_MAX = 20
"""Maximum number of reasons of one node."""


class Reasons(dict[str, tuple[str, ...]]):
    """Reasons by node: each inexact node is there."""


def read_reasons(
    count_bytes: Callable[[], int], read: Callable[[], Iterable[Sequence[Any]]]
) -> Reasons:
    """The reasons of inexact blocks, as much as the query may hold.

    Args:
        count_bytes: counts the bytes of what ``read`` reads.
        read: reads rows of a node, one of its first `REASONS_MAX` reasons, cut to `REASON_CHARS_MAX`, and the number of all its reasons.

    Raises:
        BudgetError: they are more than may be held, or the query has no time left.
    """
    budget = current_budget()
    reasons = Reasons()
    budget.hold_messages(reasons, count_bytes)
    of_node: dict[str, list[str]] = {}
    for node, reason, number in read():
        budget.check()
        listed = of_node.setdefault(node, [])
        listed.append(reason)
        if len(listed) == REASONS_MAX < number:
            listed.append(f"and {number - REASONS_MAX:,} more reasons")
    reasons.update((node, tuple(listed)) for node, listed in of_node.items())
    return reasons
