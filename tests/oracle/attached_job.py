"""Generated programs on a SparkContext that is there before capture is: python attached_job.py PROGRAMS HOME.

Some programs run before `attach`, or between `detach` and the next; of the last ones a part of the steps is made before.
``HOME`` gets what was given, and under which application.
"""

import pickle
import sys
from pathlib import Path

from pyspark import SparkContext

from lineage_emitter.attaching import attach, detach
from tests.oracle.job import run
from tests.oracle.model import Program
from tests.oracle.spark import Outcome, build, run_sink, write_sources


def run_partly(sc: SparkContext, program: Program, home: Path) -> tuple[str, list[Outcome]]:
    """Make half of a program's steps, attach, and go on: the application, and what the actions gave."""
    apps: list[str] = []

    def before_step(number: int) -> None:
        if number == len(program.steps) // 2:
            apps.append(attach(sc).app)

    rdds = build(program, sc, write_sources(program, home), before_step)
    outcomes = [
        run_sink(sink, rdds, home / f"out-{number}") for number, sink in enumerate(program.sinks)
    ]
    detach(sc)
    return apps[0], outcomes


def main() -> None:
    """Attach in the middle of generated programs, and between them."""
    programs, home = pickle.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])
    sc = SparkContext(appName="generated programs")
    sc.setCheckpointDir(str(home / "checkpoints"))
    third = len(programs) // 3
    whole: list[tuple[str, list[Outcome]]] = []
    for number, program in enumerate(programs[: 2 * third]):
        folder = home / f"program-{number}"
        if number % third == 0:
            detach(sc)
            run(sc, program, folder)
        else:
            whole.append((attach(sc).app, run(sc, program, folder)))
    detach(sc)
    partly = [
        run_partly(sc, program, home / f"partly-{number}")
        for number, program in enumerate(programs[2 * third :])
    ]
    sc.stop()
    (home / "outcomes.pickle").write_bytes(pickle.dumps((whole, partly)))


if __name__ == "__main__":
    main()
