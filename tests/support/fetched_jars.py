"""Jars that tests fetch: once, each with the SHA-256 that is written beside its pom."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lineage.stack.downloads import jars_of


def fetched_jars(listed: Path) -> Path:
    """The folder with the jars that the ``pom.xml`` of a folder names.

    Raises:
        ValueError: they are not those that its SHA256SUMS names.
    """
    folder = jars_of(listed / "pom.xml")
    wanted = {}
    for line in (listed / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        wanted[name] = digest
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    if found != wanted:
        raise ValueError(f"{folder} holds other jars than {listed / 'SHA256SUMS'} names")
    return folder
