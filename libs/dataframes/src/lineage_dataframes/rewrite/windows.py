"""What a window function's value at a row is made from."""

from __future__ import annotations

from lineage_core.recipe.plan import Call, Over, Window, subexpressions_of
from lineage_dataframes.rewrite.expressions import SqlWriter

PARTITION_SIZE_FUNCTIONS = {"ntile", "percent_rank", "cume_dist"}
"""Functions over the whole partition, whatever the order."""


def window_functions(node: Window) -> list[Over]:
    """The window functions of a node; all have one partition and order."""
    return [
        o
        for expression in node.expressions
        for o in subexpressions_of(expression)
        if isinstance(o, Over)
    ]


def _function_name(over: Over) -> str:
    """The function's name; none of a function that a recipe can't say."""
    return over.of.fn if isinstance(over.of, Call) else ""


BY_POSITION = {"row_number", "ntile", "lag", "lead", "nth_value"}
"""Functions that distinguish rows which the window's order does not."""

BY_ORDER = {"rank", "dense_rank", "percent_rank", "cume_dist"}
"""Functions that don't, though Spark gives them a frame by rows."""


def depends_on_ties(node: Window) -> bool:
    """Whether a value depends on how rows follow each other that the window's order does not distinguish."""
    return any(
        _function_name(window_function) in BY_POSITION
        or (
            isinstance(window_function.of, Call)
            and _function_name(window_function) not in BY_ORDER
            and window_function.frame is not None
            and window_function.frame.unit == "rows"
            and not (window_function.frame.lower is None and window_function.frame.upper is None)
        )
        for window_function in window_functions(node)
    )


RUNNING_FUNCTIONS = {"rank", "dense_rank", "row_number"}
"""Functions that look at the rows up to the current one and its peers."""


def is_running(node: Window) -> bool:
    """Whether no function of the node looks past the current row and its peers in the window's order."""
    return all(
        window_function.order
        and (
            _function_name(window_function) in RUNNING_FUNCTIONS
            or (
                window_function.frame is not None
                and window_function.frame.lower is None
                and window_function.frame.unit == "range"
                and getattr(window_function.frame.upper, "value", None) == "0"
            )
        )
        for window_function in window_functions(node)
    )


def window_keys(writer: SqlWriter, node: Window) -> list[str]:
    """What names a row's frame: the partition's keys and, where that is exact, the row's rank in it."""
    window_function = window_functions(node)[0]
    keys = [writer.of(term) for term in window_function.partition]
    if is_running(node):
        keys.append(window_rank(writer, node))
    return keys


def window_rank(writer: SqlWriter, node: Window) -> str:
    """The rank of a row in the window's order."""
    window_function = window_functions(node)[0]
    order = ", ".join(writer.sort_key(key) for key in window_function.order)
    partition = ", ".join(writer.of(term) for term in window_function.partition)
    return f"rank() OVER ({f'PARTITION BY {partition} ' if partition else ''}ORDER BY {order})"


def reads_some_rows(node: Window) -> bool:
    """Whether a function of the node looks at certain rows, not at its whole partition."""
    return not all(
        not window_function.order
        or _function_name(window_function) in PARTITION_SIZE_FUNCTIONS
        or (
            window_function.frame is not None
            and window_function.frame.lower is None
            and window_function.frame.upper is None
        )
        for window_function in window_functions(node)
    )
