"""Time from spool to queryable for the lineage of a word count, without Spark.

Writes the spool that a captured word count leaves (8 map tasks, one flow per word and task, 8
reduce partitions), ingests it several times into a new store, and prints one JSON line:
``ingest_s`` is the median wall time until the store is closed (``ingest_cpu_s``: processor time of
all threads), ``store_bytes`` its size, ``memory_mb`` what ingest takes at most beyond a process that
has loaded the libraries.

    python -m benchmarks.ingest_blocks --megabytes 100 --repeat 5
    python -m benchmarks.ingest_blocks --keys 2000000 --repeat 1

``--keys``: instead, a ``distinct`` of so many rows that are all different, the worst that linking
by keys can meet.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import platform
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lineage_core.codec.csv_codec import encode_csv
from lineage_core.codec.record_batch import compress, pack_record_batch
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.block_check import FLOWS_PER_BLOCK, RUNS_PER_BLOCK
from lineage_core.contract.block_header import header_of
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Expected,
    Job,
    Link,
    Message,
    Register,
    Totals,
    dump_message,
)
from lineage_core.contract.verdict import judge
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore

APP = "bench-word-count"
VOCABULARY = 8_000
ROWS_PER_MEGABYTE = 17_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--keys", type=int, default=0)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generated = Spool(Path(folder) / "made" / APP, options.partitions)
        if options.keys:
            generated.write_distinct(options.keys)
        else:
            generated.write_word_count(options.megabytes * ROWS_PER_MEGABYTE)
        runs = []
        for run in range(options.repeat):
            spool, store = Path(folder) / f"spool-{run}", Path(folder) / f"run-{run}"
            shutil.copytree(generated.folder.parent, spool)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                runs.append(process.submit(one_run, spool / APP, store / "lineage.db").result())
            shutil.rmtree(store)
    walls = [run.pop("wall") for run in runs]
    row = {
        "bench": "ingest_blocks",
        "megabytes": 0 if options.keys else options.megabytes,
        "keys": options.keys,
        "ingest_s": round(statistics.median(walls), 3),
        "ingest_s_all": [round(wall, 3) for wall in walls],
        "ingest_cpu_s": round(statistics.median(run.pop("cpu") for run in runs), 3),
        "memory_mb": max(run.pop("memory_mb") for run in runs),
        "spool_bytes": generated.bytes,
        "csv_bytes": generated.csv_bytes,
        "runs": generated.runs,
        "python": platform.python_version(),
        **runs[-1],
    }
    print(json.dumps(row))


def one_run(folder: Path, path: Path) -> dict[str, Any]:
    """Ingest a spool into a new store; runs in a process of its own, for its memory."""
    before = peak_mb()
    began, cpu_began = time.perf_counter(), time.process_time()
    with SqliteStore(path) as store:
        report = ingest(store, folder)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu_began
    memory = peak_mb() - before
    size = sum(file.stat().st_size for file in path.parent.iterdir())
    with SqliteStore(path) as store:
        verdict = judge(store.messages(APP), store.counts(APP), now=time.time())
    return {
        "wall": wall,
        "cpu": cpu,
        "memory_mb": memory,
        "store_bytes": size,
        "blocks": report.blocks,
        "flows": report.flows,
        "associations": report.associations,
        "edges": report.edges,
        "complete": verdict.complete,
    }


def peak_mb() -> int:
    """Most memory this process ever had, in MiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


class Spool:
    """Writes the spool folder of one application."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self.folder = folder
        self.partitions = partitions
        self.bytes = self.csv_bytes = self.runs = 0
        (folder / "blocks").mkdir(parents=True)
        self.lines: list[Message] = []
        random = np.random.default_rng(3)
        self.hashes = random.integers(0, 2**64, VOCABULARY, np.uint64, endpoint=False)
        self.random = random

    def write_word_count(self, rows: int) -> None:
        """``rows`` lines of 8 to 12 words, Zipf with exponent 2."""
        self._begin()
        per_task = rows // self.partitions
        seen = np.zeros(VOCABULARY, np.bool_)
        for task in range(self.partitions):
            words = self._words(per_task)
            for word in words:
                seen[word[0]] = True
            self._commit("4", task, self._map_blocks(task, words))
        for task in range(self.partitions):
            mine = np.flatnonzero(seen)
            mine = self.random.permutation(mine[mine % self.partitions == task])
            self._commit("6", task, self._reduce_blocks(task, self.hashes[mine]))
        self._end()

    def write_distinct(self, count: int) -> None:
        """``count`` different keys, each of one line."""
        self._begin()
        keys = np.unique(self.random.integers(0, 2**64, count, np.uint64, endpoint=False))
        keys = self.random.permutation(keys)
        for task, mine in enumerate(np.array_split(keys, self.partitions)):
            self._commit("4", task, self._distinct_blocks(task, mine))
        for task in range(self.partitions):
            mine = keys[keys % np.uint64(self.partitions) == task]
            self._commit("6", task, self._reduce_blocks(task, self.random.permutation(mine)))
        self._end()

    def _begin(self) -> None:
        nodes = [("1", "source", "textFile"), ("4", "shuffle", "reduceByKey")]
        nodes.append(("6", "sink", "saveAsTextFile"))
        self.lines.append(Begin(app=APP, name="word count", started_at=time.time()))
        self.lines += [Register(app=APP, node=n, kind=k, op=o) for n, k, o in nodes]
        self.lines += [Link(app=APP, src="1", dest="4"), Link(app=APP, src="4", dest="6")]

    def _end(self) -> None:
        expected = tuple(
            Expected(node=node, partitions=tuple(range(self.partitions))) for node in ("4", "6")
        )
        self.lines.append(Job(app=APP, job=0, action="save", sink="6", expected=expected))
        totals = Totals(tasks=2 * self.partitions)
        self.lines.append(End(app=APP, ended_at=time.time(), status="ok", totals=totals))
        text = "".join(dump_message(line) + "\n" for line in self.lines)
        (self.folder / "driver.jsonl").write_text(text)

    def _words(self, rows: int) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """(word, first, last) with the runs of rows that hold the word, by first appearance."""
        lengths = self.random.integers(8, 13, rows)
        chosen = self.random.zipf(2.0, int(lengths.sum())) - 1
        row = np.repeat(np.arange(rows), lengths)
        row = row[chosen < VOCABULARY]
        chosen = chosen[chosen < VOCABULARY]
        keys = np.unique(chosen * rows + row)
        word, row = keys // rows, keys % rows
        starts = np.ones(len(keys), np.bool_)
        starts[1:] = (word[1:] != word[:-1]) | (row[1:] != row[:-1] + 1)
        at = np.flatnonzero(starts)
        last_rows = row[np.append(at[1:], len(keys)) - 1].astype(np.uint64)
        first_rows, owner = row[at].astype(np.uint64), word[at]
        cuts = np.flatnonzero(np.diff(owner)) + 1
        parts = zip(
            np.split(owner, cuts),
            np.split(first_rows, cuts),
            np.split(last_rows, cuts),
            strict=True,
        )
        words = [(int(owners[0]), begins, ends) for owners, begins, ends in parts]
        return sorted(words, key=lambda entry: int(entry[1][0]))

    def _map_blocks(
        self, task: int, words: list[tuple[int, np.ndarray, np.ndarray]]
    ) -> Iterator[FlowBlock]:
        """Blocks of at most 262,144 runs; rows by reduce partition."""
        pending: list[tuple[int, np.ndarray, np.ndarray]] = []
        runs = seq = 0
        for word, first, last in words:
            for begin in range(0, len(first), RUNS_PER_BLOCK):
                piece = slice(begin, begin + RUNS_PER_BLOCK)
                size = len(first[piece])
                if pending and (runs + size > RUNS_PER_BLOCK or len(pending) >= FLOWS_PER_BLOCK):
                    yield self._map_block(task, seq, pending)
                    pending, runs, seq = [], 0, seq + 1
                pending.append((word, first[piece], last[piece]))
                runs += size
        if pending:
            yield self._map_block(task, seq, pending)

    def _map_block(
        self, task: int, seq: int, words: list[tuple[int, np.ndarray, np.ndarray]]
    ) -> FlowBlock:
        words = sorted(words, key=lambda entry: entry[0] % self.partitions)
        numbers = np.array([word[0] for word in words])
        bounds = np.searchsorted(numbers % self.partitions, np.arange(self.partitions + 1))
        sections = tuple(
            Section(f"4@{part}", int(low), int(high))
            for part, (low, high) in enumerate(pairwise(bounds))
            if high > low
        )
        ptr = np.concatenate(([0], np.cumsum([len(word[1]) for word in words]))).astype(np.int64)
        return FlowBlock(
            BlockId("4", task, 100 + task, seq),
            Relation.ROWS,
            f"1#{task}",
            sections,
            np.concatenate([word[1] for word in words]),
            self.hashes[numbers],
            ptr,
            np.concatenate([word[2] for word in words]),
            app=APP,
        )

    def _distinct_blocks(self, task: int, keys: np.ndarray) -> Iterator[FlowBlock]:
        """Each key from the line of its place."""
        for seq, low in enumerate(range(0, len(keys), FLOWS_PER_BLOCK)):
            part = keys[low : low + FLOWS_PER_BLOCK]
            target = part % np.uint64(self.partitions)
            order = np.argsort(target, kind="stable")
            bounds = np.searchsorted(target[order], np.arange(self.partitions + 1))
            sections = tuple(
                Section(f"4@{at}", int(first), int(stop))
                for at, (first, stop) in enumerate(pairwise(bounds))
            )
            block_id = BlockId("4", task, 100 + task, seq)
            lines = (order + low).astype(np.uint64)
            yield FlowBlock(
                block_id, Relation.ROWS, f"1#{task}", sections, lines, part[order], app=APP
            )

    def _reduce_blocks(self, task: int, keys: np.ndarray) -> Iterator[FlowBlock]:
        for seq, low in enumerate(range(0, len(keys), FLOWS_PER_BLOCK)):
            part = keys[low : low + FLOWS_PER_BLOCK]
            outs = np.arange(low, low + len(part), dtype=np.uint64)
            section = (Section(f"6#{task}", 0, len(part)),)
            block_id = BlockId("6", task, 200 + task, seq)
            yield FlowBlock(block_id, Relation.ROWS, f"4@{task}", section, part, outs, app=APP)

    def _commit(self, node: str, task: int, blocks: Iterator[FlowBlock]) -> None:
        attempt = (100 if node == "4" else 200) + task
        path = self.folder / "blocks" / f"{node}-{task}-{attempt}.lmf"
        count = 0
        with path.open("wb") as stream:
            for block in blocks:
                csv = encode_csv(block)
                self.csv_bytes += len(csv)
                self.runs += len(block.in_first)
                stream.write(pack_record_batch(header_of(block).to_json(), compress(csv)))
                count += 1
        self.bytes += path.stat().st_size
        commit = Commit(
            app=APP, node=node, partition=task, attempt=attempt, file=path.name, blocks=count
        )
        self.lines.append(commit)


if __name__ == "__main__":
    main()
