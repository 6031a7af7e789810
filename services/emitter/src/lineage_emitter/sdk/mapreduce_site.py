"""Settings in the files of Hadoop's installation (``mapred-site.xml`` and its like), which a command does not show."""

from __future__ import annotations

import os
import subprocess
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from glob import glob
from itertools import pairwise
from pathlib import Path

CLASSPATH_OPTIONS = ("-cp", "-classpath", "--class-path")
PROGRAMS = ("hadoop", "mapred", "yarn")
"""Programs of Hadoop that say where they look for classes and settings."""
ANSWER_S = 60


def site_settings(start: Sequence[str], names: Collection[str]) -> list[tuple[str, str]]:
    """Which settings of some names stand in files that a command reads, and in which.

    Args:
        start: the words of the command before the options of the job.
        names: of settings.
    """
    found = []
    for place, content in _site_files(_classpath(start)):
        found += [(name, place) for name in names if name.encode() in content]
    return found


def _classpath(start: Sequence[str]) -> list[str]:
    given = [os.environ.get("CLASSPATH", "")]
    given += [after for word, after in pairwise(start) if word in CLASSPATH_OPTIONS]
    if os.path.basename(start[0]) in PROGRAMS:
        at = start.index("jar") if "jar" in start else 1
        with suppress(OSError):  # then the job can't be started, either
            answer = subprocess.run(
                [*start[:at], "classpath"],
                capture_output=True,
                text=True,
                check=False,
                timeout=ANSWER_S,
            )
            given.append(answer.stdout.strip())
    return [place for path in given for place in path.split(os.pathsep) if place]


def _site_files(classpath: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for pattern in dict.fromkeys(classpath):
        for place in glob(f"{pattern}.jar") if pattern.endswith("*") else [pattern]:
            if os.path.isdir(place):
                for path in sorted(Path(place).glob("*-site.xml")):
                    yield str(path), path.read_bytes()
            elif zipfile.is_zipfile(place):
                with zipfile.ZipFile(place) as jar:
                    for name in jar.namelist():
                        if name.endswith("-site.xml") and "/" not in name:
                            yield f"{place}!{name}", jar.read(name)
