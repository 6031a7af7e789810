"""Runs programs as a person would, plain or under ``lineage run``, and reads what was captured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from click.testing import Result
from typer.testing import CliRunner

from lineage.access import StoredAccess, open_access
from lineage.main import app as command_line
from lineage_core.contract.verdict import Verdict, judge
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore
from lineage_store.recorded_files import file_versions
from lineage_store.url import index_folder, open_store
from tests.support import jvm

if TYPE_CHECKING:
    from lineage_emitter import LineageContext

STORE = ".lineage/lineage.db"
CLI = [sys.executable, "-c", "from lineage.main import app; app()"]
TIMEOUT_S = 600
"""Below the limit of one test, so that a hung program is killed with its output shown."""

Row = tuple[str, tuple[str, ...]]
"""Text of a row and the sorted locations of the source rows that made it."""


Begin: TypeAlias = "Callable[..., LineageContext]"
"""Begins an application, with settings."""


def app_of(lc: LineageContext) -> str:
    """The id of the application that a context captures."""
    assert lc.session is not None
    return lc.session.app


def checksums(folder: Path, app: str) -> dict[str, str]:
    """The checksums of the files that an application in the folder read and wrote, by their names."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        versions = [of for message in store.messages(app) for of in file_versions(message)]
    return {Path(path).name: version.checksum for _, path, version, _ in versions}


def stored(folder: Path) -> StoredAccess:
    """What a job in the folder left in its store, asked in this process."""
    found = open_access(f"sqlite:///{folder / STORE}")
    assert isinstance(found, StoredAccess)
    return found


def ask(folder: Path, direction: Direction, place: str) -> Answer:
    """The answer to a question about what a job in the folder left."""
    with stored(folder) as asking:
        return asking.ask(TraceQuery(direction, (place,)))


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """What a program gets: nothing of lineage's own settings but ``extra``."""
    found = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LINEAGE_", "PYSPARK_", "SPARK_", "PYTHONPATH"))
    }
    # No session of a test stays behind.
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "LINEAGE_SESSION_S": "0"}
    return found | own | jvm.quick() | dict(extra or {})


def write_job(folder: Path, source: str, name: str = "job.py") -> Path:
    """A program in ``folder``."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source).lstrip(), encoding="utf-8")
    return path


def run_program(
    folder: Path, command: list[str], env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command in ``folder``."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(env),
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@contextmanager
def process(command: list[str], log: Path, env: dict[str, str]) -> Iterator[None]:
    """A program that runs for the while, in the folder of its log."""
    with log.open("wb") as said:
        child = subprocess.Popen(
            command, cwd=log.parent, env=environment(env), stdout=said, stderr=said
        )
        try:
            yield
        finally:
            child.terminate()
            child.wait(60)


def run_plain(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``python job.py ...``, with workers of the same interpreter."""
    same = {"PYSPARK_PYTHON": sys.executable}
    return run_program(folder, [sys.executable, *arguments], same | dict(env or {}))


def run_captured(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``lineage run --quiet job.py ...``."""
    return run_program(folder, [*CLI, "run", "--quiet", *arguments], env)


def lineage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A ``lineage`` command."""
    return run_program(folder, [*CLI, *arguments])


def answered(folder: Path, *arguments: str) -> Result:
    """The same by a call in this process, a second sooner; the store is that of the folder."""
    settings = {name: None for name in os.environ if name.startswith("LINEAGE_")}
    store = ("--store", f"sqlite:///{folder / STORE}")
    return CliRunner().invoke(command_line, [*store, *arguments], env=settings)


def verify(folder: Path, app: str = "latest") -> dict[str, Any]:
    """The verdict as ``lineage verify --json`` prints it; its exit code must agree."""
    result = answered(folder, "verify", app, "--json")
    verdict: dict[str, Any] = json.loads(result.stdout)
    is_good = verdict["complete"] and verdict["answerable"] is not False
    assert result.exit_code == (0 if is_good else 1), result.stderr
    return verdict


def applications(folder: Path) -> list[dict[str, Any]]:
    """All applications of the store, the first begun first."""
    result = answered(folder, "apps", "--json")
    assert result.exit_code == 0, result.stderr
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found[::-1]


def graph(folder: Path, app: str = "latest") -> dict[str, Any]:
    """The graph of an application."""
    result = answered(folder, "graph", app, "--json")
    assert result.exit_code == 0, result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def part_files(out: Path) -> list[Path]:
    """The part files of an output folder, in order."""
    return sorted(path for path in out.iterdir() if path.name.startswith("part-"))


def contents(out: Path) -> dict[str, bytes]:
    """Every file of an output folder."""
    return {path.name: path.read_bytes() for path in out.iterdir()}


def judged(folder: Path, app: str) -> Verdict:
    """The verdict on an application of the store under ``folder``."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        return judge(store.messages(app), store.counts(app), now=time.time())


def traced(folder: Path, out: Path, app: str | None = None) -> Counter[Row]:
    """(text, source locations by file name) of every row under ``out``, each a single line."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        return traced_from(store, folder / ".lineage" / "index", out, app)


def traced_from(store: GraphStore, index: Path, out: Path, app: str | None = None) -> Counter[Row]:
    """The same from a store of any kind; ``index`` is for the indexes of text files."""
    return Counter(_rows(QueryEngine(store, RowReader(index)), out, app))


def _rows(query_engine: QueryEngine, out: Path, app: str | None) -> Iterator[Row]:
    for part in part_files(out):
        for number, text in enumerate(part.read_text(encoding="utf-8").splitlines(), start=1):
            place = f"{part}:{number}"
            answer = query_engine.ask(
                TraceQuery(Direction.BACKWARD, (place,), app=app, texts=False)
            )
            yield text, tuple(sorted(_locations(answer.to_json())))


def traced_items(folder: Path, app: str, *places: str, forward: bool = False) -> list[str]:
    """Source locations, or addresses where the source is no file, of items such as ``take#0#1``.

    ``forward``: where they went.
    """
    direction = Direction.FORWARD if forward else Direction.BACKWARD
    with open_store(f"sqlite:///{folder / STORE}") as store:
        query_engine = QueryEngine(store, RowReader(index_folder(f"sqlite:///{folder / STORE}")))
        answer = query_engine.ask(TraceQuery(direction, places, app=app, texts=False))
        return sorted(_locations(answer.to_json()))


def traced_each(folder: Path, app: str, places: Iterable[str]) -> list[list[str]]:
    """The same of one item after the other."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        query_engine = QueryEngine(store, RowReader(index_folder(f"sqlite:///{folder / STORE}")))
        asked = [TraceQuery(Direction.BACKWARD, (one,), app=app, texts=False) for one in places]
        return [sorted(_locations(query_engine.ask(one).to_json())) for one in asked]


def _locations(answer: dict[str, Any]) -> Iterator[str]:
    for end in answer.get("sources", answer.get("sinks", ())):
        for item in end["items"]:
            yield os.path.basename(item["location"] or item["address"])
