"""Flows a second and core through ``LineageApi``: encoded and durable in the spool.

python -m benchmarks sdk

Each form is reported in tasks of their own; the time is processor time from a task's begin to the end of
its commit. Then the spool is read back: every flow must be there, once, as it was reported.
"""

from __future__ import annotations

import gc
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from benchmarks.codec import one_core
from lineage_core.codec.csv_codec import BlockHeader, decode_csv
from lineage_core.codec.record_batch import decompress_payload, read_record_batches
from lineage_core.contract.block import FlowBlock
from lineage_core.contract.runs import spread
from lineage_emitter import LineageApi

FLOWS = 400_000
TASKS = 5
"""Each form is reported so often; figures are medians."""
VALUES = 20_000
RUN_LENGTH = 5
PAIRED_TAGS = 16
PAIRED_GROUPS = 50_000
PAIRED_BATCHES = 5
NODE, READ = "total", "read#0"

ReportedFlow: TypeAlias = tuple[str, str, str, str | None]
"""flow id, hashIn, hashOut, value."""


class WrongFlowsError(Exception):
    """The spool does not hold what was reported."""


def flow_batches(flows: int) -> dict[str, list[ReportedFlow]]:
    """Flows by form: three rows of an input go into one of an output."""
    ids = [f"f{n}" for n in range(flows)]
    inputs = [f"{READ}#{n}" for n in range(flows)]
    outputs = [f"{NODE}#0#{n // 3}" for n in range(flows)]
    names = [f"orders.csv line {n}" for n in range(flows)]
    totals = [f"total of customer {n // 3}" for n in range(flows)]
    values = [f"customer {n % VALUES}, {n % 977}.50" for n in range(flows)]
    none = [None] * flows
    return {
        "addresses": list(zip(ids, inputs, outputs, none, strict=True)),
        "addresses and values": list(zip(ids, inputs, outputs, values, strict=True)),
        "opaque": list(zip(ids, names, totals, none, strict=True)),
        "opaque and values": list(zip(ids, names, totals, values, strict=True)),
    }


def sdk_row(folder: Path, flows: int = FLOWS, tasks: int = TASKS) -> dict[str, Any]:
    """Measure every form.

    Raises:
        WrongFlowsError: the spool does not hold what was reported.
    """
    forms: dict[str, Any] = {}
    with one_core():
        for form, reported in flow_batches(flows).items():
            forms[form] = _single_calls(folder, reported, tasks)
        columns = {
            "rows": _columns(folder, flows, tasks, 1),
            "regions": _columns(folder, flows, tasks, RUN_LENGTH),
        }
        paired = {
            "calls": _paired_calls(folder, flows, tasks),
            "columns": _paired_columns(folder, flows, tasks),
        }
    return {
        "benchmark": "sdk",
        "cores": 1,
        "calls": forms,
        "calls_per_cpu_s_min": min(form["calls_per_cpu_s"] for form in forms.values()),
        "columns": columns,
        "paired": paired,
        "columns_per_cpu_s_min": min(form["associations_per_cpu_s"] for form in columns.values()),
    }


def _single_calls(folder: Path, reported: list[ReportedFlow], tasks: int) -> dict[str, Any]:
    def tell(api: LineageApi) -> None:
        capture = api.capture
        for flow_id, hash_in, hash_out, value in reported:
            capture(flow_id, hash_in, hash_out, value)

    measured = _measured(folder, tell, tasks)
    flows = sum((Counter(_flows_of(block)) for block in measured.blocks), Counter())
    expected = Counter({flow[1:]: tasks for flow in reported})
    return {
        "flows_told": len(reported) * tasks,
        **_compared(flows, expected),
        "calls_per_cpu_s": measured.per_cpu_s(len(reported)),
        "calls_per_s": measured.per_s(len(reported)),
        "spool_bytes": measured.spool_bytes,
    }


def _columns(folder: Path, flows: int, tasks: int, run_length: int) -> dict[str, Any]:
    """``run_length`` positions that are not next to each other go into each output."""
    first_positions = np.arange(flows * run_length, dtype=np.uint64) * np.uint64(3)
    out = np.arange(flows, dtype=np.uint64)
    ptr = None if run_length == 1 else np.arange(flows + 1) * run_length

    def tell(api: LineageApi) -> None:
        api.capture_columns(READ, first_positions, f"{NODE}#0", out, in_ptr=ptr)

    measured = _measured(folder, tell, tasks)
    received: Counter[tuple[int, int]] = Counter()
    for block in measured.blocks:
        counts = 1 if block.in_ptr is None else np.diff(block.in_ptr)
        outs = np.repeat(block.out_first, counts)
        received.update(zip(block.in_first.tolist(), outs.tolist(), strict=True))
    pairs = zip(first_positions.tolist(), np.repeat(out, run_length).tolist(), strict=True)
    return {
        "associations_told": len(first_positions) * tasks,
        **_compared(received, Counter(dict.fromkeys(pairs, tasks)), "associations"),
        "associations_per_cpu_s": measured.per_cpu_s(len(first_positions)),
        "associations_per_s": measured.per_s(len(first_positions)),
        "spool_bytes": measured.spool_bytes,
    }


def _paired_calls(folder: Path, calls: int, tasks: int) -> dict[str, Any]:
    """Three inputs of a tag go into each output, the tags in turn; an output resets its tag."""
    groups = calls // (4 * PAIRED_TAGS)
    tags = [f"customer {tag}" for tag in range(PAIRED_TAGS)]
    events: list[tuple[bool, str, str]] = []
    expected: Counter[tuple[int, int]] = Counter()
    for group in range(groups):
        for turn in range(3):
            for number, tag in enumerate(tags):
                at = (group * 3 + turn) * PAIRED_TAGS + number
                events.append((False, f"{READ}#{at}", tag))
                expected[at, group * PAIRED_TAGS + number] = tasks
        events += [(True, f"{NODE}#0#{group * PAIRED_TAGS + n}", tag) for n, tag in enumerate(tags)]

    def tell(api: LineageApi) -> None:
        add_input, add_output = api.add_input, api.add_output
        for is_output, item, tag in events:
            if is_output:
                add_output(item, tag, reset=True)
            else:
                add_input(item, tag)

    measured = _measured(folder, tell, tasks)
    return {
        "calls_told": len(events) * tasks,
        **_compared(_associations(measured.blocks), expected, "associations"),
        "calls_per_cpu_s": measured.per_cpu_s(len(events)),
        "calls_per_s": measured.per_s(len(events)),
        "spool_bytes": measured.spool_bytes,
    }


def _paired_columns(folder: Path, flows: int, tasks: int) -> dict[str, Any]:
    """Batches of inputs and of outputs in turn; an output and its inputs have a tag of their own."""
    length = flows * RUN_LENGTH // PAIRED_GROUPS
    tags = np.repeat(np.arange(PAIRED_GROUPS), length)
    positions = np.arange(len(tags), dtype=np.uint64) * np.uint64(3)

    def tell(api: LineageApi) -> None:
        for groups in np.array_split(np.arange(PAIRED_GROUPS), PAIRED_BATCHES):
            part = slice(int(groups[0]) * length, (int(groups[-1]) + 1) * length)
            api.add_inputs(READ, positions[part], tags=tags[part])
            api.add_outputs(f"{NODE}#0", groups.astype(np.uint64), tags=groups, reset=True)

    measured = _measured(folder, tell, tasks)
    pairs = zip(positions.tolist(), tags.tolist(), strict=True)
    return {
        "associations_told": len(positions) * tasks,
        **_compared(
            _associations(measured.blocks), Counter(dict.fromkeys(pairs, tasks)), "associations"
        ),
        "associations_per_cpu_s": measured.per_cpu_s(len(positions)),
        "associations_per_s": measured.per_s(len(positions)),
        "spool_bytes": measured.spool_bytes,
    }


def _associations(blocks: list[FlowBlock]) -> Counter[tuple[int, int]]:
    """Input and output positions of all flows."""
    received: Counter[tuple[int, int]] = Counter()
    for block in blocks:
        ptr = np.arange(block.rows + 1) if block.in_ptr is None else block.in_ptr
        outs = np.repeat(block.out_first, np.diff(ptr))
        last = block.in_first if block.in_last is None else block.in_last
        lengths = (last - block.in_first + np.uint64(1)).astype(np.int64)
        owner, step = spread(lengths)
        inputs = block.in_first[owner] + step.astype(np.uint64)
        received.update(zip(inputs.tolist(), outs[owner].tolist(), strict=True))
    return received


def _compared(flows: Counter[Any], expected: Counter[Any], unit: str = "flows") -> dict[str, int]:
    """How many were found, and how many of them were reported.

    Raises:
        WrongFlowsError: some are missing, or were not reported.
    """
    if flows != expected:
        missing, strange = expected - flows, flows - expected
        raise WrongFlowsError(
            f"{missing.total()} {unit} are missing, {strange.total()} were never reported: "
            f"{[*missing, *strange][:3]}"
        )
    return {f"{unit}_found": flows.total()}


class _Measured:
    """Tasks that reported the same flows, and what they left in the spool."""

    def __init__(self, cpu_s: list[float], wall_s: list[float], blocks_dir: Path) -> None:
        self._cpu_s, self._wall_s = cpu_s, wall_s
        files = sorted(blocks_dir.iterdir())
        self.spool_bytes = sum(file.stat().st_size for file in files)
        self.blocks = [block for file in files for block in _blocks_in(file)]

    def per_cpu_s(self, units: int) -> int:
        return round(units / statistics.median(self._cpu_s))

    def per_s(self, units: int) -> int:
        return round(units / statistics.median(self._wall_s))


def _measured(folder: Path, tell: Callable[[LineageApi], None], tasks: int) -> _Measured:
    shutil.rmtree(folder, ignore_errors=True)
    store = f"sqlite:///{folder / 'lineage.db'}"
    api = LineageApi("sdk", store=store, spool=str(folder / "spool"), link=False)
    cpu_s, wall_s = [], []
    with api:
        api.register(NODE, kind="sink")
        for partition in range(tasks):
            gc.collect()
            began = time.process_time(), time.perf_counter()
            with api.task(NODE, partition):
                tell(api)
            cpu_s.append(time.process_time() - began[0])
            wall_s.append(time.perf_counter() - began[1])
    measured = _Measured(cpu_s, wall_s, folder / "spool" / api.app / "blocks")
    shutil.rmtree(folder)
    return measured


def _blocks_in(file: Path) -> Iterator[FlowBlock]:
    with file.open("rb") as stream:
        for frame in read_record_batches(stream):
            yield decode_csv(decompress_payload(frame.payload), BlockHeader.from_json(frame.header))


def _flows_of(block: FlowBlock) -> Iterator[tuple[str, str, str | None]]:
    """hashIn, hashOut and value of each flow of single positions, as a program tells them."""
    inputs = block.in_text or [f"{block.in_space}#{at}" for at in block.in_first.tolist()]
    outputs = list(block.out_text or [])
    if block.out_text is None:
        at = block.out_first.tolist()
        for section in block.out:
            rows = range(section.row_first, section.row_stop)
            outputs += [f"{section.space}#{at[row]}" for row in rows]
    values = block.values or [None] * block.rows
    assert block.in_ptr is None
    assert block.in_last is None
    return zip(inputs, outputs, values, strict=True)
