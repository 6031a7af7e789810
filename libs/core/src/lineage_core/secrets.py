"""Secrets that the environment gives: by a file, which other users can't see, or by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path


def secret_of(environment: Mapping[str, str], name: str, failed: Callable[[str], Exception]) -> str:
    """The content of the file that ``NAME_FILE`` names, without its line end, else the value of ``NAME``; empty: neither.

    Raises:
        Exception: that which ``failed`` makes of the words, where the file can't be read.
    """
    path = environment.get(f"{name}_FILE", "")
    if not path:
        return environment.get(name, "")
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise failed(f"{name}_FILE: can't read {path}: {problem}") from problem
