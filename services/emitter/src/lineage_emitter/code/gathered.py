"""Checks that what a generator gives stays as it was given.

Where its outputs are gathered before they go on, whoever gets them sees each as it is in the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from lineage_emitter.code.expressions import NotProvenError
from lineage_emitter.code.values import MUTATING


def check_gathered(body: Iterable[ast.stmt], *, has_yielded: bool = False) -> None:
    """Refuse statements that may change an output after they gave it.

    Args:
        body: the statements of a function, or of one turn of a loop, which were checked to keep nothing.
        has_yielded: whether an output may have been given before.

    Raises:
        NotProvenError: one may.
    """
    for statement in body:
        _check(statement, has_yielded)
        has_yielded = has_yielded or yields([statement])


def yields(body: Iterable[ast.AST]) -> bool:
    """Whether statements give outputs."""
    return any(
        isinstance(node, ast.Yield | ast.YieldFrom) for part in body for node in ast.walk(part)
    )


def _check(node: ast.stmt, has_yielded: bool) -> None:
    match node:
        case ast.If():
            _check_expressions([node.test], has_yielded)
            check_gathered(node.body, has_yielded=has_yielded)
            check_gathered(node.orelse, has_yielded=has_yielded)
        case ast.For() | ast.While():
            # What stands ahead of a yield runs behind it in the next turn.
            has_yielded = has_yielded or yields([node])
            header = [node.test] if isinstance(node, ast.While) else [node.iter, node.target]
            _check_expressions(header, has_yielded)
            check_gathered([*node.body, *node.orelse], has_yielded=has_yielded)
        case ast.Try():
            check_gathered(node.body, has_yielded=has_yielded)
            has_yielded = has_yielded or yields([node])
            handled = [part for handler in node.handlers for part in handler.body]
            check_gathered([*handled, *node.orelse, *node.finalbody], has_yielded=has_yielded)
        case ast.Expr(value=ast.YieldFrom()):
            # It may be computed between the outputs.
            _check_expressions([node], has_yielded=True)
        case _:
            _check_expressions([node], has_yielded)


def _check_expressions(parts: Iterable[ast.AST], has_yielded: bool) -> None:
    for node in (node for part in parts for node in ast.walk(part)):
        if has_yielded and _may_change(node):
            raise NotProvenError(node, f"{ast.unparse(node)} may change what was given before")


def _may_change(node: ast.AST) -> bool:
    match node:
        case ast.AugAssign(target=ast.Name(), value=ast.Constant(value=int() | float())):
            return isinstance(node.op, ast.Mult)  # of a list
        case ast.AugAssign():
            return True
        case ast.Subscript():
            return not isinstance(node.ctx, ast.Load)
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in MUTATING
        case ast.Call(func=ast.Name(id="next")):
            return True
    return False
