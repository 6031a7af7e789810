"""What a storage or the table format says went wrong, as text for people."""

from __future__ import annotations

import re
from typing import Final

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE: Final = re.compile(r"\s*↳\s*")
_FRAME: Final = re.compile(r"^\s*at \S+\(.*\)$", re.MULTILINE)
"""Of a stack of Java, which HDFS sends along."""


def reason_of(error: BaseException) -> str:
    """An error on one line: delta-rs writes each cause below what it caused, for terminals with colours."""
    said = _FRAME.sub("", _COLOURS.sub("", str(error)))
    return " ".join(_CAUSE.sub(": ", said).split())
