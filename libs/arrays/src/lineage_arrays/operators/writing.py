"""What an operator writes in one run, on its way to the stores of that run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from lineage_arrays.calls import frozen
from lineage_arrays.cells import Cells, Shape
from lineage_arrays.errors import ModeError
from lineage_arrays.operators.encodings import PairStore, PayloadStore, RangeStore
from lineage_arrays.operators.regions import Regions

Store: TypeAlias = PairStore | PayloadStore | RangeStore
StoresOf: TypeAlias = Callable[[Shape], list[list[Store]]]
"""For each strategy that writes the empty store of each operand, by the shape of the output."""


class Written:
    """Takes what an operator writes in one run, for all of its operands."""

    def __init__(self, inputs: tuple[Shape, ...], stores_of: StoresOf) -> None:
        self._inputs = inputs
        self._stores_of = stores_of
        self._calls: list[tuple[Any, tuple[Any, ...]]] = []

    def take(self, outcells: Any, of: tuple[Any, ...]) -> None:
        # An operator may go on to use its arrays for other cells.
        self._calls.append((frozen(outcells), tuple(map(frozen, of))))

    def stores(self, output: Shape) -> list[list[Store]]:
        """For each strategy that writes, the store of each operand.

        Raises:
            ModeError: something was written that no strategy requests, or of more or fewer operands, or of other arrays.
            CellError: an array does not have the cells.
        """
        stores_by_strategy = self._stores_of(output)
        for outcells, of in self._calls:
            is_stored = _store(stores_by_strategy, self._entry(output, outcells, of))
            if not is_stored and stores_by_strategy and self._inputs:
                raise ModeError("lwrite of what no mode of this run asks for")
        return stores_by_strategy

    def _entry(self, output: Shape, outcells: Any, of: tuple[Any, ...]) -> _Entry:
        many = isinstance(outcells, Regions)
        payload = of[0] if len(of) == 1 and isinstance(of[0], list if many else bytes) else None
        if payload is None and len(of) != len(self._inputs):
            raise ModeError(f"lwrite of {len(of)} operands, the operator has {len(self._inputs)}")
        if not many:
            sides = [] if payload is not None else zip(self._inputs, of, strict=True)
            return Cells.of(output, outcells), payload, [Cells.of(*side) for side in sides]
        if payload is not None:
            return _checked(output, outcells), payload, []
        sides = zip(self._inputs, of, strict=True)
        return _checked(output, outcells), None, [_checked(*side) for side in sides]


_Entry: TypeAlias = tuple[Cells | Regions, bytes | list[bytes] | None, Sequence[Cells | Regions]]
"""Output cells, and their payload or the cells of each operand; or all of it many times."""


def _store(stores_by_strategy: Iterable[Iterable[Store]], entry: _Entry) -> bool:
    """Keeps an entry in all stores that take such ones; whether one does."""
    out, payload, incells = entry
    is_stored = False
    for stores in stores_by_strategy:
        for at, store in enumerate(stores):
            if isinstance(store, PayloadStore) != (payload is not None):
                continue
            of = incells[at] if payload is None else payload
            # The sides of an entry are both of one region or both of many.
            add: Callable[[Any, Any], None] = (
                store.extend if isinstance(out, Regions) else store.append
            )
            add(out, of)
            is_stored = True
    return is_stored


def _checked(shape: Shape, regions: Any) -> Regions:
    if not isinstance(regions, Regions):
        raise ModeError("lwrite_many takes Regions of each operand, or one list of payloads")
    if regions.shape != shape:
        raise ModeError(f"regions of an array of shape {regions.shape}, the array has {shape}")
    return regions
