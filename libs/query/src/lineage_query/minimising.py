"""The smallest part of some rows that still fails a test: delta debugging by counters.

Zhang, Xu, Tian, Cheng and Sun, "Toward a Better Understanding of Probabilistic Delta Debugging" (arXiv:2408.04735): what ProbDD (Wang et al.,
FSE 2021) gains, it gains by the sizes of the parts that it tries to leave out, and these follow from the number of the round alone. A row
is taken for needed with a probability that grows by 1.582 a round, and parts have the size that leaves out the most on average.
Here the first round halves the rows: of many witnesses few are to blame, as a rule.

Before the rounds, parts that the caller suspects are tried alone, in their order. Where one fails, all other rows are left out at once: such as the first of
the rows that stand out, the first two, four and eight; or the rows that several failing outputs share (`lineage_query.overlaps`).

A round at size 1 may make rows superfluous that it has passed. So it is repeated until it leaves out no row more: then the set
is one-minimal, that is, without any single one of its rows the test passes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from lineage_core.errors import LineageError

GROWTH = 1.582
"""Of the probability that a row is needed, from round to round: 1 / (1 - 1/e)."""


SUSPECTS_TRIED = (1, 2, 4, 8)
"""How many of the rows that are suspected most are tried alone."""
INTERRUPTED = "interrupted"
"""Why a search was stopped that got ``KeyboardInterrupt``."""


class UnsteadyTestError(LineageError):
    """A test gives another verdict on the same rows."""


class PassingTestError(LineageError):
    """The test does not fail on all rows: there is nothing to make smaller."""


@dataclass(frozen=True)
class Part:
    """Rows that are suspected together, ascending. ``is_small``: none can be left out, as far as is known, so parts of several rows are not tried."""

    rows: Sequence[int]
    is_small: bool = False


@dataclass(frozen=True)
class Minimised:
    """What was found. ``rows``: places in the whole, ascending; the test fails on these alone.

    ``one_minimal``: it passes without any single one of them. Else the search was stopped, and ``stopped`` says why. ``runs``: how
    often the test ran; ``rows_run``: on how many rows, all runs together; ``known``: verdicts that needed no run.
    """

    rows: tuple[int, ...]
    one_minimal: bool
    runs: int
    rows_run: int
    known: int
    stopped: str = ""

    def summary(self, searched: str) -> str:
        """What was found, in words. ``searched``: the rows that were searched, with their number."""
        found = f"{len(self.rows):,} of the {searched} fail still"
        if self.one_minimal:
            return f"{found}, and none of them can be left out"
        return f"{found}; the search was stopped: {self.stopped}"


def stop_after(runs_max: int | None, timeout_s: float | None) -> Callable[[int], str]:
    """A function that says why a search ends after some runs; empty: it goes on. None: no limit; time begins with this call."""
    began = time.monotonic()

    def stop(runs: int) -> str:
        if runs_max is not None and runs >= runs_max:
            return f"{runs:,} runs"
        late = timeout_s is not None and time.monotonic() - began > timeout_s
        return f"{timeout_s:g} seconds" if late else ""

    return stop


class StoppedError(LineageError):
    """The search ends here; a test may raise it, too."""


@dataclass
class _Search:
    fails: Callable[[Sequence[int]], bool]
    stop: Callable[[int], str]
    verdicts: dict[int, bool] = field(default_factory=dict)
    """By the rows as a bitmap."""
    runs: int = 0
    rows_run: int = 0
    known: int = 0

    def run(self, rows: Sequence[int]) -> bool:
        """Run the test, and keep its verdict."""
        if self.runs and (reason := self.stop(self.runs)):
            raise StoppedError(reason)
        self.runs += 1
        self.rows_run += len(rows)
        verdict = self.fails(rows)
        if self.verdicts.setdefault(bitmap(rows), verdict) is not verdict:
            raise UnsteadyTestError("the test gives another verdict on the same rows")
        return verdict

    def verdict(self, rows: Sequence[int]) -> bool:
        """Whether the test fails on rows; it is run once on the same."""
        verdict = self.verdicts.get(bitmap(rows))
        if verdict is None:
            return self.run(rows)
        self.known += 1
        return verdict


def bitmap(rows: Iterable[int]) -> int:
    """A set of rows as a number: bit n for row n."""
    bits = bytearray()
    for row in rows:
        byte = row >> 3
        if byte >= len(bits):
            bits.extend(bytes(byte + 1 - len(bits)))
        bits[byte] |= 1 << (row & 7)
    return int.from_bytes(bits, "little")


def minimise(
    count: int,
    fails: Callable[[Sequence[int]], bool],
    stop: Callable[[int], str] = lambda _: "",
    parts: Iterable[Part] = (),
) -> Minimised:
    """Find a part of ``count`` rows on which a test fails, and which is one-minimal.

    Args:
        count: how many rows there are; they are numbers from 0.
        fails: whether the test fails on rows, which are ascending. It must give the same verdict each time. `StoppedError` ends the search as
            ``stop`` does.
        stop: called before each run but the first, with the number of runs so far; a text ends the search with what there is by then.
        parts: tried alone, the first ones first; the next one is taken when the last one has passed. What is found is one-minimal whatever they
            are; good ones spare runs. What taking one raises is raised.

    Returns:
        What was found, also where the search was stopped, or interrupted (``KeyboardInterrupt``) behind its first run.

    Raises:
        PassingTestError: the test does not fail on all rows.
        UnsteadyTestError: it gives another verdict on the same rows.
        StoppedError: it was stopped in its first run.
    """
    search, best = _Search(fails, stop), list(range(count))
    stopped = ""
    # What is found has failed in any case, so this run is not left out.
    if not search.run(best):
        raise PassingTestError("the test passes on all rows that the output is made from")
    try:
        part = next((part for part in parts if search.verdict(part.rows)), Part(best))
        best = list(part.rows)
        for size in () if part.is_small else sizes(len(best)):
            _leave_out(search, best, size)
        while _leave_out(search, best, 1):
            pass
        if search.runs > 1 and not search.run(best):
            raise UnsteadyTestError("the test gives another verdict on the same rows")
    except StoppedError as reason:
        stopped = str(reason)
    except KeyboardInterrupt:
        stopped = INTERRUPTED
    return Minimised(tuple(best), not stopped, search.runs, search.rows_run, search.known, stopped)


def first_suspects(suspects: Sequence[int]) -> Iterator[Part]:
    """Parts of rows, the most suspected of which come first: the first one, the first two, four and eight."""
    for count in SUSPECTS_TRIED:
        if len(suspects) < count:
            break
        yield Part(sorted(suspects[:count]))


def sizes(count: int) -> Iterable[int]:
    """The sizes of the parts that rounds leave out, down to 2."""
    needed, size = 1 - math.exp(-2 / max(count, 1)), count
    while size > 1 and needed < 1:
        size = min(size, max(1, math.floor(-1 / math.log1p(-needed))))
        if size > 1:
            yield size
        needed *= GROWTH


def _leave_out(search: _Search, best: list[int], size: int) -> bool:
    """Leave out of ``best`` each part of ``size`` rows without which the test fails still; whether there was one."""
    at, before = 0, len(best)
    while at < len(best):
        rest = best[:at] + best[at + size :]
        if search.verdict(rest):
            best[:] = rest
        else:
            at += size
    return len(best) < before
