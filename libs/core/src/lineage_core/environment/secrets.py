"""Secrets that the environment gives: by a file, which other users can't see, or by value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from lineage_core.errors import LineageError


class SecretFileError(LineageError):
    """The file of a secret can't be read."""


def read_secret(path: str) -> str:
    """The content of a secret's file, without the line end.

    Raises:
        SecretFileError: it can't be read.
    """
    try:
        return Path(path).read_text(encoding="utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise SecretFileError(f"can't read the secret in {path}: {problem}") from problem


def secret_from_environment(
    environment: Mapping[str, str], name: str, failed: Callable[[str], Exception]
) -> str:
    """The content of the file that ``NAME_FILE`` names, without its line end, else the value of ``NAME``; empty: neither.

    Raises:
        Exception: that which ``failed`` makes of the words, where the file can't be read.
    """
    path = environment.get(f"{name}_FILE", "")
    if not path:
        return environment.get(name, "")
    try:
        return read_secret(path)
    except SecretFileError as problem:
        raise failed(f"{name}_FILE: {problem}") from problem
