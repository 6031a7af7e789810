"""What finding a fault costs: each is put back into a copy of the code, and hunted until it is found.

    make hunt-faults                              # all, some minutes each at most
    make hunt-faults ARGS='attempts kept --seconds 60 --seed 7'

A fault is the mend undone: a few lines of the code as it is, and what stands in their place. The tree stays as it is:
Python finds the copy first, in all processes of the hunt that look for packages where they are told to. A line for each
fault and each kind that it was hunted by: after how many seconds, programs and claims it was found, or that it was not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORE = "libs/core/src/lineage_core"
STORE = "libs/store/src/lineage_store"
QUERY = "libs/query/src/lineage_query"
FRAMES = "libs/dataframes/src/lineage_dataframes"
EMITTER = "services/emitter/src/lineage_emitter"


@dataclass(frozen=True)
class Change:
    """A text of a file, which stands in it just once, and what takes its place."""

    file: str
    text: str
    instead: str

    def applied(self, content: str) -> str:
        """The content of the file with the change.

        Raises:
            ValueError: the text is not there just once.
        """
        if content.count(self.text) != 1:
            raise ValueError(f"{self.file} does not hold just once: {self.text}")
        return content.replace(self.text, self.instead)


@dataclass(frozen=True)
class Fault:
    """``says``: what is wrong with it. ``kinds``: of the hunt, which find it."""

    name: str
    says: str
    kinds: tuple[str, ...]
    changes: tuple[Change, ...]


FAULTS = (
    Fault(
        "attempts",
        "keys lead to the rows of all attempts at a map task, whichever was read",
        ("blocks", "tasks", "executors"),
        (
            Change(
                f"{CORE}/linking/attempts.py",
                "return attempts is None or bool(",
                "return True or bool(",
            ),
            Change(f"{CORE}/linking/attempts.py", "    if attempts is None:\n", "    if True:\n"),
        ),
    ),
    Fault(
        "state",
        "edges narrow traces, and a verdict is complete, though the linker lost its state",
        ("state",),
        (
            Change(
                f"{CORE}/tracing/block_lookup.py",
                "sealed = graph.sealed(many) if many else ()",
                "sealed = tuple(many)",
            ),
            Change(f"{CORE}/contract/verdict.py", "    if counts.unsealed:\n", "    if False:\n"),
        ),
    ),
    Fault(
        "lost",
        "what lost records would have said of an application's operators is taken to be nothing",
        ("state",),
        (
            Change(
                f"{STORE}/records.py",
                "if lost or (totals is not None and len(nodes_by_id) < totals.nodes):",
                "if False:",
            ),
            Change(
                f"{STORE}/records.py",
                "inexact_reason = RECORDS_LOST if lost else abandoned",
                "inexact_reason = abandoned",
            ),
        ),
    ),
    Fault(
        "text",
        "Spark replaces ${...} in the text of a trace's query",
        ("frames",),
        (
            Change(
                f"{FRAMES}/spark/settings.py",
                '"spark.sql.variable.substitute": "false"',
                '"spark.sql.variable.substitute": "true"',
            ),
        ),
    ),
    Fault(
        "kept",
        "rows of dropDuplicates, first and any_value are made of their whole group",
        ("frames",),
        (
            Change(
                f"{FRAMES}/rewrite/building.py",
                "expressions = row_expressions(node) if top else None",
                "expressions = None",
            ),
            Change(
                f"{FRAMES}/rewrite/choices.py",
                "return bool(_row_choices(node)) and not reads_all_rows(node)",
                "return False",
            ),
        ),
    ),
    Fault(
        "sources",
        "a file of the same size and time is taken for the one that was read",
        ("sources",),
        (
            Change(
                f"{QUERY}/rows/bound_rows.py",
                "zip(texts, checked or [None] * len(texts), strict=True)",
                "zip(texts, [None] * len(texts), strict=True)",
            ),
            Change(
                f"{QUERY}/rows/locations.py",
                '"changed" if False in checked else file_status',
                "file_status",
            ),
        ),
    ),
    Fault(
        "readers",
        "the latest application that read a source is asked forward, and no other",
        ("loads",),
        (
            Change(
                f"{QUERY}/planning.py",
                "[app for app in self._ids if app in places]",
                "[app for app in self._ids if app in places][:1]",
            ),
        ),
    ),
    Fault(
        "writes",
        "rows of an output are asked for in the last write to it alone",
        ("loads",),
        (
            Change(
                f"{QUERY}/planning.py",
                "for write in state.writes:",
                "for write in state.writes[:1]:",
            ),
        ),
    ),
    Fault(
        "functions",
        "what a function over a partition keeps from one record to the next is looked over",
        ("functions",),
        (
            Change(
                f"{EMITTER}/code/expressions.py",
                'raise NotProvenError(node, f"{node.id} may hold what an earlier record left there")',
                "return Kind.RECORD",
            ),
            Change(
                f"{EMITTER}/code/assigned.py",
                "if name.id in self.watched and name.id not in sure:",
                "if False:",
            ),
        ),
    ),
)


def put_back(fault: Fault, folder: Path) -> list[Path]:
    """Copy the packages into a folder, with the fault among them.

    Returns:
        Where Python finds them.

    Raises:
        ValueError: the code is not what the fault was written for.
    """
    found = []
    for source in sorted(ROOT.glob("*/src")) + sorted(ROOT.glob("*/*/src")):
        copy = folder / source.relative_to(ROOT)
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        found.append(copy)
    for change in fault.changes:
        file = folder / change.file
        file.write_text(change.applied(file.read_text("utf-8")), "utf-8")
    return found


def seconds_until_found(fault: Fault, kind: str, seed: int, seconds: float) -> str:
    """Hunt a fault by one kind; one line."""
    with tempfile.TemporaryDirectory(prefix="fault-") as place:
        folder = Path(place)
        packages = put_back(fault, folder)
        log = folder / "hunt.jsonl"
        bounds = ("--seed", str(seed), "--seconds", str(seconds), "--shrink", "0", "--found", "1")
        begun = time.monotonic()
        hunted = subprocess.run(
            [sys.executable, "-m", "tests.hunt", "--only", kind, "--log", str(log), *bounds],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, packages))},
            capture_output=True,
            text=True,
            check=False,
        )
        lasted = time.monotonic() - begun
        if hunted.returncode not in (0, 1) or not log.exists():
            raise RuntimeError(hunted.stdout + hunted.stderr[-2000:])
        lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    tried = [one for one in lines if not one.get("found") and not one["shrinking"]]
    programs, claims = (sum(one[name] for one in tried) for name in ("programs", "rows"))
    found = next((one for one in lines if one.get("found")), None)
    after = f"{programs:,} programs, {claims:,} claims"
    if found is None:
        return f"{fault.name}, {kind}: not found in {lasted:.0f} s ({after})"
    return f"{fault.name}, {kind}: found after {found['found_after_s']} s ({after}): {found['faults'][0]}"


def main() -> int:
    """Hunt faults; 1 where one was not found."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hunt.put_back",
        description="Put faults back one by one, and tell how long the hunt takes to find each.",
        epilog="\n".join(f"{one.name}: {one.says}" for one in FAULTS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [one.name for one in FAULTS]
    parser.add_argument("faults", nargs="*", metavar="FAULT", help=", ".join(names))
    parser.add_argument("--seed", type=int, default=1, help="of the hunt (default: 1)")
    parser.add_argument("--seconds", type=float, default=300, help="for each (default: 300)")
    parser.add_argument("--only", nargs="+", metavar="KIND", help="kinds of the hunt")
    given = parser.parse_args()
    if unknown := set(given.faults) - set(names):
        parser.error(f"no such fault: {', '.join(sorted(unknown))}")
    missed = False
    for fault in FAULTS:
        for kind in fault.kinds:
            if (given.faults and fault.name not in given.faults) or (
                given.only and kind not in given.only
            ):
                continue
            line = seconds_until_found(fault, kind, given.seed, given.seconds)
            missed |= "not found" in line
            sys.stdout.write(line + "\n")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
