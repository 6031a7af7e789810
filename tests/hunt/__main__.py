"""python -m tests.hunt --seed S --seconds N --only KIND...: see `tests.hunt`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from tests.hunt.hunting import Hunt, Tally, hunt, summary
from tests.hunt.kinds import KINDS


def main() -> int:
    """Hunt for violations; 1 where there were any."""
    # As Ctrl-C does: what was started is stopped.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given = _arguments()
    kinds = [kind for kind in KINDS if not given.only or kind.name in given.only]
    given.log.parent.mkdir(parents=True, exist_ok=True)
    tallies: list[Tally] = []
    with (
        given.log.open("a") as log,
        tempfile.TemporaryDirectory(prefix="hunt-", dir=_quick_disk()) as folder,
    ):
        for kind in kinds:
            bounds = Hunt(
                given.seed,
                given.seconds / len(kinds),
                log,
                given.shrink,
                given.programs,
                given.found,
            )
            tallies.append(hunt(kind, bounds, Path(folder, kind.name)))
            _report(tallies[-1])
    sys.stdout.write(summary(tallies) + "\n")
    return 1 if any(tally.found for tally in tallies) else 0


def _arguments() -> argparse.Namespace:
    names = [kind.name for kind in KINDS]
    parser = argparse.ArgumentParser(prog="python -m tests.hunt")
    parser.add_argument("--seed", type=int, default=1, help="of the first batch (default: 1)")
    parser.add_argument("--seconds", type=float, default=300, help="for all kinds (default: 300)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="KIND", help=", ".join(names))
    parser.add_argument("--programs", type=int, help="at most so many of each kind")
    parser.add_argument("--found", type=int, default=5, help="violations of a kind (default: 5)")
    parser.add_argument("--shrink", type=float, default=60, help="seconds for what is found")
    parser.add_argument("--log", type=Path, default=Path("build/hunt.jsonl"), help="JSON lines")
    return parser.parse_args()


def _quick_disk() -> Path | None:
    """A folder in memory, where there is one."""
    memory = Path("/dev/shm")
    return memory if memory.is_dir() else None


def _report(tally: Tally) -> None:
    lines = [str(tally)]
    for found in tally.found:
        lines.append(
            f"  seed {found['seed']}, after {found['found_after_s']} s: {found['program']}"
        )
        lines += [f"    {fault}" for fault in found["faults"]]
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
