"""The word count of the examples, held in its last stage until a file is there: time to kill an executor.

python held_wordcount.py INPUT OUTPUT GATE
"""

from __future__ import annotations

import socket
import sys
import time
from operator import add
from pathlib import Path

from pyspark import SparkContext

PARTITIONS = 4


def main(source: str, target: str, gate: Path) -> None:
    """Count words; each task of the last stage leaves a file in the gate's folder and waits for `open`."""
    opened = gate / "open"

    def held(counted: tuple[str, int]) -> str:
        if not opened.exists():
            (gate / f"waiting-{socket.gethostname()}").touch()
            while not opened.exists():
                time.sleep(0.2)
        return f"{counted[0]}\t{counted[1]}"

    gate.mkdir(parents=True)
    sc = SparkContext(appName="held wordcount")
    words = sc.textFile(source, PARTITIONS).flatMap(str.split)
    words.map(lambda word: (word, 1)).reduceByKey(add).map(held).saveAsTextFile(target)
    sc.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
