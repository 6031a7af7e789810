"""Runs parts of `tests.same` plainly and captured, each in a process of its own, and tells what differs."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lineage_core.contract.verdict import judge
from lineage_store.url import open_store
from tests.same import documented, shipped
from tests.same.calls import calls
from tests.same.known import expected, known
from tests.same.scenery import write_shared
from tests.support.job_runs import STORE, environment

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CAPTURING = ("-m", "lineage_emitter.autorun")
SETTINGS = {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "PYTHONHASHSEED": "0"}
WAYS = ("plain", "captured")
Outcomes = dict[str, dict[str, Any]]
"""By the program's name what a user saw of it, by field."""


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
    """``names``: of all programs. ``program``: a file of this folder that runs some of them.

    ``prepare``: writes what they read into the program's folder.
    """

    names: Callable[[], list[str]]
    program: str
    prepare: Callable[[Path], None] = lambda work: None

    def draw(self, seed: int, count: int | None, only: str | None) -> list[str]:
        """Some of the names, or all."""
        names = [name for name in self.names() if only is None or only in name]
        if count is None or count >= len(names):
            return names
        drawn = set(random.Random(seed).sample(names, count))
        return [name for name in names if name in drawn]

    def compare(self, names: Sequence[str], folder: Path) -> list[Difference]:
        """Run them both ways at once, below a folder that is made, and tell what differs."""
        with ThreadPoolExecutor(len(WAYS)) as pool:
            plain, captured = pool.map(lambda way: self._run(names, folder / way), WAYS)
        return [
            *differences(plain, captured),
            *nothing_compared(plain, captured),
            *of_the_verdict(folder / "captured"),
        ]

    def _run(self, names: Sequence[str], work: Path) -> Outcomes:
        work.mkdir(parents=True)
        self.prepare(work)
        (work / "names.json").write_text(json.dumps(names))
        capturing = CAPTURING if work.name == "captured" else ()
        ended = subprocess.run(
            [
                sys.executable,
                *capturing,
                str(HERE / self.program),
                str(work),
                "outcomes.jsonl",
                "names.json",
            ],
            cwd=work,
            # Programs may change to folders of their own: the store is where the verdict is looked for.
            env=environment(SETTINGS) | {"LINEAGE_STORE": f"sqlite:///{work / STORE}"},
            text=True,
            capture_output=True,
            check=False,
        )
        if ended.returncode:
            raise RuntimeError(f"{work.name}: exit code {ended.returncode}: {ended.stderr[-2000:]}")
        return dict(json.loads(line) for line in (work / "outcomes.jsonl").read_text().splitlines())


def differences(plain: Outcomes, captured: Outcomes) -> Iterator[Difference]:
    """What differs between the outcomes, by program and field."""
    for name in [*plain, *(captured.keys() - plain.keys())]:
        ours, theirs = plain.get(name, {}), captured.get(name, {})
        for what in sorted(ours.keys() | theirs.keys()):
            if what == "unknown" and "error" in theirs:
                # An action that failed is named.
                continue
            if ours.get(what) != theirs.get(what):
                yield Difference(name, what, ours.get(what), theirs.get(what), known(name, what))


def nothing_compared(plain: Outcomes, captured: Outcomes) -> Iterator[Difference]:
    """Programs that fail in both ways, unless that is what is expected of them: they compare nothing."""
    for name, outcome in plain.items():
        theirs = captured.get(name, {})
        if "error" in outcome and "error" in theirs:
            reason = expected(name, outcome["error"])
            yield Difference(name, "fails in both ways", outcome["error"], theirs["error"], reason)


def of_the_verdict(folder: Path) -> Iterator[Difference]:
    """What the verdict says beside the parts that it does not know, which calls tell themselves."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        applications = list(store.applications())
        if not applications:
            yield Difference(folder.name, "verdict", [], "nothing was captured")
        for record in applications:
            verdict = judge(store.messages(record.app), store.counts(record.app), now=time.time())
            reasons = [one for one in verdict.reasons if not one.startswith("unknown part")]
            if reasons:
                yield Difference(record.app, "verdict", [], reasons, known("verdict", reasons[0]))


PARTS = {
    "methods": Part(
        lambda: [call.name for call in calls()],
        "running.py",
        lambda work: write_shared(work / "shared"),
    ),
    "doctests": Part(documented.names, "documented.py"),
    "examples": Part(shipped.names, "shipped.py"),
}
