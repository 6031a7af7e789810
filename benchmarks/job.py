"""One benchmark as a job of a cluster: parameters from the environment, one JSON line at the end.

infra/benchmarks has the jobs, docs/benchmarks.md says what the parameters are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

EMISSION = "emission"
MODES = ("spool", "detailed", "plain", EMISSION, "deployed")
"""Of ``python -m benchmarks --mode``: those that start no servers, for a pod has none to start."""
OPTIONS = ("size", "rows", "pairs", "partitions", "cores", "folder")
"""What is passed on as it is: BENCHMARK_SIZE as --size, and so on; left out: the default."""


class ParameterError(Exception):
    """A parameter is missing, or can't be used."""


def words_of(environment: Mapping[str, str]) -> list[str]:
    """The command line of ``python -m benchmarks`` that parameters stand for.

    Raises:
        ParameterError: one is missing, or can't be used.
    """
    workload, mode = (
        environment.get(f"BENCHMARK_{variable}", "") for variable in ("WORKLOAD", "MODE")
    )
    if not workload:
        raise ParameterError("BENCHMARK_WORKLOAD is not set: give the name of a workload")
    if mode not in MODES:
        raise ParameterError(f"BENCHMARK_MODE is {mode!r}: give one of {', '.join(MODES)}")
    words = [workload, "--mode", mode]
    for option in OPTIONS:
        value = environment.get(f"BENCHMARK_{option.upper()}", "")
        words += [f"--{option}", value] if value else []
    if mode == EMISSION:
        kafka = environment.get("LINEAGE_KAFKA", "")
        if not kafka:
            raise ParameterError(f"BENCHMARK_MODE is {mode}: LINEAGE_KAFKA must say where it is")
        words += ["--kafka", kafka]
    return words


def main() -> int:
    """Command line entry."""
    try:
        words = words_of(os.environ)
    except ParameterError as error:
        print(error, file=sys.stderr)
        return 2
    # In place of this program, so that the row's provenance has the command that makes it again.
    os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *words])


if __name__ == "__main__":
    sys.exit(main())
