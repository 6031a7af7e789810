"""Differences that are known, each with its reason. One that is mended is taken out."""

from __future__ import annotations

import re

KNOWN: tuple[tuple[str, str, str], ...] = ()
"""Patterns of the program's name and of what differs, and the reason."""


def known(name: str, what: str) -> str:
    """The reason why a program differs in this; empty where none is known."""
    for of_name, of_what, reason in KNOWN:
        if re.search(of_name, name) and re.search(of_what, what):
            return reason
    return ""
