"""What a program sets on a writer is seen, however it gives the arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lineage_emitter.dataframes.hooks import _writer_hook
from lineage_emitter.dataframes.outputs import WRITER_CALLS, WriterCalls

pytestmark = pytest.mark.unit


class Writer:
    """As PySpark's, with parameters of its names."""

    @_writer_hook(lambda _calls, _df: None, begins=True)
    def __init__(self, df: Any) -> None:
        self.given: list[Any] = [df]

    @_writer_hook(lambda calls, mode: setattr(calls, "mode", mode))
    def mode(self, saveMode: str | None) -> Writer:
        self.given.append(saveMode)
        return self

    @_writer_hook(lambda calls, **options: calls.options.update(options))
    def options(self, **options: Any) -> Writer:
        self.given.append(options)
        return self


@pytest.mark.parametrize("call", [lambda w: w.mode("ignore"), lambda w: w.mode(saveMode="ignore")])
def test_arguments_by_place_and_by_name(call: Callable[[Writer], Writer]) -> None:
    writer = call(Writer(df=1)).options(header="true")
    calls: WriterCalls = writer.__dict__[WRITER_CALLS]
    assert (calls.mode, calls.options) == ("ignore", {"header": "true"})
    assert writer.given == [1, "ignore", {"header": "true"}]


def test_a_wrong_call_fails_as_the_method_does() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        Writer(1).mode(other="ignore")
