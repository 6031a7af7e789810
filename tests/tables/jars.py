"""The jars by which Spark reads tables of other formats: fetched once, each with the SHA-256 that is written here."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lineage.stack.downloads import jars_of
from tests.support.versions import IN_35

HERE = Path(__file__).parent
LISTED = HERE / "tables-spark35" if IN_35 else HERE
"""Has what is to be fetched for this Spark."""


def table_jars() -> Path:
    """The folder with the jars.

    Raises:
        ValueError: they are not those that SHA256SUMS names.
    """
    folder = jars_of(LISTED / "pom.xml")
    wanted = {}
    for line in (LISTED / "SHA256SUMS").read_text().splitlines():
        digest, name = line.split()
        wanted[name] = digest
    found = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.glob("*.jar")}
    if found != wanted:
        raise ValueError(f"{folder} holds other jars than {LISTED / 'SHA256SUMS'} names")
    return folder
