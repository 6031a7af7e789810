"""Settings in the files of Hadoop's installation (``mapred-site.xml`` and its like), which a command does not show."""

from __future__ import annotations

import os
import struct
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
SITE_FILE = "-site.xml"
DIRECTORY_END = struct.Struct("<4s4H2LH")
"""The end of a zip file, whose second last numbers are the size of its directory and where that begins, as far as it has no 64 bits."""
COMMENT_BYTES_MAX = (1 << 16) - 1


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
                for path in sorted(Path(place).glob(f"*{SITE_FILE}")):
                    yield str(path), path.read_bytes()
            elif _may_name(place, SITE_FILE.encode()) and zipfile.is_zipfile(place):
                with zipfile.ZipFile(place) as jar:
                    for name in jar.namelist():
                        if name.endswith(SITE_FILE) and "/" not in name:
                            yield f"{place}!{name}", jar.read(name)


def _may_name(path: str, part: bytes) -> bool:
    """Whether a zip file may hold a file with some part of a name: a look at its directory, which takes long to divide into names."""
    with suppress(OSError), open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - COMMENT_BYTES_MAX - DIRECTORY_END.size))
        end = file.read()
        at = end.rfind(b"PK\5\6")
        if at < 0 or len(end) - at < DIRECTORY_END.size:
            return False
        *_, length, begin, _ = DIRECTORY_END.unpack_from(end, at)
        before = size - len(end) + at
        if begin + length != before:
            # It has 64 bits, or something stands in front of it.
            return True
        file.seek(begin)
        return part in file.read(length)
    return False
