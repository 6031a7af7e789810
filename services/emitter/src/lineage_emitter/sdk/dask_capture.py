"""Capture of Dask's bags and delayed calls. Dask itself is loaded when they are captured: the extra ``dask`` brings it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from lineage_core.environment.extras import missing
from lineage_emitter.sdk.api import LineageApi


@contextmanager
def capture_dask(api: LineageApi) -> Iterator[None]:
    """Capture bags and delayed calls of the program inside the ``with`` block, which runs as it is.

    Args:
        api: The application that reports the lineage.

    Yields:
        Nothing.

    Raises:
        MissingExtraError: Dask is not installed.
    """
    try:
        adapter = import_module("lineage_emitter.sdk.dask_adapter")
    except ModuleNotFoundError as problem:
        raise missing(problem) or problem from None
    with adapter.replace_operators(api):
        yield
