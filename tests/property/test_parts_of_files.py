"""Traces through programs that name parts of files by their bytes, or rows by lines, against brute force byte by byte."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from lineage import LineageApi
from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.file_parts import location_of_part
from lineage_query.rows.places import parse_location
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.oracle.budget import examples

pytestmark = pytest.mark.property

Cell: TypeAlias = tuple[str, str, str, int]
"""Application, file, and a byte or a line of it."""


@dataclass(eq=False)
class Version:
    """A file as it was for a while."""

    path: Path
    content: bytes
    writer: Program | None = None
    is_edited: bool = False
    """A program wrote it as it was before."""

    def line_spans(self, *, written: bool) -> list[set[int]]:
        """The bytes of each line: those of its text, and of its end where it was written, or empty."""
        spans, at = [], 0
        for line in self.content.splitlines(keepends=True):
            text = line.removesuffix(b"\n").removesuffix(b"\r")
            spans.append(set(range(at, at + len(line if written or not text else text))))
            at += len(line)
        return spans


@dataclass(eq=False)
class Program:
    """One application: what it read of a file, and which of its outputs it made of which of these pieces."""

    source: Version
    reads_lines: bool
    writes_lines: bool
    app: str = ""
    pieces: list[set[int]] = field(default_factory=list)
    """Bytes; of lines the piece at an index is the line after it."""
    records: list[tuple[set[int], set[int]]] = field(default_factory=list)
    """Pieces, and the bytes that were made of them; of lines with their ends."""
    target: Version | None = None

    def source_cells(self, piece: int, some: set[int]) -> set[Cell]:
        path = str(self.source.path)
        if self.reads_lines:
            return {(self.app, path, "line", piece + 1)}
        return {(self.app, path, "byte", byte) for byte in some}

    def target_cells(self, some: set[int]) -> set[Cell]:
        assert self.target is not None
        path = str(self.target.path)
        if not self.writes_lines:
            return {(self.app, path, "byte", byte) for byte in some}
        spans = self.target.line_spans(written=True)
        return {(self.app, path, "line", at + 1) for at, span in enumerate(spans) if span & some}

    @property
    def used(self) -> set[int]:
        """The bytes that it is known to have read."""
        return set().union(*(self.pieces[at] for at in set().union(*(of for of, _ in self.records))))  # fmt: skip

    @property
    def written(self) -> set[int]:
        return set().union(*(made for _, made in self.records))


@dataclass
class World:
    folder: Path
    draw: random.Random
    current: dict[Path, Version] = field(default_factory=dict)
    programs: list[Program] = field(default_factory=list)
    is_calm: bool = True
    """No file was edited or overwritten."""

    def is_there(self, version: Version) -> bool:
        return self.current[version.path] is version

    # -- running -------------------------------------------------------------------------------

    def land(self) -> None:
        path = self.folder / "landed"
        path.write_bytes(b"one\n\ntwo\r\nthree")
        self.current[path] = Version(path, path.read_bytes())

    def run(self) -> None:
        draw = self.draw
        source = draw.choice(list(self.current.values()))
        program = Program(source, draw.random() < 0.5, draw.random() < 0.5)
        target = self.folder / f"file-{len(self.programs)}"
        others = [path for path in self.current if path not in {source.path, self.folder / "landed"}]  # fmt: skip
        if others and draw.random() < 0.15:
            target, self.is_calm = draw.choice(others), False
        url = f"sqlite:///{self.folder / 'lineage.db'}"
        with LineageApi("program", store=url, spool=str(self.folder / "spool")) as api:
            program.app = api.app
            self._work(api, program, target)
        self.programs.append(program)

    def _work(self, api: LineageApi, program: Program, target: Path) -> None:
        draw, source = self.draw, program.source
        if program.reads_lines:
            read = api.register("read", kind="source")
            api.link(read, api.register("work", kind="sink"))
            api.read_lines(read, {0: str(source.path)})
            program.pieces = source.line_spans(written=False)
            names = [f"{read}#0#{at}" for at in range(len(program.pieces))]
        else:
            api.register("work", kind="sink")
            ends = [sorted(draw.choices(range(len(source.content)), k=2)) for _ in range(3)]
            program.pieces = [set(range(first, last + 1)) for first, last in ends]
            names = [api.location(str(source.path), first, last - first + 1) for first, last in ends]  # fmt: skip
        content = b"" if program.writes_lines else draw.choice([b"", b"head\n"])
        # No two files are the same by chance.
        unique = f"{len(self.programs)}:{draw.random()}"
        with api.task("work") as task:
            outputs = []
            for number in range(draw.randint(1, 4)):
                of = set(draw.sample(range(len(names)), draw.randint(1, len(names))))
                text = (unique if not number else "x" * draw.randint(0, 5)).encode()
                if program.writes_lines:
                    text += b"\n"
                    program.records.append((of, set(range(len(content), len(content) + len(text)))))
                    outputs.append((of, f"work#0#{number}"))
                elif text:
                    first, length = len(content), len(text)
                    text += draw.choice([b"", b"\n", b"\r\n", b"\n\n"])
                    length = draw.choice([length, len(text)])
                    program.records.append((of, set(range(first, first + length))))
                    outputs.append((of, api.location(str(target), first, length)))
                content += text
            target.write_bytes(content)
            for tag, (of, made) in enumerate(outputs):
                for at in sorted(of):
                    task.add_input(names[at], tag=tag)
                task.add_output(made, tag=tag)
        if program.writes_lines:
            api.wrote_lines("work", {0: str(target)})
        program.target = self.current[target] = Version(target, content, program)

    def edit(self) -> None:
        version = self.draw.choice(list(self.current.values()))
        content = version.content + b"more\n"
        version.path.write_bytes(content)
        self.current[version.path] = Version(
            version.path, content, is_edited=version.is_edited or version.writer is not None
        )
        self.is_calm = False

    # -- brute force ---------------------------------------------------------------------------

    def back(self, program: Program, made: set[int]) -> tuple[set[Cell], set[Cell], bool]:
        """Where bytes come from: the ends, all on the way, and whether something is missing."""
        ends, way, is_missing = set[Cell](), set[Cell](), False
        source, writer = program.source, program.source.writer
        pieces = set().union(*(of for of, bytes_made in program.records if bytes_made & made))
        for at in pieces:
            piece = program.pieces[at]
            cells = program.source_cells(at, piece)
            way |= cells
            is_convertible = (
                writer is None
                or writer.writes_lines == program.reads_lines
                or self.is_there(source)
            )
            if writer is None or not is_convertible:
                ends |= cells
                is_missing = is_missing or source.is_edited or not is_convertible
                continue
            written = set(range(len(source.content))) if writer.writes_lines else writer.written
            if not program.reads_lines:
                ends |= program.source_cells(at, piece - written)
            elif not piece & written:
                ends |= cells
            found = self.back(writer, piece & written)
            ends, way = ends | found[0], way | found[1]
            is_missing = is_missing or bool(piece - written) or found[2]
        return ends, way, is_missing

    def forward(self, program: Program, pieces: set[int]) -> tuple[set[Cell], set[Cell]]:
        """Where pieces go: the ends, and all on the way."""
        ends, way = set[Cell](), set[Cell]()
        assert program.target is not None
        for of, made in program.records:
            if not of & pieces:
                continue
            cells, rest = program.target_cells(made), set(made)
            way |= cells
            readers = [other for other in self.programs if other.source is program.target]
            for reader in readers:
                is_convertible = self.is_there(program.target)
                if reader.reads_lines != program.writes_lines and not is_convertible:
                    continue
                used = {at for at, piece in enumerate(reader.pieces) if piece & made}
                # The first record of the file may be behind a line that nobody wrote.
                rest -= made if reader.reads_lines else reader.used
                found = self.forward(reader, used)
                ends, way = ends | found[0], way | found[1]
            if not program.writes_lines:
                ends |= program.target_cells(rest)
            elif rest == made:
                ends |= cells
        return ends, way


def cells_of(answer: Answer) -> set[Cell]:
    cells = set[Cell]()
    for group in answer.groups:
        app = group.app or answer.app
        for item in group.items:
            assert item.location is not None
            part = location_of_part(item.address, item.location)
            if part is None:
                row = parse_location(item.location)
                cells.add((app, row.path, "line", row.number or 0))
            else:
                first, length = part.split or (0, 0)
                cells |= {(app, part.path, "byte", byte) for byte in range(first, first + length)}
    return cells


def worlds(seed: int, folder: Path) -> World:
    draw = random.Random(seed)
    world = World(folder, draw)
    world.land()
    for _ in range(draw.randint(2, 5)):
        world.run()
        if draw.random() < 0.2:
            world.edit()
    return world


@settings(max_examples=examples(10), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_bytes_and_lines_of_files_go_on_where_they_are_the_same(seed: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        world = worlds(seed, Path(name).resolve())
        url = f"sqlite:///{world.folder / 'lineage.db'}"
        with open_store(url) as store:
            access = StoredAccess(store, url)
            for program in world.programs:
                for place, expected in backward_questions(world, program):
                    check(world, program, Direction.BACKWARD, place, *expected, access)
                for place, pieces in forward_questions(world, program):
                    ends, way = world.forward(program, pieces)
                    check(world, program, Direction.FORWARD, place, ends, way, None, access)


def check(
    world: World,
    program: Program,
    direction: Direction,
    place: str,
    ends: set[Cell],
    way: set[Cell],
    is_missing: bool | None,
    access: StoredAccess,
) -> None:
    query = TraceQuery(direction, (place,), app=program.app, all_jobs=True)
    answer = access.ask(query)
    found = cells_of(answer)
    shown = (place, sorted(ends ^ found), answer, answer.not_queried)
    event(f"{direction.value}: complete {answer.complete}")
    assert answer.exact, shown
    assert found <= way, shown
    if answer.complete:
        assert found == ends, shown
    if is_missing is not None:
        assert answer.complete == (not is_missing), shown
    elif world.is_calm:
        assert answer.complete, shown
    counted = access.ask(TraceQuery(direction, (place,), app=program.app, all_jobs=True, by="file"))
    assert {one.name for one in counted.containers} == {path for _, path, _, _ in found}, shown


def backward_questions(
    world: World, program: Program
) -> Iterator[tuple[str, tuple[set[Cell], set[Cell], bool]]]:
    """Places of outputs, with where they come from."""
    assert program.target is not None
    path = program.target.path
    if not world.is_there(program.target):
        return
    if program.writes_lines:
        for at, span in enumerate(program.target.line_spans(written=True)):
            if span & program.written:
                yield f"{path}:{at + 1}", world.back(program, span)
        return
    for _, made in program.records:
        first = world.draw.randint(min(made), max(made))
        last = world.draw.randint(first, max(made))
        yield f"{path}@{first}+{last - first + 1}", world.back(program, set(range(first, last + 1)))


def forward_questions(world: World, program: Program) -> Iterator[tuple[str, set[int]]]:
    """Places of the source, with the pieces of it that they are."""
    path = program.source.path
    if not world.is_there(program.source):
        return
    for at in set().union(*(of for of, _ in program.records)):
        piece = program.pieces[at]
        if program.reads_lines:
            yield f"{path}:{at + 1}", {at}
        elif piece <= program.used:
            together = {n for n, other in enumerate(program.pieces) if other & piece}
            yield f"{path}@{min(piece)}+{len(piece)}", together
