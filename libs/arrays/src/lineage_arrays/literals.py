"""Which arguments of a call are written in the program's code, as ``3`` and ``-1.5`` are in ``x[3:] * -1.5``: nothing that left a workflow is in these.

The expression at which a frame stands is found in the source by its position, as Python keeps that for each instruction. The source is believed
only where compiling it gives the very code that runs: it may have been edited, or rewritten, since.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import functools
import linecache
import operator
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any, TypeAlias

import numpy as np

Position: TypeAlias = tuple[int | None, int | None, int | None, int | None]

OPTIONS = frozenset({"keepdims", "dtype", "order", "kind", "casting", "out"})
"""Names of arguments that are no values; a number in the place of one is a value, as that of ``scipy.ndimage.shift(x, 1.5, order=3)``."""
KEPT_MAX = 256
"""Files and codes of which the expressions are kept; then they are read again."""
SOURCE_MAX = 1_000_000
"""Characters of a source that is looked at: a job waits some seconds for so many."""
_HOME = str(Path(__file__).parent)
_PASSING_ON = str(Path(np.__file__).parent / "lib" / "mixins")
"""NumPy's own code for operators, which passes its arguments on."""
_OWN_NAME = "<lineage_arrays.literals>"
"""Of what is compiled here."""
_UNSEEN = ("ignore", None, Warning, re.compile(re.escape(_OWN_NAME)), 0)
"""A filter of warnings: the program has had them when it was compiled."""
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class Written:
    """The arguments of an expression, taken apart as lists, tuples and slices are.

    ``literals``: values that are written there; ``others``: how many are not. ``called``: of a call, the names of what is called (``np``, ``linalg``,
    ``norm``), the last one first; a part of it that has none is called "".
    """

    literals: tuple[Any, ...]
    others: int
    called: tuple[str, ...] = ()

    def has_all(self, values: Iterable[Any]) -> bool:
        """Whether some values are among the literals, each as often."""
        return Counter(map(_alike, values)) <= self._alike

    @functools.cached_property
    def _alike(self) -> Counter[tuple[type, Any]]:
        return Counter(map(_alike, self.literals))

    def calls(self, name: str) -> bool:
        """Whether it is an operator or an index, or a call of a function or method of this name."""
        return not self.called or name in self.called

    def is_method(self, frame: FrameType) -> bool:
        """Whether what stands before the last name is an argument, too, and no module."""
        if len(self.called) < 2:
            return False
        name, code = self.called[-1], frame.f_code
        is_local = name in code.co_varnames or name in code.co_cellvars or name in code.co_freevars
        return is_local or not isinstance(frame.f_globals.get(name), ModuleType)


def _alike(value: Any) -> tuple[type, Any]:
    """What equal values have alike: by type, too, as 1, 1.0 and True are three values, and so are 0.0 and -0.0."""
    return type(value), repr(value) if isinstance(value, float | complex) else value


def is_option(name: str | None, value: object) -> bool:
    """Whether an argument of this name is an option (:data:`OPTIONS`) and no value."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return name in OPTIONS and not is_number


def written_at(frame: FrameType) -> Written | None:
    """The arguments of the call, operator or index at which a frame stands, but for :data:`OPTIONS`.

    Returns:
        None where it is not known: no source, an expression of another kind, ``*args``.
    """
    code, at = frame.f_code, frame.f_lasti
    known = _of_codes.get(id(code))
    if known is None:
        if len(_of_codes) >= KEPT_MAX:
            _of_codes.clear()
        known = _of_codes[id(code)] = _Expressions.of(code)
    if at not in known.written:
        known.written[at] = known.read(at)
    return known.written[at]


def calling_frame(frame: FrameType | None) -> FrameType | None:
    """The first frame outside of this package, and of what passes arguments on."""
    while frame is not None and _passes_on(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


@functools.cache
def _passes_on(path: str) -> bool:
    return path.startswith((_HOME, _PASSING_ON))


ByPosition: TypeAlias = dict[Position, ast.AST]


@dataclass(frozen=True)
class _Expressions:
    """Those of some code, by the position that Python keeps for each of its instructions. ``code``: so that nothing else gets its identity."""

    code: CodeType
    positions: list[Position]
    expressions: ByPosition
    written: dict[int, Written | None] = field(default_factory=dict)

    @classmethod
    def of(cls, code: CodeType) -> _Expressions:
        expressions = _read(code)
        return cls(
            code, [] if expressions is None else list(code.co_positions()), expressions or {}
        )

    def read(self, instruction: int) -> Written | None:
        """The arguments of the expression of an instruction."""
        if not 0 <= instruction < 2 * len(self.positions):
            return None
        node = self.expressions.get(self.positions[instruction // 2])
        operation = dis.opname[self.code.co_code[instruction]]
        try:
            return None if node is None else _arguments(node, operation.startswith("STORE"))
        except RecursionError:
            # The program stands deeper now than when the source was read.
            return None


_of_codes: dict[int, _Expressions] = {}
_of_files: dict[str, tuple[list[str], frozenset[CodeType], ByPosition]] = {}


def _read(code: CodeType) -> ByPosition | None:
    """The expressions of the file of some code; None: it is not the source of this code, or there is none."""
    if not hasattr(code, "co_positions"):
        return None
    is_file = os.path.isfile(code.co_filename)
    if not is_file and os.path.exists(code.co_filename):
        # What a program is given by a pipe is the program's to read.
        return None
    lines = linecache.getlines(code.co_filename)
    if not lines or sum(map(len, lines)) > SOURCE_MAX:
        return None
    known = _of_files.get(code.co_filename)
    if known is None or known[0] != lines:
        try:
            with _unseen_warnings():
                tree = ast.parse("".join(lines), _OWN_NAME)
                codes = frozenset(_codes_of(tree, is_file))
        except (SyntaxError, ValueError, RecursionError):
            return None
        if len(_of_files) >= KEPT_MAX:
            _of_files.clear()
        known = _of_files[code.co_filename] = (lines, codes, _by_position(tree))
    return known[2] if code in known[1] else None


@contextlib.contextmanager
def _unseen_warnings() -> Iterator[None]:
    """Let nobody see warnings of what is compiled here. :class:`warnings.catch_warnings` would take those of other threads, too."""
    filters: list[Any] = warnings.filters  # type: ignore[assignment]
    filters.insert(0, _UNSEEN)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            filters.remove(_UNSEEN)


def _codes_of(tree: ast.Module, is_file: bool) -> Iterator[CodeType]:
    """All codes of a source, as a file has them; and what is no file, as the cells of notebooks are, which run statement by statement.

    Codes are equal by what they do and where it stands, whatever the file is called.
    """
    yield from _nested(_compiled(tree, "exec"))
    for statement in () if is_file else tree.body:
        yield from _nested(_compiled(ast.Module([statement], []), "exec"))
        yield from _nested(_compiled(ast.Interactive([statement]), "single"))


def _compiled(tree: ast.Module | ast.Interactive, mode: str) -> CodeType:
    code: CodeType = compile(tree, _OWN_NAME, mode, dont_inherit=True)
    return code


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _by_position(tree: ast.AST) -> ByPosition:
    """Calls, operators and indices by their positions; of an index that is assigned to the assignment."""
    found: ByPosition = {}
    several: set[Position] = set()
    for node in ast.walk(tree):
        for position, one in _placed(node):
            if position in found:
                several.add(position)
            found[position] = one
    return {position: node for position, node in found.items() if position not in several}


def _placed(node: ast.AST) -> Iterator[tuple[Position, ast.AST]]:
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                if isinstance(target, ast.Subscript):
                    yield _position_of(target), ast.Assign([target], node.value)
        case ast.AugAssign(target=target):
            yield _position_of(node), node
            if isinstance(target, ast.Subscript):
                yield _position_of(target), target
        case ast.Call(func=ast.Attribute() as function) if function.lineno != function.end_lineno:
            # Python keeps the line of the method's name, where that is another one.
            _, end_line, _, end = _position_of(node)
            begin = (function.end_col_offset or 0) - len(function.attr)
            yield (function.end_lineno, end_line, begin, end), node
        case ast.Subscript(ctx=ast.Load()) | ast.Call() | ast.BinOp() | ast.Compare(ops=[_]):
            yield _position_of(node), node


def _position_of(node: ast.expr | ast.stmt) -> Position:
    return (node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def _arguments(node: ast.AST, is_store: bool) -> Written | None:
    called: tuple[str, ...] = ()
    assigned = 0
    match node:
        case ast.Assign(targets=[ast.Subscript(slice=index)], value=value):
            given = [index, value]
        case ast.Subscript(slice=index):
            # Of x[1] += 2: what was added is assigned.
            given, assigned = [index], int(is_store)
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            given = [left, right]
        case ast.AugAssign(target=target, value=value):
            given = [target, value]
        case ast.Call(func=function, args=args, keywords=keywords):
            if any(isinstance(one, ast.Starred) for one in args) or any(one.arg is None for one in keywords):  # fmt: skip
                return None
            given = [*args, *(one.value for one in keywords if not _is_option(one))]
            called = _names(function)
        case _:
            return None
    literals: list[Any] = []
    others = assigned + sum(_take_apart(one, literals) for one in given)
    return Written(tuple(literals), others, called)


def _is_option(keyword: ast.keyword) -> bool:
    try:
        return is_option(keyword.arg, _value_of(keyword.value))
    except (TypeError, ValueError, ArithmeticError):
        return keyword.arg in OPTIONS


def _names(node: ast.expr) -> tuple[str, ...]:
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return (*names, node.id if isinstance(node, ast.Name) else "")


def _take_apart(node: ast.expr | None, literals: list[Any]) -> int:
    """Add the literals of an argument; how many parts of it are none."""
    match node:
        case None:
            literals.append(None)
            return 0
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return sum(_take_apart(part, literals) for part in parts)
        case ast.Slice(lower=lower, upper=upper, step=step):
            return sum(_take_apart(part, literals) for part in (lower, upper, step))
    try:
        literals.append(_value_of(node))
    except (TypeError, ValueError, ArithmeticError):
        return 1
    return 0


def _value_of(node: ast.expr) -> Any:
    """The value of numbers, texts and their like, and of arithmetic with numbers.

    Raises:
        TypeError, ArithmeticError: there is more in it.
    """
    match node:
        case ast.Constant(value=value):
            return value
        case ast.UnaryOp(
            op=ast.USub() | ast.UAdd(),
            operand=ast.Constant(value=int() | float() | complex() as value),
        ):
            return -value if isinstance(node.op, ast.USub) else +value
        case ast.BinOp(op=op, left=left, right=right) if type(op) in _ARITHMETIC:
            one, other = _value_of(left), _value_of(right)
            if not all(isinstance(part, int | float | complex) for part in (one, other)):
                raise TypeError
            return _ARITHMETIC[type(op)](one, other)
    raise TypeError
