"""What makes commands start quickly."""

from __future__ import annotations

import os
import sys
from copy import copy
from importlib import import_module
from typing import Any

import typer

from lineage_core.environment.extras import DISTRIBUTION
from lineage_core.errors import LineageError

THREADS = "OPENBLAS_NUM_THREADS"


class CommandLine(typer.Typer):
    """Makes the one command that the process runs.

    Making all commands from their annotations takes a tenth of the time of a short one.
    """

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return typer.Typer.__call__(self._only(sys.argv[1:2]), *arguments, **named)

    def _only(self, first: list[str]) -> CommandLine:
        """With the command alone that the first word names; with all, if it is an option or anything else."""
        chosen = [command for command in self.registered_commands if [command.name] == first]
        if not chosen:
            return self
        only = copy(self)
        only.registered_commands, only.registered_groups = chosen, []
        return only


def load_numpy() -> None:
    """Load NumPy without threads for linear algebra, which queries need none of: as they start, they keep cores busy.

    Processes that are started from here get the environment as it was.
    """
    if "numpy" in sys.modules or THREADS in os.environ:
        return
    os.environ[THREADS] = "1"
    try:
        import_module("numpy")
    finally:
        del os.environ[THREADS]


def load_arrays() -> None:
    """Load NumPy and the package of arrays.

    Raises:
        LineageError: NumPy is too old for arrays.
    """
    load_numpy()
    try:
        import_module("lineage_arrays")
    except ImportError as problem:
        raise LineageError(
            f"{problem}: the extra [arrays] of {DISTRIBUTION} brings it"
        ) from problem
