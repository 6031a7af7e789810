"""What commands print: a job may put anything into its rows, paths and names, and none of it may steer a terminal."""

from __future__ import annotations

import sys
from typing import Any
from unicodedata import category

import typer


def plain(text: str, keep: str = "") -> str:
    """Text with escapes in place of what could steer a terminal or turn its lines around, but for the characters in ``keep``."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        one if _is_plain(one) or one in keep else one.encode("unicode_escape").decode()
        for one in text
    )


def _is_plain(one: str) -> bool:
    # Spaces of all kinds (Zs) are not printable to Python, but for the usual one.
    return one.isprintable() or category(one) == "Zs"


def echo(text: str, *, err: bool = False, nl: bool = True, **style: Any) -> None:
    """Print text: as it is to a file or a program, as :func:`plain` has it to a terminal.

    Args:
        text: what is printed.
        err: to standard error.
        nl: end the line.
        style: as ``typer.style`` takes it (``fg``, ``bold``, ...).
    """
    to = sys.stderr if err else sys.stdout
    shown = plain(text, keep="\n\t") if to.isatty() else text
    typer.echo(typer.style(shown, **style) if style else shown, err=err, nl=nl)
