"""Where the time of a captured job's workers goes: python -m benchmarks.profile wordcount grep.

Runs each job once under py-spy, which looks at all Python processes a hundred times a second, and
writes docs/profiles/NAME-MODE.md: the parts of the program and the functions with the most samples of
their own. Compiled code counts for the Python function that called it. Needs to be allowed to look at
other processes (root, or kernel.yama.ptrace_scope=0 below sudo).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.catalog import ROOT, WORKLOADS
from benchmarks.generate import parse_size
from benchmarks.modes import IN_DETAIL
from benchmarks.pairs import LAUNCHERS, LOG_TAIL, PLAIN, SPOOL, RunError, Setup, environment_of
from benchmarks.provenance import provenance
from benchmarks.stacks import Share, Stack, by_function, by_part, read_stacks

RATE = 100
"""Samples a second of each process."""
FUNCTIONS = 25
DETAILED = "detailed"
MODES = {PLAIN: PLAIN, SPOOL: SPOOL, DETAILED: SPOOL}
"""Names of modes, and the kind of run of each."""


def sampled(setup: Setup, mode: str) -> list[Stack]:
    """Run a job under py-spy; the stacks of its workers.

    Raises:
        RunError: the job failed, or py-spy saw no worker.
    """
    home = setup.folder
    (home / "events").mkdir(parents=True)
    raw, log = home / "stacks", home / "log"
    script = setup.workload.arguments(setup.source, home / "out", setup.partitions)
    spy = [str(Path(sys.executable).with_name("py-spy")), "record", "--subprocesses"]
    spy += ["--rate", str(RATE), "--format", "raw", "--full-filenames", "--function"]
    command = [*spy, "--output", str(raw), "--", sys.executable, *LAUNCHERS[MODES[mode]], *script]
    chosen = {**setup.workload.settings, **(IN_DETAIL if mode == DETAILED else {})}
    environment = environment_of(home, setup) | chosen
    with log.open("wb") as out:
        result = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=out, stderr=out, check=False
        )
    log_text = log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]
    if result.returncode != 0 or not raw.exists():
        raise RunError(
            f"{setup.workload.name} under py-spy ended with {result.returncode}:\n{log_text}"
        )
    stacks = read_stacks(raw.read_text(encoding="utf-8"), setup.workload.script.name)
    workers = [stack for stack in stacks if stack.is_worker]
    if not workers:
        raise RunError(f"py-spy saw no worker of {setup.workload.name}:\n{log_text}")
    return workers


def summary(name: str, mode: str, stacks: Sequence[Stack]) -> str:
    """The page of a profile."""
    total = sum(stack.samples for stack in stacks)
    origin = provenance()
    title = f"# Profile: {name}, {mode}"
    about = (
        f"{total:,} samples of its workers at {RATE} a second; `{origin['command']}`, commit "
        f"{origin['commit']}, Python {origin['python']}, {origin['cores']} cores."
    )
    parts = _table("part", by_part(stacks), total)
    functions = _table("function", by_function(stacks)[:FUNCTIONS], total)
    return "\n\n".join([title, about, "## Parts", parts, "## Functions", functions]) + "\n"


def _table(head: str, shares: Sequence[Share], total: int) -> str:
    lines = [f"| {head} | itself | with what it calls |", "|---|---|---|"]
    for share in shares:
        own, everything = share.self_samples / total, share.all_samples / total
        lines.append(f"| `{share.name}` | {own:.1%} | {everything:.1%} |")
    return "\n".join(lines)


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("names", nargs="+", choices=list(WORKLOADS), metavar="NAME")
    parser.add_argument("--mode", choices=list(MODES), default=SPOOL)
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"))
    parser.add_argument("--rows", type=int, default=1_000_000, help="of join and pagerank")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "profiles")
    options = parser.parse_args()
    for name in options.names:
        workload = WORKLOADS[name]
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            amount = options.rows if workload.by_rows else options.size
            source = workload.prepare(folder / "inputs", amount)
            setup = Setup(workload, source, folder / name, options.partitions, options.cores)
            try:
                page = summary(name, options.mode, sampled(setup, options.mode))
            except RunError as error:
                print(error, file=sys.stderr)
                return 1
        options.folder.mkdir(parents=True, exist_ok=True)
        target = options.folder / f"{name}-{options.mode}.md"
        target.write_text(page, encoding="utf-8")
        print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
