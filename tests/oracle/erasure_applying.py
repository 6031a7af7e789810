"""Plans that are carried out over drawn chains of jobs, interrupted at drawn steps, against what the rows say of themselves.

- a stored text of a row that the subject's went into is erased, in a chain in which nothing was overwritten just these;
- whatever is left of the subject's token in stored texts, the plan was not complete;
- while a row of an output, or of the source, is left, no verification is clean;
- all other traces, of each source row forward and of each output row backward, answer as before but for texts of erased rows.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.erasure.applying import apply_plan
from lineage_query.erasure.erased_texts import ERASED
from lineage_query.erasure.finding import SubjectQuery
from lineage_query.erasure.journal import Journal
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.plan import Plan, make_plan
from lineage_query.erasure.verifying import Verifying
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure import FORM, JOBS_MAX, drawn_job
from tests.oracle.erasure_chains import Row, World, token

_At = tuple[str, int, int, int]
"""Application, partition, position of the row and number of the block."""


def check_applied(seed: int, folder: Path) -> Counter[str]:
    """Draw a chain, carry a plan out, and compare.

    Raises:
        AssertionError: too little or too much was erased, or another trace answers otherwise.
    """
    generator = random.Random(seed)
    with SqliteStore(folder / "lineage.db") as store:
        world = World(folder, store, texts=True)
        world.land(generator.randint(1, 4), generator)
        for _ in range(generator.randint(1, JOBS_MAX)):
            world.run(drawn_job(generator), generator)
        path, _, row = generator.choice(world.source_rows())
        word = token(min(row.ids))
        query = SubjectQuery(str(path), where=f"token = '{word}'", form=FORM)

        def make() -> Plan:
            reader = RowReader()
            return make_plan("erase", query, store, reader, QueryEngine(store, reader))

        plan = make()
        texts, answers = dict(_texts(store)), dict(_answers(world))
        interruptions = _apply(plan, query, make, world, generator)
        left = dict(_texts(store))
        assert left.keys() == texts.keys()
        erased = {at for at, text in left.items() if text == ERASED}
        assert all(left[at] == text for at, text in texts.items() if at not in erased)
        holding = {at for at, text in texts.items() if word in text.replace(";", " ").split()}
        if plan.complete:
            assert not holding - erased, holding - erased
        for place, output in world.outputs() if not world.disturbed else ():
            for at in _stored_of(place, left):
                assert (at in erased) == (row.ids <= output.ids), (at, output)
        after = dict(_answers(world))
        assert after.keys() == answers.keys()
        for asked, answer in answers.items():
            assert after[asked] == answer, asked
        clean = _verified(world, plan, query, make, row, generator)
        return Counter(
            programs=1, clean=clean, erased=len(erased), kept=len(texts) - len(erased), interrupted=interruptions,
            complete=plan.complete, traces=len(answers),
        )  # fmt: skip


def place_beside(folder: Path) -> StorePlace:
    """Of the store of a world."""
    return StorePlace("x", folder / "rows", folder / "spool", folder / "index", False, False)


def _apply(
    plan: Plan, query: SubjectQuery, make: Any, world: World, generator: random.Random
) -> int:
    """Carry it out, stopped now and then before a line of the journal is written; how often it was stopped."""
    append, stopped = Journal._append, 0
    place = place_beside(world.folder)

    def stopping(journal: Journal, entry: Any) -> Any:
        if generator.random() < 0.4:
            raise InterruptedError
        return append(journal, entry)

    while True:
        try:
            with patch.object(Journal, "_append", stopping):
                apply_plan(plan.to_json(), query, make, world.store, place)
        except InterruptedError:
            stopped += 1
            continue
        break
    assert apply_plan(plan.to_json(), query, make, world.store, place).already
    return stopped


def _verified(
    world: World, plan: Plan, query: SubjectQuery, make: Any, row: Row, generator: random.Random
) -> int:
    """Delete what the plan names, file by file in a drawn order: while something is left, nothing is clean; 1: it is at last."""

    def verify() -> bool:
        reader = RowReader()
        engine = QueryEngine(world.store, reader)
        return Verifying(
            plan.to_json(), query, world.store, reader, engine, place_beside(world.folder), make
        ).verify().clean  # fmt: skip

    left = {at: output for at, output in world.outputs() if row.ids <= output.ids}
    files = sorted({at.rpartition(":")[0] for at in left})
    generator.shuffle(files)
    source = Path(query.source)
    for path in (*files, str(source)):
        assert not verify(), path
        if path == str(source):
            kept = [line for line in source.read_text().splitlines() if line != row.text]
            source.write_text("".join(f"{line}\n" for line in kept))
        else:
            Path(path).unlink()
    return verify()


def _texts(store: SqliteStore) -> Iterator[tuple[_At, str]]:
    for app in store.application_ids():
        graph = store.graph(app)
        for ref in graph.blocks():
            block = graph.load([ref.block_id])[ref.block_id]
            for position, text in zip(block.out_first.tolist(), block.values or (), strict=False):
                if text is not None:
                    yield (app, ref.block_id.partition, position, ref.block_id.seq), text


def _stored_of(place: str, texts: Mapping[_At, str]) -> list[_At]:
    """Where the texts of a row of an output are stored."""
    path, _, line = place.rpartition(":")
    _, job, partition = path.rpartition("/")[2].split("-")
    row = f"app-{job}", int(partition), int(line) - 1
    return [at for at in texts if at[:3] == row]


def _answers(world: World) -> Iterator[tuple[tuple[str, str], str]]:
    """All traces, with texts of files; those that were stored are not shown where a file has them."""
    reader = RowReader()
    engine = QueryEngine(world.store, reader)
    starts = [(Direction.FORWARD, f"{path}:{line}") for path, line, _ in world.source_rows()]
    starts += [(Direction.BACKWARD, at) for at, _ in world.outputs()]
    for direction, place in starts:
        query = TraceQuery(direction, (place,), all_jobs=True)
        try:
            answer = json.dumps(engine.ask(query).to_json(), sort_keys=True)
        except LineageError as error:
            answer = f"{type(error).__name__}: {error}"
        yield (direction.value, place), answer
