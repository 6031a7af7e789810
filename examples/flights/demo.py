"""Run the flights job unchanged under capture, then ask where a surprising row comes from.

    python examples/flights/demo.py [WORK_DIR]

Every command is printed before what it answers. Exit code 1 when lineage is missing. With the
settings of a pipeline (``eval "$(lineage stack env)"``) all of it goes through Kafka into Neo4j.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FLIGHTS_MAX = 12
"""A surprising mean is one that few flights made."""
_LINE = re.compile(r"\s*(?P<mean>-?[\d.]+) min late on average \| flights\s+(?P<flights>\d+) \|")


class DemoError(Exception):
    """The demo did not show what it is meant to show."""


def lineage_command() -> str:
    """The ``lineage`` program beside this interpreter.

    Raises:
        DemoError: it is not installed there.
    """
    program = Path(sys.executable).parent / "lineage"
    if not program.exists():
        raise DemoError(f"{program} is not there: run `make setup` first")
    return str(program)


def ask(work: Path, *arguments: str, quiet: bool = False) -> str:
    """Run one ``lineage`` command in ``work``; echo it and what it prints.

    Raises:
        DemoError: the command failed.
    """
    if not quiet:
        print(f"\n$ lineage {shlex.join(arguments)}", flush=True)
    done = subprocess.run(
        [lineage_command(), *arguments], cwd=work, stdout=subprocess.PIPE, text=True, check=False
    )
    if not quiet:
        print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise DemoError(f"lineage {arguments[0]} ended with exit code {done.returncode}")
    return done.stdout


def ask_json(work: Path, *arguments: str) -> dict[str, Any]:
    """The same command's answer for tools.

    Raises:
        DemoError: the command failed or did not answer a JSON object.
    """
    answer = json.loads(ask(work, *arguments, "--json", quiet=True))
    if not isinstance(answer, dict):
        raise DemoError(f"lineage {arguments[0]} --json did not answer an object")
    return answer


def prepare(work: Path) -> None:
    """Unpack the tables into ``work/data``.

    Raises:
        DemoError: the package that holds them is missing.
    """
    script = os.path.relpath(HERE / "prepare.py", work)
    print(f"$ python {script} data", flush=True)
    done = subprocess.run([sys.executable, script, "data"], cwd=work, check=False)
    if done.returncode != 0:
        raise DemoError("the tables could not be unpacked")


def surprising_row(output: Path) -> tuple[str, str, int]:
    """(location, text, flights) of the worst mean delay that only a few flights made.

    Raises:
        DemoError: the report has no such row.
    """
    worst: tuple[float, str, str, int] | None = None
    for part in sorted(output.glob("part-*")):
        for number, line in enumerate(part.read_text(encoding="utf-8").split("\n"), start=1):
            found = _LINE.match(line)
            if found is None or int(found["flights"]) > FLIGHTS_MAX:
                continue
            candidate = (float(found["mean"]), f"{part}:{number}", line, int(found["flights"]))
            worst = candidate if worst is None else max(worst, candidate)
    if worst is None:
        raise DemoError(f"no row of {output} was made by 1 to {FLIGHTS_MAX} flights")
    return worst[1], worst[2], worst[3]


def check_verdict(work: Path) -> None:
    """The run's lineage must be whole.

    Raises:
        DemoError: the verdict is not complete.
    """
    # What goes through Kafka is not in the store yet when the job ends.
    waits = ["--wait"] if os.environ.get("LINEAGE_DISPATCHER") == "kafka" else []
    ask(work, "verify", *waits)
    verdict = ask_json(work, "verify")
    if verdict.get("complete") is not True:
        raise DemoError(f"lineage is incomplete: {verdict.get('reasons')}")


def check_back(work: Path, location: str, flights: int) -> str:
    """Show the rows behind ``location``; the location of one of its weather rows.

    Raises:
        DemoError: the rows are not the ones that the report counted.
    """
    ask(work, "back", location)
    answer = ask_json(work, "back", location)
    sources = {Path(source["path"]).name: source for source in answer["sources"]}
    counts = {name: source["count"] for name, source in sources.items()}
    if counts.get("flights.csv") != flights or not counts.get("weather.csv"):
        raise DemoError(f"the row was made by {flights} flights, the trace answers {counts}")
    return str(sources["weather.csv"]["items"][0]["location"])


def check_forward(work: Path, location: str, target: str) -> None:
    """Show what ``location`` went into; ``target`` must be among it.

    Raises:
        DemoError: it is not.
    """
    ask(work, "forward", location)
    answer = ask_json(work, "forward", location)
    reached = [item["location"] for sink in answer["sinks"] for item in sink["items"]]
    wanted = _same_place(work, target)
    if wanted not in {_same_place(work, place) for place in reached}:
        raise DemoError(f"forward from {location} does not reach {target} but {reached[:5]}")


def _same_place(work: Path, location: str) -> str:
    """A location with its path made absolute, so that two spellings compare equal."""
    path, _, line = location.removeprefix("file://").removeprefix("file:").rpartition(":")
    return f"{os.path.normpath(work / path)}:{line}"


def demo(work: Path) -> None:
    """The whole way, from the package's files to the rows behind one number.

    Raises:
        DemoError: a step did not show what it should.
    """
    work.mkdir(parents=True, exist_ok=True)
    for leftover in ("out", ".lineage"):
        shutil.rmtree(work / leftover, ignore_errors=True)
    prepare(work)
    job = os.path.relpath(HERE / "job.py", work)
    ask(work, "run", job, "data", "out")
    check_verdict(work)
    location, text, flights = surprising_row(work / "out")
    location = os.path.relpath(location, work)
    print(f"\nA surprising row of the report, {location}:\n  {text.strip()}")
    print(f"Which {flights} flight{'s' if flights > 1 else ''}, and what weather?")
    weather = check_back(work, location, flights)
    print("\nAnd which rows of the report did one of these hours of weather go into?")
    check_forward(work, weather, location)


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("work", type=Path, nargs="?", default=Path("build/demo"))
    try:
        demo(parser.parse_args().work.resolve())
    except DemoError as error:
        print(f"\ndemo failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
