"""Arrays that share memory: a write to one of them is a write to all.

Values of a workflow are never written to. Where a program writes to an array, it and every other array over the same
memory get new values and new nodes, so that the program sees what it would see without lineage.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from lineage_arrays.errors import UntracedError
from lineage_arrays.mappings import Gather
from lineage_arrays.workflow import AnyArray, Input, Operand

_members: dict[int, tuple[weakref.ref[AnyArray], dict[int, weakref.ref[Operand]]]] = {}
"""By the address of the memory's owner: the owner, and the arrays over it by their addresses, some of them gone."""
_exposed: dict[int, str] = {}
"""Owners that code outside of a workflow may look at, and where they left."""


def owner(value: AnyArray) -> AnyArray:
    """The array that owns the memory of a view."""
    while isinstance(value.base, np.ndarray):
        value = value.base
    return value


def join(operand: Operand) -> None:
    """Registers an array as a user of its memory."""
    root = owner(operand.value)
    key = id(root)
    members = _members.get(key)
    if members is None:
        members = _members.setdefault(key, (weakref.ref(root, functools.partial(_forget, key)), {}))
    members[1][id(operand)] = weakref.ref(operand)


def _forget(key: int, _: weakref.ref[AnyArray]) -> None:
    _members.pop(key, None)
    _exposed.pop(key, None)


def leave(operand: Operand) -> None:
    """Removes an array from the users of its memory."""
    _members[id(owner(operand.value))][1].pop(id(operand), None)


def expose(value: AnyArray, where: str) -> None:
    """Record that code outside of the workflow may look at an array's memory from now on."""
    _exposed[id(owner(value))] = where


def others(operand: Operand) -> Iterator[Operand]:
    """The other arrays whose memory overlaps an array's."""
    _, members = _members[id(owner(operand.value))]
    for other in [member() for member in list(members.values())]:
        if (
            other is not None
            and other is not operand
            and np.may_share_memory(other.value, operand.value)
        ):
            yield other


def check_hidden(operand: Operand) -> None:
    """Refuse a write that code outside of the workflow should see.

    Raises:
        UntracedError: it may.
    """
    where = _exposed.get(id(owner(operand.value)))
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
    root = owner(operand.value)
    if not peers:
        return new, []
    if not root.flags.forc or any(peer.value.dtype != root.dtype for peer in (operand, *peers)):
        raise UntracedError(
            "a write to an array that others see as another type or in strides",
            "write to a copy: x = x.copy()",
        )
    fresh = root.copy(order="K")
    value = _seen(operand.value, root, fresh)
    value[...] = new
    return value, [_seen(peer.value, root, fresh) for peer in peers]


def _seen(view: AnyArray, root: AnyArray, fresh: AnyArray) -> AnyArray:
    """A view of other memory, where and as another view lies in its own."""
    begin = view.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    scale = fresh.dtype.itemsize
    strides = tuple(stride // root.dtype.itemsize * scale for stride in view.strides)
    flat = fresh.reshape(-1, order="F" if fresh.flags.f_contiguous else "C")
    return np.ndarray(view.shape, fresh.dtype, flat, begin // root.dtype.itemsize * scale, strides)


def seen_through(peer: Operand, writer: Operand, old: AnyArray) -> list[Input]:
    """What an array is made from after another one over its memory was written to.

    Args:
        peer: the array, with its node and value of before.
        writer: the array that was written to, with its new node.
        old: the writer's value before.
    """
    root, before = owner(old), peer.value

    def places(view: AnyArray) -> AnyArray:
        cells = np.arange(root.size).reshape(
            root.shape, order="F" if root.flags.f_contiguous else "C"
        )
        fresh = np.asfortranarray(cells) if root.flags.f_contiguous else cells
        return _seen(view, root, fresh)

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
