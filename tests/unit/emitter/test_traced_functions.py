"""Functions and generators that report their lineage."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from lineage_core.contract.address import OPAQUE_SPACE
from lineage_core.contract.positions import text_position
from lineage_core.contract.region import Region
from lineage_core.tracing.trace_result import Direction
from lineage_core.tracing.tracer import Tracer
from lineage_emitter import LineageApi
from lineage_emitter.dispatch.spool import TaskSpool
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.unit


def name_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


@pytest.fixture
def api(tmp_path: Path) -> LineageApi:
    return LineageApi("functions", store=f"sqlite:///{tmp_path / STORE}", spool=str(tmp_path / "s"))


def inputs_of(
    api: LineageApi, folder: Path, output: str, names: Iterable[str]
) -> tuple[set[str], bool]:
    """Which of some names an output is traced to, and whether that is exact."""
    known = {text_position(name): name for name in names}
    with open_store(f"sqlite:///{folder / STORE}") as store:
        start = {OPAQUE_SPACE: Region.from_positions([text_position(output)])}
        answer = Tracer(store.graph(api.app)).trace(Direction.BACKWARD, start, steps=1)
    positions = [
        int(at)
        for node in answer.found.values()
        for region in node.spaces.values()
        for at in region.positions()
    ]
    return {known[at] for at in positions}, answer.exact


def test_a_result_is_made_from_the_records_of_its_call(api: LineageApi, tmp_path: Path) -> None:
    @api.traced("joined", name_of=name_of)
    def joined(left: str, right: str, times: int = 1, *, end: str = "!") -> str:
        if right == "fails":
            raise ValueError(right)
        if times:
            return joined(left, right, times - 1, end=end) + end
        return f"{left}+{right}"

    with api:
        assert joined("a", "b") == "a+b!"
        with contextlib.suppress(ValueError):
            joined("a", "fails")
        assert joined("c", right="d", times=0, end="?") == "c+d"
    assert judged(tmp_path, api.app).reasons == ()
    names = ["a", "b", "c", "d", "!", "?", "fails"]
    assert inputs_of(api, tmp_path, "a+b!", names) == ({"a", "b"}, True)
    assert inputs_of(api, tmp_path, "c+d", names) == ({"c", "d", "?"}, True)


def lines(records: Iterable[str]) -> Iterator[str]:
    for record in records:
        if record != "skip":
            yield f"{record} 1"
            yield f"{record} 2"


def pairs(records: Iterable[str]) -> Iterator[str]:
    waiting: list[str] = []
    for record in records:
        waiting.append(record)
        if len(waiting) == 2:
            yield "+".join(waiting)
            waiting.clear()


RECORDS = ["a", "skip", "b", "c", "d"]


def test_a_generator_over_one_record_is_made_from_its_arguments(
    api: LineageApi, tmp_path: Path
) -> None:
    def words(line: str, *, end: str) -> Iterator[str]:
        yield from (word + end for word in line.split())

    with api:
        assert list(api.traced("words", name_of=name_of)(words)("a b", end="!")) == ["a!", "b!"]
        keyword = api.traced("lines", name_of=name_of)(lines)
        assert list(keyword(records=iter("c"))) == ["c 1", "c 2"]
    for output in ("a!", "b!"):
        assert inputs_of(api, tmp_path, output, ["a b", "!"]) == ({"a b", "!"}, True)
    (reason,) = judged(tmp_path, api.app).reasons
    assert "lines#0.0: capture failed: CaptureFailedError: a function takes an iterator" in reason


@pytest.mark.parametrize("given", [list, iter])
def test_a_generator_that_keeps_nothing_is_exact_by_proof(
    api: LineageApi, tmp_path: Path, given: type
) -> None:
    with api:
        assert len(list(api.traced("lines", name_of=name_of)(lines)(given(RECORDS)))) == 8
    assert judged(tmp_path, api.app).reasons == ()
    for record in "abcd":
        for number in (1, 2):
            found = inputs_of(api, tmp_path, f"{record} {number}", RECORDS)
            assert found == ({record}, True)


def test_a_generator_that_may_keep_records_gives_a_superset_with_the_reason(
    api: LineageApi, tmp_path: Path
) -> None:
    with api:
        traced = api.traced("pairs", name_of=name_of)(pairs)
        assert list(traced(iter(RECORDS))) == ["a+skip", "b+c"]
        assert list(traced(["x", "y", "z"])) == ["x+y"]
    (reasons,) = judged(tmp_path, api.app).superset.values()
    assert reasons
    names = [*RECORDS, "x", "y", "z"]
    assert inputs_of(api, tmp_path, "b+c", names) == ({"a", "skip", "b", "c"}, False)
    assert inputs_of(api, tmp_path, "x+y", names) == ({"x", "y", "z"}, False)


def test_a_generator_declared_to_keep_what_it_read_since_the_last_yield_is_exact(
    api: LineageApi, tmp_path: Path
) -> None:
    with api:
        traced = api.traced("pairs", name_of=name_of, keeps="since yield")(pairs)
        one, other = traced(iter(RECORDS)), traced(iter(["x", "y", "z"]))
        assert [next(one), next(other), next(one)] == ["a+skip", "x+y", "b+c"]
    names = [*RECORDS, "x", "y", "z"]
    assert inputs_of(api, tmp_path, "b+c", names) == ({"b", "c"}, True)
    assert inputs_of(api, tmp_path, "x+y", names) == ({"x", "y"}, True)


@pytest.mark.parametrize("keeps", ["nothing", "since yield"])
def test_a_declaration_does_not_hold_for_a_collection(
    api: LineageApi, tmp_path: Path, keeps: Literal["nothing", "since yield"]
) -> None:
    def backward(records: list[str]) -> Iterator[str]:
        for n in range(len(records)):
            yield f"{n}: {records[-1 - n]}"

    with api:
        traced = api.traced("backward", name_of=name_of, keeps=keeps)(backward)
        assert list(traced(["a", "b"])) == ["0: b", "1: a"]
    for output in ("0: b", "1: a"):
        assert inputs_of(api, tmp_path, output, "ab") == ({"a", "b"}, False)


def test_each_thread_has_a_task(api: LineageApi, tmp_path: Path) -> None:
    doubled = api.traced("doubled", name_of=name_of)(lambda text: text * 2)
    with api:
        threads = [threading.Thread(target=doubled, args=(text,)) for text in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    verdict = judged(tmp_path, api.app)
    assert (verdict.reasons, verdict.tasks_committed, verdict.flows) == ((), 4, 4)
    assert inputs_of(api, tmp_path, "cc", "abcd") == ({"c"}, True)


def test_members_of_collections_are_records(api: LineageApi, tmp_path: Path) -> None:
    @api.traced("united", name_of=name_of)
    def united(some: list[str], more: dict[str, str]) -> str:
        return "".join(some) + "".join(more.values())

    with api:
        assert united(["a", "b"], {"k": "c"}) == "abc"
    assert inputs_of(api, tmp_path, "abc", "abck") == ({"a", "b", "c"}, True)


def test_a_generator_stays_one(api: LineageApi, tmp_path: Path) -> None:
    def echo(records: Iterator[str]) -> Generator[str, Any, str]:
        got = yield next(records)
        try:
            yield f"got {got}"
        except KeyError:
            yield "caught"
        return "returned"

    with api:
        generator = api.traced("echo", name_of=name_of)(echo)(iter("a"))
        assert next(generator) == "a"
        assert generator.send("x") == "got x"
        assert generator.throw(KeyError()) == "caught"
        with pytest.raises(StopIteration, match="returned"):
            next(generator)
    assert any("values are sent" in reason for reason in judged(tmp_path, api.app).reasons)


def by_method(records: Iterator[str]) -> Iterator[str]:
    yield records.send(None)  # type: ignore[attr-defined]


def two(records: Iterable[str], other: str) -> Iterator[str]:
    for record in records:
        yield record + other


def unnamed(records: Iterable[str]) -> Iterator[int]:
    for record in records:
        yield len(record)


def no_name(value: object) -> str:
    raise ZeroDivisionError


def test_what_can_not_be_followed_counts_for_nothing(api: LineageApi, tmp_path: Path) -> None:
    with api:
        assert list(api.traced("hand", name_of=name_of)(by_method)(r for r in RECORDS)) == ["a"]
        assert list(api.traced("zip", name_of=name_of)(zip)(RECORDS, RECORDS))
        assert api.traced("join", name_of=name_of)("".join)(iter("ab")) == "ab"
        assert api.traced("names", name_of=no_name)(str.upper)("a") == "A"
        assert list(api.traced("beside", name_of=name_of)(two)(iter("ab"), "c")) == ["ac", "bc"]
        assert list(api.traced("unnamed", name_of=name_of)(unnamed)(iter("ab"))) == [1, 1]
        assert list(api.traced("numbers", name_of=name_of)(lines)([1])) == ["1 1", "1 2"]  # type: ignore[list-item]
    verdict = judged(tmp_path, api.app)
    assert verdict.flows == 0
    for text in (
        "hand#0.0: capture failed: CaptureFailedError: records are read by .send",
        "zip#0.0: capture failed: CaptureFailedError: a function gives an iterator",
        "join#0.0: capture failed: CaptureFailedError: a function takes an iterator",
        "names#0.0: capture failed: ZeroDivisionError",
        "beside#0.0: capture failed: CaptureFailedError: a generator takes records in its first",
        "unnamed#0.0: capture failed: CaptureFailedError: an output has no name",
        "numbers#0.0: capture failed: CaptureFailedError: a record has no name",
    ):
        assert any(text in reason for reason in verdict.reasons), (text, verdict.reasons)


def test_a_spool_that_can_not_be_written_costs_lineage_and_not_the_program(
    api: LineageApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    with api, monkeypatch.context() as patch:
        patch.setattr(TaskSpool, "create", full)
        assert api.traced("upper", name_of=name_of)(str.upper)("a") == "A"
        assert list(api.traced("pairs", name_of=name_of)(pairs)(["a", "b"])) == ["a+b"]
    assert any("no space left" in reason for reason in judged(tmp_path, api.app).reasons)


def test_asynchronous_functions_are_refused(api: LineageApi) -> None:
    async def later() -> None:
        pass

    with api, pytest.raises(TypeError, match="asynchronous"):
        api.traced("later", name_of=name_of)(later)
