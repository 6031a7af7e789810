"""Applications that hold the materialised lineage of others' DataFrames, and whose they hold."""

SUFFIX = ".rows"
"""Of an application with materialised flows, behind the id of the application that wrote the outputs."""


def stands_for(app: str) -> str | None:
    """The application whose outputs' flows an application holds.

    The id alone decides: whether the store has that application, too, is for the caller to see.

    Args:
        app: an application's id.

    Returns:
        The id of the application that wrote the outputs; None where ``app`` is no materialised one.
    """
    base = app.removesuffix(SUFFIX)
    return base if base and base != app else None
