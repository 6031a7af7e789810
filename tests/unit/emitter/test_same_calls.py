"""The calls of `tests.same`: none of PySpark's public methods and keywords is forgotten."""

from __future__ import annotations

import pytest

from tests.same.arguments import LEFT_OUT
from tests.same.calls import OWNERS, calls, missing, public
from tests.support.versions import IN_41

pytestmark = pytest.mark.unit
OF_41 = pytest.mark.skipif(not IN_41, reason="what is left out is told of 4.1")


@OF_41
def test_no_public_method_or_keyword_is_left_out_without_a_reason() -> None:
    assert missing() == []


@OF_41
def test_what_is_left_out_is_there() -> None:
    assert set(LEFT_OUT) <= {f"{owner}.{method}" for owner in OWNERS for method in public(owner)}


def test_calls_have_names_of_their_own() -> None:
    names = [call.name for call in calls()]
    assert len(names) == len(set(names)) > 500
