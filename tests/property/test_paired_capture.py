"""Paired capture against brute force: what a store traces is what dictionaries of sets say."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.positions import text_position
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_emitter import LineageApi
from lineage_emitter.sdk import flow_columns, paired_buffer, pairing
from lineage_emitter.sdk.pairing import Spaces
from lineage_emitter.worker import recorders
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.property

Item: TypeAlias = tuple[str, int]
"""Space and position."""

TAGS = ["", "a", "b", 7, ("x", 1)]
NAMES = ["a line", "白", "b#c", ""]
INPUTS = [
    *[f"read#{partition}#{position}" for partition in range(2) for position in (0, 1, 2, 5, 9)],
    "read#0#0-3 7",
    "read#1#4-6",
    "read#0#18446744073709551614-18446744073709551615",
    *NAMES,
]
OUTPUTS = [*[f"total#0#{n}" for n in range(6)], "total#0#10-12", "aside#3#5", "out x", "out y"]

tag = st.sampled_from(TAGS)
value = st.sampled_from([None, "v", "白\0"])


@dataclass(frozen=True)
class Add:
    """A call of `add_input` or `add_output`."""

    item: str
    tag: Hashable
    reset: bool
    is_output: bool
    value: str | None = None


@dataclass(frozen=True)
class AddMany:
    """A call of `add_inputs` or `add_outputs`. ``spaces``: of inputs the partition of each; None: all are of the first."""

    positions: tuple[int, ...]
    spaces: tuple[int, ...] | None
    tags: tuple[int, ...] | None
    reset: bool
    is_output: bool


@st.composite
def batches(draw: st.DrawFn) -> AddMany:
    positions = tuple(draw(st.lists(st.integers(0, 12), min_size=1, max_size=8)))
    tags = st.tuples(*[st.sampled_from([-1, 7]) for _ in positions])
    spaces = draw(st.none() | st.tuples(*[st.integers(0, 1) for _ in positions]))
    return AddMany(
        positions, spaces, draw(st.none() | tags), draw(st.booleans()), draw(st.booleans())
    )


calls = (
    st.builds(Add, st.sampled_from(INPUTS), tag, st.booleans(), st.just(False))
    | st.builds(Add, st.sampled_from(OUTPUTS), tag, st.booleans(), st.just(True), value)
    | batches()
)
attempts = st.tuples(st.lists(calls, max_size=25), st.sampled_from(["commit", "fail", "raise"]))
tasks = st.lists(attempts, min_size=1, max_size=3)


def items(text: str) -> set[Item]:
    """What an address, a region or an opaque string names."""
    space, _, region = text.rpartition("#")
    if space not in ("read#0", "read#1", "total#0", "aside#3"):
        return {(OPAQUE_SPACE, text_position(text))}
    return {(space, int(at)) for at in Region.from_text(region).positions().tolist()}


@dataclass
class Model:
    """Outputs and their inputs, by brute force."""

    made_from: dict[Item, set[Item]] = field(default_factory=lambda: defaultdict(set))
    _inputs: dict[Hashable, set[Item]] = field(default_factory=lambda: defaultdict(set))

    def add(self, call: Add | AddMany) -> None:
        if isinstance(call, AddMany):
            self._add_many(call)
        elif call.is_output:
            for item in items(call.item):
                self.made_from[item] |= self._inputs[call.tag]
            if call.reset:
                self._inputs.pop(call.tag, None)
        else:
            if call.reset:
                self._inputs.pop(call.tag, None)
            self._inputs[call.tag] |= items(call.item)

    def _add_many(self, call: AddMany) -> None:
        tags: list[Hashable] = [""] * len(call.positions) if call.tags is None else [*call.tags]
        if call.reset and not call.is_output:
            self._reset(tags)
        spaces = call.spaces or [0] * len(call.positions)
        for position, space, each in zip(call.positions, spaces, tags, strict=True):
            if call.is_output:
                self.made_from["total#0", position] |= self._inputs[each]
            else:
                self._inputs[each].add((f"read#{space}", position))
        if call.reset and call.is_output:
            self._reset(tags)

    def _reset(self, tags: list[Hashable]) -> None:
        for each in tags:
            self._inputs.pop(each, None)


def tell(api: LineageApi, call: Add | AddMany) -> None:
    if isinstance(call, Add):
        if call.is_output:
            api.add_output(call.item, call.tag, reset=call.reset, value=call.value)
        else:
            api.add_input(call.item, call.tag, reset=call.reset)
        return
    positions = np.array(call.positions, np.uint64)
    tags = None if call.tags is None else np.array(call.tags)
    if call.is_output:
        api.add_outputs("total#0", positions, tags=tags, reset=call.reset)
    else:
        names = ("read#0", "read#1")
        spaces = Spaces(names, np.array(call.spaces)) if call.spaces else names[0]
        api.add_inputs(spaces, positions, tags=tags, reset=call.reset)


@contextlib.contextmanager
def small(runs: int, opened: int) -> Iterator[None]:
    """Few events fill buffers, and few runs make inputs numbered."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paired_buffer, "EVENTS_MAX", 5)
        patch.setattr(paired_buffer, "COLUMN_EVENTS_MAX", 3)
        patch.setattr(pairing, "DIRECT_RUNS_MAX", runs)
        for module in (pairing, recorders, flow_columns):
            patch.setattr(module, "RUNS_MAX", max(1, runs // 2))
        patch.setattr(pairing, "OPEN_INPUTS_MAX", opened)
        patch.setattr(pairing, "SPARE_TAGS", 1)
        yield


def run(
    folder: Path, told: list[tuple[list[Add | AddMany], str]]
) -> tuple[str, dict[Item, set[Item]]]:
    """Attempts at one task: the store's application, and what the model says of it."""
    model: dict[Item, set[Item]] = defaultdict(set)
    store = f"sqlite:///{folder / STORE}"
    with LineageApi("paired", store=store, spool=str(folder / "spool")) as api:
        job = api.register("job", kind="container")
        api.register("read", kind="source")
        api.register("total", kind="sink")
        api.register("aside")
        api.link("read", "total")
        api.link("total", "aside")
        for calls, end in told:
            attempt = Model()
            with contextlib.suppress(ZeroDivisionError), api.task("total") as task:
                for call in calls:
                    tell(api, call)
                    attempt.add(call)
                if end == "raise":
                    raise ZeroDivisionError
                if end == "fail":
                    task.fail("no luck")
            if end == "commit":
                for output, inputs in attempt.made_from.items():
                    model[output] |= inputs
        api.commit(job)
    return api.app, model


def traced(
    folder: Path, app: str, outputs: list[Item], *, forward: bool = False
) -> dict[Item, tuple[set[Item], bool]]:
    """What one step to the ends reaches of each item, and whether it is said to be exact."""
    found = {}
    with open_store(f"sqlite:///{folder / STORE}") as store:
        tracer = Tracer(store.graph(app))
        for space, position in outputs:
            start = {space: Region.from_positions([position])}
            direction = Direction.FORWARD if forward else Direction.BACKWARD
            answer = tracer.trace(direction, start)
            reached = {
                (reached_space, at)
                for node in answer.found.values()
                for reached_space, region in node.spaces.items()
                for at in region.positions().tolist()
            }
            found[space, position] = (reached, answer.exact)
    return found


@pytest.mark.parametrize(("runs", "opened"), [(1 << 21, 1 << 20), (2, 1 << 20), (40, 6)])
@settings(max_examples=25)
@given(told=tasks)
def test_paired_calls_are_traced_as_brute_force_says(
    tmp_path_factory: pytest.TempPathFactory,
    runs: int,
    opened: int,
    told: list[tuple[list[Add | AddMany], str]],
) -> None:
    folder = tmp_path_factory.mktemp("paired")
    with small(runs, opened):
        app, model = run(folder, told)
    reasons = judged(folder, app).reasons
    ends = [end for _, end in told]
    assert ("commit" in ends) == (not reasons), reasons
    for output, (inputs, is_exact) in traced(folder, app, list(model)).items():
        assert inputs == model[output], output
        assert is_exact, output
    made_of: dict[Item, set[Item]] = defaultdict(set)
    for output, inputs in model.items():
        if output[0] in ("total#0", OPAQUE_SPACE):
            for item in inputs:
                made_of[item].add(output)
    for item, (outputs, _) in traced(folder, app, list(made_of), forward=True).items():
        assert outputs >= made_of[item], item
        assert {output for output in outputs if output[0] == "total#0"} == {
            output for output in made_of[item] if output[0] == "total#0"
        }
