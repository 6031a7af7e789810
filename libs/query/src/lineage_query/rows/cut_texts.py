"""Texts of rows that are too long to be shown completely: they are cut and marked."""

from __future__ import annotations

import re
from codecs import getincrementaldecoder

TEXT_BYTES_MAX = 1 << 16
"""Bytes (UTF-8) of a row that are shown."""
_CUT = re.compile(r" \[cut: [\d,]+ of (?:about )?[\d,]+ bytes\]\Z")
_CUT_MAX = 80


def cut_text(beginning: bytes, length: int, *, about: bool = False) -> str:
    """The text of a row of ``length`` bytes of which the beginning is shown; ``about``: it has roughly so many."""
    # Not final: a character split by the cut is left out.
    text = getincrementaldecoder("utf-8")("replace").decode(beginning)
    some = "about " if about else ""
    return f"{text} [cut: {len(beginning):,} of {some}{length:,} bytes]"


def is_cut(text: str | None) -> bool:
    """Whether a text is only the beginning of a row's text."""
    if text is None or len(text) < TEXT_BYTES_MAX // 4:
        return False
    return _CUT.search(text, len(text) - _CUT_MAX) is not None
