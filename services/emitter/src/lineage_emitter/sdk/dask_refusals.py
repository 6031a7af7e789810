"""Refusals of what is not captured of Dask: each names what is refused, and what the program does instead."""

from __future__ import annotations

from typing import Any, NoReturn

from lineage_emitter.errors import UnsupportedOperatorError

COMPUTE_BAG = "compute the bag before this, and go on from its records"
COMPUTE_FRAME = "compute the DataFrame before this, and go on from its rows, with pandas or dask.dataframe.from_pandas"
COMPUTE_VALUE = "compute it first, and pass its result"
INSIDE = "make it inside of the captured block, and compute it by itself"
METHOD = "use its method compute, or dask.compute"
WRITE = "write it at once, uncompressed, into new files of a local folder, one for each partition"


def refuse(operator: str, *_: Any, way_out: str = COMPUTE_BAG, **__: Any) -> NoReturn:
    """Refuse an operator that is not captured.

    Args:
        operator: what is refused, and of what.
        way_out: what the program does instead.

    Raises:
        UnsupportedOperatorError: always.
    """
    raise UnsupportedOperatorError(operator, way_out)


def refuse_frame(operator: str) -> NoReturn:
    """Refuse an operator of DataFrames.

    Raises:
        UnsupportedOperatorError: always.
    """
    refuse(operator, way_out=COMPUTE_FRAME)


def refuse_file(operator: str) -> NoReturn:
    """Refuse a way to write files.

    Raises:
        UnsupportedOperatorError: always.
    """
    refuse(operator, way_out=WRITE)
