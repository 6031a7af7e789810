"""Arrays that share memory: a write to one of them is a write to all.

Values of a workflow are never written to. Where a program writes to an array, it and every other array over the same
memory get new values and new nodes, so that the program sees what it would see without lineage.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lineage_arrays.errors import UntracedError
from lineage_arrays.mappings import Gather
from lineage_arrays.workflow import AnyArray, Input, Operand


@dataclass(eq=False, slots=True)
class _Memory:
    """Who looks at some memory. ``members``: the arrays over it by their addresses, some of them gone. ``is_left``: all moved to other memory."""

    root: weakref.ref[AnyArray]
    members: dict[int, weakref.ref[Operand]]
    is_left: bool = False

    def arrays(self) -> list[Operand]:
        return [member for one in self.members.values() if (member := one()) is not None]


_memories: dict[int, _Memory] = {}
"""By the address of the array that owns the memory."""
writing = threading.RLock()
"""Held from when an array's values are read for a write until all who share its memory have the new ones."""
_exposed: dict[int, str] = {}
"""Owners that code outside of a workflow may look at, and where they left."""


def owner(value: AnyArray) -> AnyArray:
    """The array that owns the memory of a view; NumPy puts an object between some views and theirs."""
    base = value.base
    while base is not None:
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray):
                break
        value, base = base, base.base
    return value


def join(operand: Operand) -> None:
    """Registers an array as a user of its memory.

    Raises:
        UntracedError: another thread has written to what it is a view of, while it was made.
    """
    with writing:
        memory = _memory_of(operand.current)
        if memory.is_left:
            raise UntracedError(
                "a view of an array that another thread wrote to meanwhile",
                "make views before threads write to them, or let one thread write",
            )
        memory.members[id(operand)] = weakref.ref(operand)


class _Lent:
    """Memory of an array as NumPy takes it from other objects: read-only. Arrays over it have an owner of their own."""

    __slots__ = ("__array_interface__", "_lender")

    def __init__(self, lender: AnyArray) -> None:
        self._lender = lender
        """Keeps the memory."""
        interface = lender.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}


def lent(value: AnyArray) -> AnyArray:
    """The values of an array that nobody writes to, for others who do not share it: their writes leave it as it is, and its own do not show there.

    Returns:
        A read-only array that lies as this one does: over the same memory, where that is of numbers and in one piece, else a copy.
    """
    root = owner(value)
    if not (value.size and root.flags.forc and root.dtype == value.dtype and value.dtype.kind in "biufc"):  # fmt: skip
        return value.copy(order="K")
    return _viewer(root, np.asarray(_Lent(root)))(value)


def _memory_of(value: AnyArray) -> _Memory:
    root = owner(value)
    key = id(root)
    memory = _memories.get(key)
    if memory is None:
        memory = _Memory(weakref.ref(root, functools.partial(_forget, key)), {})
        _memories[key] = memory
    return memory


def _forget(key: int, _: weakref.ref[AnyArray]) -> None:
    _memories.pop(key, None)
    _exposed.pop(key, None)


def move(operands: Sequence[Operand], values: Sequence[AnyArray]) -> None:
    """Gives arrays, at least one and all of one memory, their views of other memory, which nobody looks at yet."""
    before, after = _memory_of(operands[0].current), _memory_of(values[0])
    for operand, value in zip(operands, values, strict=True):
        before.members.pop(id(operand), None)
        value.flags.writeable = False
        operand.current = value
        after.members[id(operand)] = weakref.ref(operand)
    before.is_left = not before.arrays()


def expose(value: AnyArray, where: str) -> None:
    """Record that code outside of the workflow may look at an array's memory from now on."""
    _exposed[id(owner(value))] = where


def others(operand: Operand) -> list[Operand]:
    """The other arrays over an array's memory, which move with it where it is written to.

    Also those that share cells with it through a third one alone. None, where no array overlaps it and the memory can't be
    laid out again: then the others stay.
    """
    memory = _memories[id(owner(operand.current))]
    found = [other for other in memory.arrays() if other is not operand]
    stay = not _can_be_laid_out([operand, *found]) and not any(
        overlap(other, operand) for other in found
    )
    return [] if stay else found


def _can_be_laid_out(arrays: Sequence[Operand]) -> bool:
    root = owner(arrays[0].current)
    return root.flags.forc and all(array.current.dtype == root.dtype for array in arrays)


def overlap(one: Operand, other: Operand) -> bool:
    """Whether arrays may have cells at the same address."""
    return np.may_share_memory(one.current, other.current)


def check_hidden(operand: Operand) -> None:
    """Refuse a write that code outside of the workflow should see.

    Raises:
        UntracedError: it may.
    """
    where = _exposed.get(id(owner(operand.current)))
    if where is not None:
        raise UntracedError(
            f"a write to an array that left the workflow ({where}) and may be looked at there",
            "write to a copy: x = x.copy()",
        )


def rewritten(
    operand: Operand, new: AnyArray, peers: Sequence[Operand]
) -> tuple[AnyArray, list[AnyArray]]:
    """The memory of an array after a write, seen by it and by the others.

    Args:
        operand: the array that is written to.
        new: its values afterwards.
        peers: the others over its memory, as :func:`others` gives them.

    Returns:
        Its new value, and that of each other array over the same memory.

    Raises:
        UntracedError: the memory can't be laid out again.
    """
    root = owner(operand.current)
    if not peers:
        return new, []
    if not _can_be_laid_out([operand, *peers]):
        raise UntracedError(
            "a write to an array that others see as another type or in strides",
            "write to a copy: x = x.copy()",
        )
    fresh = root.copy(order="K")
    seen = _viewer(root, fresh)
    value = seen(operand.current)
    value[...] = new
    return value, [seen(peer.current) for peer in peers]


def _viewer(root: AnyArray, fresh: AnyArray) -> Callable[[AnyArray], AnyArray]:
    """What gives for a view of an array that of a fresh one which lies where and as it does."""
    start = root.__array_interface__["data"][0]
    size, scale, dtype = root.dtype.itemsize, fresh.dtype.itemsize, fresh.dtype
    flat = fresh.reshape(-1, order="F" if fresh.flags.f_contiguous else "C")

    def seen(view: AnyArray) -> AnyArray:
        begin = (view.__array_interface__["data"][0] - start) // size * scale
        strides = view.strides
        if size != scale:
            strides = tuple(stride // size * scale for stride in strides)
        return np.ndarray(view.shape, dtype, flat, begin, strides)

    return seen


def seen_through(peer: Operand, writer: Operand, old: AnyArray) -> list[Input]:
    """What an array is made from after another one over its memory was written to.

    Args:
        peer: the array, with its node and value of before.
        writer: the array that was written to, with its new node.
        old: the writer's value before.
    """
    root, before = owner(old), peer.current

    def places(view: AnyArray) -> AnyArray:
        cells = np.arange(root.size).reshape(
            root.shape, order="F" if root.flags.f_contiguous else "C"
        )
        fresh = np.asfortranarray(cells) if root.flags.f_contiguous else cells
        return _viewer(root, fresh)(view)

    def came_from() -> AnyArray:
        writer_positions = np.zeros(root.size, np.int64)
        writer_positions[places(old).reshape(-1)] = np.arange(1, old.size + 1)
        return writer_positions[places(before)]

    def own() -> AnyArray:
        positions = np.arange(1, before.size + 1).reshape(before.shape)
        return np.where(came_from() == 0, positions, 0)

    return [
        Input(peer, Gather(before.shape, before.shape, own)),
        Input(writer, Gather(old.shape, before.shape, came_from)),
    ]
