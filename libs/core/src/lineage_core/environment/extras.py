"""Packages that come with an extra of the distribution, and may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lineage_core.errors import LineageError, MissingExtraError

DISTRIBUTION = "lineage-master"
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "spark": ("pyspark", "py4j"),
    "kafka": ("confluent_kafka",),
    "neo4j": ("neo4j",),
    "lake": ("deltalake", "arro3", "scipy"),
    "openlineage": ("openlineage", "attr", "requests"),
    "exports": ("networkx", "prov"),
    "dask": ("dask", "distributed"),
    "fits": ("astropy",),
    "hdf5": ("h5py",),
    "images": ("PIL",),
    "netcdf": ("netCDF4",),
    "xarray": ("xarray",),
    "zarr": ("zarr",),
    "server": (
        "fastapi", "uvicorn", "starlette", "anyio", "limits", "jwt", "h11", "redis", "structlog", "aiohttp",
        "prometheus_client",
    ),
    "pipeline": ("faust", "aiokafka", "mode"),
}  # fmt: skip
"""The modules that each extra brings, by extra."""


def extra_of(module: str) -> str | None:
    """The extra that brings a module; None: none does."""
    package = module.partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if package in modules), None)


def missing(problem: ImportError, extra: str | None = None) -> MissingExtraError | None:
    """The error for a module that is not installed; None if no extra provides it.

    ``extra``: the extra that provides all that is needed here, if another one provides the module alone.
    """
    module = problem.name or ""
    providing_extra = extra_of(module)
    if providing_extra is None:
        return None
    return _missing(
        f"{module.partition('.')[0]} is not installed", module, extra or providing_extra
    )


def needed(module: str, feature: str, *, error: type[LineageError]) -> Any:
    """A module of an extra, which ``feature`` needs.

    Raises:
        LineageError: it is not installed; of the class ``error``.
    """
    try:
        return import_module(module)
    except ImportError as problem:
        extra = extra_of(module)
        assert extra is not None, module
        message = f"{feature} needs the package {module.partition('.')[0]}"
        raise error(str(_missing(message, module, extra))) from problem


def require(module: str, feature: str) -> None:
    """Check that a module of an extra is installed, without loading it; ``feature`` needs it.

    Raises:
        MissingExtraError: it is not.
    """
    extra = extra_of(module)
    assert extra is not None, module
    if find_spec(module) is None:
        raise _missing(f"{feature} needs the package {module}", module, extra)


def _missing(message: str, module: str, extra: str) -> MissingExtraError:
    text = f"{message}: the extra [{extra}] of {DISTRIBUTION} brings it (`make setup` in a checkout brings all)"
    return MissingExtraError(text, module, extra)
