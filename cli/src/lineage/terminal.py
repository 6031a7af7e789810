"""What commands print: a job may put anything into its rows, paths and names, and none of it may steer a terminal."""

from __future__ import annotations

import sys
from typing import Any

import typer

from lineage_core.terminal_text import plain


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
