"""Logs of tables of Delta Lake, written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Lines = list[dict[str, Any]]


def delta(folder: Path, *commits: Lines) -> str:
    """A table of Delta Lake with these versions."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    for version, lines in enumerate(commits):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (log / f"{version:020}.json").write_text(text)
        for name in (line["add"]["path"] for line in lines if "add" in line):
            if ":" not in name:
                (folder / name).touch()
    return str(folder)


def info(operation: str, **told: Any) -> Lines:
    return [{"commitInfo": {"operation": operation, "operationParameters": told}}]


def add(name: str, parts: dict[str, str] | None = None, *, changes: bool = True) -> Lines:
    return [{"add": {"path": name, "partitionValues": parts or {}, "dataChange": changes}}]


def remove(*names: str, changes: bool = True) -> Lines:
    return [{"remove": {"path": name, "dataChange": changes}} for name in names]


def wrote(mode: str, name: str, parts: dict[str, str] | None = None, **told: Any) -> Lines:
    """A write of one file."""
    return [*info("WRITE", **{"mode": mode, "partitionBy": "[]", **told}), *add(name, parts)]


def overwrote(name: str, *removed: str, read: int | None = None, **told: Any) -> Lines:
    """``read``: the version that it overwrote."""
    told_of, *files = wrote("Overwrite", name, **told)
    if read is not None:
        told_of["commitInfo"]["readVersion"] = read
    return [told_of, *files, *remove(*removed)]


def moved(name: str, *removed: str) -> Lines:
    return [*info("OPTIMIZE"), *add(name, changes=False), *remove(*removed, changes=False)]
