"""A plain PySpark program that runs generated programs: python job.py PROGRAMS HOME.

It knows nothing of lineage; ``PROGRAMS`` holds a pickled list, outcomes are left in ``HOME``.
"""

import pickle
import sys
from pathlib import Path

from pyspark import SparkContext

from tests.oracle.model import Program
from tests.oracle.spark import Outcome, build, run_sink, write_sources


def run(sc: SparkContext, program: Program, home: Path) -> list[Outcome]:
    """All actions of one program, in order."""
    rdds = build(program, sc, write_sources(program, home))
    return [
        run_sink(sink, rdds, home / f"out-{number}") for number, sink in enumerate(program.sinks)
    ]


def main() -> None:
    """Run every program in one SparkContext."""
    programs, home = Path(sys.argv[1]), Path(sys.argv[2])
    sc = SparkContext(appName="generated programs")
    sc.setCheckpointDir(str(home / "checkpoints"))
    outcomes = [
        run(sc, program, home / f"program-{number}")
        for number, program in enumerate(pickle.loads(programs.read_bytes()))
    ]
    sc.stop()
    (home / "outcomes.pickle").write_bytes(pickle.dumps(outcomes))


if __name__ == "__main__":
    main()
