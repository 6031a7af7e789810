"""The jobs that are measured: name, how its input is made, how it is started, what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import witnesses
from benchmarks.generate import vocabulary, write_flights, write_text
from benchmarks.generate_records import write_graph, write_records, write_tables, write_tweets

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks" / "workloads"
GREP_RANK = 8
"""The word to look for: the 8th most frequent, in 9 % of the lines."""
GREP_WORD = str(vocabulary()[GREP_RANK - 1], encoding="ascii")
ITERATIONS = 10


@dataclass(frozen=True)
class Workload:
    """``script`` is run as ``script INPUT OUTPUT PARTITIONS *extra``."""

    name: str
    script: Path
    prepare: Callable[[Path, int], Path]
    """(folder, bytes or rows) -> the input to hand to the script; made once, then kept."""
    witnesses: witnesses.Witnesses
    extra: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of captured runs."""
    by_rows: bool = False
    """Its input is sized by rows (of each table), not by bytes."""
    published_in_detail: bool = False
    """The published figures are of every operator, with values; else at stage level."""
    sampled_rows: int = 20
    """Output rows whose traces are compared with plain Python."""

    def arguments(self, source: Path, output: Path, partitions: int) -> list[str]:
        """Arguments of one run, the script first."""
        return [str(self.script), str(source), str(output), str(partitions), *self.extra]

    def with_settings(self, name: str, **settings: str) -> Workload:
        """The same job, captured with other settings."""
        return replace(self, name=name, settings={**self.settings, **settings})


def _once(stem: str, write: Callable[[Path, int], None]) -> Callable[[Path, int], Path]:
    """An input in one file."""

    def prepare(folder: Path, amount: int) -> Path:
        target = folder / f"{stem}-{amount}.txt"
        if not target.exists():
            write(target, amount)
        return target

    return prepare


def _flights(folder: Path, size: int) -> Path:
    target = folder / f"flights-{size}"
    if not (target / "flights.csv").exists():
        write_flights(target, size)
    return target


def _tables(folder: Path, rows: int) -> Path:
    target = folder / f"tables-{rows}"
    if not (target / "orders.csv").exists():
        write_tables(target, rows)
    return target


def input_bytes(source: Path) -> int:
    """Bytes of an input: a file, or the files directly in a folder."""
    files = [source] if source.is_file() else [path for path in source.iterdir() if path.is_file()]
    return sum(path.stat().st_size for path in files)


_TEXT, _RECORDS = _once("text", write_text), _once("records", write_records)
_JOIN = Workload("join", HERE / "join.py", _tables, witnesses.of_join, by_rows=True)

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("wordcount", HERE / "wordcount.py", _TEXT, witnesses.of_words),
        Workload(
            *("grep", HERE / "grep.py", _TEXT, witnesses.of_matches(GREP_WORD)),
            extra=(GREP_WORD,),
        ),
        Workload(
            *("flights", ROOT / "examples" / "flights" / "job.py", _flights, witnesses.of_flights)
        ),
        Workload(
            *("tweets", HERE / "tweets.py", _once("tweets", write_tweets), witnesses.of_tweets),
            published_in_detail=True,
        ),
        _JOIN,
        _JOIN.with_settings("join-key", LINEAGE_GRANULARITY="key"),
        Workload("sort", HERE / "sort.py", _RECORDS, witnesses.of_whole_lines),
        Workload("distinct", HERE / "distinct.py", _RECORDS, witnesses.of_keys),
        Workload("group", HERE / "group.py", _RECORDS, witnesses.of_keys),
        Workload(
            *("pagerank", HERE / "pagerank.py", _once("graph", write_graph)),
            witnesses.of_ranks(ITERATIONS),
            extra=(str(ITERATIONS),),
            by_rows=True,
            sampled_rows=6,
        ),
    )
}
