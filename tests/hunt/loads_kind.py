"""Several jobs over shared inputs and appended outputs; inputs change between them, and outputs are overwritten.

What is drawn is a row of events; when all have happened, rows that are there are asked for in both directions, by
their places and by values, and the answers are held to what the rows say (`tests.hunt.loads`).
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hypothesis import strategies as st

from lineage.access import open_access
from tests.hunt.claims import Finding
from tests.hunt.frame_kind import quick_session
from tests.hunt.hunting import Kind
from tests.hunt.loads import PARQUET, Loads
from tests.hunt.loads_claims import Answers
from tests.hunt.spark_kinds import spark

QUESTIONS = 8
"""Of each program, drawn from all that could be asked."""
KEYS = ("a", "b", "c")
FORMATS = ("parquet", "json")
Event = tuple[str, int]


@dataclass(frozen=True)
class Week:
    """Events, by name and a number that decides what they are about; ``seed``: of the questions."""

    events: tuple[Event, ...]
    seed: int

    def __str__(self) -> str:
        return " > ".join(f"{name} {number}" for name, number in self.events) + f"; {self.seed}"


def _land(loads: Loads, number: int) -> None:
    rows = [(KEYS[(number + n) % 3], n % 3) for n in range(2 + number % 2)]
    loads.land(f"in-{len(loads.inputs())}.csv", rows)


def _append(loads: Loads, number: int) -> None:
    loads.append(loads.inputs(), "appended", number % 2, format="parquet", times=1)


def _append_one(loads: Loads, number: int) -> None:
    names = loads.inputs()
    name = names[number % len(names)]
    loads.append([name], "appended", 0, format="parquet", times=1 + number % 2)


def _overwrite(loads: Loads, number: int) -> None:
    names = loads.inputs()
    loads.overwrite(names[: 1 + number % len(names)], "clean", format=FORMATS[number % 2])


def _report(loads: Loads, number: int) -> None:
    if list((loads.folder / "appended").glob("part-*")):
        loads.report("appended", "report", format=FORMATS[number % 2])


def _audit(loads: Loads, number: int) -> None:
    names = loads.inputs()
    loads.audit(names[number % len(names)], number % 2)


def _touch(loads: Loads, number: int) -> None:
    names = loads.inputs()
    loads.touch(names[number % len(names)])


def _late(loads: Loads, number: int) -> None:
    """A row comes in front of the others of an input."""
    name = loads.inputs()[number % len(loads.inputs())]
    head, rows = (loads.folder / "in" / name).read_text().split("\n", 1)
    loads.rows += 1
    loads.write(name, f"{head}\ni{loads.rows},{KEYS[number % 3]},2\n{rows}".encode())


def _lost(loads: Loads, number: int) -> None:
    names = loads.inputs()
    if len(names) > 1:
        (loads.folder / "in" / names[number % len(names)]).unlink()


EVENTS: dict[str, Callable[[Loads, int], None]] = {
    "land": _land,
    "append all": _append,
    "append one": _append_one,
    "overwrite": _overwrite,
    "report": _report,
    "audit": _audit,
    "touch": _touch,
    "late row": _late,
    "lost": _lost,
}
HARM = ("touch", "late row", "lost")


def weeks() -> st.SearchStrategy[Week]:
    """Two inputs, and two to six events."""
    events = st.tuples(st.sampled_from(sorted(EVENTS)), st.integers(0, 5))
    listed = st.lists(events, min_size=2, max_size=6).map(tuple)
    return st.builds(
        lambda some, seed: Week((("land", 0), ("land", 1), *some), seed), listed, st.integers(0, 99)
    )


def questions(answers: Answers) -> list[Callable[[], None]]:
    """All that can be asked: every row that is there, in both directions, by place and by values."""
    asked: list[Callable[[], None]] = []
    for row in answers.rows:
        asked.append(partial(answers.back, row))
        if not row.of_records:
            asked.append(partial(answers.back_by_values, row))
    for place, tag in answers.loads.sources():
        asked.append(partial(answers.forward, place))
        if not place[0].endswith(PARQUET):
            asked.append(partial(answers.forward_by_value, place, tag))
    return asked


@contextmanager
def loading(folder: Path) -> Iterator[Callable[[Week], Finding]]:
    """Tries weeks in one SparkContext."""
    folder.mkdir(parents=True)
    numbers = itertools.count()
    with spark(folder, "local[2]") as sc:
        session = quick_session(sc)

        def attempt(week: Week) -> Finding:
            home = folder / str(next(numbers))
            home.mkdir()
            url = f"sqlite:///{home}/lineage.db"
            loads = Loads(sc, session, home, url)
            for name, number in week.events:
                EVENTS[name](loads, number)
            finding = Finding(complete=True)
            if not loads.read:
                # No job has run: there is no store to be asked.
                return finding
            with open_access(url) as access:
                asked = questions(Answers(loads, access, finding))
                for ask in random.Random(week.seed).sample(asked, min(len(asked), QUESTIONS)):
                    ask()
            struck = Counter(f"source: {name}" for name, _ in week.events if name in HARM)
            return finding.harmed_by(struck)

        yield attempt


LOADS_KINDS = (Kind("loads", weeks, loading, batch=10),)
