"""The syntax tree of a function, where it is sure to be the one that its code was compiled from.

Source files change after they were imported, and several functions may begin on one line. So the
source is compiled again, and the tree counts only where this gives the very code object of the
function (bytecode, constants, names, positions).
"""

from __future__ import annotations
import __future__

import ast
import linecache
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType, FunctionType

FunctionNode = ast.FunctionDef | ast.Lambda

SOURCE_CHARS_MAX = 2_000_000
_FUTURES = 0
for _feature in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _feature).compiler_flag
_FUTURES &= ~0xFFFF
"""Flags of ``from __future__`` in ``co_flags``; the low bits say other things there."""


def syntax_of(function: FunctionType) -> FunctionNode | None:
    """The tree that a function was compiled from.

    Args:
        function: a function or lambda.

    Returns:
        Its definition, or None where the source is missing, has changed or is ambiguous.
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    source = "".join(lines)
    if not source or len(source) > SOURCE_CHARS_MAX:
        return None
    compiled = _compiled(source, code.co_filename, code.co_flags & _FUTURES)
    if compiled is None:
        return None
    tree, codes = compiled
    same = [other for other in codes if other == code]
    candidates = [node for node in _functions(tree) if _first_line(node) == code.co_firstlineno]
    candidates = [node for node in candidates if _name(node) == code.co_name]
    if len(candidates) > 1:
        candidates = [node for node in candidates if _extent(node) == _extent_of_code(code)]
    if len(candidates) != 1 or len(same) != 1 or any(map(_is_mangled, ast.walk(candidates[0]))):
        return None
    return candidates[0]


@lru_cache(maxsize=64)
def _compiled(source: str, path: str, flags: int) -> tuple[ast.Module, list[CodeType]] | None:
    try:
        tree = ast.parse(source, path)
        code = compile(source, path, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return None
    return tree, list(_nested(code))


def _nested(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _nested(constant)


def _functions(tree: ast.Module) -> Iterator[FunctionNode]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            yield node


def _first_line(node: FunctionNode) -> int:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _name(node: FunctionNode) -> str:
    return node.name if isinstance(node, ast.FunctionDef) else "<lambda>"


def _is_mangled(node: ast.AST) -> bool:
    """Whether a class spells the name in another way (``__x`` is ``_C__x`` there)."""
    name = {ast.Name: "id", ast.arg: "arg", ast.Attribute: "attr"}.get(type(node), "")
    text: str = getattr(node, name, "") or ""
    return text.startswith("__") and not text.endswith("__")


_Extent = tuple[tuple[int, int], tuple[int, int]]


def _extent(node: FunctionNode) -> _Extent | None:
    """Where the body of a lambda begins and ends (line, column)."""
    if not isinstance(node, ast.Lambda):
        return None
    body = node.body
    if body.end_lineno is None or body.end_col_offset is None:
        return None
    return (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)


def _extent_of_code(code: CodeType) -> _Extent | None:
    """Where the instructions of a code object begin and end, if it says so (Python 3.11)."""
    if not hasattr(code, "co_positions"):
        return None
    begins, ends = [], []
    for line, end_line, column, end_column in code.co_positions():
        if line is None or end_line is None or not end_column or column is None:
            continue  # an instruction of Python's own
        begins.append((line, column))
        ends.append((end_line, end_column))
    return (min(begins), max(ends)) if begins else None
