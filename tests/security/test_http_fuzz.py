"""Whatever is sent to a server's socket, it answers by the schema of errors, cheaply, and goes on (a short draw of `make fuzz`)."""

from __future__ import annotations

import h11
import pytest

from tests.fuzz.fuzzing import fuzz
from tests.fuzz.over_http import TARGETS, checked, the_server
from tests.fuzz.requests import Failed

pytestmark = pytest.mark.security


def test_mutated_requests_over_sockets_are_answered() -> None:
    (target,) = TARGETS
    tally = fuzz(target, seed=3, seconds=60, count=100)
    assert not tally.findings
    assert tally.mutations > 20


@pytest.mark.parametrize(
    ("status", "kind", "body"),
    [
        (500, b"application/problem+json", b"{}"),
        (404, b"text/plain", b"Not Found"),
        (404, b"application/problem+json", b"Not Found"),
        (404, b"application/problem+json", b'{"status": 404}'),
        (404, b"application/problem+json", b'{"type": "a", "title": "b", "status": 400, "detail": "", "request_id": ""}'),
    ],
)  # fmt: skip
def test_an_answer_that_breaks_the_rules_is_found(status: int, kind: bytes, body: bytes) -> None:
    head = h11.Response(status_code=status, headers=[(b"content-type", kind)])
    with pytest.raises(Failed):
        checked((head, body), b"", is_head=False)


def test_what_a_server_costs_is_seen() -> None:
    server = the_server()
    before, memory = server.seconds(), server.forget_peak()
    while server.seconds() == before:
        assert server.is_well()
    assert server.peak() >= memory // 2
