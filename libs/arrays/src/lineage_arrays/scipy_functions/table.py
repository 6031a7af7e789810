"""All functions of SciPy whose lineage is known, by module and name."""

from __future__ import annotations

from collections.abc import Mapping

from lineage_arrays.scipy_functions import (
    filters,
    interpolating,
    matrices,
    measuring,
    orders,
    signal_table,
)
from lineage_arrays.scipy_functions.rules import Row

TABLES: Mapping[str, Mapping[str, Row]] = {
    "ndimage": {**filters.TABLE, **orders.TABLE, **interpolating.TABLE, **measuring.TABLE},
    "signal": signal_table.TABLE,
    "linalg": matrices.TABLE,
}
