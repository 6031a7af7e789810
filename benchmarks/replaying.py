"""What it takes to replay outputs of a word count on their witnesses alone: python -m benchmarks.replaying --json-out FILE.

The experiment of Newt's evaluation of replays (Logothetis et al., SoCC 2013; the thesis on it, section 7.5): 635,000 lines with 1,173,443 different words.
The text is generated: its common words follow Zipf's law, each other word stands in one line. Outputs are drawn at random, traced and replayed
in the session that ran the job. Task time is the run time of all tasks by Spark's own events. Each replayed count must be that of the job.
``plain``: what plain PySpark takes for the program over the lines of one output, in the same session: Spark's own cost of as many tasks.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
from pyspark import SparkConf, SparkContext

from benchmarks.generate import write_rare_words
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.spark_events import log_settings, task_times
from lineage_emitter import LineageContext

LINES, WORDS = 635_000, 1_173_443
OUTPUTS = (1, 10, 100, 1_000, 10_000, 100_000)
RUN = "run"


def replayed(source: Path, folder: Path, cores: int, repeats: int) -> dict[str, Any]:
    """Run the job, then replay outputs of it.

    Raises:
        AssertionError: a replay does not give the count of the job.
    """
    events = folder / "events"
    events.mkdir()
    sc = SparkContext(
        conf=SparkConf().setMaster(f"local[{cores}]").setAll(list(log_settings(events).items()))
    )
    sc.setLogLevel("ERROR")
    lc = LineageContext(sc, store=f"sqlite:///{folder / 'lineage.db'}", link=True)
    sc.setJobGroup(RUN, RUN)
    began = time.perf_counter()
    words = lc.textFile(str(source), 2 * cores).flatMap(str.split)
    counts = words.map(lambda word: (word, 1)).reduceByKey(add, 2 * cores)
    counts.saveAsTextFile(str(folder / "out"))
    run_s = time.perf_counter() - began
    sc.setJobGroup("number", "number")
    items = counts.getLineage()  # type: ignore[attr-defined]
    expected, rows = dict(counts.collect()), []
    draw = random.Random(7)
    for outputs in (count for count in OUTPUTS if count <= items.count):
        for repeat in range(repeats if outputs < OUTPUTS[-1] else 1):
            chosen = items.filter(sorted(draw.sample(range(items.count), outputs)))
            sc.setJobGroup("look", "look")
            names = [item.value[0] for item in chosen.collect()]
            sc.setJobGroup(f"{outputs} {repeat}", "replay")
            began = time.perf_counter()
            found = dict(chosen.replay().collect())
            seconds = time.perf_counter() - began
            assert all(found[name] == expected[name] for name in names)
            behind = chosen.goBackAll()
            rows.append((outputs, repeat, behind.count, seconds))
            if outputs == 1:
                sc.setJobGroup("look", "look")
                lines = behind.collect()
                plain = sc.parallelize([item.value for item in lines], 2 * cores)
                sc.setJobGroup(f"plain {repeat}", "plain")
                counted = plain.flatMap(str.split).map(lambda word: (word, 1))
                assert dict(counted.reduceByKey(add, 2 * cores).collect()) == found
    sc.stop()
    tasks_ms = task_times(events)
    return {
        "outputs": len(expected),
        "run_s": round(run_s, 2),
        "run_task_s": round(tasks_ms[RUN] / 1000, 2),
        "plain_task_share": round(
            float(np.median([tasks_ms[f"plain {repeat}"] for repeat in range(repeats)]))
            / tasks_ms[RUN],
            5,
        ),
        "replays": {
            str(outputs): _median(
                [
                    (witnesses, tasks_ms[f"{count} {repeat}"] / tasks_ms[RUN], seconds)
                    for count, repeat, witnesses, seconds in rows
                    if count == outputs
                ]
            )
            for outputs in dict.fromkeys(row[0] for row in rows)
        },
    }


def _median(found: list[tuple[int, float, float]]) -> dict[str, float]:
    witnesses, share, seconds = np.median(np.array(found, float), axis=0).tolist()
    return {"witnesses": witnesses, "task_share": round(share, 5), "seconds": round(seconds, 3)}


def main() -> None:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--words", type=int, default=WORDS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json-out", type=Path)
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.txt")
        write_rare_words(source, given.lines, given.words)
        row = replayed(source, Path(folder), cores, given.repeats)
    row = {"benchmark": "replaying", "lines": given.lines, "cores_used": cores} | row
    put_out(row | {"provenance": provenance()}, given.json_out)


if __name__ == "__main__":
    main()
