"""What a trace computes by the program's own Spark is no part of the program, on whatever thread."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from lineage_emitter import scope

pytestmark = pytest.mark.unit


def test_threads_that_take_their_context_along_are_suspended_with_it() -> None:
    with ThreadPoolExecutor(1) as pool:
        with scope.suspended():
            with scope.suspended():
                pass
            assert scope.is_suspended()
            assert pool.submit(copy_context().run, scope.is_suspended).result()
            # A thread of the program itself is not.
            assert not pool.submit(scope.is_suspended).result()
        assert not scope.is_suspended()
        assert not pool.submit(copy_context().run, scope.is_suspended).result()
