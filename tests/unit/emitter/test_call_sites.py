"""Asking where the program calls keeps nothing of the program alive."""

import gc
import weakref

from lineage_emitter.session.call_sites import first_call


class Held:
    """What a function of the program has in a local variable."""


def _asking() -> weakref.ref[Held]:
    held = Held()
    first_call()
    return weakref.ref(held)


def test_what_a_call_held_goes_when_it_returns() -> None:
    gc.collect()
    gc.disable()
    try:
        assert _asking()() is None
    finally:
        gc.enable()
