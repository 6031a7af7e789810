"""Runs parts of `tests.same` plainly and captured, each in a process of its own, and tells what differs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lineage_core.verdict import judge
from lineage_store.opening import open_store
from tests.job_runs import STORE, environment
from tests.same.calls import calls
from tests.same.known import known
from tests.same.scenery import write_shared

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CAPTURING = ("-m", "lineage_emitter.autorun")


@dataclass(frozen=True, slots=True)
class Difference:
    """``name``: of the program. ``known``: the reason, where the difference is known."""

    name: str
    what: str
    plain: Any
    captured: Any
    known: str = ""

    def to_json(self) -> dict[str, Any]:
        """As the log has it."""
        return asdict(self)


@dataclass(frozen=True)
class Part:
    """``names``: of all programs. ``compare``: runs some of them twice, below a folder that it makes."""

    names: Callable[[], list[str]]
    compare: Callable[[Sequence[str], Path], list[Difference]]

    def draw(self, seed: int, count: int | None, only: str | None) -> list[str]:
        """Some of the names, or all."""
        names = [name for name in self.names() if only is None or only in name]
        if count is None or count >= len(names):
            return names
        drawn = set(random.Random(seed).sample(names, count))
        return [name for name in names if name in drawn]


def run(
    folder: Path, words: Iterable[str], *, captured: bool, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program of Python in ``folder``, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    env = environment({"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable})
    return subprocess.run(
        [sys.executable, *(CAPTURING if captured else ()), *words],
        cwd=folder,
        env=env,
        text=True,
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def both(folder: Path, words: Callable[[Path], list[str]], out: str) -> Iterator[dict[str, Any]]:
    """What a program wrote into the file ``out`` of its folder, plainly and then captured.

    Raises:
        RuntimeError: it failed.
    """
    for way in ("plain", "captured"):
        ended = run(folder / way, words(folder / way), captured=way == "captured")
        if ended.returncode:
            raise RuntimeError(f"{way}: exit code {ended.returncode}: {ended.stderr[-2000:]}")
        lines = (folder / way / out).read_text().splitlines()
        yield dict(json.loads(line) for line in lines)


def differences(plain: dict[str, Any], captured: dict[str, Any]) -> Iterator[Difference]:
    """What differs between the outcomes, by program and field."""
    for name, outcome in plain.items():
        other = captured.get(name, {})
        for what in sorted(outcome.keys() | other.keys()):
            one, two = outcome.get(what), other.get(what)
            if what == "unknown" and "error" in other:
                # An action that failed is named.
                continue
            if one != two:
                yield Difference(name, what, one, two, known(name, what))


def of_the_verdict(folder: Path) -> Iterator[Difference]:
    """What the verdict says beside the parts that it does not know, which calls tell themselves."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        for record in store.applications():
            verdict = judge(store.messages(record.app), store.counts(record.app), now=time.time())
            reasons = [one for one in verdict.reasons if not one.startswith("unknown part")]
            if reasons:
                yield Difference(record.app, "verdict", [], reasons, known("verdict", reasons[0]))


def _compare_calls(names: Sequence[str], folder: Path) -> list[Difference]:
    def words(work: Path) -> list[str]:
        work.mkdir(parents=True)
        write_shared(work / "shared")
        (work / "names.json").write_text(json.dumps(names))
        return [str(HERE / "running.py"), str(work), "outcomes.jsonl", "names.json"]

    plain, captured = both(folder, words, "outcomes.jsonl")
    return [*differences(plain, captured), *of_the_verdict(folder / "captured")]


PARTS = {"methods": Part(lambda: [call.name for call in calls()], _compare_calls)}
