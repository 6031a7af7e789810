"""What a trace goes through of NumPy's other modules: most of them take values by `np.asarray`, which a recording knows.

A function that is not named has the coverage that is usual in its module. `tests/unit/arrays/test_numpy_submodules.py` calls each
with a traced array in the place of each of its arrays, and holds the claim against what happens.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.lib.recfunctions
import numpy.testing

Kind: TypeAlias = Literal["exact", "chosen", "superset", "refused", "leaves", "no lineage"]


@dataclass(frozen=True)
class Coverage:
    """Of one function: how it is traced, and which cells a result's cell has, or what to do instead."""

    kind: Kind
    cells: str

    def line(self, name: str) -> str:
        """Its row of the reference page."""
        return f"| `{name}` | {self.kind} | {self.cells} |"


LAID = Coverage("exact", "the cell of each operand that broadcasting lays there")
LEAVING = Coverage("leaves", "values leave: traces of what is made of them say so")
_NO_ARRAYS = Coverage("no lineage", "it takes no arrays, or makes plain ones")
_SHAPES = Coverage(
    "no lineage", "it looks at shapes and types alone (a size that values decided: leaves)"
)
_BY_TYPE = Coverage(
    "chosen",
    "the cell of each operand; chosen among all, as one cell outside of the domain makes all complex",
)
_REFUSED = Coverage(
    "refused",
    "np.asarray(x) ends its lineage; name what comes back by recording.source(name, array)",
)
_MEMORY = Coverage(
    "refused",
    "NumPy's own error: it takes the memory of a plain array; np.asarray(x) ends its lineage",
)


@dataclass(frozen=True)
class Submodule:
    """A module, or a class with methods.

    Attributes:
        title: of its section.
        text: below that.
        prefix: of the names, as people write them behind ``numpy.``.
        home: what has the functions.
        usual: how they are traced.
        others: those that are traced in another way, by a regular expression of their whole names.
        classes: that make something of arrays, and so have a row, too.
        listed: the names, where the module does not say which are public.
    """

    title: str
    text: str
    prefix: str
    home: Any
    usual: Coverage = LEAVING
    others: Mapping[str, Coverage] = field(default_factory=dict)
    classes: frozenset[str] = frozenset()
    listed: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Of its public functions, and of classes that make something of arrays."""
        public = self.listed or getattr(self.home, "__all__", ())
        return sorted(
            name
            for name in public
            if not name.startswith("_")
            and callable(getattr(self.home, name, None))
            and (name in self.classes or not isinstance(getattr(self.home, name), type))
        )

    def coverage(self, name: str) -> Coverage:
        """How a function is traced."""
        return next(
            (found for names, found in self.others.items() if re.fullmatch(names, name)), self.usual
        )


_TEXT = Coverage(
    "exact",
    "the cell of each operand that broadcasting lays there; beside a first one without lineage the others leave",
)
_TEXTS = {"center|expandtabs|[lr]just|multiply|r?partition|replace|zfill": _TEXT}
_POINT = Coverage(
    "exact", "the point's cell; coefficients leave (those of several axes are refused)"
)
_POLYNOMIAL: dict[str, Coverage] = {
    ".*weight": LAID,
    "(poly|cheb|leg|herm|herme|lag)val": _POINT,
    "polyvalfromroots": Coverage("refused", "np.prod(x[..., None] - roots, axis=-1); roots alone leave"),
    "polyval2d": Coverage("refused", "sums of x**i * y**j; coefficients alone leave"),
    ".*grid[23]d": Coverage("refused", "polyval along each axis; points other than the last, and coefficients, leave"),
    ".*(pts1|pts2|gauss|interpolate)": _NO_ARRAYS,
}  # fmt: skip
_DRAWN: dict[str, Coverage] = {
    "permutation": Coverage("refused", "NumPy's own error: x[rng.permutation(len(x))]; of several axes values leave"),
    "shuffle": Coverage("exact", "the one cell that it is, in a new version of the array"),
    "get_state|set_state|bytes|default_rng|rand|randn|random|random_sample|ranf|sample|seed|spawn|standard_(cauchy|exponential|normal)": _NO_ARRAYS,
}  # fmt: skip
_NOT_WRITTEN = "NumPy's own error: the values of traced arrays are not written to"

SUBMODULES: tuple[Submodule, ...] = (
    Submodule(
        "Texts: `numpy.strings`",
        "The type of a result is as wide as its longest text needs, or as the operand is. Texts that are cut to a width that values decided (`upper` of `ß`, a longer `sep` of `partition`, plain `old` and `new` of `replace`) make a trace incomplete, which says so.",
        "strings.",
        np.strings,
        LAID,
        _TEXTS,
    ),
    Submodule(
        "Texts: `numpy.char`",
        "As `numpy.strings`; a `chararray` has no lineage.",
        "char.",
        np.char,
        LAID,
        {
            **_TEXTS,
            "array|asarray": Coverage("leaves", "values leave: keep the array, and call numpy.strings"),
            "r?split|splitlines": Coverage("refused", "it gives lists: np.strings.partition gives texts"),
            "compare_chararrays": Coverage("leaves", "values leave: np.char.equal and its like are traced"),
        },
    ),
    Submodule(
        "Real or complex: `numpy.emath`",
        "`numpy.lib.scimath` has the same functions. Where a cell lies outside of the real function's domain, NumPy computes all cells as complex numbers, which changes last digits of others, too.",
        "emath.",
        np.emath,
        _BY_TYPE,
    ),
    Submodule(
        "Polynomials: `numpy.polynomial`",
        "Coefficients are taken out by `np.array`. `np.polyval`, `np.polyfit` and their like (above) are supersets.",
        "polynomial.",
        np.polynomial,
        others={"set_default_printstyle": _NO_ARRAYS},
        classes=frozenset({"Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"}),
    ),
    *(
        Submodule(
            f"`numpy.polynomial.{name}`", "As above.", f"polynomial.{name}.", getattr(np.polynomial, name), others=_POLYNOMIAL
        )
        for name in ("polynomial", "chebyshev", "legendre", "hermite", "hermite_e", "laguerre")
    ),
    Submodule(
        "`numpy.polynomial.polyutils`",
        "What the others are made of.",
        "polynomial.polyutils.",
        np.polynomial.polyutils,
        others={"mapparms": Coverage("exact", "both ends of both domains"), "mapdomain": Coverage("leaves", "points leave; of ends of domains exact")},
    ),
    Submodule(
        "Masks: `numpy.ma`",
        "Masked arrays have no lineage: values and masks leave. Trace both apart: `np.where(mask, fill, x)`, `x[~mask].mean()`, `np.nanmean`.",
        "ma.",
        np.ma,
        others={
            "amax|amin": Coverage("chosen", "as np.max and np.min"),
            "round_?": LAID,
            "transpose": Coverage("exact", "the one cell that it is"),
            "vander": Coverage("superset", "all cells of each operand"),
            "clip|diag|squeeze|unique|isin|in1d|intersect1d|setdiff1d|setxor1d": Coverage(
                "refused", "the function of the same name in numpy, or np.asarray(x); what it is looked up among leaves"
            ),
            "put|putmask": Coverage("refused", f"{_NOT_WRITTEN}: x[indices] = values; beside a masked array the others leave"),
            "expand_dims|reshape": Coverage("exact", "the one cell that it is"),
            "resize": Coverage("refused", "np.resize"),
            "clump_(un)?masked|flatnotmasked_(contiguous|edges)|count_masked|getmaskarray": _SHAPES,
            "(empty|ones|zeros|masked_all)_like": _SHAPES,
            "(common|default|maximum|minimum)_fill_value|make_mask_descr": _SHAPES,
            "getmask|is_mask|is_masked|isMA|isMaskedArray|isarray": _SHAPES,
            "set_fill_value": _NO_ARRAYS,
            "arange|empty|fromfunction|identity|indices|make_mask_none|masked_all|ones|zeros": _NO_ARRAYS,
            "frombuffer": _NO_ARRAYS,
        },
        classes=frozenset({"MaskedArray", "masked_array"}),
    ),
    Submodule(
        "Numbers drawn: `numpy.random`",
        "Parameters of distributions leave. What is drawn is new: `location + scale * rng.standard_normal(n)` keeps the lineage of both. `shuffle` writes to the array itself.",
        "random.",
        np.random,
        others=_DRAWN,
    ),
    Submodule(
        "`numpy.random.Generator`", "Its methods, as above.", "random.Generator.", np.random.Generator, others=_DRAWN, listed=tuple(vars(np.random.Generator))
    ),
    Submodule(
        "Records: `numpy.rec`",
        "Record arrays have no lineage: arrays of structured types (`x.astype(dtype)`) have.",
        "rec.",
        np.rec,
        others={"array|recarray": _MEMORY, "find_duplicate|fromfile|fromstring": _NO_ARRAYS},
        classes=frozenset({"recarray", "record"}),
    ),
    Submodule(
        "`numpy.lib.recfunctions`", "Functions of structured types.", "lib.recfunctions.", numpy.lib.recfunctions, _REFUSED,
        {"flatten_descr|get_.*": _NO_ARRAYS},
    ),
    Submodule("`numpy.lib`", "`lib.scimath` is `numpy.emath`.", "lib.", np.lib, _NO_ARRAYS,
        {"Arrayterator": Coverage("exact", "of each block: the one cell that it is (sizes that values decided: leaves)")},
        frozenset({"Arrayterator"}),
    ),
    Submodule("`numpy.lib.stride_tricks`", "Views.", "lib.stride_tricks.", np.lib.stride_tricks,
        others={"sliding_window_view": Coverage("exact", "the one cell that it is")}, listed=("as_strided", "sliding_window_view")),
    Submodule("`numpy.lib.array_utils`", "Places in memory, and axes.", "lib.array_utils.", np.lib.array_utils, others={"byte_bounds": _MEMORY}),
    Submodule(
        "`numpy.lib.format`", "Files: `np.save` and `recording.load` keep lineage.", "lib.format.", np.lib.format, _NO_ARRAYS,
        {"header_data_from_array_1_0|write_array": Coverage("refused", "np.save")}, listed=tuple(name for name in vars(np.lib.format) if name.islower()),
    ),
    Submodule("`numpy.lib.introspect`", "About functions.", "lib.introspect.", np.lib.introspect, _NO_ARRAYS),
    Submodule(
        "Comparing: `numpy.testing`",
        "Assertions look at values, which is recorded as for any other condition.",
        "testing.",
        numpy.testing,
        others={
            "assert_(raises.*|warns|no_gc_cycles|no_warnings|string_equal)|break_cycles|check_support_sve|decorate_methods|jiffies": _NO_ARRAYS,
            "measure|memusage|run_threaded|rundocs|runstring|tempdir|temppath": _NO_ARRAYS,
            "build_err_msg": Coverage("no lineage", "it shows traced arrays by name, type and shape alone"),
        },
    ),
)  # fmt: skip
