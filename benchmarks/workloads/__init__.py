"""The jobs that are measured: name, how its input is made, how it is started."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import vocabulary, write_flights, write_text

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
GREP_RANK = 8
"""The word to look for: the 8th most frequent, in 9 % of the lines."""


@dataclass(frozen=True)
class Workload:
    """``script`` is run as ``script INPUT OUTPUT PARTITIONS *extra``."""

    name: str
    script: Path
    prepare: Callable[[Path, int], Path]
    """(folder, bytes) -> the input to hand to the script; made once, then kept."""
    extra: tuple[str, ...] = ()

    def arguments(self, source: Path, output: Path, partitions: int) -> list[str]:
        """Arguments of one run, the script first."""
        return [str(self.script), str(source), str(output), str(partitions), *self.extra]


def _text(folder: Path, size: int) -> Path:
    target = folder / f"text-{size}.txt"
    if not target.exists():
        write_text(target, size)
    return target


def _flights(folder: Path, size: int) -> Path:
    target = folder / f"flights-{size}"
    if not (target / "flights.csv").exists():
        write_flights(target, size)
    return target


def input_bytes(source: Path) -> int:
    """Bytes of an input: a file, or the files directly in a folder."""
    files = [source] if source.is_file() else [path for path in source.iterdir() if path.is_file()]
    return sum(path.stat().st_size for path in files)


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("wordcount", HERE / "wordcount.py", _text),
        Workload(
            "grep", HERE / "grep.py", _text, (str(vocabulary()[GREP_RANK - 1], encoding="ascii"),)
        ),
        Workload("flights", ROOT / "examples" / "flights" / "job.py", _flights),
    )
}
