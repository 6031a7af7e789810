"""Whether an action may have read just some rows of a leaf, which leaves no sign of which."""

from __future__ import annotations

from collections.abc import Sequence

from lineage_core.recipe.document import Output
from lineage_core.recipe.names import TO_RDD
from lineage_core.recipe.plan import (
    Aggregate,
    Limit,
    Node,
    PythonRows,
    Sort,
    Window,
    input_nodes_of,
)

ACTIONS_THAT_RETURN_EARLY = {"", TO_RDD, "DataFrame.toLocalIterator", "DataFrame.foreachPartition"}
"""Actions that read rows when they have returned, or as many as the program's function requests; none at all."""


def read_partially(plan: Sequence[Node], node_number: int, output: Output) -> bool:
    """Whether rows of the node at ``place`` may be left unread.

    What groups or sorts reads all of its input before it gives a row, and so does a subquery for one value; other
    nodes read as far as those above them ask. An action that gives some rows is planned anew: all may differ then.
    """
    if output.limit is not None or output.action in ACTIONS_THAT_RETURN_EARLY:
        return True
    users = [at for at, node in enumerate(plan) if node_number in input_nodes_of(node)]
    return any(
        _stops(plan[at]) or (not _reads_all(plan[at]) and read_partially(plan, at, output))
        for at in users
    )


def _stops(node: Node) -> bool:
    return isinstance(node, Limit) or (isinstance(node, PythonRows) and not node.keys)


def _reads_all(node: Node) -> bool:
    return isinstance(node, Aggregate | Sort | Window | PythonRows)
