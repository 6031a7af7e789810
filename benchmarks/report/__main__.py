"""Write docs/benchmarks.md and its pictures from benchmarks/results/*.jsonl: python -m benchmarks.report.

Lines get there by `python -m benchmarks ... --json-out benchmarks/results/NAME.jsonl`. Of several lines
about the same thing the one that was measured last is shown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.catalog import ROOT
from benchmarks.report.page import IMAGES, PROFILES, draw, page
from benchmarks.report.rows import ResultsError, read_rows


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    try:
        rows = read_rows(options.results)
    except ResultsError as error:
        print(error, file=sys.stderr)
        return 1
    profiles = sorted(path.name for path in (options.page.parent / PROFILES).glob("*.md"))
    options.page.write_text(page(rows, profiles), encoding="utf-8")
    pictures = draw(rows, options.page.parent / IMAGES)
    print(f"{options.page}: {len(rows)} rows, {len(pictures)} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
