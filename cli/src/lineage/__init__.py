"""Record-level data lineage for PySpark: capture in a program, and queries over the captured lineage.

Names are loaded when they are used: ``import lineage`` alone loads neither PySpark nor Arrow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage.questions import trace, verify
    from lineage_core.errors import LineageError, MissingExtraError
    from lineage_core.release import __version__
    from lineage_core.tracing.trace_result import TraceError
    from lineage_emitter.attaching import attach, detach
    from lineage_emitter.capturing_builder import builder
    from lineage_emitter.context import LineageContext
    from lineage_emitter.driver.partition_rule import exact
    from lineage_emitter.errors import (
        CaptureFailedError,
        ConnectSessionError,
        SettingsError,
        TracingError,
        UnsupportedOperatorError,
    )
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.sdk.dask_capture import capture_dask
    from lineage_store.errors import StoreError

__all__ = [
    "CaptureFailedError",
    "ConnectSessionError",
    "LineageApi",
    "LineageContext",
    "LineageError",
    "MissingExtraError",
    "SettingsError",
    "StoreError",
    "TraceError",
    "TracingError",
    "UnsupportedOperatorError",
    "__version__",
    "attach",
    "builder",
    "capture_dask",
    "detach",
    "exact",
    "trace",
    "verify",
]

_HOMES = {
    "CaptureFailedError": "lineage_emitter.errors",
    "ConnectSessionError": "lineage_emitter.errors",
    "LineageApi": "lineage_emitter.sdk.api",
    "LineageContext": "lineage_emitter.context",
    "LineageError": "lineage_core.errors",
    "MissingExtraError": "lineage_core.errors",
    "SettingsError": "lineage_emitter.errors",
    "StoreError": "lineage_store.errors",
    "TraceError": "lineage_core.tracing.trace_result",
    "TracingError": "lineage_emitter.errors",
    "UnsupportedOperatorError": "lineage_emitter.errors",
    "__version__": "lineage_core.release",
    "attach": "lineage_emitter.attaching",
    "builder": "lineage_emitter.capturing_builder",
    "capture_dask": "lineage_emitter.sdk.dask_capture",
    "detach": "lineage_emitter.attaching",
    "exact": "lineage_emitter.driver.partition_rule",
    "trace": "lineage.questions",
    "verify": "lineage.questions",
}


def __getattr__(name: str) -> Any:
    """Load a public name from where it is defined.

    Args:
        name: Of the attribute.

    Returns:
        The attribute; it is kept, so that it is loaded once.

    Raises:
        AttributeError: The name is not a public one.
        MissingExtraError: It needs a package that is not installed; the message names the extra that brings it.
    """
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = importlib.import_module(_HOMES[name])
    except ModuleNotFoundError as problem:
        from lineage_core.environment.extras import missing

        raise missing(problem) or problem from None
    value = globals()[name] = getattr(module, name)
    return value


def load_ipython_extension(ipython: Any) -> None:
    """Add the magics `%lineage` and `%%lineage` to a notebook: `%load_ext lineage` calls this.

    Args:
        ipython: The notebook's interactive shell.
    """
    from lineage.notebook import add_magics

    add_magics(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Remove the magics: `%unload_ext lineage` calls this. Capture continues until `lineage.detach()`.

    Args:
        ipython: The notebook's interactive shell.
    """
    from lineage.notebook import remove_magics

    remove_magics(ipython)


def __dir__() -> list[str]:
    """List the public names, loaded or not.

    Returns:
        Their names beside those that the module holds.
    """
    return sorted({*globals(), *__all__})
