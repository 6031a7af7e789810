"""All functions of NumPy whose lineage is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lineage_arrays.calls import Handler
from lineage_arrays.functions import (
    choosing,
    elementwise,
    products,
    rearranging,
    reductions,
    texts,
    transforms,
)

HANDLERS: dict[Callable[..., Any], Handler] = {
    **transforms.TABLE,
    **elementwise.TABLE,
    **rearranging.TABLE,
    **reductions.TABLE,
    **products.TABLE,
    **choosing.TABLE,
    **texts.TABLE,
}

WITHOUT_VALUES = frozenset(
    {
        np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type, np.can_cast, np.min_scalar_type,
        np.common_type, np.may_share_memory, np.shares_memory, np.zeros_like, np.ones_like, np.empty_like, np.einsum_path,
        np.diag_indices_from, np.tril_indices_from, np.triu_indices_from,
    }
)  # fmt: skip
"""Functions that look at shapes and types alone: what they give has no lineage."""

GIVING_SIZES: frozenset[Callable[..., Any]] = frozenset(
    {
        np.shape, np.size, np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.einsum_path, np.diag_indices_from,
        np.tril_indices_from, np.triu_indices_from, np.unstack,
    }
)  # fmt: skip
"""Functions whose plain results, or how many these are, say how large an array is."""

GIVING_WIDTHS: frozenset[Callable[..., Any]] = frozenset(
    {np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.result_type, np.min_scalar_type}
)
"""Functions whose plain results say how wide texts are."""

CUTTING: frozenset[Callable[..., Any]] = frozenset({np.insert, np.pad})
"""Functions that cut the texts which they put between others to the width of these."""

LEAKING = frozenset(
    {
        np.array_equal, np.array_equiv, np.allclose, np.array_repr, np.array_str, np.array2string, np.save, np.savez,
        np.savez_compressed, np.savetxt, np.datetime_as_string,
    }
)  # fmt: skip
"""Functions that take values out of the workflow: a truth value, a text, a file."""

CREATING: frozenset[Callable[..., Any]] = frozenset(
    {
        np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.require, np.zeros, np.ones, np.empty,
        np.full, np.arange, np.eye, np.identity, np.tri,
    }
)  # fmt: skip
"""Functions with ``like=``, which alone dispatches to a traced array."""
