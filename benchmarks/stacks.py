"""Sampled stacks, one line each (``frame;frame;frame count``), and where the time of them goes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]*?)(?::(?P<line>\d+))?\)")
PACKAGES = ("lineage_core", "lineage_emitter", "lineage_store", "pyspark", "numpy", "pyarrow")
JOB, REST = "the job", "the rest"


class Frame(NamedTuple):
    """A function, and the part of the program that it belongs to."""

    part: str
    function: str
    file: str

    @property
    def name(self) -> str:
        return f"{self.function} ({self.file})"


@dataclass(frozen=True)
class Stack:
    """Samples that found the same. The innermost frame comes last."""

    frames: tuple[Frame, ...]
    samples: int

    @property
    def is_worker(self) -> bool:
        """Whether a PySpark worker was at work (its daemon does nothing worth a sample)."""
        return any(frame.file.endswith("pyspark/worker.py") for frame in self.frames)


@dataclass(frozen=True)
class Share:
    """``self_samples``: it was innermost. ``all_samples``: it was somewhere on the stack."""

    name: str
    self_samples: int
    all_samples: int


def read_stacks(text: str, job: str) -> list[Stack]:
    """Stacks of a file of py-spy's raw format; ``job``: file name of the program."""
    stacks = []
    for line in text.splitlines():
        words, _, count = line.rpartition(" ")
        if count.isdigit():
            stacks.append(_stack(words.split(";"), int(count), job))
    return stacks


def _stack(words: Sequence[str], samples: int, job: str) -> Stack:
    frames = [_frame(match, job) for word in words if (match := _FRAME.fullmatch(word))]
    return Stack(tuple(frames), samples)


def _frame(match: re.Match[str], job: str) -> Frame:
    path = PurePath(match["file"])
    package_names = [name for name in PACKAGES if name in path.parts]
    part = package_names[0] if package_names else JOB if path.name == job else REST
    # Where a package lies is of no interest, and differs from machine to machine.
    inside = path.parts[path.parts.index(package_names[0]) :] if package_names else path.parts[-1:]
    return Frame(part, match["function"], "/".join(inside))


def by_function(stacks: Iterable[Stack]) -> list[Share]:
    """Functions, those with the most samples of their own first."""
    return _shares(stacks, lambda frame: frame.name)


def by_part(stacks: Iterable[Stack]) -> list[Share]:
    """Parts of the program, likewise."""
    return _shares(stacks, lambda frame: frame.part)


def _shares(stacks: Iterable[Stack], name_of: Callable[[Frame], str]) -> list[Share]:
    inner: Counter[str] = Counter()
    anywhere: Counter[str] = Counter()
    for stack in stacks:
        names = [name_of(frame) for frame in stack.frames]
        if names:
            inner[names[-1]] += stack.samples
            for name in set(names):
                anywhere[name] += stack.samples
    shares = [Share(name, inner[name], count) for name, count in anywhere.items()]
    return sorted(shares, key=lambda share: (-share.self_samples, -share.all_samples, share.name))
