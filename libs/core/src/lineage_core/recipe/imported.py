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

MISSING_MODULE = "not there"
UNREADABLE_MODULE = "its sources can't be read"
"""The mark of modules whose changes can't be detected: it equals no recorded mark."""


def modules_in(command: bytes) -> set[str]:
    """The modules, by their first names, that a pickle names and that are there, without Python's and Spark's."""
    texts = (arg for _, arg, _ in pickletools.genops(command) if isinstance(arg, str))
    return {name for text in texts for name in _first_names(text) if _is_module(name)}


def fingerprints_of(names: Iterable[str]) -> dict[str, str]:
    """A mark of each module, and of those that they import, as they are now."""
    fingerprints: dict[str, str] = {}
    pending = set(names)
    while pending:
        name = pending.pop()
        fingerprints[name], imported = _fingerprint(name)
        pending |= {
            imported_name
            for imported_name in imported
            if imported_name not in fingerprints and _spec(imported_name) is not None
        }
    return fingerprints


def _first_names(text: str) -> list[str]:
    # The opcode GLOBAL has module and name in one text.
    words = text.split(" ") if text.count(" ") == 1 else [text]
    names = [word.partition(".")[0] for word in words]
    return [name for name in names if name.isidentifier() and _is_third_party(name)]


def _is_third_party(name: str) -> bool:
    return name not in sys.stdlib_module_names and name not in {"__main__", "pyspark"}


def _is_module(name: str) -> bool:
    """Whether a text that may be any is a module's name: not that of just a folder which lies there."""
    spec = _spec(name)
    if spec is None or spec.origin is not None:
        return spec is not None
    folders = [Path(location) for location in spec.submodule_search_locations or ()]
    return name in sys.modules or any(any(location.glob("*.py")) for location in folders)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ValueError, ImportError):
        return None


def _fingerprint(name: str) -> tuple[str, frozenset[str]]:
    spec = _spec(name)
    if spec is None:
        return MISSING_MODULE, frozenset()
    folders = [Path(file_digest) for file_digest in spec.submodule_search_locations or ()]
    roots = folders or [Path(spec.origin or "")]
    if all(INSTALLED & set(root.parts) for root in roots):
        return _versions(name), frozenset()
    files = [file for root in roots for file in _source_files(root)]
    if not files or len(files) > SOURCES_MAX:
        return UNREADABLE_MODULE, frozenset()
    digest, imported = hashlib.sha256(), frozenset[str]()
    for relative_path, file in files:
        status = file.stat()
        file_digest, file_imports = _digest_and_imports(file, status.st_mtime_ns, status.st_size)
        digest.update(f"{relative_path}\0{file_digest}\n".encode())
        imported |= file_imports
    return f"sha256:{digest.hexdigest()}", imported


def _versions(name: str) -> str:
    owners = _distributions().get(name, [])
    versions = [f"{owner} {importlib.metadata.version(owner)}" for owner in sorted(set(owners))]
    return ", ".join(versions) or UNREADABLE_MODULE


@functools.cache
def _distributions() -> dict[str, list[str]]:
    """By module the distributions that hold it."""
    if sys.version_info < (3, 11):
        return distributions_by_files()
    return {
        name: list(owners) for name, owners in importlib.metadata.packages_distributions().items()
    }


def distributions_by_files() -> dict[str, list[str]]:
    """As above, by their lists of files; Python 3.10 by itself knows of distributions that name their modules alone."""
    owners: dict[str, list[str]] = {}
    for distribution in importlib.metadata.distributions():
        declared = (distribution.read_text("top_level.txt") or "").split()
        for name in declared or {
            file.parts[0] if len(file.parts) > 1 else file.stem
            for file in distribution.files or ()
            if file.suffix == ".py"
        }:
            owners.setdefault(name, []).append(distribution.metadata["Name"])
    return owners


def _source_files(root: Path) -> list[tuple[str, Path]]:
    """Files of a module with their places in it; none where it is no file of Python's."""
    if root.is_dir():
        return [(str(file.relative_to(root)), file) for file in sorted(root.rglob("*.py"))]
    return [(root.name, root)] if root.suffix == ".py" and root.is_file() else []


@functools.lru_cache(SOURCES_MAX)
def _digest_and_imports(file: Path, mtime_ns: int, size: int) -> tuple[str, frozenset[str]]:
    """The digest of a source file, and what it imports."""
    text = file.read_bytes()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return hashlib.sha256(text).hexdigest(), frozenset()
    imported_names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported_names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported_names.add(node.module.partition(".")[0])
    return hashlib.sha256(text).hexdigest(), frozenset(filter(_is_third_party, imported_names))
