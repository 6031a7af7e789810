"""``scipy.linalg``: matrices as wholes, right sides by column, and functions that only move cells."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineage_arrays.calls import Call, Handler, Result, Results, operands
from lineage_arrays.functions.rearranging import Layout, gathered, moving, several
from lineage_arrays.functions.transforms import NO_NARROWER
from lineage_arrays.mappings import Boxes, Gather, Span, over_axes
from lineage_arrays.scipy_functions.footprints import exactly, whole
from lineage_arrays.scipy_functions.rules import (
    Given,
    Related,
    Row,
    Rule,
    all_cells,
    by_rules,
    known_shape,
)
from lineage_arrays.workflow import AnyArray

ZEROS = "zeros of the matrix are not looked at"


def each_matrix(core: int) -> Rule:
    """All cells of a matrix; of several, which stand in the last two axes, the one. ``core``: the axes of one result."""

    def rule(given: Given, value: AnyArray) -> Related:
        source = np.shape(next(iter(given.raw.values())).current)
        before = len(source) - 2
        if before < 1 or value.ndim != before + core or value.shape[:before] != source[:before]:
            return whole(source, value.shape)
        spans = [
            Span.point(axis) if axis < before else Span.all(length)
            for axis, length in enumerate(source)
        ]
        return [(Boxes(source, value.shape, tuple(spans)), NO_NARROWER)]

    return rule


def by_column(matrix: str) -> Rule:
    """The right side of a system of equations: its column."""

    def rule(given: Given, value: AnyArray) -> Related:
        source = given.shape("b")
        if len(source) != 2 or value.ndim != 2 or _ndim(given[matrix]) != 2:
            return whole(source, value.shape)
        return [(Boxes(source, value.shape, (Span.all(source[0]), Span.point(1))), NO_NARROWER)]

    return rule


def _ndim(matrix: Any) -> int:
    return np.ndim(matrix[0]) if isinstance(matrix, tuple) else np.ndim(matrix)


def triangular(given: Given, value: AnyArray) -> Related:
    """The right side of ``solve_triangular``: of its column the cells from which substitution comes to this one."""
    source = given.shape("b")
    if given.array("a").ndim != 2 or len(source) not in (1, 2) or value.shape != source:
        return whole(source, value.shape)
    from_above = bool(given["lower"]) == (given["trans"] in (0, "N"))
    rows = Span(0, 0, 0, 0, 1) if from_above else Span(0, source[0] - 1, 0, 1, 0)
    return [(Boxes(source, value.shape, (rows, Span.point(1))[: len(source)]), ZEROS)]


def norms(given: Given, value: AnyArray) -> Related:
    source, axis = given.shape("a"), given["axis"]
    axes = (
        range(len(source))
        if axis is None
        else [int(at) % len(source) for at in np.atleast_1d(axis)]
    )
    return exactly(over_axes(source, tuple(axes), value.shape, keepdims=bool(given["keepdims"])))


def two_vectors(names: tuple[str, str]) -> Handler:
    """``toeplitz``, ``hankel`` and ``leslie``: of one or two vectors."""

    def handler(call: Call) -> Result | Results:
        first, second = (call.argument(at, name) for at, name in enumerate(names))
        extra = [*call.args[2:], *(call.kwargs[name] for name in call.kwargs if name not in names)]
        if extra:
            raise call.refuse("further arguments", "give the two vectors alone")
        values = [first] if second is None else [first, second]
        return gathered(call, values, lambda mine: call.function(*mine), call.run())

    return handler


def columns_of_two(given: Given, value: AnyArray, side: int) -> Related:
    """``khatri_rao``: one cell of either side, of the column."""
    names = ("a", "b")
    if given.array(names[0]).ndim != 2 or given.array(names[1]).ndim != 2:
        return whole(given.shape(names[side]), value.shape)
    layout, other = Layout.of(given.array(names[side])), given.shape(names[1 - side])
    function = given.call.function

    def index() -> AnyArray:
        ones, mine = np.ones(other, np.int64), layout.positions()
        return np.asarray(function(mine, ones) if side == 0 else function(ones, mine))

    return exactly(Gather(layout.shape, value.shape, index))


def blocks(call: Call) -> Result | Results:
    """``block_diag``."""
    if any(not part.current.ndim for part in operands(list(call.args))):
        return all_cells(call)
    return several(call)


def _systems(matrix: str, *names: str) -> dict[str, Row]:
    row = Row(
        by_rules(b=by_column(matrix)),
        "superset",
        "all cells of the matrix, the column of the right side",
    )
    return dict.fromkeys(names, row)


_MOVES = "the one cell that it is; none where it is filled in"
_MATRIX = "all cells of the matrix"
_ALL = Row(known_shape, "superset", "all cells of each operand")
_NO_ARRAYS = Row(all_cells, "no lineage", "it takes numbers; of traced ones: superset, all cells")

_DECIDING = [
    "clarkson_woodruff_transform",
    "eig_banded",
    "eigh",
    "eigh_tridiagonal",
    "eigvals_banded",
    "eigvalsh_tridiagonal",
    "lstsq",
    "null_space",
    "orth",
    "qr_delete",
    "subspace_angles",
]
"""Functions that may choose by values how much they give: the rank, the eigenvalues of a range."""

_ALL_OF = [
    "bandwidth",
    "cdf2rdf",
    "cho_factor",
    "cho_solve_banded",
    "cholesky",
    "cholesky_banded",
    "companion",
    "coshm",
    "cosm",
    "cossin",
    "eig",
    "expm_cond",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "fractional_matrix_power",
    "hessenberg",
    "ishermitian",
    "issymmetric",
    "ldl",
    "logm",
    "lu",
    "lu_factor",
    "matmul_toeplitz",
    "matrix_balance",
    "ordqz",
    "orthogonal_procrustes",
    "polar",
    "qr",
    "qr_insert",
    "qr_multiply",
    "qr_update",
    "qz",
    "rq",
    "rsf2csf",
    "schur",
    "signm",
    "sinhm",
    "sinm",
    "solve_circulant",
    "solve_continuous_are",
    "solve_continuous_lyapunov",
    "solve_discrete_are",
    "solve_discrete_lyapunov",
    "solve_lyapunov",
    "solve_sylvester",
    "solve_toeplitz",
    "svd",
    "tanhm",
    "tanm",
]

TABLE: dict[str, Row] = {
    **dict.fromkeys(_ALL_OF, _ALL),
    **dict.fromkeys(_DECIDING, Row(all_cells, "superset", "all cells of each operand")),
    **dict.fromkeys(["inv", "pinv", "pinvh", "expm", "sqrtm"], Row(by_rules(a=each_matrix(2), A=each_matrix(2)), "superset", f"{_MATRIX}, of several the one")),
    "det": Row(by_rules(a=each_matrix(0)), "superset", f"{_MATRIX}, of several the one"),
    **dict.fromkeys(["eigvals", "eigvalsh", "svdvals"], Row(by_rules(a=each_matrix(1)), "superset", f"{_MATRIX}, of several the one")),
    **_systems("a", "solve"),
    **_systems("ab", "solve_banded", "solveh_banded"),
    **_systems("c_and_lower", "cho_solve"),
    **_systems("lu_and_piv", "lu_solve"),
    "solve_triangular": Row(by_rules(b=triangular), "superset", "all cells of the matrix; of the right side's column those up to it, or from it on"),
    "norm": Row(by_rules(a=norms), "exact", "all cells along the axes"),
    "block_diag": Row(blocks, "exact", _MOVES),
    "toeplitz": Row(two_vectors(("c", "r")), "exact", _MOVES),
    "hankel": Row(two_vectors(("c", "r")), "exact", _MOVES),
    "leslie": Row(two_vectors(("f", "s")), "exact", _MOVES),
    "circulant": Row(moving("c"), "exact", _MOVES),
    "convolution_matrix": Row(moving("a"), "exact", _MOVES),
    "diagsvd": Row(moving("s"), "exact", _MOVES),
    "khatri_rao": Row(
        by_rules(a=lambda given, value: columns_of_two(given, value, 0), b=lambda given, value: columns_of_two(given, value, 1)),
        "exact", "one cell of each operand",
    ),
    "funm": Row(known_shape, "superset", "all cells: a function of yours decides which it uses"),
    **dict.fromkeys(["dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal"], _NO_ARRAYS),
    **dict.fromkeys(["find_best_blas_type", "get_blas_funcs", "get_lapack_funcs"], Row(None, "no lineage", "it looks at shapes and types alone")),
}  # fmt: skip
