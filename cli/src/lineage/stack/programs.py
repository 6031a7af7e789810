"""Programs that the stack takes from the machine: Java, Maven and Redis."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from lineage.stack.errors import MissingProgramError

JAVA_VERSIONS = ("17", "21")
"""What Neo4j 5.26 runs on; Kafka 4.1 runs on these too."""


def java() -> Path:
    """The java program to run servers with.

    Raises:
        MissingProgramError: no Java of a version that fits.
    """
    for home in _java_homes():
        program = home / "bin" / "java"
        if program.exists() and _java_version(home) in JAVA_VERSIONS:
            return program
    raise MissingProgramError(
        f"Kafka and Neo4j need Java {' or '.join(JAVA_VERSIONS)} and none was found: install one "
        "(Debian: apt install openjdk-17-jre-headless) or point JAVA_HOME at it"
    )


def maven() -> Path:
    """The mvn program.

    Raises:
        MissingProgramError: there is none.
    """
    return _on_path("mvn", "Maven, which fetches Kafka and Neo4j,", "maven")


def redis_server() -> Path:
    """The redis-server program.

    Raises:
        MissingProgramError: there is none.
    """
    return _on_path("redis-server", "Redis", "redis-server")


def _on_path(program: str, label: str, package: str) -> Path:
    path = shutil.which(program)
    if path is None:
        raise MissingProgramError(
            f"{label} is not installed (no {program} on the path): apt install {package} "
            "(Debian, Ubuntu), then try again"
        )
    return Path(path)


def _java_homes() -> Iterator[Path]:
    named = os.environ.get("JAVA_HOME")
    if named:
        yield Path(named)
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parents[1]
    yield from sorted(Path("/usr/lib/jvm").glob("*"))


def _java_version(home: Path) -> str:
    """The major version, from the file that every Java carries since 9; empty when there is none."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    match = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    return match[1] if match else ""
