"""Run a program of Dask captured: python -m benchmarks.captured_dask PROGRAM ARGUMENTS."""

import runpy
import sys

if __name__ == "__main__":
    # Workers load this file again, and need nothing of it.
    from lineage import LineageApi, capture_dask

    sys.argv = sys.argv[1:]
    with LineageApi("wordcount") as api, capture_dask(api):
        runpy.run_path(sys.argv[0], run_name="__main__")
