"""python -m tests.fuzz --seed S --seconds N --only TARGET...: see `tests.fuzz`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from tests.fuzz import decoders, over_http, requests
from tests.fuzz.fuzzing import Tally, fuzz

TARGETS = (*decoders.TARGETS, *requests.TARGETS, *over_http.TARGETS)
SHARES = Counter({"decoders": 1, "recipes": 3, "plans": 3, "requests": 3, "requests over HTTP": 3})
"""Of the time: how many times that of a decoder a target has."""


def main() -> int:
    """Put all targets through mutations; 1 where something broke the rules."""
    given = _arguments()
    targets = [one for one in TARGETS if not given.only or one.name in given.only]
    whole = sum(SHARES[one.group] for one in targets)
    tallies: list[tuple[str, Tally]] = []
    for target in targets:
        seconds = given.seconds * SHARES[target.group] / whole
        tally = fuzz(target, given.seed, seconds=seconds, first=given.first, count=given.count)
        tallies.append((target.group, tally))
        _report(tally)
    totals = Counter[str]()
    for group, tally in tallies:
        totals[group] += tally.mutations
    _say(", ".join(f"{count:,} mutations of {group}" for group, count in totals.items()))
    return 1 if any(tally.findings for _, tally in tallies) else 0


def _report(tally: Tally) -> None:
    lines = [str(tally)]
    for place, said in tally.findings.items():
        lines += [f"  {place}", *(f"    {line}" for line in said.splitlines())]
    _say("\n".join(lines))


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    names = [target.name for target in TARGETS]
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seed", type=int, default=1, help="of the mutations (default: 1)")
    parser.add_argument("--seconds", type=float, default=300, help="for all targets (default: 300)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="TARGET", help=", ".join(names))
    parser.add_argument("--first", type=int, default=0, help="number of the first mutation")
    parser.add_argument("--count", type=int, help="at most so many mutations of each target")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
