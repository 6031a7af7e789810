"""How long one question about a row of a DataFrame takes: python -m benchmarks.one_question --rows 2000000.

Prints one JSON line. A job joins orders (CSV) with customers (Parquet) and adds up by city and day. Then rows are asked
for by command, each command timed from its start to its end, in seconds: ``first`` back with no session of lineage
there, ``next`` back of another row, ``left`` and ``left_next`` the same where a session was started beforehand, as
``lineage run`` leaves one in a terminal, ``forward`` of a line of the orders, each once a round. In the first round there
is no archive of Java's classes yet either. ``phases`` says where the time of a question goes in one process, with a Spark
that it starts (``first``) and with that Spark again (``second``, and ``again`` when it is warm). ``query`` is what
``again`` takes for Spark's queries alone, and ``ratios`` what commands take over that; ``next`` is a session's second
question, and ``ratio_second`` what it takes over the queries of a process's second question. Answers are compared with
what plain Python finds in the orders.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.generate import SEED
from benchmarks.provenance import provenance
from benchmarks.row import put_out

HERE = Path(__file__).resolve().parent
CITIES, DAYS, ORDERS_A_CUSTOMER = 200, 28, 10
LOOK_S = 0.1
LINE = 77
"""The line of the orders that is traced forward."""
BACKWARD = ("first", "next", "left", "left_next")
"""Questions about rows of the output, in order."""


class WrongAnswerError(Exception):
    """A trace found other rows than plain Python: its time says nothing."""


def write_orders(folder: Path, rows: int) -> None:
    """``orders.csv`` (number, customer, day, amount, note) and ``customers.parquet`` (id, city, name)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(SEED)
    customers = max(1, rows // ORDERS_A_CUSTOMER)
    cities = [f"city{city:03d}" for city in generator.integers(0, CITIES, customers).tolist()]
    names = [f"customer {customer}" for customer in range(customers)]
    folder.mkdir(parents=True)
    table = pa.table({"id": list(range(customers)), "city": cities, "name": names})
    pq.write_table(table, folder / "customers.parquet")
    drawn = zip(
        generator.integers(0, customers, rows).tolist(),
        (generator.integers(0, DAYS, rows) + 1).tolist(),
        generator.integers(1, 100_000, rows).tolist(),
        strict=True,
    )
    with (folder / "orders.csv").open("w", encoding="ascii") as orders:
        orders.write("number,customer,day,amount,note\n")
        orders.writelines(
            f"{number},{customer},2026-02-{day:02d},{amount / 100},order {number} of {customer}\n"
            for number, (customer, day, amount) in enumerate(drawn)
        )


class QuestionRunner:
    """Commands over the lineage of one job. ``settings``: more of their environment."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.store = f"sqlite:///{folder / 'lineage.db'}"
        own = {"XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": str(folder / "cache")}
        self._environment = {**os.environ, **own, **(settings or {})}
        # Python may keep what it has compiled, as it does wherever nobody forbids it.
        self._environment.pop("PYTHONDONTWRITEBYTECODE", None)

    def command(self, *words: str) -> tuple[str, float]:
        """What a command prints, and the seconds that it takes.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        started = time.perf_counter()
        result = subprocess.run(
            [str(Path(sys.executable).with_name("lineage")), "--store", self.store, *words],
            env=self._environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return result.stdout, time.perf_counter() - started

    def measured(self, *words: str) -> tuple[str, float, float]:
        """What a command prints, its seconds, and the CPU seconds of it and all that it starts.

        Raises:
            subprocess.CalledProcessError: it failed.
        """
        started, spent = time.perf_counter(), dict[int, float]()
        command = [str(Path(sys.executable).with_name("lineage")), "--store", self.store, *words]
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(command, env=self._environment, stdout=errors) as process,
        ):
            own = psutil.Process(process.pid)
            while process.poll() is None:
                with suppress(psutil.Error):
                    for member in (own, *own.children(recursive=True)):
                        with suppress(psutil.Error):
                            times = member.cpu_times()
                            spent[member.pid] = times.user + times.system
                time.sleep(LOOK_S / 4)
            seconds = time.perf_counter() - started
            errors.seek(0)
            text = errors.read()
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        return text, seconds, sum(spent.values())

    def run(self) -> float:
        """Run the job; seconds."""
        script = str(HERE / "workloads" / "cities.py")
        return self.command(
            "run", "--quiet", script, str(self.folder / "in"), str(self.folder / "out")
        )[1]

    def stop_session(self) -> None:
        """The next question finds no session."""
        self.command("session", "stop")

    def start_session(self) -> None:
        """The next question finds a session that is warm."""
        self.command("session", "start")
        (session,) = json.loads(self.command("session", "status", "--json")[0])["sessions"]
        while " is warm after " not in Path(session["log"]).read_text(encoding="utf-8"):
            if not psutil.pid_exists(session["pid"]):
                raise RuntimeError(f"the session has ended: see {session['log']}")
            time.sleep(LOOK_S)

    def phases(self, direction: str, place: str) -> dict[str, Any]:
        """Where the time of a question goes, in one process."""
        result = subprocess.run(
            [sys.executable, "-m", "benchmarks.question_phases", self.store, direction, place],
            env=self._environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        phases: dict[str, Any] = json.loads(result.stdout)
        return phases


def check(runner: QuestionRunner, answer: str, city: str, day: str) -> None:
    """See that a trace found the very orders of a city and day.

    Raises:
        WrongAnswerError: it found others.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(runner.folder / "in" / "customers.parquet").to_pydict()
    of_city = {str(n) for n, name in zip(table["id"], table["city"], strict=True) if name == city}
    with (runner.folder / "in" / "orders.csv").open(encoding="ascii") as orders:
        expected = {
            line
            for line, row in enumerate(csv.reader(orders), start=1)
            if row[1] in of_city and row[2] == day and float(row[3]) > 1
        }
    traced = json.loads(answer)
    items = [item for group in traced["sources"] for item in group["items"]]
    lines = {
        int(item["location"].rpartition(":")[2]) for item in items if ".csv:" in item["location"]
    }
    if not traced["exact"] or lines != expected:
        raise WrongAnswerError(f"{city} {day}: {len(lines)} orders were found, of {len(expected)}")


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row."""
    import pyarrow.parquet as pq

    runner = QuestionRunner(folder)
    write_orders(folder / "in", options.rows)
    job = runner.run()
    output = next(iter(sorted((folder / "out").glob("*.parquet"))))
    rows = pq.read_table(output).to_pylist()
    forward = f"{folder / 'in' / 'orders.csv'}:{LINE}"
    times: dict[str, list[float]] = {kind: [] for kind in (*BACKWARD, "forward")}
    for number in range(options.rounds):
        runner.stop_session()
        for place, kind in enumerate(BACKWARD, start=len(BACKWARD) * number):
            if kind == "left":
                runner.stop_session()
                runner.start_session()
            answer, seconds = runner.command("back", "--json", f"{output}#{place}")
            times[kind].append(seconds)
            check(runner, answer, rows[place]["city"], str(rows[place]["day"]))
        times["forward"].append(runner.command("forward", "--json", forward)[1])
    runner.stop_session()
    phases = {
        "backward": runner.phases("backward", f"{output}#1"),
        "forward": runner.phases("forward", forward),
    }
    query = phases["backward"]["again"]["queries"]
    median = {kind: statistics.median(values) for kind, values in times.items()}
    return {
        "bench": "one_question",
        "rows": options.rows,
        "rounds": options.rounds,
        "job_s": round(job, 2),
        "seconds": {kind: [round(value, 2) for value in values] for kind, values in times.items()},
        "median": {kind: round(seconds, 2) for kind, seconds in median.items()},
        "query": query,
        "ratios": {kind: round(median[kind] / query, 2) for kind in BACKWARD},
        "ratio_second": round(median["next"] / phases["backward"]["second"]["queries"], 2),
        "phases": phases,
    }


def main(words: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_question", description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the orders")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json-out", type=Path, help="append the line to this file, too")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options, Path(folder)) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
