"""Writes the dashboards as JSON: python -m infra.grafana [--check]."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from infra.grafana import applications, pipeline, query_api, stores

FOLDER = Path(__file__).resolve().parent / "dashboards"


def all_dashboards() -> list[Dashboard]:
    """All of them, as typed models."""
    modules = (pipeline, stores, applications, query_api)
    return [module.dashboard() for module in modules]


def files() -> dict[str, str]:
    """Contents by file name, as Grafana imports them."""
    return {
        f"{board.uid}.json": json.dumps(board, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
        for board in all_dashboards()
    }


def stale(expected: dict[str, str]) -> list[str]:
    """Names of files that differ from what is wanted, are missing, or are there for nothing."""
    existing = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    return sorted(
        name
        for name in expected.keys() | existing.keys()
        if expected.get(name) != existing.get(name)
    )


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m infra.grafana", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="change nothing; 1 when not up to date"
    )
    options = parser.parse_args()
    expected = files()
    names = stale(expected)
    if options.check:
        for name in names:
            print(f"{FOLDER / name} is not up to date: run `make dashboards`", file=sys.stderr)
        return 1 if names else 0
    FOLDER.mkdir(exist_ok=True)
    for name in names:
        if name in expected:
            (FOLDER / name).write_text(expected[name], encoding="utf-8")
        else:
            (FOLDER / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
