"""Differences that are known, each with its reason. One that is mended is taken out."""

from __future__ import annotations

import re

KNOWN: tuple[tuple[str, str, str], ...] = (
    (r"", "^sites$", "Spark's jobs have names of capture's own code"),
    (
        r"mapPartitions|runJob|foreachPartition",
        "^(result|given)$",
        "the first function is given an iterator for a range or a list",
    ),
    (r"textFile\(name=", "^(error|result|given)$", "a parameter of capture's own is called name"),
)
"""Patterns of the program's name and of what differs, and the reason."""


def known(name: str, what: str) -> str:
    """The reason why a program differs in this; empty where none is known."""
    for of_name, of_what, reason in KNOWN:
        if re.search(of_name, name) and re.search(of_what, what):
            return reason
    return ""
