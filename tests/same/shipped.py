"""Runs the batch programs that PySpark's package ships and writes what a user sees of each: a line of JSON."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import sys
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet
import pyspark
from pyspark import SparkContext

from tests.same.session import write_outcomes
from tests.same.showing import failed, same_text

HOME = Path(pyspark.__file__).parent
PROGRAMS = HOME / "examples" / "src" / "main" / "python"
LEFT_OUT = {
    "avro_inputformat.py": "needs a jar of Spark's examples",
    "parquet_inputformat.py": "needs a jar of Spark's examples",
    "status_api_demo.py": "prints what is under way at the time",
    "sql/hive.py": "needs a warehouse of Hive",
    "mllib/streaming_k_means_example.py": "of streams, whose lineage is not captured",
    "mllib/streaming_linear_regression_example.py": "of streams, whose lineage is not captured",
}
"""Programs that are not run, with the reason; those in folders of streams are not run either."""
ARGUMENTS = {
    "wordcount.py": ["data/mllib/pagerank_data.txt"],
    "sort.py": ["data/mllib/kmeans_numbers.txt"],
    "pagerank.py": ["data/mllib/pagerank_data.txt", "3"],
    "kmeans.py": ["data/mllib/kmeans_data.txt", "2", "0.5"],
    "logistic_regression.py": ["data/mllib/points.txt", "2"],
    "pi.py": ["2"],
    "als.py": ["8", "8", "3", "2", "2"],
    "transitive_closure.py": ["2"],
    "mllib/kmeans.py": ["data/mllib/kmeans_data.txt", "2"],
    "mllib/logistic_regression.py": ["data/mllib/points.txt", "2"],
    "mllib/word2vec.py": ["data/mllib/sample_lda_data.txt"],
    "mllib/gaussian_mixture_model.py": ["data/mllib/gmm_data.txt", "2"],
}
SETTINGS = (
    "spark.master=local[2]",
    "spark.ui.enabled=false",
    "spark.ui.showConsoleProgress=false",
    "spark.sql.shuffle.partitions=2",
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.codegen.factoryMode=NO_CODEGEN",
)
"""What makes short programs quick."""
BY_CHANCE: set[str] = set()
"""Programs whose numbers differ between two plain runs: their lines are counted."""


def names() -> list[str]:
    """Paths of the programs that are run, below PySpark's folder of examples; none where it is not shipped."""
    shipped = [str(path.relative_to(PROGRAMS)) for path in sorted(PROGRAMS.rglob("*.py"))]
    return [
        name
        for name in shipped
        if not ("streaming/" in name or name.endswith("__init__.py") or name in LEFT_OUT)
    ]


def write_data(folder: Path) -> None:
    """What the programs read, and what they find beside them."""
    data = folder / "data" / "mllib"
    data.mkdir(parents=True)
    for path in (HOME / "data" / "mllib").iterdir():
        (data / path.name).symlink_to(path)
    (data / "kmeans_numbers.txt").write_text("3 1 2\n9 8\n")
    (data / "points.txt").write_text("0 " + "1 " * 9 + "2\n1 " + "3 " * 9 + "4\n")
    _write_resources(folder / "examples" / "src" / "main" / "resources")


def _write_resources(folder: Path) -> None:
    """What Spark's own repository has beside the programs, and its package for Python lacks."""
    folder.mkdir(parents=True)
    (folder / "people.txt").write_text("Michael, 29\nAndy, 30\nJustin, 19\n")
    people = [{"name": "Michael"}, {"name": "Andy", "age": 30}, {"name": "Justin", "age": 19}]
    (folder / "people.json").write_text("".join(json.dumps(one) + "\n" for one in people))
    (folder / "people.csv").write_text("name;age;job\nJorge;30;Developer\nBob;32;Developer\n")
    users = pa.table(
        {
            "name": ["Alyssa", "Ben"],
            "favorite_color": [None, "red"],
            "favorite_numbers": [[3, 9, 15, 20], []],
        }
    )
    pa.parquet.write_table(users, folder / "users.parquet")
    pa.orc.write_table(users, str(folder / "users.orc"))
    (folder / "dir1" / "dir2").mkdir(parents=True)
    for place in ("dir1/file1", "dir1/dir2/file2"):
        path = folder / f"{place}.parquet"
        pa.parquet.write_table(pa.table({"file": [path.name]}), path)
    (folder / "dir1" / "file3.json").write_text('{"file":"corrupt.json"}\n')


def main() -> None:
    """``python -m tests.same.shipped WORK OUTCOMES NAMES``: a file of the programs' names."""
    work, outcomes, wanted = (Path(one) for one in sys.argv[1:4])
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"{' '.join(f'--conf {one}' for one in SETTINGS)} pyspark-shell"
    )
    warnings.simplefilter("ignore")
    write_outcomes(outcomes, _outcomes(work, json.loads(wanted.read_text())))


def _outcomes(work: Path, names: Iterable[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, name in enumerate(names):
        folder = work / f"program-{number}"
        write_data(folder)
        yield name, _outcome(name, folder)


def _outcome(name: str, folder: Path) -> dict[str, Any]:
    printed = io.StringIO()
    outcome: dict[str, Any] = {}
    # A file of the user's: what lies in PySpark's own folder is not taken for a program.
    program = folder / Path(name).name
    program.write_bytes((PROGRAMS / name).read_bytes())
    sys.argv = [name, *ARGUMENTS.get(name, ())]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
            runpy.run_path(str(program), run_name="__main__")
    except SystemExit as ended:
        outcome["exit"] = ended.code
    except Exception as problem:
        outcome["error"] = failed(problem, folder)
    finally:
        _stop()
    return outcome | {"stdout": _seen(name, printed.getvalue(), folder)}


def _stop() -> None:
    """End the context of a program that leaves it running."""
    running = SparkContext._active_spark_context
    if running is not None:
        running.stop()


def _seen(name: str, text: str, folder: Path) -> Any:
    text = same_text(text, folder)
    text = re.sub(r"\b\w+_[0-9a-f]{12}\b|\d+\.\d+ ?(?:s|ms|seconds)\b", "*", text)
    return len(text.splitlines()) if name in BY_CHANCE else text


if __name__ == "__main__":
    main()
