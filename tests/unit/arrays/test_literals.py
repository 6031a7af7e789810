"""Numbers that are written in a program are none that left a workflow, and those of variables may be, however equal."""

from __future__ import annotations

import importlib.util
import inspect
import itertools
import linecache
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from lineage_arrays import Recording
from lineage_arrays.traced import TracedArray

pytestmark = pytest.mark.unit

EXPRESSIONS = (
    "x[:{}, {}:]",
    "x[{}, :-{}]",
    "x[None, {}:, ...]",
    "x[[0, {}]]",
    "x.sum(axis={})",
    "np.mean(x, axis=({}, 0), keepdims=True)",
    "x.clip({}, {})",
    "np.clip(x, {}, None)",
    "x * {}",
    "{} - x",
    "x / -{}",
    "x > {}",
    "x + ({} + 2) / {}",
    "np.where(x > 1, x, {})",
    "np.concatenate([x[0], [{}, 2.5]])",
    "np.pad(x, (({}, 1), (0, {})), mode='edge')",
    "x.reshape({}, 2, 6)",
    "np.roll(\n        x,\n        {},\n        axis={},\n    )",
    "x\\\n        .clip(0, 3)\\\n        .clip({}, 2)",
    "np.add.reduce(x, axis={})",
    "np.convolve(x[0], [0.5, {}, 0.5], mode='same')",
    "np.linalg.norm(x, axis={})",
    "(lambda y: y[{}:])(x)",
    "ndimage.shift(x, 1.0, order={})",
    "ndimage.gaussian_filter(x, {}, order={})",
)
STATEMENTS = (
    "y[{}:{}] = 7",
    "y[0] = {}",
    "y += {}",
    "y[0] *= {}",
    "y[{}:] -= 2",
    "y[0] = y[1] = {}",
)
HEAD = "import numpy as np\nfrom lineage_arrays.scipy import ndimage\n"


def function_of(name: str, code: str) -> str:
    """A function of an array and of a number that left it."""
    if code in STATEMENTS or code.startswith("y"):
        return f"def {name}(x, one):\n    y = x.copy()\n    {code}\n    return y\n"
    return f"def {name}(x, one):\n    return {code}\n"


def module_at(path: Path, source: str) -> ModuleType:
    path.write_text(source)
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recorded() -> tuple[Recording, TracedArray, int]:
    recording = Recording()
    x = recording.source("x", np.arange(12.0).reshape(2, 6))
    return recording, x, int(x[0, 1])


def filled() -> Iterator[tuple[str, bool]]:
    """Each expression with the number in each place written there, or from outside; whether it is from outside in some."""
    for template in (*EXPRESSIONS, *STATEMENTS):
        for values in itertools.product(("1", "one"), repeat=template.count("{}")):
            yield template.format(*values), "one" in values


def test_a_trace_is_complete_where_each_number_is_written_and_nowhere_else(tmp_path: Path) -> None:
    """The numbers are equal, so nothing but where they come from tells them apart."""
    cases = list(filled())
    source = HEAD + "".join(function_of(f"f{at}", code) for at, (code, _) in enumerate(cases))
    module = module_at(tmp_path / "program.py", source)
    recording, x, one = recorded()
    assert one == 1
    wrong = []
    for at, (code, is_outside) in enumerate(cases):
        made = getattr(module, f"f{at}")(x, one)
        if recording.back(made).complete is is_outside:
            wrong.append(code)
    assert not wrong


ARGUMENTS = (
    "sum([x, 1], 1)",
    "functools.partial(np.roll, shift=one)(x)",
    "functools.partial(np.multiply, one)(x, where=True)",
    "list(map(np.multiply, [x], [one]))[0]",
    "operator.methodcaller('clip', 0, one)(x)",
    "shifted(x, 1)",
    "shifted.np.roll(x, one)",
    "np.roll(*(x, 1))",
    "np.sum(**{'a': x, 'axis': 1})",
    "x[SIZE:]",
    "part(x, 1)",
    "np.sum(x, axis=int('1'))",
    "getattr(x, 'sum')(1)",
    "x * np.array([1.0] * 6)",
    "x[slice(1)]",
)


@pytest.mark.parametrize("code", ARGUMENTS)
def test_what_is_not_written_where_it_is_used_may_have_left(tmp_path: Path, code: str) -> None:
    head = (
        HEAD + "import functools, operator\nSIZE = 1\ndef part(x, first):\n    return x[first:]\n"
    )
    # In C, with a number of its own in the place of the one that is written.
    head += "shifted = functools.partial(np.multiply)\nshifted.np = np\n"
    module = module_at(tmp_path / "program.py", head + function_of("made", code))
    recording, x, one = recorded()
    assert not recording.back(module.made(x, one)).complete


def test_a_source_that_was_edited_since_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    source = HEAD + function_of("made", "x[one:]")
    module = module_at(path, source)
    path.write_text(source.replace("x[one:]", "x[111:]"))
    linecache.checkcache()
    recording, x, one = recorded()
    assert not recording.back(module.made(x, one)).complete


@pytest.mark.parametrize("name", ["<string>", "program.py"])
def test_code_without_a_source_says_nothing(name: str) -> None:
    names: dict[str, Any] = {}
    exec(compile(HEAD + function_of("made", "x[1:]"), name, "exec"), names)
    recording, x, one = recorded()
    assert not recording.back(names["made"](x, one)).complete


def test_cells_of_notebooks_run_statement_by_statement() -> None:
    """As IPython runs them: of each statement a code of its own, the source of the cell in `linecache`."""
    recording, x, one = recorded()
    lines = ["y = x[1:]\n", "z = x[one:]\n", "y.sum(axis=1)\n", "w = y.sum(axis=1)\n"]
    name = "<ipython-input-1>"
    linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    names: dict[str, Any] = {"x": x, "one": one}
    try:
        for at, line in enumerate(lines):
            mode = "single" if at == 3 else "exec"
            exec(compile("\n" * at + line, name, mode, dont_inherit=True), names)
    finally:
        del linecache.cache[name]
    assert recording.back(names["y"]).complete
    assert recording.back(names["w"]).complete
    assert not recording.back(names["z"]).complete


def test_texts_that_are_cut_to_a_width_that_values_decided_are_not_what_is_written(
    tmp_path: Path,
) -> None:
    source = (
        HEAD
        + "def made(x):\n    y = np.strings.multiply(x, np.array([1, 3]))\n    y[0] = 'longer'\n    return y\n"
    )
    recording = Recording()
    texts = recording.source("x", np.array(["a", "bc"]))
    trace = recording.back(module_at(tmp_path / "program.py", source).made(texts), 0)
    assert "width of texts" in trace.incomplete_reasons[0]


def test_numbers_that_are_written_are_no_rows_of_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {"x[[0, 1]]": True, "x * one": False, "np.array_split(x, [1])[0]": True}
    source = HEAD + "".join(function_of(f"f{at}", code) for at, code in enumerate(codes))
    module = module_at(tmp_path / "program.py", source)
    recording = Recording()
    x = recording.source("x", np.arange(12.0).reshape(2, 6))
    monkeypatch.setattr(type(recording.flow), "rows_before", "DataFrame.collect at job.py:1")
    for at, is_complete in enumerate(codes.values()):
        made = getattr(module, f"f{at}")(x, np.float64(1.0))
        assert recording.back(made, choices=True).complete is is_complete


def test_what_compilers_warn_of_is_not_said_again(tmp_path: Path) -> None:
    source = HEAD + "def made(x, one):\n    return x[1:] if '\\d' or one is 1 else x\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = module_at(tmp_path / "program.py", source)
    recording, x, one = recorded()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        made = module.made(x, one)
        assert warnings.filters == before
    assert recording.back(made).complete
    assert not seen


def test_the_source_of_a_program_that_came_by_a_pipe_is_left_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the program's input by now, and to open a pipe that nobody writes to takes as long as that lasts."""
    pipe = str(tmp_path / "program.py")
    os.mkfifo(pipe)
    opened: list[str] = []
    monkeypatch.setattr(linecache, "getlines", opened.append)
    names: dict[str, Any] = {}
    exec(compile(HEAD + function_of("made", "x[1:]"), pipe, "exec"), names)
    recording, x, one = recorded()
    assert not recording.back(names["made"](x, one)).complete
    assert pipe not in opened


def test_a_sum_of_many_numbers_does_not_fail_where_the_program_stands_deep(tmp_path: Path) -> None:
    def called_deep(levels: int, x: TracedArray, one: int) -> Any:
        return module.made(x, one) if not levels else called_deep(levels - 1, x, one)

    terms = "+".join(["1"] * 500)
    source = HEAD + function_of("made", f"x * ({terms})") + function_of("first", "x * 2")
    module = module_at(tmp_path / "program.py", source)
    recording, x, one = recorded()
    module.first(x, one)
    deep = sys.getrecursionlimit() - len(inspect.stack()) - 300
    assert not recording.back(called_deep(deep, x, one)).complete
