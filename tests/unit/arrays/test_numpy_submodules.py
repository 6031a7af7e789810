"""Each function of NumPy's other modules, with a traced array in the place of each of its arrays: nothing leaves unseen.

What a call does is observed: it refuses, it is known that values left, its result is traced, or nothing of the array is in its result. The last
two are held against what changes when cells are changed, and the claims of the reference page against all.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Cells, Recording, UntracedError
from lineage_arrays.functions.submodules import SUBMODULES, Coverage, Submodule
from lineage_arrays.traced import TracedArray
from tests.support.cell_oracle import dependences
from tests.unit.arrays.test_reference_page import needed

pytestmark = pytest.mark.unit

A = np.array
X, Y, M = (
    A([0.5, 0.25, 0.75]),
    A([0.125, 0.5, 0.25]),
    A([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]]),
)
N = A([3, 1, 2])
T, U = A(["ab", "B.", "7 "]), A(["b", ".", "7 "])
R = np.array([(1.0, 2), (3.0, 4)], dtype=[("a", float), ("b", int)])
ONE = A(0.5)

WHOLE = A([[4.0, 1.0], [1.0, 3.0]])
FILE = io.BytesIO
POLYNOMIALS = r"polynomial\.(polynomial|chebyshev|legendre|hermite|hermite_e|laguerre)\."

ARGUMENTS: tuple[tuple[str, Any], ...] = (
    # Texts.
    (
        r"(strings|char)\.(add|count|equal|not_equal|greater.*|less.*|r?find|startswith|endswith|r?partition)",
        lambda: (T, U),
    ),
    (r"(strings|char)\.r?index", lambda: (T, A(["b", ".", "7"]))),
    (r"(strings|char)\.decode", lambda: (A([b"ab", b"c"]),)),
    (r"(strings|char)\.(center|ljust|rjust)", lambda: (T, A([3, 5, 2]), A(["-", "+", "."]))),
    (r"(strings|char)\.(zfill|multiply|expandtabs)", lambda: (T, A([3, 5, 2]))),
    (r"(strings|char)\.mod", lambda: (A(["%s", "a%s", "%s%%"]), T)),
    (r"(strings|char)\.replace", lambda: (T, U, A(["x", "yy", ""]), N)),
    (r"(strings|char)\.translate", lambda: (T, str.maketrans("ab", "yz"))),
    (r"strings\.slice", lambda: (T, A([0, 1, 0]), A([2, 2, 1]))),
    (r"(strings|char)\.[lr]?strip", lambda: (T, U)),
    (r"char\.join", lambda: (U, T)),
    (r"char\.compare_chararrays", lambda: (T, U, "==", True)),
    (r"(strings|char)\..*", lambda: (T,)),
    (r"emath\.(logn|power)", lambda: (A([2.0, 3.0, -4.0]), A([3.0, 0.5, 1.5]))),
    (r"emath\..*", lambda: (A([0.5, -0.25, 2.0]),)),
    # Polynomials.
    (POLYNOMIALS + r".*(val|grid)2d", lambda: (X, Y, WHOLE)),
    (POLYNOMIALS + r".*(val|grid)3d", lambda: (X, Y, Y, np.arange(8.0).reshape(2, 2, 2))),
    (POLYNOMIALS + r".*vander2d", lambda: (X, Y, [1, 2])),
    (POLYNOMIALS + r".*vander3d", lambda: (X, Y, Y, [1, 2, 1])),
    (POLYNOMIALS + r".*(vander|pow)", lambda: (X, 2)),
    (POLYNOMIALS + r".*fit", lambda: (X, Y, 1)),
    (POLYNOMIALS + r".*interpolate", lambda: (np.sin, 3)),
    (POLYNOMIALS + r".*line", lambda: (ONE, A(2.0))),
    (POLYNOMIALS + r".*(gauss|pts1|pts2)", lambda: (3,)),
    (r"polynomial\.polyutils\.format_float", lambda: (ONE,)),
    (r"polynomial\.polyutils\.(mapparms)", lambda: (X[:2], A([2.0, 5.0]))),
    (r"polynomial\.polyutils\.(mapdomain)", lambda: (X, A([2.0, 5.0]), A([1.0, 4.0]))),
    (r"polynomial\.polyutils\.as_series", lambda: ((X, Y),)),
    # Masks.
    (r"ma\.apply_along_axis", lambda: (np.sort, 0, X)),
    (r"ma\.apply_over_axes", lambda: (np.sum, M, [0])),
    (r"ma\.(bitwise_.*|left_shift|right_shift)", lambda: (N, A([1, 0, 2]))),
    (r"ma\.choose", lambda: (A([0, 1, 0]), (X, Y))),
    (r"ma\.((compress|mask)_(cols|rows|rowcols)|diagonal|trace|cov|corrcoef)", lambda: (M,)),
    (r"ma\.(concatenate|column_stack|dstack|hstack|vstack|row_stack|stack)", lambda: ((X, Y),)),
    (r"ma\.swapaxes", lambda: (M, 0, 1)),
    (r"ma\.(expand_dims|repeat|hsplit)", lambda: (X, 1)),
    (r"ma\.take", lambda: (X, A([1, 0]))),
    (r"ma\.(reshape|resize)", lambda: (X, (3, 1))),
    (r"ma\.flatten_structured_array", lambda: (R,)),
    (r"ma\.(arange|empty|identity|make_mask_none|masked_all|ones|zeros)", lambda: (3,)),
    (r"ma\.indices", lambda: ((2, 3),)),
    (r"ma\.fromfunction", lambda: (np.add, (2, 3))),
    (r"ma\.frombuffer", lambda: (b"12345678",)),
    (r"ma\.fromflex", lambda: (np.ma.array(X, mask=X > 0.6).toflex(),)),
    (r"ma\.make_mask_descr", lambda: (np.dtype(float),)),
    (r"ma\.masked_(inside|outside)", lambda: (X, 0.3, 0.6)),
    (r"ma\.masked_where", lambda: (X > 0.3, Y)),
    (
        r"ma\.masked_(equal|greater|greater_equal|less|less_equal|not_equal|values|object)",
        lambda: (X, 0.25),
    ),
    (r"ma\.polyfit", lambda: (X, Y, 1)),
    (r"ma\.put", lambda: (np.ma.array(X.copy()), A([0, 1, 1]), Y)),
    (r"ma\.putmask", lambda: (np.ma.array(X.copy()), X > 0.3, Y)),
    (r"ma\.mask_or", lambda: (X > 0.3, Y > 0.3)),
    (r"ma\.(make_mask|flatten_mask)", lambda: (X > 0.3,)),
    # Numbers drawn.
    (r"random\.(Generator\.)?(negative_)?binomial", lambda: (N, X)),
    (r"random\.(Generator\.)?hypergeometric", lambda: (N, N, A([1, 1, 1]))),
    (r"random\.(Generator\.)?multinomial", lambda: (A(4), A([0.5, 0.25, 0.25]))),
    (r"random\.(Generator\.)?multivariate_normal", lambda: (X, M)),
    (r"random\.Generator\.multivariate_hypergeometric", lambda: (N, 2)),
    (r"random\.(Generator\.)?triangular", lambda: (X, X + 1, X + 2)),
    (r"random\.(Generator\.)?zipf", lambda: (X + 1.5,)),
    (r"random\.(Generator\.)?(logseries|geometric)", lambda: (X,)),
    (r"random\.Generator\.(bytes|spawn|random|standard_(cauchy|exponential|normal))", lambda: (3,)),
    (
        r"random\.(bytes|default_rng|rand|randn|random|random_sample|ranf|sample|seed|standard_(cauchy|exponential|normal))",
        lambda: (3,),
    ),
    (r"random\.get_state", lambda: ()),
    (r"random\.set_state", lambda: (np.random.RandomState(1).get_state(),)),
    (r"random\.random_integers", lambda: (A(2), A(9))),
    (r"random\.(randint|Generator\.integers)", lambda: (N + 2, N + 9)),
    # Records.
    (r"rec\.fromfile", lambda: (FILE(b"12345678"), float, 1)),
    (r"rec\.fromstring", lambda: (b"12345678", float)),
    (r"rec\.fromarrays", lambda: ((X, Y),)),
    (r"rec\.recarray", lambda: ((3,), None, X, 0, None, ["a"], "f8")),
    (r"rec\.(array|record)", lambda: (R,)),
    (r"rec\.find_duplicate", lambda: (["a", "a"],)),
    (r"lib\.recfunctions\.(rec_)?append_fields", lambda: (R, "c", X[:2])),
    (r"lib\.recfunctions\.apply_along_fields", lambda: (np.mean, R)),
    (r"lib\.recfunctions\.(rec_)?drop_fields", lambda: (R, "a")),
    (r"lib\.recfunctions\.find_duplicates", lambda: (np.ma.array(R),)),
    (r"lib\.recfunctions\.(flatten_descr|get_.*)", lambda: (R.dtype,)),
    (r"lib\.recfunctions\.(join_by|rec_join)", lambda: ("b", R, R.copy())),
    (r"lib\.recfunctions\.recursive_fill_fields", lambda: (R, R.copy())),
    (r"lib\.recfunctions\.rename_fields", lambda: (R, {"a": "z"})),
    (r"lib\.recfunctions\.require_fields", lambda: (R, R.dtype)),
    (r"lib\.recfunctions\.assign_fields_by_name", lambda: (R, R.copy())),
    (r"lib\.recfunctions\.(repack_fields|structured_to_unstructured)", lambda: (R,)),
    (r"lib\.recfunctions\.unstructured_to_structured", lambda: (M,)),
    (r"lib\.recfunctions\.(merge_arrays|stack_arrays)", lambda: ((X, Y),)),
    (r"lib\.stride_tricks\.sliding_window_view", lambda: (X, 2)),
    (r"lib\.array_utils\.normalize_axis_(index|tuple)", lambda: (A(1), 3)),
    (r"lib\.format\.write_array", lambda: (FILE(), X)),
    (r"lib\.format\.header_data_from_array_1_0", lambda: (X,)),
    # Comparisons.
    (r"testing\.assert_(approx_equal|equal|almost_equal)", lambda: (ONE, ONE.copy())),
    (r"testing\.assert_array_less", lambda: (X, X + 1)),
    (r"testing\.assert_array_compare", lambda: (np.equal, X, X.copy())),
    (r"testing\.assert_string_equal", lambda: ("a", "a")),
    (r"testing\.assert_", lambda: (A(True),)),
    (r"testing\.(build_err_msg)", lambda: ((X, Y), "differ")),
    (r"testing\.print_assert_equal", lambda: ("same", ONE, ONE.copy())),
    (r"testing\.assert_.*", lambda: (X, X.copy())),
)
"""By the whole name; of others as many arrays as a function must have."""
OF_PROGRAMS = (
    r"polynomial\.set_default_printstyle|lib\.add_(docstring|newdoc)|lib\.introspect\..*"
    r"|lib\.format\.(descr_to_dtype|drop_metadata|dtype_to_descr|magic|open_memmap|read_.*|write_array_header.*|isfileobj)"
    r"|testing\.(assert_(raises.*|warns|no_gc_cycles|no_warnings)|break_cycles|check_support_sve|decorate_methods|jiffies|measure|memusage"
    r"|run_threaded|rundocs|runstring|tempdir|temppath)"
)
"""Functions of types, files, texts or functions, and not of arrays."""


@dataclass(frozen=True)
class Named:
    """A function, and what it is called by."""

    submodule: Submodule
    name: str

    def __str__(self) -> str:
        return self.submodule.prefix + self.name

    @property
    def claim(self) -> Coverage:
        return self.submodule.coverage(self.name)

    @property
    def function(self) -> Any:
        home = self.submodule.home
        return getattr(np.random.default_rng(3) if home is np.random.Generator else home, self.name)

    def call(self, *args: Any) -> Any:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            np.random.seed(3)
            result = self.function(*args)
            return list(result) if isinstance(result, Generator | np.lib.Arrayterator) else result

    def arguments(self) -> tuple[Any, ...]:
        for names, make in ARGUMENTS:
            if re.fullmatch(names, str(self)):
                made: tuple[Any, ...] = make()
                return made
        return (X,) * needed(self.function)


FUNCTIONS = [
    function
    for submodule in SUBMODULES
    for function in (Named(submodule, name) for name in submodule.names())
    if not re.fullmatch(OF_PROGRAMS, str(function))
]


def places(args: tuple[Any, ...]) -> Iterator[int]:
    """Where there are arrays, also lists of them."""
    for at, argument in enumerate(args):
        parts = argument if isinstance(argument, tuple | list) else (argument,)
        if parts and all(isinstance(part, np.ndarray) for part in parts):
            yield at


@dataclass(frozen=True)
class Tried:
    """A call some of whose arguments are replaced by traced arrays, or by other arrays."""

    named: Named
    places: tuple[int, ...]

    @property
    def arrays(self) -> list[Any]:
        args = self.named.arguments()
        return [
            part
            for at in self.places
            for part in (args[at] if isinstance(args[at], tuple | list) else (args[at],))
        ]

    def results(self, *arrays: Any) -> list[Any]:
        """The results of a call with these arrays in the places; of one that writes, what it wrote to."""
        given, args = iter(arrays), list(self.named.arguments())
        for at in self.places:
            several = isinstance(args[at], tuple | list)
            args[at] = tuple(next(given) for _ in args[at]) if several else next(given)
        result = self.named.call(*args)
        if result is None and self.named.claim.kind == "exact":
            result = args[self.places[0]]
        return list(result) if isinstance(result, tuple | list) else [result]


def observed(named: Named, *at: int) -> str:
    """How a call treats traced arrays at some places."""
    call, recording = Tried(named, at), Recording()
    named.call(*named.arguments())
    try:
        arrays = [recording.source(f"a{n}", array) for n, array in enumerate(call.arrays)]
        results = call.results(*arrays)
    except Exception:
        return "refused"
    if recording.flow.leaks:
        return "leaves"
    if not any(isinstance(one, TracedArray) for one in results):
        check_nothing_of(call)
        return "no lineage"
    assert all(isinstance(one, TracedArray) for one in results)
    kinds = {held(call, recording, n, result) for n, result in enumerate(results)}
    return next(kind for kind in ("superset", "chosen", "exact") if kind in kinds)


def held(call: Tried, recording: Recording, n: int, result: TracedArray) -> str:
    """Holds the lineage of one traced result against what changes when cells are changed."""

    def plainly(*arrays: Any) -> Any:
        return np.asarray(call.results(*arrays)[n])

    arrays = call.arrays
    again = plainly(*(array.copy() for array in arrays))
    np.testing.assert_array_equal(again, result.current, strict=True)
    exact, chosen = True, False
    for number, changes in enumerate(dependences(plainly, arrays)):
        array = arrays[number]
        for cell in range(array.size):
            where = Cells.at(array.shape, [cell])
            way = recording.forward(f"a{number}", result, where, choices=True)
            said = next(iter(way.cells.values())).mask().reshape(-1)
            assert not (changes[cell] & ~said).any(), "a change was seen outside of the lineage"
            exact &= way.exact
            chosen |= bool(recording.forward(f"a{number}", result, where).chosen_by)
            if way.exact and not chosen and array.dtype.kind == "f":
                assert (changes[cell] == said).all(), "a cell of exact lineage changes nothing"
    return "chosen" if chosen else "exact" if exact else "superset"


def check_nothing_of(call: Tried) -> None:
    """Neither cells nor a size that values decided are in what a call gave, where nothing says that they left."""

    def shown(arrays: list[Any], masked: bool = False) -> str:
        recording = Recording()
        sources = [recording.source(f"a{n}", array) for n, array in enumerate(arrays)]
        if masked:
            sources = [source[source > -1] for source in sources]
        result = repr(call.results(*sources))
        return "left" if recording.flow.leaks else result

    arrays = call.arrays
    assert shown(arrays) == shown([array[::-1] + 1 for array in arrays]), "values left unseen"
    if len(arrays) == 1:
        longer = [np.concatenate((array, array)) for array in arrays]
        assert shown(arrays, masked=True) == shown(longer, masked=True), "a size left unseen"


@pytest.fixture(autouse=True)
def global_numbers() -> Iterator[None]:
    """Some functions draw from the generator that all share."""
    state = np.random.get_state()
    yield
    np.random.set_state(state)


@pytest.mark.parametrize("named", FUNCTIONS, ids=str)
def test_claim_is_what_happens(named: Named) -> None:
    """The claim is true of an array; of other arguments the row names what happens, if that is another thing."""
    at = list(places(named.arguments()))
    found = {observed(named, one) for one in at}
    if len(at) > 1:
        found.add(observed(named, *at))
    claim = named.claim
    named.call(*named.arguments())
    assert claim.kind in found or (claim.kind == "no lineage" and not found), f"found {found}"
    said = f"{claim.kind} {claim.cells}"
    assert all(kind in said or kind.removesuffix("s") in said for kind in found), f"found {found}"


def test_functions_of_programs_are_said_to_take_no_arrays() -> None:
    others = [
        submodule.coverage(name)
        for submodule in SUBMODULES
        for name in submodule.names()
        if re.fullmatch(OF_PROGRAMS, submodule.prefix + name)
    ]
    assert {coverage.kind for coverage in others} == {"no lineage"}


@pytest.mark.parametrize(
    "named",
    [one for one in FUNCTIONS if re.fullmatch(POLYNOMIALS + ".*val(fromroots)?", str(one))],
    ids=str,
)
def test_points_that_would_be_taken_for_a_number_are_refused(named: Named) -> None:
    """What is not refused is what NumPy gives of plain points."""
    points = Recording().source("points", X)
    with pytest.raises(UntracedError, match="takes for a number"):
        named.function(points, M)
    roots = named.name.endswith("roots")
    for given, coefficients, tensor in (
        (0, M, True),
        (..., M, False),
        (..., Y, True),
        ((slice(None), None), Y, True),
    ):
        if roots and given != 0:
            continue
        plainly = named.function(X[given], coefficients, tensor=tensor)
        result = named.function(points[given], coefficients, tensor=tensor)
        np.testing.assert_array_equal(result.current, plainly, strict=True)
