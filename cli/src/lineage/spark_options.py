"""The options of ``lineage back`` and ``forward`` that are of one engine alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from lineage_core.text_enum import StrEnum


class Engine(StrEnum):
    """What traces."""

    EMBEDDED = "embedded"
    SPARK = "spark"


@dataclass(frozen=True, slots=True)
class SparkTraceOptions:
    """What is chosen. ``items``: a file that lists rows; ``together``: rows of the answer are not told apart by those of the question."""

    engine: str
    items: Path | None
    together: bool
    most_rows: int | None

    def is_chosen(self, places: Sequence[str] | None) -> bool:
        """Whether Spark traces; its options are refused where it does not.

        Raises:
            BadParameter: they are, or nothing is named.
        """
        if self.engine not in set(Engine):
            raise typer.BadParameter(f"{self.engine!r} is none of " + ", ".join(Engine))
        is_spark = self.engine == Engine.SPARK
        if not is_spark and (self.items or self.together or self.most_rows is not None):
            raise typer.BadParameter("--items, --together and --rows take --engine spark")
        if not places and not self.items:
            raise typer.BadParameter(
                "name rows, files or folders"
                + (", or a file of rows by --items" if is_spark else "")
            )
        return is_spark

    @staticmethod
    def refuse(given: Mapping[str, bool]) -> None:
        """Refuse options of the other engine. ``given``: by name, whether it is given.

        Raises:
            BadParameter: one is.
        """
        named = [name for name, is_given in given.items() if is_given]
        if named:
            raise typer.BadParameter(f"{', '.join(named)}: not of --engine spark")
