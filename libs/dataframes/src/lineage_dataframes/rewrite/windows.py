"""What a window function's value at a row is made from."""

from __future__ import annotations

from lineage_core.recipe.plan import Call, Over, Window, subexpressions_of
from lineage_dataframes.rewrite.expressions import SqlWriter

WHOLE_PARTITION = {"ntile", "percent_rank", "cume_dist"}
"""Functions over the whole partition, whatever the order."""


def window_functions(node: Window) -> list[Over]:
    """The window functions of a node; all have one partition and order."""
    return [o for one in node.expressions for o in subexpressions_of(one) if isinstance(o, Over)]


def _function_name(over: Over) -> str:
    """The function's name; none of a function that a recipe can't say."""
    return over.of.fn if isinstance(over.of, Call) else ""


BY_POSITION = {"row_number", "ntile", "lag", "lead", "nth_value"}
"""Functions that tell apart rows which the window's order does not."""

BY_ORDER = {"rank", "dense_rank", "percent_rank", "cume_dist"}
"""Functions that don't, though Spark gives them a frame by rows."""


def depends_on_ties(node: Window) -> bool:
    """Whether a value depends on how rows follow each other that the window's order does not tell apart."""
    return any(
        _function_name(one) in BY_POSITION
        or (
            isinstance(one.of, Call)
            and _function_name(one) not in BY_ORDER
            and one.frame is not None
            and one.frame.unit == "rows"
            and not (one.frame.lower is None and one.frame.upper is None)
        )
        for one in window_functions(node)
    )


RUNNING_FUNCTIONS = {"rank", "dense_rank", "row_number"}
"""Functions that look at the rows up to the current one and its peers."""


def is_running(node: Window) -> bool:
    """Whether no function of the node looks past the current row and its peers in the window's order."""
    return all(
        one.order
        and (
            _function_name(one) in RUNNING_FUNCTIONS
            or (
                one.frame is not None
                and one.frame.lower is None
                and one.frame.unit == "range"
                and getattr(one.frame.upper, "value", None) == "0"
            )
        )
        for one in window_functions(node)
    )


def window_keys(text: SqlWriter, node: Window) -> list[str]:
    """What names a row's frame: the partition's keys and, where that is exact, the row's rank in it."""
    over = window_functions(node)[0]
    keys = [text.of(one) for one in over.partition]
    if is_running(node):
        keys.append(window_rank(text, node))
    return keys


def window_rank(text: SqlWriter, node: Window) -> str:
    """The rank of a row in the window's order."""
    over = window_functions(node)[0]
    order = ", ".join(text.sort_key(key) for key in over.order)
    partition = ", ".join(text.of(one) for one in over.partition)
    return f"rank() OVER ({f'PARTITION BY {partition} ' if partition else ''}ORDER BY {order})"


def reads_some_rows(node: Window) -> bool:
    """Whether a function of the node looks at certain rows, not at its whole partition."""
    return not all(
        not one.order
        or _function_name(one) in WHOLE_PARTITION
        or (one.frame is not None and one.frame.lower is None and one.frame.upper is None)
        for one in window_functions(node)
    )
