"""How soon a person sees something on the web page, in a real browser over the real service.

Captures the flights and tells a generated program of ``--nodes`` nodes, serves both, and measures
``--runs`` times, each in a fresh browser context: from opening an application's address until its graph
is painted, from the click on a row of the output until the first source row behind it is, and from
opening the large program's address until its graph is.

    python -m benchmarks.page --runs 15
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.api import capture_workload, serve
from benchmarks.generate import parse_size
from benchmarks.large_program import report_program
from benchmarks.pairs import RunError
from benchmarks.provenance import provenance
from lineage_query_api.page import FOLDER, require_page
from lineage_store.url import open_store

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "services" / "query-api" / "web"
LAYOUT_WORKER = "worker"


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--size", type=parse_size, default=parse_size("31MB"))
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out"))
    options = parser.parse_args()
    require_page()
    store = capture_workload(options.folder.resolve(), "flights", options.size)
    with open_store(store) as opened:
        flights = opened.application_ids()[0]
    large = report_program(store, options.nodes)
    with serve(store) as (address, _):
        measured = in_browser(
            "figures",
            LINEAGE_URL=address,
            LINEAGE_E2E_APP=flights,
            LARGE_APP=large,
            RUNS=str(options.runs),
        )
    row = {
        "benchmark": "page",
        "runs": options.runs,
        "first_view": of_views(measured["first_view"]),
        "first_source_row": of_rows(measured["first_source_row"]),
        "large_graph": of_views(measured["large_graph"], options.nodes),
        "javascript_gzipped_bytes": javascript_bytes(FOLDER),
    }
    print(json.dumps(row | {"provenance": provenance()}), flush=True)


def in_browser(script: str, **variables: str) -> dict[str, list[dict[str, Any]]]:
    """What the browser measured, run by run.

    Args:
        script: of the page's package.
        variables: its environment, beside that of this program.

    Raises:
        RunError: it did not get through; the message says where.
    """
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.json"
        result = subprocess.run(
            [str(ROOT / "scripts" / "node.sh"), "exec", "npm", "run", "--silent", script],
            cwd=WEB,
            env={**os.environ, **variables, "FIGURES": str(figures)},
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise RunError(result.stdout[-5_000:] + result.stderr[-5_000:])
        measured: dict[str, list[dict[str, Any]]] = json.loads(figures.read_text())
        return measured


def of_views(views: list[dict[str, Any]], nodes: int | None = None) -> dict[str, Any]:
    """Times of views, which must all show the same graph.

    Raises:
        RunError: one showed another number of nodes.
    """
    shown = {view["nodes"] for view in views}
    if len(shown) != 1 or (nodes is not None and shown != {nodes}):
        raise RunError(f"graphs of {sorted(shown)} nodes were drawn, expected {nodes or 'one'}")
    return {**times(views), "nodes": shown.pop()}


def of_rows(traces: list[dict[str, Any]]) -> dict[str, Any]:
    """Times of traces, each of which must have found something.

    Raises:
        RunError: one found no row.
    """
    rows = [trace["rows"] for trace in traces]
    if min(rows) < 1:
        raise RunError("a row of the output was traced to no source row")
    return {**times(traces), "rows_min": min(rows), "rows_max": max(rows)}


def times(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Median and range in milliseconds."""
    each = [run["ms"] for run in runs]
    return {
        "median_ms": round(statistics.median(each), 1),
        "min_ms": round(min(each), 1),
        "max_ms": round(max(each), 1),
    }


def javascript_bytes(folder: Path) -> int:
    """What a browser loads before it draws: scripts, zipped, without the layout workers."""
    scripts = [path for path in folder.rglob("*.js") if LAYOUT_WORKER not in path.name]
    return sum(len(gzip.compress(path.read_bytes())) for path in scripts)


if __name__ == "__main__":
    main()
