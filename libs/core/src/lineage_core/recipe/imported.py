"""What a pickled function imports, and marks by which a later process sees that it is the same.

A pickle names what it takes from modules, and code names what it imports when it runs: both are texts in it. A
text that happens to be a module's name costs a mark too many and does no harm. Of an installed package the mark
is its version; of any other module a digest of its sources, and what these import is marked, too.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import importlib.util
import pickletools
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}
"""Folders of packages whose code changes with their version alone."""

SOURCES_MAX = 2_000
"""Source files of one module that are read for its mark."""

GONE = "not there"
UNREADABLE = "its sources can't be read"
"""A mark of modules that can't be told from changed ones: it is not equal to what was noted."""


def modules_in(command: bytes) -> set[str]:
    """The modules, by their first names, that a pickle names and that are there, without Python's and Spark's."""
    texts = (arg for _, arg, _ in pickletools.genops(command) if isinstance(arg, str))
    return {name for text in texts for name in _first_names(text) if _is_module(name)}


def marks(names: Iterable[str]) -> dict[str, str]:
    """A mark of each module, and of those that they import, as they are now."""
    found: dict[str, str] = {}
    todo = set(names)
    while todo:
        name = todo.pop()
        found[name], imported = _mark(name)
        todo |= {one for one in imported if one not in found and _spec(one) is not None}
    return found


def _first_names(text: str) -> list[str]:
    # The opcode GLOBAL has module and name in one text.
    words = text.split(" ") if text.count(" ") == 1 else [text]
    first = [word.partition(".")[0] for word in words]
    return [one for one in first if one.isidentifier() and _is_foreign(one)]


def _is_foreign(name: str) -> bool:
    return name not in sys.stdlib_module_names and name not in {"__main__", "pyspark"}


def _is_module(name: str) -> bool:
    """Whether a text that may be any is a module's name: not that of just a folder which lies there."""
    spec = _spec(name)
    if spec is None or spec.origin is not None:
        return spec is not None
    folders = [Path(one) for one in spec.submodule_search_locations or ()]
    return name in sys.modules or any(any(one.glob("*.py")) for one in folders)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ValueError, ImportError):
        return None


def _mark(name: str) -> tuple[str, frozenset[str]]:
    spec = _spec(name)
    if spec is None:
        return GONE, frozenset()
    folders = [Path(one) for one in spec.submodule_search_locations or ()]
    roots = folders or [Path(spec.origin or "")]
    if all(INSTALLED & set(root.parts) for root in roots):
        return _versions(name), frozenset()
    files = [file for root in roots for file in _sources(root)]
    if not files or len(files) > SOURCES_MAX:
        return UNREADABLE, frozenset()
    digest, imported = hashlib.sha256(), frozenset[str]()
    for place, file in files:
        status = file.stat()
        one, named = _source(file, status.st_mtime_ns, status.st_size)
        digest.update(f"{place}\0{one}\n".encode())
        imported |= named
    return f"sha256:{digest.hexdigest()}", imported


def _versions(name: str) -> str:
    owners = _distributions().get(name, [])
    versions = [f"{one} {importlib.metadata.version(one)}" for one in sorted(set(owners))]
    return ", ".join(versions) or UNREADABLE


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return {
        name: list(owners) for name, owners in importlib.metadata.packages_distributions().items()
    }


def _sources(root: Path) -> list[tuple[str, Path]]:
    """Files of a module with their places in it; none where it is no file of Python's."""
    if root.is_dir():
        return [(str(file.relative_to(root)), file) for file in sorted(root.rglob("*.py"))]
    return [(root.name, root)] if root.suffix == ".py" and root.is_file() else []


@functools.lru_cache(SOURCES_MAX)
def _source(file: Path, mtime_ns: int, size: int) -> tuple[str, frozenset[str]]:
    """The digest of a source file, and what it imports."""
    text = file.read_bytes()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return hashlib.sha256(text).hexdigest(), frozenset()
    named = set[str]()
    for one in ast.walk(tree):
        if isinstance(one, ast.Import):
            named |= {alias.name.partition(".")[0] for alias in one.names}
        elif isinstance(one, ast.ImportFrom) and one.module and not one.level:
            named.add(one.module.partition(".")[0])
    return hashlib.sha256(text).hexdigest(), frozenset(filter(_is_foreign, named))
