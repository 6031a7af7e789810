"""Small jobs whose containers are known: files, splits and tasks are made here, and so are the flows between their rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from hypothesis import strategies as st

from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Link, Read, SinkFile, SinkFiles, Split, Splits
from tests.support.spool_builder import Spool
from tests.support.stored_lineage import flows

Row: TypeAlias = tuple[str, int]
"""A file and a line, from 1."""
LINE_BYTES = 4
KEYS = 4
SINKS = ("3", "4")
LABELS = {"0": "read:in", "1": "read:f0", "3": "write:out3", "4": "write:out4"}
"""As commands call the nodes."""


@dataclass(frozen=True)
class Shape:
    """A job. ``files``: lines of each file. ``cuts``: by source and file, the lines at which its splits begin.

    ``keys``: by source, file and line (from 0) the keys that it goes to. ``outputs``: by sink the rows of each part file,
    each the keys that it is made of.
    """

    files: tuple[int, ...]
    cuts: tuple[tuple[tuple[int, ...], ...], ...]
    keys: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]
    outputs: tuple[tuple[tuple[tuple[int, ...], ...], ...], ...]
    counted: bool


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Source 0 reads all files, source 1 the first alone, in other splits."""
    files = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    read = (files, files[:1])
    some_keys = st.lists(st.integers(0, KEYS - 1), max_size=2, unique=True).map(tuple)

    def cuts(lines: int) -> tuple[int, ...]:
        inner = st.sets(st.integers(1, lines - 1), max_size=2) if lines > 1 else st.just(set())
        return (0, *sorted(draw(inner)))

    row = st.lists(st.integers(0, KEYS - 1), min_size=1, max_size=2, unique=True).map(tuple)
    parts = st.lists(st.lists(row, min_size=1, max_size=3).map(tuple), min_size=1, max_size=2)
    return Shape(
        files,
        tuple(tuple(map(cuts, lines)) for lines in read),
        tuple(
            tuple(tuple(draw(some_keys) for _ in range(count)) for count in lines) for lines in read
        ),
        tuple(tuple(draw(parts)) for _ in SINKS),
        draw(st.booleans()),
    )


@dataclass
class LevelsJob:
    """A job that was written, and what its rows lie in, by brute force."""

    app: str
    folder: Path
    made_of: dict[Row, set[Row]] = field(default_factory=dict)
    """By output row the input rows."""
    splits: dict[tuple[str, Row], str] = field(default_factory=dict)
    """By source and row."""
    readers: dict[Row, dict[Row, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    """By output row and input row the tasks that read the one on the way to the other."""
    task_rows: dict[str, set[Row]] = field(default_factory=lambda: defaultdict(set))
    """By task that read rows those that went into a key."""
    sources: dict[Row, dict[Row, set[str]]] = field(default_factory=lambda: defaultdict(dict))
    """By output row and input row, the sources by which it is made of it."""
    stages: dict[str, str] = field(default_factory=dict)
    """By task its stage."""
    sinks: dict[Row, tuple[str, str]] = field(default_factory=dict)
    """By output row the sink and the task that wrote it."""

    @property
    def outputs(self) -> list[Row]:
        return list(self.sinks)

    @property
    def inputs(self) -> list[Row]:
        return list(dict.fromkeys(row for _, row in self.splits))

    def made_from(self, inputs: Iterable[Row]) -> list[Row]:
        """The output rows that some input rows went into."""
        some = set(inputs)
        return [output for output, made_of in self.made_of.items() if some & made_of]


def write_job(
    spool_folder: Path, folder: Path, shape: Shape, app: str = "app-1", *, stages: bool = True
) -> LevelsJob:
    """Write the files and the spool of a job. ``stages``: its commits name them; older versions' did not."""
    job = LevelsJob(app, folder)
    (folder / "in").mkdir(exist_ok=True)
    paths = [folder / "in" / f"f{number}" for number in range(len(shape.files))]
    for path, lines in zip(paths, shape.files, strict=True):
        path.write_text("abc\n" * lines)
    spool = Spool(spool_folder, app)
    spool.begin(1000.0, "totals.py")
    spool.node("0", "source", "textFile", alias="read", path=str(folder / "in"))
    spool.node("1", "source", "textFile", alias="read", path=str(paths[0]))
    spool.node("2", "shuffle", "combineByKey", name="reduceByKey")
    for sink in SINKS:
        spool.node(sink, "sink", "saveAsTextFile", alias="write", path=str(folder / f"out{sink}"))
    spool.send(*(Link(app=app, src=a, dest=b) for a, b in ("02", "12", "23", "24")))
    from_key: dict[int, list[tuple[Row, str, str]]] = defaultdict(list)
    tasks = _write_sources(spool, job, shape, paths, from_key, stages=stages)
    blocks = tasks
    for sink, parts in zip(SINKS, shape.outputs, strict=True):
        blocks += _write_sink(spool, job, sink, parts, from_key, stages=stages)
    spool.job("3", n2=tasks, n3=len(shape.outputs[0]))
    spool.job("4", n4=len(shape.outputs[1]))
    spool.end(blocks=blocks, tasks=blocks)
    return job


def _write_sources(
    spool: Spool,
    job: LevelsJob,
    shape: Shape,
    paths: list[Path],
    from_key: dict[int, list[tuple[Row, str, str]]],
    *,
    stages: bool,
) -> int:
    """Splits of both sources, and a task for each; how many there are."""
    task = 0
    for source, (file_cuts, keys) in enumerate(zip(shape.cuts, shape.keys, strict=True)):
        splits: list[Split] = []
        for path, cuts, of_file in zip(paths, file_cuts, keys, strict=False):
            size = len(of_file) * LINE_BYTES
            for begin, end in zip(cuts, (*cuts[1:], len(of_file)), strict=True):
                # A line that begins at the end of a split belongs to it: the cut is a byte before the line.
                start = begin and begin * LINE_BYTES - 1
                stop = size if end == len(of_file) else end * LINE_BYTES - 1
                partition = len(splits)
                splits.append(
                    Split(
                        partition=partition,
                        path=f"file:{path}",
                        start=start,
                        length=stop - start,
                        file_size=size,
                        mtime=path.stat().st_mtime,
                    )
                )
                into: dict[int, list[int]] = defaultdict(list)
                for ordinal, line in enumerate(range(begin, end)):
                    row = str(path), line + 1
                    job.splits[str(source), row] = f"{path}@{start}+{stop - start}"
                    if of_file[line]:
                        job.task_rows[f"2#{task}.{task + 10}"].add(row)
                    for key in of_file[line]:
                        into[key].append(ordinal)
                        from_key[key].append((row, str(source), f"2#{task}.{task + 10}"))
                rows = [(ordinals, key) for key, ordinals in into.items()]
                block = flows(
                    BlockId("2", task, task + 10, 0),
                    f"{source}#{partition}",
                    "2@0",
                    rows or [([], 99)],
                    spool.app,
                )
                reads = (
                    Read(space=f"{source}#{partition}", rows=end - begin, exhausted=shape.counted),
                )
                stage = source if stages else None
                job.stages[f"2#{task}.{task + 10}"] = f"stage {source}"
                spool.task(
                    "2", task, task + 10, [block], flows=block.rows, reads=reads, stage=stage
                )
                task += 1
        spool.send(Splits(app=spool.app, node=str(source), splits=tuple(splits)))
    return task


def _write_sink(
    spool: Spool,
    job: LevelsJob,
    sink: str,
    parts: Iterable[tuple[tuple[int, ...], ...]],
    from_key: dict[int, list[tuple[Row, str, str]]],
    *,
    stages: bool,
) -> int:
    out = job.folder / f"out{sink}"
    out.mkdir(exist_ok=True)
    files: list[SinkFile] = []
    for partition, drawn in enumerate(parts):
        # What no task put out would be missing lineage.
        rows = [[key for key in keys if from_key[key]] for keys in drawn]
        path = out / f"part-{partition:05}"
        path.write_text("x\n" * len(rows))
        attempt = 50 + partition
        for ordinal, keys in enumerate(rows):
            output = str(path), ordinal + 1
            job.sinks[output] = sink, f"{LABELS[sink]}#{partition}.{attempt}"
            job.made_of[output] = set()
            for row, source, task in (entry for key in keys for entry in from_key[key]):
                job.made_of[output].add(row)
                job.readers[output].setdefault(row, set()).add(task)
                job.sources[output].setdefault(row, set()).add(source)
        made = [(sorted(keys), ordinal) for ordinal, keys in enumerate(rows)]
        block = flows(
            BlockId(sink, partition, attempt, 0), "2@0", f"{sink}#{partition}", made, spool.app
        )
        stage = int(sink) if stages else None
        job.stages[f"{LABELS[sink]}#{partition}.{attempt}"] = f"stage {sink}"
        spool.task(sink, partition, attempt, [block], flows=block.rows, rows=len(rows), stage=stage)
        state = path.stat()
        files.append(
            SinkFile(
                partition=partition,
                path=f"file:{path}",
                size=state.st_size,
                mtime=state.st_mtime,
                rows=len(rows),
            )
        )
    spool.send(SinkFiles(app=spool.app, node=sink, path=str(out), files=tuple(files)))
    return len(files)


def containers_back(job: LevelsJob, level: str, outputs: Iterable[Row]) -> dict[str, set[Row]]:
    """By container the input rows that some output rows were made from."""
    found: dict[str, set[Row]] = defaultdict(set)
    for output in outputs:
        for row in job.made_of[output]:
            for name in _containers_of_input(job, level, output, row):
                found[name].add(row)
    return found


def _containers_of_input(job: LevelsJob, level: str, output: Row, row: Row) -> Iterable[str]:
    sources = job.sources[output][row]
    match level:
        case "split":
            return [job.splits[source, row] for source in sources]
        case "file":
            return [row[0]]
        case "dataset":
            by_source = {"0": f"file:{job.folder}/in", "1": f"file:{row[0]}"}
            return [by_source[source] for source in sources]
        case "task":
            return job.readers[output][row]
        case "stage":
            return {job.stages[task] for task in job.readers[output][row]}
        case "node":
            return [LABELS[source] for source in sources]
        case "application":
            return [job.app]
        case _:
            return ["totals.py"]


def containers_forward(job: LevelsJob, level: str, inputs: Iterable[Row]) -> dict[str, set[Row]]:
    """By container the output rows that some input rows went into."""
    found: dict[str, set[Row]] = defaultdict(set)
    for output in job.made_from(inputs):
        sink, task = job.sinks[output]
        name = {
            "split": output[0],
            "file": output[0],
            "dataset": f"file:{job.folder}/out{sink}",
            "task": task,
            "stage": job.stages[task],
            "node": LABELS[sink],
            "application": job.app,
        }.get(level, "totals.py")
        found[name].add(output)
    return found
