"""What files of a format give back of the values that were written into them."""

from __future__ import annotations

from lineage_dataframes.spark import literals

TRIMMED_CHARACTERS = "".join(map(chr, range(ord(" ") + 1)))
"""What CSV's writer takes from both ends of a text."""
LOSSY_TEXT_FORMATS = frozenset({"csv", "text"})
"""Formats that give an empty text and NULL back as one; CSV trims texts, too."""
TEXT_TYPES = ("string", "char", "varchar")


def loses_values(kind: str, written: str | None) -> bool:
    """Whether several values of a type are one in files of a format; ``written``: None for values in no file."""
    return written in LOSSY_TEXT_FORMATS and kind.startswith(TEXT_TYPES)


def text_as_written(term: str, written: str | None) -> str:
    """A text, a term of SQL, as files of a format that `loses_values` some give it back, but for NULL, which is empty here."""
    text = f"coalesce({term}, '')"
    return (
        f"trim(BOTH {literals.string_constant(TRIMMED_CHARACTERS)} FROM {text})"
        if written == "csv"
        else text
    )
