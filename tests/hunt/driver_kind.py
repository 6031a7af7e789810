"""Drivers that are killed: what was captured until then is ingested, and the rows of all actions that ended are traced.

Programs run one after the other in a process of their own, `tests.hunt.driven`, which tells
what its actions gave as soon as they end. In one of them a task kills it.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil
from hypothesis import strategies as st

from lineage_core.contract.message import Begin, Message, parse_message
from lineage_core.contract.verdict import judge
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from tests.hunt.application import Application, Attempt, Held
from tests.hunt.claims import Finding
from tests.hunt.harm import DRIVER, NAMES
from tests.hunt.hunting import Kind
from tests.hunt.spark_kinds import calm, harmed, spark
from tests.oracle.spark import Outcome

PROGRAMS_MAX = 4
"""Before the one whose driver is killed."""
PATIENCE_S = 300.0
LONG_AFTER_S = 1e9
MODULE = "tests.hunt.driven"
ASKED, STOOD, GAVE = "attempts", "began", "gave"


@dataclass(frozen=True)
class Driven:
    """Programs of one application; in the last one a task kills the driver."""

    before: tuple[Attempt, ...]
    last: Attempt

    def __str__(self) -> str:
        return "; then ".join(str(one) for one in (*self.before, self.last))


@dataclass(frozen=True)
class Ended:
    """An action that ended: of which program, and what it gave."""

    program: int
    outcome: Outcome


@st.composite
def driven(draw: st.DrawFn) -> Driven:
    """Some programs, and one that does not end."""
    before = draw(st.lists(calm(), max_size=PROGRAMS_MAX))
    return Driven(tuple(before), draw(harmed((DRIVER,))))


@contextmanager
def driving(folder: Path) -> Iterator[Callable[[Driven], Finding]]:
    """Tries programs, each time with a driver of their own."""
    folder.mkdir(parents=True)
    count = 0

    def run(one: Driven) -> Finding:
        nonlocal count
        count += 1
        home = folder / f"driver-{count}"
        home.mkdir()
        return _tried(home, one)

    yield run


def _tried(home: Path, one: Driven) -> Finding:
    _write(home / ASKED, one)
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE, str(home)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        code = process.wait(PATIENCE_S)
    finally:
        _end(process.pid)
    killed = code == -signal.SIGKILL
    if not killed and code != 0:
        return Finding(complete=False, programs=0, note=f"the driver ended with {code}")
    if not (home / STOOD).exists():
        return Finding(complete=False, programs=0, note="the driver was killed before it began")
    spool, app = _read(home / STOOD)
    finding = _held(home, Path(spool), app, one, killed=killed)
    if killed:
        finding.harmed, finding.struck = 1, Counter({NAMES[DRIVER]: 1})
    return finding


def _end(group: int) -> None:
    """What is left of a driver's session: its Java ends by itself, unless it is busy."""
    left = [one for one in psutil.process_iter() if one.is_running() and _session(one.pid) == group]
    _, alive = psutil.wait_procs(left, 20)
    for one in alive:
        one.kill()
    psutil.wait_procs(alive, 20)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _held(home: Path, spool: Path, app: str, one: Driven, *, killed: bool) -> Finding:
    lines = (spool / "driver.jsonl").read_bytes()
    ended: list[Ended] = [_read(path) for path in sorted(home.glob(f"{GAVE}-*"))]
    with SqliteStore(home / "held.db") as store:
        ingest(store, spool)
        began, whole = _messages(lines)[0], _messages(lines)
        assert isinstance(began, Begin)
        held = Held(store, app, began)
        finding = Finding(complete=not killed, programs=len(one.before) + 1)
        verdict = judge(whole, store.counts(app), now=began.started_at + LONG_AFTER_S)
        if killed and verdict.complete:
            finding.faults.append("complete, though the driver was killed")
        at = 0
        for number, attempt in enumerate((*one.before, one.last)):
            stop = _size(home / f"settled-{number}", len(lines))
            given = [each.outcome for each in ended if each.program == number]
            if given:
                one_finding = held.hold(attempt.program, _messages(lines[at:stop]), given)
                finding.rows += one_finding.rows
                finding.exact += one_finding.exact
                finding.faults += one_finding.faults
            at = stop
    return finding


def _messages(lines: bytes) -> list[Message]:
    """All whole ones: of the last line a part may be missing."""
    whole = lines[: lines.rfind(b"\n") + 1]
    return [parse_message(line) for line in whole.splitlines() if line.strip()]


def _size(path: Path, otherwise: int) -> int:
    return int(_read(path)) if path.exists() else otherwise


def _write(path: Path, told: Any) -> None:
    """At once or not at all."""
    making = path.with_suffix(".making")
    making.write_bytes(pickle.dumps(told))
    making.rename(path)


def _read(path: Path) -> Any:
    return pickle.loads(path.read_bytes())


def drive(home: Path) -> None:
    """Run the programs, and tell what comes of them."""
    one: Driven = _read(home / ASKED)
    with spark(home / "spark", "local[2,4]") as sc:
        running = Application(sc, home / "application")
        _write(home / STOOD, (str(running.spool), running.held.app))
        for number, attempt in enumerate((*one.before, one.last)):
            harm = replace(attempt.harm, driver=os.getpid())
            folder = running.begin(attempt)
            outcomes = running.outcomes(replace(attempt, harm=harm), folder)
            for action, outcome in enumerate(outcomes):
                _write(home / f"{GAVE}-{number}-{action}", Ended(number, outcome))
            running.settle()
            _write(home / f"settled-{number}", (running.spool / "driver.jsonl").stat().st_size)
        running.close()


DRIVER_KINDS = (Kind("drivers", driven, driving, batch=10),)
