"""Arguments and options of ``lineage arrays back`` and ``forward``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CellsArgument = Annotated[
    str,
    typer.Argument(
        metavar="ARRAY[INDEX]",
        help="Cells as NumPy indexes them, without spaces or in quotes: out.npy[12,40], spectra.npz/flux[3,12:20,:]. Without an index all cells.",
        show_default=False,
    ),
]
AppOption = Annotated[
    str,
    typer.Option(
        "--app",
        metavar="APP",
        help="The array of this application, instead of the version that the file has now, or the latest array of the name.",
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--limit", min=0, help="Cells listed of each array (default: 20; with --json all)."
    ),
]
AllJobsOption = Annotated[
    bool,
    typer.Option(
        "--all-jobs",
        help="Go on through the programs that wrote what was read (or read what was written), as far as the bytes are the same, and through rows that arrays were made of or written to.",
    ),
]
ChoicesOption = Annotated[
    bool,
    typer.Option(
        "--choices",
        help="Where values chose among cells (a maximum, a sort, a mask): all that took part, not the chosen ones alone.",
    ),
]
PngOption = Annotated[
    Path | None,
    typer.Option(
        "--png",
        metavar="FILE",
        help="Write a picture: the cells that were asked about and those of each array, from left to right, over the values of the arrays where their files have not changed. "
        "Of more than two axes the plane with the most cells. Another PNG is replaced, other files are not.",
        show_default=False,
    ),
]
