"""How the C library treats memory that is freed."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Parameters of ``mallopt``, see ``malloc.h`` of glibc."""
_MMAP_THRESHOLD_MAX = 32 << 20


def keep_freed_memory(nbytes: int) -> bool:
    """Give free memory back to the system only beyond ``nbytes``.

    Columns of some hundred KiB are allocated and freed with every block; where each is mapped again, the system
    clears its pages again and again, which takes a tenth of the processor time. False: the C library
    can't (it is not glibc); nothing is changed then.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = {
        _TRIM_THRESHOLD: nbytes,
        _MMAP_THRESHOLD: min(nbytes, _MMAP_THRESHOLD_MAX),
        # Threads have arenas of their own otherwise, to which the bound above does not apply.
        _ARENA_MAX: 1,
    }
    return all(mallopt(name, value) for name, value in settings.items())
