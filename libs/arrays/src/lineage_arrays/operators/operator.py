"""What an operator declares about its lineage: table I of the paper."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lineage_arrays.cells import Shape
from lineage_arrays.errors import ModeError
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.regions import Regions
from lineage_arrays.workflow import AnyArray
from lineage_core.text_enum import StrEnum

Coordinate: TypeAlias = tuple[int, ...]


class Mode(StrEnum):
    """How an operator's lineage is known (section V of the paper)."""

    FULL = "full"
    """It writes region pairs: sets of output cells and of the input cells of each operand."""
    MAP = "map"
    """Functions of coordinates give the cells, in both directions: ``map_b``, ``map_f``."""
    PAY = "pay"
    """It writes output cells and a payload, from which ``map_p`` gives the input cells."""
    COMP = "comp"
    """As ``PAY`` for the cells that it writes, as ``MAP`` for all others."""
    BLACKBOX = "blackbox"
    """Nothing is written: a query runs the operator again."""


@dataclass(frozen=True)
class Shapes:
    """Shapes of the arrays of one run."""

    inputs: tuple[Shape, ...]
    output: Shape


PairWriter: TypeAlias = Callable[[Any, tuple[Any, ...]], None]


class Operator(ABC):
    """An operator over arrays. Subclasses compute in :meth:`run`, and say which modes they support.

    ``name`` and ``version`` identify its mapping functions: a new version where they change. ``chooses``: values of any cells decide
    which ones the output is made from; traces name it in ``chosen_by``, and have all cells with ``choices=True``. ``entire_array``: all output
    cells together are made from all cells of each operand, and all cells of an operand go into all of the output together (as of a transposition,
    or a function of each cell): questions about a whole array don't look at cells. That is believed.
    """

    name: str = ""
    version: str = "1"
    chooses: bool = False
    entire_array: bool = False

    def __init__(self) -> None:
        self._write: PairWriter | None = None

    @abstractmethod
    def run(self, *inputs: AnyArray, modes: frozenset[Mode]) -> AnyArray:
        """Compute, and write the lineage that the modes request by :meth:`lwrite`.

        Args:
            inputs: the operands; not to be written to.
            modes: of those that are supported; ``FULL`` requests region pairs, ``PAY`` and ``COMP`` payloads.
        """

    def supported_modes(self) -> frozenset[Mode]:
        """Which modes :meth:`run` and the mapping functions can serve. ``BLACKBOX`` is always among them."""
        return frozenset({Mode.BLACKBOX})

    def lwrite(self, outcells: Any, *of: Any) -> None:
        """Write a region pair, or output cells and their payload. To be called within :meth:`run` alone.

        Args:
            outcells: any index of NumPy, a mask, a region or cells of the output.
            of: for each operand its cells, in the same forms; or one payload of bytes.

        Raises:
            ModeError: nobody requested it, or there are more or fewer operands.
            CellError: an array does not have the cells.
        """
        if isinstance(outcells, Regions):
            raise ModeError("lwrite takes one region pair; lwrite_many takes Regions")
        self._send(outcells, of)

    def lwrite_many(self, outcells: Regions, *of: Regions | Sequence[bytes]) -> None:
        """Write many region pairs, or many regions with a payload each, at once: as :meth:`lwrite` of the n-th of each, and much quicker.

        Args:
            outcells: regions of the output.
            of: for each operand as many regions; or one list of as many payloads.

        Raises:
            ModeError: nobody requested it, or there are more or fewer operands, regions or payloads.
        """
        if not isinstance(outcells, Regions):
            raise ModeError("lwrite_many takes Regions of the output; lwrite takes one region pair")
        taken = tuple(one.copy() if isinstance(one, Regions) else _payloads(one) for one in of)
        if any(len(one) != len(outcells) for one in taken):
            counts = ", ".join(str(len(one)) for one in taken)
            raise ModeError(f"lwrite_many of {len(outcells)} regions of the output, and {counts}")
        self._send(outcells.copy(), taken)

    def _send(self, outcells: Any, of: tuple[Any, ...]) -> None:
        if self._write is None:
            raise ModeError(
                f"{self.name or type(self).__name__}: lwrite outside of run, or in a mode that asks for none"
            )
        self._write(outcells, of)

    def map_b(self, cell: Coordinate, operand: int, shapes: Shapes) -> Any:
        """Cells of an operand (any index of NumPy) that an output cell was made from."""
        raise ModeError(f"{self.name or type(self).__name__} has no map_b")

    def map_f(self, cell: Coordinate, operand: int, shapes: Shapes) -> Any:
        """Cells of the output (any index of NumPy) that a cell of an operand went into."""
        raise ModeError(f"{self.name or type(self).__name__} has no map_f")

    def mapping(self, operand: int, shapes: Shapes) -> Mapping | None:
        """What :meth:`map_b` and :meth:`map_f` say, as one mapping (``SamePositions``, ``Boxes``, ``AllToAll``): queries of many cells call it once.

        None: the functions are called for each cell.
        """
        return None

    def map_p(self, cell: Coordinate, payload: bytes, operand: int, shapes: Shapes) -> Any:
        """Cells of an operand (any index of NumPy) that an output cell with a payload was made from."""
        raise ModeError(f"{self.name or type(self).__name__} has no map_p")

    def mapping_p(self, payload: bytes, operand: int, shapes: Shapes) -> Mapping | None:
        """What :meth:`map_p` says of any output cell with a payload, as one mapping: queries of many cells call it once.

        None: the function is called for each cell.
        """
        return None

    def run_with(
        self, write: PairWriter | None, inputs: tuple[AnyArray, ...], modes: frozenset[Mode]
    ) -> AnyArray:
        """Run, with somebody who takes what is written."""
        before, self._write = self._write, write
        try:
            return self.run(*inputs, modes=modes)
        finally:
            self._write = before


def _payloads(payloads: Sequence[bytes]) -> list[bytes]:
    listed = list(payloads)
    if not all(isinstance(payload, bytes) for payload in listed):
        raise ModeError("payloads are bytes")
    return listed


def identity_of(operator: Operator) -> str:
    """Name and version, as plans and costs name an operator."""
    return f"{operator.name or type(operator).__name__} {operator.version}"


def named_operators(operators: Iterable[Operator]) -> dict[tuple[str, str], Operator]:
    """Operators by name and version, as recordings name them."""
    return {(one.name or type(one).__name__, one.version): one for one in operators}
