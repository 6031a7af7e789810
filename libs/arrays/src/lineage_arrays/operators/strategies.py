"""How one operand of one run is traced: by functions, by what was written, or by running again."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import ModeError
from lineage_arrays.few_boxes import box_at
from lineage_arrays.mappings import AllToAll, Choice, Mapping
from lineage_arrays.operators.deadlines import check_reading
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
    PairStore,
    PayloadStore,
    RangeStore,
)
from lineage_arrays.operators.operator import Mode, Operator, Shapes
from lineage_arrays.operators.ranges import RangeTable
from lineage_arrays.operators.writing import Store, Written
from lineage_arrays.workflow import AnyArray

OPAQUE = "the operator supports no mode that says which cells it combined"


@dataclass(frozen=True)
class Strategy:
    """A mode and, where it writes lineage, how that is stored."""

    mode: Mode
    encoding: Encoding = Encoding.ONE
    orientation: Orientation = Orientation.BACKWARD

    def check(self, operator: Operator) -> None:
        """Refuse what can't be.

        Raises:
            ModeError: the operator does not support the mode, or the encoding is not one of it.
        """
        name = operator.name or type(operator).__name__
        if self.mode is not Mode.BLACKBOX and self.mode not in operator.supported_modes():
            supported = ", ".join(sorted(operator.supported_modes()))
            raise ModeError(f"{name} does not support {self.mode}: {supported}")
        if self.orientation is Orientation.FORWARD and self.mode is not Mode.FULL:
            raise ModeError(f"{name}: only region pairs ({Mode.FULL}) can be looked up forward")
        if self.encoding is Encoding.RANGES and self.mode is not Mode.FULL:
            raise ModeError(f"{name}: only region pairs ({Mode.FULL}) become ranges")


@dataclass(frozen=True)
class ToOperand:
    """The ends of a mapping from an operator's output to one of its operands."""

    shapes: Shapes
    operand: int

    @property
    def source(self) -> Shape:
        return self.shapes.inputs[self.operand]

    @property
    def target(self) -> Shape:
        return self.shapes.output

    def checked(self, operator: Operator, mapping: Mapping | None) -> Mapping | None:
        """A mapping that an operator gave for these ends.

        Raises:
            ModeError: it is one of other arrays.
        """
        if mapping is not None and (mapping.source, mapping.target) != (self.source, self.target):
            name = operator.name or type(operator).__name__
            raise ModeError(
                f"{name}: a mapping of {mapping.source} to {mapping.target}, the arrays are {self.source} and {self.target}"
            )
        return mapping


@dataclass(frozen=True)
class MappingFunctions(ToOperand):
    """The operator's functions of coordinates as a mapping to one operand."""

    operator: Operator

    @functools.cached_property
    def _at_once(self) -> Mapping | None:
        """The operator's own mapping of whole sets of cells.

        Raises:
            ModeError: it is one of other arrays.
        """
        return self.checked(self.operator, self.operator.mapping(self.operand, self.shapes))

    @property
    def is_at_once(self) -> bool:
        """Whether whole sets of cells are mapped by one call.

        Raises:
            ModeError: the operator's mapping is one of other arrays.
        """
        return self._at_once is not None

    def backward(self, cells: Cells) -> Cells:
        if self._at_once is not None:
            return self._at_once.backward(cells)
        return self._called(self.operator.map_b, cells, self.source)

    def forward(self, cells: Cells) -> Cells:
        if self._at_once is not None:
            return self._at_once.forward(cells)
        return self._called(self.operator.map_f, cells, self.target)

    def _called(self, function: Callable[..., Any], cells: Cells, shape: Shape) -> Cells:
        """What a function of coordinates gives, of a call for each cell."""

        def parts() -> Iterator[Any]:
            for cell in cells.coordinates().tolist():
                check_reading()
                yield function(tuple(cell), self.operand, self.shapes)

        return Cells.of_any(shape, parts())

    def as_ranges(self, cells_max: int, pairs_max: int) -> RangeTable | None:
        """What the functions say of all cells, as a table that needs them no more.

        None: there are more cells or pairs than that, or the two functions say different things.
        """
        if max(math.prod(self.source), math.prod(self.target)) > cells_max:
            return None
        sides = []
        for shape, ask in ((self.target, self.backward), (self.source, self.forward)):
            ends: list[I64] = []
            pairs = 0
            for position in range(math.prod(shape)):
                ends.append(ask(Cells.at(shape, [position])).positions())
                pairs += len(ends[-1])
                if pairs > pairs_max:
                    return None
            owners = np.repeat(np.arange(len(ends)), [len(end) for end in ends])
            sides.append((owners, np.concatenate([np.empty(0, np.int64), *ends])))
        (outputs, inputs), (sources, targets) = sides
        # In order of inputs, and of outputs for each: as the other function gives them.
        order = np.lexsort((outputs, inputs))
        if not (np.array_equal(inputs[order], sources) and np.array_equal(outputs[order], targets)):
            return None
        return RangeTable.of_pairs(self.source, self.target, outputs, inputs)


@dataclass(frozen=True)
class Composite:
    """What was written where something was, functions of coordinates everywhere else."""

    store: PayloadStore | PairStore
    functions: Mapping

    @property
    def source(self) -> Shape:
        return self.functions.source

    @property
    def target(self) -> Shape:
        return self.functions.target

    def backward(self, cells: Cells) -> Cells:
        by_payload, by_function = cells.split(self.store.written)
        if not by_payload:
            return self.functions.backward(by_function)
        return self.store.backward(by_payload) | self.functions.backward(by_function)

    def forward(self, cells: Cells) -> Cells:
        _, by_function = self.functions.forward(cells).split(self.store.written)
        return by_function | self.store.forward(cells)


@dataclass(frozen=True)
class PayloadFunction(ToOperand):
    """The operator's functions of payloads for one operand."""

    operator: Operator

    def store(self, encoding: Encoding) -> PayloadStore:
        """An empty store of payloads that these functions read."""
        return PayloadStore(self.source, self.target, encoding, self, self.at_once)

    def at_once(self, payload: bytes) -> Mapping | None:
        """The operator's own mapping of all cells with a payload.

        Raises:
            ModeError: it is one of other arrays.
            GivenUpError: the time for reading is up.
        """
        check_reading()
        return self.checked(
            self.operator, self.operator.mapping_p(payload, self.operand, self.shapes)
        )

    def __call__(self, position: int, payload: bytes) -> Any:
        """Any index of the cells that an output position with a payload was made from.

        Raises:
            GivenUpError: the time for reading is up.
        """
        check_reading()
        cell = tuple([at for at, _ in box_at(self.target, position)])
        return self.operator.map_p(cell, payload, self.operand, self.shapes)


WRITING = (Mode.COMP, Mode.PAY, Mode.FULL)
"""Modes in which a run writes lineage, the one that writes least first."""


class ReExecution:
    """One run of an operator, which runs again in tracing mode when a query needs it (section V.B of the paper).

    This object keeps what it writes: a second query runs nothing. ``seconds``: of the runs in each mode that there were.
    """

    def __init__(self, operator: Operator, inputs: tuple[AnyArray, ...], output: AnyArray) -> None:
        self.operator = operator
        self.shapes = Shapes(tuple(array.shape for array in inputs), output.shape)
        self.seconds: dict[Mode, float] = {}
        self._inputs = inputs
        self._output = output
        self._in_mode: dict[Mode, list[Mapping]] = {}

    @functools.cached_property
    def modes(self) -> tuple[Mode, ...]:
        """The modes in which it may run again, the one that writes least first; none, where functions say all that is known."""
        supported = self.operator.supported_modes()
        return tuple(mode for mode in WRITING if mode in supported)

    @property
    def mappings(self) -> list[Mapping]:
        """The mapping of each operand, by the mode that writes least.

        Raises:
            ModeError: as :meth:`in_mode`.
        """
        if not self.modes:
            operands = range(len(self._inputs))
            return [MappingFunctions(self.shapes, n, self.operator) for n in operands]
        return self.in_mode(self.modes[0])

    def in_mode(self, mode: Mode, clock: Callable[[], float] = time.perf_counter) -> list[Mapping]:
        """The mapping of each operand, by a run in one of its modes.

        Raises:
            ModeError: the operator gives another output than it gave.
        """
        if mode not in self._in_mode:
            begin = clock()
            output, ways = run_once(self.operator, self._inputs, (Strategy(mode),))
            if not same_values(output, self._output):
                name = self.operator.name or type(self.operator).__name__
                raise ModeError(
                    f"{name} gives another output when it is run again: keep what it writes ({mode})"
                )
            self._in_mode[mode] = [operand_ways[0] for operand_ways in ways]
            self.seconds[mode] = clock() - begin
        return self._in_mode[mode]

    def has_run_in(self, mode: Mode) -> bool:
        """Whether a query in this mode needs no run any more."""
        return mode in self._in_mode


@dataclass(frozen=True)
class Again(ToOperand):
    """The mapping to one operand, by re-execution."""

    run: ReExecution

    def backward(self, cells: Cells) -> Cells:
        return self.run.mappings[self.operand].backward(cells)

    def forward(self, cells: Cells) -> Cells:
        return self.run.mappings[self.operand].forward(cells)


@dataclass(frozen=True)
class Options:
    """Several mappings of the same lineage; a query uses the one that suits its direction."""

    ways: tuple[Mapping, ...]

    @property
    def source(self) -> Shape:
        return self.ways[0].source

    @property
    def target(self) -> Shape:
        return self.ways[0].target

    def towards(self, direction: Orientation) -> Mapping:
        """The one that suits a direction."""
        return min(self.ways, key=lambda way: _rank(way, direction))

    def backward(self, cells: Cells) -> Cells:
        return self.towards(Orientation.BACKWARD).backward(cells)

    def forward(self, cells: Cells) -> Cells:
        return self.towards(Orientation.FORWARD).forward(cells)


def read_from(way: Mapping, direction: Orientation) -> Mapping:
    """The mapping that a question in a direction reads: of several the one that suits it."""
    return read_from(way.towards(direction), direction) if isinstance(way, Options) else way


def wrote_same(kept: Mapping, again: Mapping) -> bool:
    """Whether two runs of one operator wrote the same lineage in the same mode: all of it is compared. False where that is not known."""
    match kept, again:
        case Composite(), Composite():
            return wrote_same(kept.store, again.store)
        case PayloadStore(), PayloadStore():
            return kept.payloads == again.payloads and kept.outputs.are_same(again.outputs)
        case PairStore(), PairStore():
            return kept.outputs.are_same(again.outputs) and kept.inputs.are_same(again.inputs)
        case RangeStore(), PairStore():
            return kept.has_unread(again.outputs, again.inputs)
    return False


def stored_bytes(way: Mapping) -> int:
    """Bytes that a mapping takes where it is stored; 0 for functions and re-execution."""
    if isinstance(way, Options):
        return sum(stored_bytes(option) for option in way.ways)
    if isinstance(way, Choice):
        return stored_bytes(way.witness)
    if isinstance(way, Composite):
        return way.store.nbytes
    stores = PairStore | PayloadStore | RangeStore | RangeTable
    return way.nbytes if isinstance(way, stores) else 0


def _rank(way: Mapping, direction: Orientation) -> int:
    """The order in which mappings are preferred: lookups, then functions, full scans and re-execution."""
    if isinstance(way, PairStore):
        return 0 if way.orientation is direction else 3
    if isinstance(way, PayloadStore | Composite):
        return 2 if direction is Orientation.BACKWARD else 4
    if isinstance(way, RangeStore | RangeTable):
        return 0
    return 5 if isinstance(way, Again) else 1


def run_once(
    operator: Operator, inputs: tuple[AnyArray, ...], strategies: Sequence[Strategy]
) -> tuple[AnyArray, list[list[Mapping]]]:
    """Run an operator, and keep its lineage by some strategies.

    Args:
        operator: the operator.
        inputs: its operands; it can't write to them.
        strategies: all but ``BLACKBOX`` ones; each is supported.

    Returns:
        The output, and for each operand a mapping by each strategy.

    Raises:
        ModeError: the operator wrote what can't be.
    """
    modes = frozenset(strategy.mode for strategy in strategies)
    if Mode.PAY in modes and Mode.COMP in modes:
        raise ModeError(
            "payloads are written for all cells (pay) or for some (comp), not both in one run"
        )
    writing = [
        strategy for strategy in strategies if strategy.mode in (Mode.FULL, Mode.PAY, Mode.COMP)
    ]
    written = Written(
        tuple(array.shape for array in inputs),
        functools.partial(_empty_stores, operator, inputs, writing),
    )
    views = tuple(_read_only(array) for array in inputs)
    output = np.asarray(operator.run_with(written.take if writing else None, views, modes))
    if output.base is not None or any(output is view for view in views):
        # Laid out in memory as it is: sums over it later round as they do without lineage.
        output = output.copy(order="K")
    output.flags.writeable = False
    shapes = Shapes(tuple(array.shape for array in inputs), output.shape)
    stores = iter(written.stores(output.shape))
    ways: list[list[Mapping]] = [[] for _ in inputs]
    for strategy in strategies:
        strategy_stores = next(stores) if strategy in writing else None
        for operand in range(len(inputs)):
            functions = MappingFunctions(shapes, operand, operator)
            store = strategy_stores[operand] if strategy_stores is not None else None
            if store is None:
                ways[operand].append(functions)
            elif strategy.mode is Mode.COMP and isinstance(store, PayloadStore):
                ways[operand].append(Composite(store, functions))
            else:
                ways[operand].append(store)
    return output, ways


def _empty_stores(
    operator: Operator,
    inputs: tuple[AnyArray, ...],
    strategies: Sequence[Strategy],
    output: Shape,
) -> list[list[Store]]:
    shapes = Shapes(tuple(array.shape for array in inputs), output)
    return [
        [_empty_store(operator, strategy, shapes, n) for n in range(len(inputs))]
        for strategy in strategies
    ]


def _empty_store(operator: Operator, strategy: Strategy, shapes: Shapes, operand: int) -> Store:
    source = shapes.inputs[operand]
    if strategy.encoding is Encoding.RANGES:
        return RangeStore(source, shapes.output)
    if strategy.mode is Mode.FULL:
        return PairStore(source, shapes.output, strategy.encoding, strategy.orientation)
    return PayloadFunction(shapes, operand, operator).store(strategy.encoding)


def opaque(operator: Operator) -> bool:
    """Whether an operator declares no lineage."""
    return not operator.supported_modes() - {Mode.BLACKBOX}


def all_to_all(shapes: Shapes, operand: int) -> Mapping:
    return AllToAll(shapes.inputs[operand], shapes.output)


def _read_only(array: AnyArray) -> AnyArray:
    view = array.view()
    view.flags.writeable = False
    return view


def same_values(left: AnyArray, right: AnyArray) -> bool:
    """Whether two arrays have the same values, NaN being one."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(np.array_equal(left, right, equal_nan=left.dtype.kind in "fc"))
